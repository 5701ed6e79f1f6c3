//! A cluster that moves to another tenant: all credentials of the old one become void, and the new
//! tenant starts fresh.

use fairlead_api::{
    Code,
    resources::{JoinInfo, Role},
};
use fairlead_certs::AgentKey;
use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::rig::{FROM, Rig, admin, bootstrap, caller};

const MOVE: &str = "/v1/clusters/c-demo/tenant";

async fn world() -> (Rig, JoinInfo) {
    let rig = Rig::new().await;
    rig.tenant("a").await;
    rig.tenant("b").await;
    let join = rig.cluster("demo", "t-a").await;
    (rig, join)
}

async fn moved(rig: &Rig) -> JoinInfo {
    let answer = rig.post(&admin(), MOVE, json!({ "tenant": "t-b" })).await;
    serde_json::from_value(answer.good()).unwrap()
}

fn path(url: &SecretString) -> String {
    let url = url.expose_secret();
    url.strip_prefix("https://hub.example:8443")
        .unwrap()
        .to_owned()
}

async fn is_good(rig: &Rig, token: &str) -> bool {
    let authenticator = rig.control.seam().authenticator;
    let token = SecretString::from(token);
    authenticator.authenticate(&token, FROM).await.is_ok()
}

/// A token created by the tenant's own admin for the cluster, and Steward's.
async fn tokens(rig: &Rig, join: &JoinInfo) -> [String; 2] {
    let asked = json!({ "name": "ci", "role": "cluster", "cluster": "c-demo" });
    let own = caller(Role::Admin, Some("t-a"));
    let made = rig.post(&own, "/v1/tokens", asked).await.good();
    let manifests = rig.open(&path(&join.install_url)).await.good();
    let stewards = &manifests["items"][5]["stringData"]["token"];
    [&made["token"], stewards].map(|it| it.as_str().unwrap().to_owned())
}

#[tokio::test]
async fn api_tokens_of_a_cluster_end_when_it_moves() {
    for by_put in [false, true] {
        let (rig, join) = world().await;
        let others = rig.token(Role::Viewer).await;
        let held = tokens(&rig, &join).await;
        for token in &held {
            assert!(is_good(&rig, token).await);
        }
        if by_put {
            let body = json!({ "tenant": "t-b" });
            let path = "/clusters/c-demo";
            rig.call(&admin(), Method::PUT, path, body).await.good();
        } else {
            moved(&rig).await;
        }
        for token in &held {
            assert!(!is_good(&rig, token).await, "put: {by_put}");
        }
        assert!(is_good(&rig, others.expose_secret()).await);
        let audit = rig.get(&admin(), "/v1/audit").await.good();
        let lines = audit["items"].as_array().unwrap();
        let gone = |it: &&Value| it["kind"] == "token" && it["operation"] == "deleted";
        assert_eq!(lines.iter().filter(gone).count(), 2, "it is written down");
    }
}

#[tokio::test]
async fn changes_within_a_tenant_keep_the_clusters_tokens() {
    let (rig, join) = world().await;
    let held = tokens(&rig, &join).await;
    let body = json!({ "tenant": "t-a", "displayName": "Demo" });
    rig.call(&admin(), Method::PUT, "/clusters/c-demo", body)
        .await
        .good();
    let same = rig.post(&admin(), MOVE, json!({ "tenant": "t-a" })).await;
    assert_eq!(same.code(), Code::Invalid);
    for token in &held {
        assert!(is_good(&rig, token).await);
    }
}

#[tokio::test]
async fn an_open_invitation_is_void_and_the_new_one_enrols() {
    let (rig, join) = world().await;
    let again = moved(&rig).await;
    assert_eq!(again.tenant.as_str(), "t-b");
    let csr = || AgentKey::generate().unwrap().csr().unwrap();
    let old = rig.enroll(&bootstrap(&join), &csr()).await;
    assert_eq!(old.code(), Code::BootstrapUnknown);
    for url in [&join.install_url, &join.agent_install_url] {
        assert_eq!(rig.open(&path(url)).await.status, 401);
    }
    let enrolled = rig.enroll(&bootstrap(&again), &csr()).await.good();
    assert_eq!(enrolled["tenant"], "t-b");
}

#[tokio::test]
async fn the_old_agents_session_ends_and_its_identity_is_invalid() {
    let (rig, join) = world().await;
    let (_, identity) = rig.enrolled(&join).await;
    let directory = rig.control.seam().directory;
    let mut ends = directory.revocations();
    directory.admit(&identity).await.unwrap();
    let again = moved(&rig).await;
    assert_eq!(ends.try_recv().unwrap(), join.id);
    let refused = directory.admit(&identity).await.unwrap_err();
    assert_eq!(refused.code(), Code::IdentityRevoked);
    let (_, renewed) = rig.enrolled(&again).await;
    directory.admit(&renewed).await.unwrap();
}

#[tokio::test]
async fn a_move_is_logged_and_changes_the_configuration() {
    let (rig, _) = world().await;
    let template = json!({ "clusterTemplate": { "agent": { "version": "9.9.9" } } });
    rig.call(&admin(), Method::PATCH, "/tenants/t-b", template)
        .await
        .good();
    let config = "/v1/clusters/c-demo/config";
    let before = rig.get(&admin(), config).await.good();
    assert_eq!(before["agentVersion"], Value::Null);
    let since = rig.get(&admin(), "/v1/changes").await.good()["revision"].clone();
    moved(&rig).await;
    let after = rig.get(&admin(), config).await.good();
    assert_eq!(after["agentVersion"], "9.9.9");
    let told = rig
        .get(&admin(), &format!("/v1/changes?since={since}"))
        .await
        .good();
    let told = &told["items"][0];
    assert_eq!(
        (&told["kind"], &told["id"], &told["tenant"]),
        (&json!("cluster"), &json!("c-demo"), &json!("t-b"))
    );
    let audit = rig
        .get(&admin(), "/v1/audit?cluster=c-demo&limit=1")
        .await
        .good();
    let line = &audit["items"][0];
    assert_eq!(line["actor"], admin().name);
    assert_eq!(
        (&line["before"]["tenant"], &line["after"]["tenant"]),
        (&json!("t-a"), &json!("t-b"))
    );
}
