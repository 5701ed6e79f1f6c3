//! Admission webhook that holds requests, in the process of the test.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use fairlead_testkit::server::TestServer;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::world::World;

/// Label of objects that the webhook receives. `hold` is its value for slow ones.
pub(crate) const SLOW_LABEL: &str = "slow";
/// Time of a held request. The API server gives a webhook up after 30 s, on a busy machine also.
const HOLD_TIME: Duration = Duration::from_secs(20);
const CALL_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct SlowWebhook {
    _server: TestServer,
    /// Names of the objects so far.
    called: watch::Receiver<BTreeSet<String>>,
}

impl SlowWebhook {
    /// Starts the webhook, and waits until the API server calls it.
    pub(crate) async fn start(world: &World) -> anyhow::Result<Self> {
        let (sender, called) = watch::channel(BTreeSet::new());
        let sender = Arc::new(sender);
        let server = TestServer::https(service_fn(move |request: Request<Incoming>| {
            review(sender.clone(), request)
        }));
        let webhook = SlowWebhook {
            called,
            _server: server,
        };
        let object = webhook.configuration();
        let place = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        world.create(place, &object).await?;
        let probe = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "probe", "namespace": "shop", "labels": {SLOW_LABEL: "probe"}},
        });
        let path = "/api/v1/namespaces/shop/configmaps/probe";
        let calling = async {
            while !webhook.called.borrow().contains("probe") {
                world
                    .client
                    .apply(path, "probe", false, true, &probe)
                    .await?;
                sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        timeout(CALL_DEADLINE, calling).await.context("no call")??;
        Ok(webhook)
    }

    fn configuration(&self) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "slow"},
            "webhooks": [{
                "name": "slow.example.org",
                "clientConfig": {"url": self._server.url(), "caBundle": STANDARD.encode(self._server.ca_pem())},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}],
                "objectSelector": {"matchExpressions": [{"key": SLOW_LABEL, "operator": "Exists"}]},
                "timeoutSeconds": 30,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
    }

    /// Waits until the write of an object is held.
    pub(crate) async fn held(&self, name: &str) -> anyhow::Result<()> {
        let mut called = self.called.clone();
        let called = called.wait_for(|called| called.contains(name));
        timeout(CALL_DEADLINE, called).await.context("no call")??;
        Ok(())
    }
}

async fn review(
    called: Arc<watch::Sender<BTreeSet<String>>>,
    request: Request<Incoming>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body)?;
    let object = &review["request"]["object"]["metadata"];
    let name = object["name"].as_str().unwrap_or_default().to_owned();
    called.send_modify(|called| {
        called.insert(name);
    });
    if object["labels"][SLOW_LABEL] == "hold" {
        sleep(HOLD_TIME).await;
    }
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(answer.to_string().into())?)
}
