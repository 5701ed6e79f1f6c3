//! Binding of an identity to a Kubernetes cluster, and rejection of clones.

use std::net::IpAddr;

use fairlead_api::{ClusterUid, Code, enroll::ENROLL_PATH, resources::JoinInfo};
use fairlead_certs::{AgentIdentity, AgentKey, agent_identity};
use fairlead_seam::{AgentPeer, Recognition};
use http::{Method, Request};
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{Rig, admin, bootstrap};

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

fn uid(text: &str) -> ClusterUid {
    text.parse().unwrap()
}

async fn recognise(
    rig: &Rig,
    identity: &AgentIdentity,
    said: Option<&str>,
) -> Result<Recognition, Code> {
    let directory = rig.control.seam().directory;
    let said = said.map(uid);
    let recognised = directory.recognise(identity, said.as_ref(), FROM).await;
    recognised.map_err(|failure| failure.code())
}

async fn shown(rig: &Rig) -> Value {
    rig.get(&admin(), "/clusters/c-demo").await.good()
}

/// A new bootstrap token of the same cluster.
async fn invited_again(rig: &Rig) -> JoinInfo {
    let path = "/v1/clusters/c-demo/bootstrap-token";
    let reply = rig.call(&admin(), Method::POST, path, json!({})).await;
    serde_json::from_value(reply.good()).unwrap()
}

#[tokio::test]
async fn the_first_reported_uid_binds_the_cluster_and_clones_are_rejected() {
    let rig = Rig::new().await;
    let (_, agent) = rig.enrolled(&rig.cluster("demo", "t-default").await).await;
    assert_eq!(
        recognise(&rig, &agent, None).await,
        Ok(Recognition::Unknown)
    );
    assert!(shown(&rig).await.get("uid").is_none());
    for _ in 0..2 {
        let known = recognise(&rig, &agent, Some("uid-1")).await;
        assert_eq!(known, Ok(Recognition::Known));
    }
    assert_eq!(shown(&rig).await["uid"], "uid-1");
    assert!(shown(&rig).await.get("clone").is_none());

    rig.advance(Duration::minutes(1));
    let refused = recognise(&rig, &agent, Some("uid-2")).await;
    assert_eq!(refused, Err(Code::IdentityCloned));
    let rig = rig.restart().await;
    let clone = shown(&rig).await["clone"].clone();
    assert_eq!(
        (&clone["from"], &clone["uid"]),
        (&json!("192.0.2.7"), &json!("uid-2"))
    );
    assert_eq!(clone["lastSeen"], "2026-11-21T12:01:00.25Z");
    let still = recognise(&rig, &agent, Some("uid-1")).await;
    assert_eq!(still, Ok(Recognition::Known));
    let refused = recognise(&rig, &agent, Some("uid-2")).await;
    assert_eq!(refused, Err(Code::IdentityCloned));
}

#[tokio::test]
async fn a_new_enrolment_rebinds_and_excludes_the_old_agent() {
    let rig = Rig::new().await;
    let (_, old) = rig.enrolled(&rig.cluster("demo", "t-default").await).await;
    assert!(recognise(&rig, &old, Some("uid-1")).await.is_ok());
    assert!(recognise(&rig, &old, Some("uid-2")).await.is_err());

    let (_, new) = rig.enrolled(&invited_again(&rig).await).await;
    let cluster = shown(&rig).await;
    assert!(
        cluster.get("uid").is_none() && cluster.get("clone").is_none(),
        "{cluster}"
    );
    let left = recognise(&rig, &old, Some("uid-1")).await;
    assert_eq!(
        left,
        Err(Code::IdentityRevoked),
        "an older key binds nothing"
    );
    let moved = recognise(&rig, &new, Some("uid-2")).await;
    assert_eq!(moved, Ok(Recognition::Known));
}

#[tokio::test]
async fn an_enrolment_with_uid_binds_the_cluster() {
    let rig = Rig::new().await;
    let join = rig.cluster("demo", "t-default").await;
    let key = AgentKey::generate().unwrap();
    let csr = key.csr().unwrap();
    for said in ["uid-1", "uid-2"] {
        // The second call repeats the request after a lost response.
        let body = json!({
            "token": bootstrap(&join), "csr": csr, "agentVersion": "0.1.0", "clusterUid": said,
        });
        let request = Request::post(ENROLL_PATH).body(body.to_string()).unwrap();
        let reply = rig.agent(&AgentPeer::Anonymous, request).await.good();
        let leaf = key
            .with_certificate(reply["certificate"].as_str().unwrap())
            .unwrap();
        let identity = agent_identity(leaf.chain(), rig.control.trust_domain()).unwrap();
        assert_eq!(shown(&rig).await["uid"], "uid-1");
        let known = recognise(&rig, &identity, Some("uid-1")).await;
        assert_eq!(known, Ok(Recognition::Known));
    }
}

#[tokio::test]
async fn of_two_concurrent_agents_one_binds_and_the_other_is_a_clone() {
    let rig = Rig::new().await;
    let (_, agent) = rig.enrolled(&rig.cluster("demo", "t-default").await).await;
    let (one, two) = tokio::join!(
        recognise(&rig, &agent, Some("uid-1")),
        recognise(&rig, &agent, Some("uid-2")),
    );
    assert_eq!(
        [one, two].iter().filter(|outcome| outcome.is_ok()).count(),
        1
    );
}

#[tokio::test]
async fn agents_of_deleted_clusters_are_not_recognised() {
    let rig = Rig::new().await;
    let (_, agent) = rig.enrolled(&rig.cluster("demo", "t-default").await).await;
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    let gone = recognise(&rig, &agent, Some("uid-1")).await;
    assert_eq!(gone, Err(Code::ClusterDeleted));
}
