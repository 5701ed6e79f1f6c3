//! Locks, and running requests that lose their access.

use fairlead_api::{ClusterId, Code, resources::Role};
use fairlead_seam::{AuthenticateError, Caller};
use http::Method;
use serde_json::{Value, json};
use time::Duration;

use crate::known::authenticate;
use crate::rig::{Rig, admin, caller};

async fn lock(rig: &Rig, who: &Caller, path: &str, body: Value) -> (u16, String) {
    let path = format!("/v1/locks/{path}");
    let reply = rig.call(who, Method::PUT, &path, body).await;
    (reply.status.as_u16(), reply.text)
}

fn reason() -> Value {
    json!({ "reason": "laptop stolen" })
}

async fn recheck(rig: &Rig, caller: &Caller) -> Result<Caller, AuthenticateError> {
    rig.control.seam().authenticator.recheck(caller).await
}

async fn unlock(rig: &Rig, who: &Caller, path: &str) -> u16 {
    let path = format!("/v1/locks/{path}");
    rig.delete(who, &path).await.status.as_u16()
}

#[tokio::test]
async fn locked_user_token_and_tenant_are_refused_with_reason_and_author() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let token = rig.mint("ann", Role::Operator, Some("t-acme"), None).await;
    let ann = authenticate(&rig, &token).await.unwrap();
    let id = ann.token.clone().unwrap();
    for path in [
        "user/t-acme:ann".to_owned(),
        format!("token/{id}"),
        "tenant/t-acme".to_owned(),
    ] {
        assert_eq!(lock(&rig, &admin(), &path, reason()).await.0, 200, "{path}");
        for refused in [authenticate(&rig, &token).await, recheck(&rig, &ann).await] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::Locked);
            let cause = refused.to_string();
            assert!(cause.contains("laptop stolen"), "{cause}");
            assert!(cause.contains("by admin-of-all"), "{cause}");
        }
        assert_eq!(unlock(&rig, &admin(), &path).await, 204);
        assert_eq!(recheck(&rig, &ann).await.unwrap(), ann);
    }
}

#[tokio::test]
async fn locked_cluster_is_reached_by_nobody_and_stays_registered() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    let cluster: ClusterId = "c-demo".parse().unwrap();
    let seam = rig.control.seam();
    for path in ["cluster/c-demo", "tenant/t-acme"] {
        seam.authorizer.authorize(&admin(), &cluster).await.unwrap();
        lock(&rig, &admin(), path, reason()).await;
        let refused = seam.authorizer.authorize(&admin(), &cluster).await;
        assert_eq!(refused.unwrap_err().code(), Code::Locked, "{path}");
        rig.get(&admin(), "/clusters/c-demo").await.good();
        assert_eq!(unlock(&rig, &admin(), path).await, 204);
    }
}

#[tokio::test]
async fn lock_ends_by_itself_and_nobody_locks_himself_out() {
    let rig = Rig::new().await;
    let token = rig.mint("bob", Role::Viewer, None, None).await;
    let short = json!({ "reason": "x", "ttlSeconds": 60 });
    assert_eq!(lock(&rig, &admin(), "user/bob", short).await.0, 200);
    assert!(authenticate(&rig, &token).await.is_err());
    let listed = rig.get(&admin(), "/v1/locks").await.good();
    assert_eq!(listed["items"][0]["name"], "bob");
    rig.advance(Duration::seconds(61));
    authenticate(&rig, &token).await.unwrap();
    let listed = rig.get(&admin(), "/v1/locks").await.good();
    assert_eq!(listed["items"], json!([]));

    let own = lock(&rig, &admin(), "user/admin-of-all", reason()).await;
    assert_eq!(own.0, 400, "{}", own.1);
    assert!(own.1.contains("lock you out"), "{}", own.1);
    for (path, body) in [
        ("planet/earth", reason()),
        ("user/bob", json!({ "reason": " " })),
        ("user/bob", json!({ "reason": "x", "ttlSeconds": 59 })),
        ("user/bob", json!({ "reason": "a\nb" })),
    ] {
        assert_eq!(lock(&rig, &admin(), path, body).await.0, 400, "{path}");
    }
    assert_eq!(lock(&rig, &admin(), "token/k-0", reason()).await.0, 404);
}

#[tokio::test]
async fn tenants_admin_locks_users_of_the_tenant_only() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let acme = caller(Role::Admin, Some("t-acme"));
    for (path, status) in [
        ("user/t-acme:ann", 200),
        ("user/root", 403),
        ("user/t-default:ann", 403),
        ("tenant/t-default", 404),
        ("tenant/t-acme", 400),
    ] {
        let answer = lock(&rig, &acme, path, reason()).await;
        assert_eq!(answer.0, status, "{path}: {}", answer.1);
    }
    let root = lock(&rig, &admin(), "user/root", reason()).await;
    assert_eq!(root.0, 200);
    let listed = rig.get(&acme, "/v1/locks").await.good();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(unlock(&rig, &acme, "user/root").await, 404);
}

#[tokio::test]
async fn recheck_follows_deletion_and_expiry_of_a_token() {
    let rig = Rig::new().await;
    let deleted = rig.mint("bob", Role::Viewer, None, None).await;
    let deleted = authenticate(&rig, &deleted).await.unwrap();
    let path = format!("/v1/tokens/{}", deleted.token.clone().unwrap());
    assert_eq!(rig.delete(&admin(), &path).await.status, 204);
    let refused = recheck(&rig, &deleted).await.unwrap_err();
    assert_eq!(refused, AuthenticateError::BadToken(None));

    let expired = rig.mint("eve", Role::Viewer, None, None).await;
    let expired = authenticate(&rig, &expired).await.unwrap();
    rig.advance(Duration::seconds(366 * 24 * 3600));
    let refused = recheck(&rig, &expired).await.unwrap_err();
    assert_eq!(refused, AuthenticateError::Expired);
}

#[tokio::test]
async fn order_to_end_requests_is_followed_for_a_minute_and_logged() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let acme = caller(Role::Admin, Some("t-acme"));
    let path = "/v1/requests?caller=ann&kind=exec&reason=maintenance";
    let ended = rig.delete(&acme, path).await.good();
    assert_eq!(ended, json!({ "ended": 0, "elsewhere": 0 }));
    let orders = rig.control.seam().authorizer.terminations();
    let [order] = orders.as_slice() else {
        panic!("{orders:?}");
    };
    assert_eq!(order.filter.caller.as_deref(), Some("ann"));
    assert_eq!(order.filter.tenants, Some(vec!["t-acme".parse().unwrap()]));
    assert_eq!(order.failure.code, Code::RequestEnded);
    assert!(order.failure.cause.contains("maintenance"));
    let log = rig.get(&admin(), "/v1/audit").await.good();
    assert_eq!(log["items"][0]["kind"], "lock", "{log}");
    rig.advance(Duration::seconds(61));
    assert!(rig.control.seam().authorizer.terminations().is_empty());

    let none = rig.delete(&admin(), "/v1/requests").await;
    assert_eq!(none.status, 400, "{}", none.text);
}
