//! Checks of `fairlead doctor` at the hub.

use fairlead_api::{Code, enroll::CHECK_PATH};
use fairlead_seam::AgentPeer;
use http::Request;
use serde_json::json;

use crate::rig::{Reply, Rig, admin, bootstrap, peer};

/// Answer of the hub to a doctor with this token.
async fn check(rig: &Rig, peer: &AgentPeer, token: Option<&str>) -> Reply {
    let body = json!({ "token": token }).to_string();
    let request = Request::post(CHECK_PATH).body(body).unwrap();
    rig.agent(peer, request).await
}

#[tokio::test]
async fn check_judges_token_and_identity_and_changes_nothing() {
    let rig = Rig::new().await;
    let join = rig.cluster("demo", "t-default").await;
    let token = bootstrap(&join);
    let anonymous = AgentPeer::Anonymous;
    let revision = *rig.control.revision().borrow();
    for _ in 0..2 {
        let answer = check(&rig, &anonymous, Some(&token)).await.good();
        assert_eq!(answer["cluster"], "c-demo");
        assert!(answer["expires"].is_string() && answer["hubVersion"].is_string());
    }
    assert_eq!(*rig.control.revision().borrow(), revision);
    for (token, code) in [
        (None, Code::EnrolOnly),
        (Some("x.y.z.w"), Code::BootstrapUnknown),
    ] {
        assert_eq!(check(&rig, &anonymous, token).await.code(), code);
    }
    let (_, identity) = rig.enrolled(&join).await;
    assert_eq!(
        check(&rig, &anonymous, Some(&token)).await.code(),
        Code::BootstrapSpent
    );
    let answer = check(&rig, &peer(&identity), None).await.good();
    assert_eq!(answer["tenant"], "t-default");
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    let gone = check(&rig, &peer(&identity), None).await;
    assert_eq!(gone.code(), Code::ClusterDeleted);
}
