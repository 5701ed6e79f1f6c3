//! The agent's own token for the API server: rotated, or refused.

use fairlead_testkit::wait::{TEST_DEADLINE, eventually};

use crate::rig::{Rig, get, send};

#[tokio::test]
async fn rotated_token_is_used_within_two_seconds() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    assert_eq!(send(&hub.exchanges, get("/before")).await.status(), 200);
    rig.rotate_token("token-2");
    eventually(TEST_DEADLINE, "the rotated token", async || {
        send(&hub.exchanges, get("/before")).await;
        let sent = rig.api.last("/before");
        (sent.all("authorization") == ["Bearer token-2"]).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(
        rig.api.server.connections(),
        1,
        "the CA is the same, and so is the connection"
    );
}

#[tokio::test]
async fn unauthorized_makes_the_agent_reload_its_token_at_once() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    assert_eq!(send(&hub.exchanges, get("/echo")).await.status(), 200);
    rig.rotate_token("token-2");
    *rig.api.script.token.lock().unwrap() = Some("token-2".to_owned());
    // The agent may have read the file since; the next request has the new token.
    let first = send(&hub.exchanges, get("/echo")).await.status();
    assert!(first == 502 || first == 200);
    assert_eq!(send(&hub.exchanges, get("/echo")).await.status(), 200);
}

#[tokio::test]
async fn unauthorized_agent_is_not_reported_as_unauthorized_user() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    *rig.api.script.token.lock().unwrap() = Some("another".to_owned());
    let refused = send(&hub.exchanges, get("/echo")).await;
    assert_eq!(refused.status(), 502);
    assert_eq!(refused.headers()["fairlead-code"], "FL-1502");
    let behind = send(
        &hub.exchanges,
        get("/api/v1/namespaces/n/services/s/proxy/echo"),
    );
    assert_eq!(
        behind.await.status(),
        401,
        "the answer of a program behind the API server passes"
    );
}
