//! Tokens passing through a real front never appear in the log.

use std::{
    io,
    sync::{Arc, Mutex},
};

use axum::{Extension, Router, body::Body};
use fairlead_certs::AgentKey;
use fairlead_seam::AgentPeer;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;
use tracing::subscriber::set_default;
use tracing_subscriber::fmt;

use crate::rig::Rig;

/// Captured log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn enroll(rig: &Rig, token: &str) -> u16 {
    let csr = AgentKey::generate().unwrap().csr().unwrap();
    let body = json!({ "token": token, "csr": csr, "agentVersion": "0.1.0" });
    let modules = rig.control.seam().modules;
    let agents = modules.iter().map(|module| module.agent_routes());
    let agents = agents.fold(Router::new(), Router::merge);
    let request = Request::post(fairlead_api::enroll::ENROLL_PATH);
    let request = request.body(Body::from(body.to_string())).unwrap();
    let agents = agents.layer(Extension(AgentPeer::Anonymous));
    agents.oneshot(request).await.unwrap().status().as_u16()
}

/// The bootstrap token in an install URL.
fn bootstrap_of(cluster: &Value) -> String {
    let url = cluster["installURL"].as_str().unwrap();
    url.split_once("?token=").unwrap().1.to_owned()
}

/// Sends the token to every kind of endpoint, valid and invalid uses.
async fn uses(rig: &Rig, token: &str) {
    let bearer = format!("Bearer {token}");
    let header = [("authorization", bearer.as_str())];
    for path in [
        "/install/agent.yaml",
        "/install/agent-values.yaml",
        "/install/steward.json",
    ] {
        rig.send("GET", path, &header, "").await;
        for method in ["GET", "POST"] {
            let path = format!("{path}?token={token}");
            rig.send(method, &path, &[], "").await;
        }
    }
    let strange = format!("/install/none?token={token}");
    rig.send("GET", &strange, &header, "").await;
    rig.send("GET", "/clusters", &header, "").await;
    rig.send("GET", "/k8s/clusters/c-demo/api", &header, "")
        .await;
    enroll(rig, token).await;
}

#[tokio::test]
async fn no_token_is_ever_in_the_log() {
    let log = Log::default();
    let kept = log.clone();
    let subscriber = fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || kept.clone());
    // The test's hub runs on this one thread.
    let _logging = set_default(subscriber.finish());
    let rig = Rig::new().await;
    let first = bootstrap_of(&rig.demo().await);
    let install = format!("/install/steward.json?token={first}");
    let manifests = rig.send("GET", &install, &[], "").await.good();
    let stewards = manifests["items"][5]["stringData"]["token"].as_str();
    let stewards = stewards.unwrap().to_owned();
    uses(&rig, &first).await;
    let report = json!({ "dynamicFacts": { "racks": 12 } }).to_string();
    for path in ["/clusters/c-demo", "/clusters/c-other"] {
        rig.as_who(&stewards, "PATCH", path, &report).await;
    }
    let again = "/v1/clusters/c-demo/bootstrap-token";
    let second = bootstrap_of(&rig.call("POST", again, "{}").await.good());
    assert_eq!(enroll(&rig, &second).await, 200);
    uses(&rig, &second).await;
    let third = bootstrap_of(&rig.call("POST", again, "{}").await.good());
    let forged = third.replace("c-demo", "c-none");
    uses(&rig, &forged).await;
    assert_eq!(rig.call("DELETE", again, "").await.status, 204);
    uses(&rig, &third).await;
    rig.advance(time::Duration::hours(1));
    uses(&rig, &third).await;
    let id = rig.token_id("c-demo").await;
    let path = format!("/v1/tokens/{id}");
    assert_eq!(rig.call("DELETE", &path, "").await.status, 204);
    uses(&rig, &stewards).await;
    drop(rig);

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for told in ["manifests issued", "agent enrolled", "wrong token"] {
        assert!(log.contains(told), "it is no log of this: {told}");
    }
    for token in [&first, &second, &third, &forged, &stewards] {
        let secret = token.rsplit('.').next().unwrap();
        assert!(secret.len() > 30, "{token}");
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "of {token}");
    }
}
