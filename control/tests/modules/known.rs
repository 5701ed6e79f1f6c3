//! Callers and grants that a thread keeps: always those that a full check would find.

use fairlead_api::{ClusterId, Code, resources::Role};
use fairlead_seam::{AuthenticateError, Caller};
use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use time::Duration;

use crate::rig::{FROM, Rig, admin};

/// Authenticates a token. A kept caller must be the one that the check finds.
pub(crate) async fn authenticate(
    rig: &Rig,
    token: &SecretString,
) -> Result<Caller, AuthenticateError> {
    let authenticator = rig.control.seam().authenticator;
    let known = authenticator.known_caller(token.expose_secret());
    let checked = authenticator.authenticate(token, FROM).await;
    if let Some(known) = known {
        assert_eq!(checked.as_ref(), Ok(&*known));
    }
    checked
}

fn is_known(rig: &Rig, token: &SecretString) -> bool {
    let authenticator = rig.control.seam().authenticator;
    authenticator.known_caller(token.expose_secret()).is_some()
}

/// The strongest role in the cluster, by a kept grant or a check.
async fn role(rig: &Rig, token: &SecretString) -> Result<Role, Code> {
    authenticate(rig, token).await.map_err(|it| it.code())?;
    let seam = rig.control.seam();
    let cluster: ClusterId = "c-demo".parse().unwrap();
    let caller = seam.authenticator.known_caller(token.expose_secret());
    let caller = caller.unwrap();
    let known = seam.authorizer.known_grant(&caller, &cluster);
    let again = seam.authorizer.known_grant(&caller, &cluster);
    let checked = seam.authorizer.authorize(&caller, &cluster).await;
    assert_eq!(known.as_deref(), checked.as_ref().ok());
    assert_eq!(again.as_deref(), checked.as_ref().ok());
    checked.map(|it| it.strongest()).map_err(|it| it.code())
}

async fn lock(rig: &Rig, path: &str) {
    let path = format!("/v1/locks/{path}");
    let body = json!({ "reason": "x" });
    rig.call(&admin(), Method::PUT, &path, body).await.good();
}

#[tokio::test]
async fn kept_caller_ends_with_its_token_its_expiry_and_a_lock() {
    let rig = Rig::new().await;
    let mint = async |name| rig.mint(name, Role::Viewer, None, None).await;
    let deleted = mint("ann").await;
    let id = authenticate(&rig, &deleted).await.unwrap().token.unwrap();
    assert!(is_known(&rig, &deleted));
    let path = format!("/v1/tokens/{id}");
    assert_eq!(rig.delete(&admin(), &path).await.status, 204);
    assert!(!is_known(&rig, &deleted));

    let locked = mint("bob").await;
    authenticate(&rig, &locked).await.unwrap();
    assert!(is_known(&rig, &locked));
    lock(&rig, "user/bob").await;
    assert!(!is_known(&rig, &locked));
    let refused = authenticate(&rig, &locked).await.unwrap_err();
    assert_eq!(refused.code(), Code::Locked);
    assert!(!is_known(&rig, &locked), "a refusal is not kept");

    let expired = mint("eve").await;
    authenticate(&rig, &expired).await.unwrap();
    assert!(is_known(&rig, &expired));
    rig.advance(Duration::seconds(366 * 24 * 3600));
    assert!(!is_known(&rig, &expired));
}

#[tokio::test]
async fn kept_grant_ends_with_a_lock_a_move_and_the_cluster() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.tenant("other").await;
    rig.cluster("demo", "acme").await;
    let token = rig.mint("ann", Role::Operator, Some("t-acme"), None).await;
    assert_eq!(role(&rig, &token).await, Ok(Role::Operator));
    lock(&rig, "cluster/c-demo").await;
    assert_eq!(role(&rig, &token).await, Err(Code::Locked));
    let unlocked = rig.delete(&admin(), "/v1/locks/cluster/c-demo").await;
    assert_eq!(unlocked.status, 204);
    assert_eq!(role(&rig, &token).await, Ok(Role::Operator));
    let deleted = rig.delete(&admin(), "/clusters/c-demo").await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    assert_eq!(role(&rig, &token).await, Err(Code::NoSuchCluster));
    rig.cluster("demo", "other").await;
    assert_eq!(role(&rig, &token).await, Err(Code::NoSuchCluster));
}

#[tokio::test]
async fn two_hubs_in_one_thread_share_nothing() {
    let (one, other) = (Rig::new().await, Rig::new().await);
    let token = one.mint("ann", Role::Admin, None, None).await;
    authenticate(&one, &token).await.unwrap();
    assert!(is_known(&one, &token));
    assert!(!is_known(&other, &token));
    assert!(authenticate(&other, &token).await.is_err());
}
