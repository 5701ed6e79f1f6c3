//! One Deployment with the optimistic locking of a real API server, and the part of a strategic merge patch that an upgrade
//! needs.

use fairlead_exchange::Body;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{response::respond, script::ApiScript};

/// Path of the agent's Deployment.
pub(super) const DEPLOYMENT_PATH: &str =
    "/apis/apps/v1/namespaces/fairlead-site/deployments/fairlead-agent";

impl ApiScript {
    /// Answers a request for the Deployment; 404 while the script has none.
    pub(super) async fn stored_deployment(&self, request: Request<Body>) -> Response<Body> {
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut stored = self.deployment.lock().unwrap();
        let Some(deployment) = stored.as_mut() else {
            return respond(404, &[], "{}");
        };
        if method == Method::GET {
            return respond(200, &[], deployment.to_string());
        }
        let patch: Value = serde_json::from_slice(&body).unwrap();
        let version = &deployment["metadata"]["resourceVersion"];
        if patch["metadata"]["resourceVersion"] != *version {
            return respond(409, &[], "{}");
        }
        let next = version.as_str().unwrap().parse::<u64>().unwrap() + 1;
        deployment["metadata"]["resourceVersion"] = json!(next.to_string());
        let annotations = patch["metadata"]["annotations"].as_object().unwrap();
        for (name, value) in annotations {
            deployment["metadata"]["annotations"][name] = value.clone();
        }
        let changed = patch.pointer("/spec/template/spec/containers");
        for container in changed.and_then(Value::as_array).into_iter().flatten() {
            let all = deployment.pointer_mut("/spec/template/spec/containers");
            let all = all.unwrap().as_array_mut().unwrap();
            let mut named = all.iter_mut().filter(|it| it["name"] == container["name"]);
            named.next().unwrap()["image"] = container["image"].clone();
            let generation = deployment["metadata"]["generation"].as_u64().unwrap();
            deployment["metadata"]["generation"] = json!(generation + 1);
        }
        respond(200, &[], deployment.to_string())
    }
}
