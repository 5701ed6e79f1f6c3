//! Names of callers: a token of a tenant or a cluster never collides with another caller's name.

use fairlead_api::resources::{CreatedToken, Role};
use fairlead_seam::Caller;
use serde_json::{Value, json};

use crate::rig::{FROM, Rig, admin, caller};

/// The caller of a new token, as the gateway sees it, and the token's id.
async fn made(rig: &Rig, by: &Caller, asked: Value) -> (Caller, String) {
    let made = rig.post(by, "/v1/tokens", asked).await.good();
    let made: CreatedToken = serde_json::from_value(made).unwrap();
    let seam = rig.control.seam();
    let caller = seam.authenticator.authenticate(&made.token, FROM).await;
    (caller.unwrap(), made.about.id)
}

#[tokio::test]
async fn tokens_of_tenants_never_share_a_callers_name() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "t-acme").await;
    let of_acme = caller(Role::Admin, Some("t-acme"));
    let named = |role: &str, on: Value| {
        let mut asked = json!({ "name": "admin", "role": role });
        asked
            .as_object_mut()
            .unwrap()
            .extend(on.as_object().unwrap().clone());
        asked
    };
    let (global, _) = made(&rig, &admin(), named("admin", json!({}))).await;
    let on_tenant = named("admin", json!({ "tenant": "t-acme" }));
    let (tenants, id) = made(&rig, &of_acme, on_tenant).await;
    let on_cluster = named("cluster", json!({ "cluster": "c-demo" }));
    let (clusters, _) = made(&rig, &of_acme, on_cluster).await;
    let names = [&global, &tenants, &clusters].map(|it| it.name.as_str());
    assert_eq!(names, ["admin", "t-acme:admin", "c-demo:admin"]);

    let who = rig.get(&tenants, "/v1/whoami").await.good();
    assert_eq!(who["user"], "fairlead:t-acme:admin");
    assert_eq!(who["token"], json!(id));
    let body = json!({ "id": "new", "tenant": "t-acme" });
    rig.post(&tenants, "/clusters", body).await.good();
    let log = rig.get(&admin(), "/v1/audit?cluster=c-new").await.good();
    assert_eq!(log["items"][0]["actor"], "t-acme:admin");
    assert_eq!(log["items"][0]["actorToken"], json!(id));
    let by = rig
        .get(&admin(), "/v1/audit?actor=t-acme:admin")
        .await
        .good();
    assert_eq!(by["items"].as_array().unwrap().len(), 1);
    let tokens = rig
        .get(&admin(), "/v1/bootstrap-tokens?text=new")
        .await
        .good();
    assert_eq!(tokens["items"][0]["createdBy"], "t-acme:admin");
}

#[tokio::test]
async fn an_invalid_bootstrap_token_is_shown_with_its_reason() {
    let rig = Rig::new().await;
    let show = async |id: &str| {
        let path = format!("/v1/clusters/c-{id}/bootstrap-token");
        let reply = rig.get(&admin(), &path).await;
        assert_eq!(reply.status, 404, "{id}");
        let told = reply.json();
        let next = told["next"].as_str().unwrap();
        assert!(next.contains(&format!("token renew c-{id}")), "{next}");
        told["reason"].as_str().unwrap().to_owned()
    };
    let enrolled = async |id: &str| {
        let cluster = rig.get(&admin(), &format!("/clusters/c-{id}")).await.good();
        cluster["enrolled"].as_bool().unwrap()
    };
    let used = rig.cluster("used", "t-default").await;
    assert!(!enrolled("used").await);
    rig.enrolled(&used).await;
    assert!(show("used").await.ends_with("has been used"));
    assert!(enrolled("used").await);
    rig.cluster("revoked", "t-default").await;
    rig.delete(&admin(), "/v1/clusters/c-revoked/bootstrap-token")
        .await;
    assert!(show("revoked").await.ends_with("was revoked"));
    rig.cluster("old", "t-default").await;
    rig.advance(time::Duration::hours(2));
    assert!(show("old").await.ends_with("has expired"));
    assert!(!enrolled("revoked").await && !enrolled("old").await);
}
