//! Tokens for Git servers in the store: set by people, used at the next call, never read.

use secrecy::ExposeSecret;

use super::*;

const OF_HUB: &str = "/v1/git-credentials/gitlab";
const OF_TENANT: &str = "/v1/tenants/t-default/git-credentials/gitlab";

impl World {
    async fn set(&self, path: &str, token: &str) {
        let body = json!({ "token": token });
        let answer = self.rig.call(&admin(), Method::PUT, path, body).await;
        assert!(!answer.text.contains(token), "{answer:?}");
        answer.good();
    }

    fn last_token(&self) -> Option<String> {
        let said = self.server.said();
        let token = said.secrets.last()?.api_token.clone();
        token.map(|it| it.expose_secret().to_owned())
    }

    /// Token of the call after a change of the record.
    async fn next_token(&self, title: &str) -> Option<String> {
        let patch = json!({ "displayName": title });
        self.asked_after("c-one", self.patch("/clusters/c-one", patch))
            .await;
        self.last_token()
    }
}

fn repo(reference: Value) -> Value {
    json!({ "url": URL, "apiSecretRef": reference })
}

#[tokio::test]
async fn credentials_are_used_at_the_next_call_and_those_of_the_tenant_first() {
    let world = World::new().await;
    world
        .asked_after(
            "c-one",
            world.make("one", repo(json!({ "name": "gitlab" }))),
        )
        .await;
    assert_eq!(world.last_token(), None);
    world.set(OF_HUB, "of-the-hub").await;
    assert_eq!(world.next_token("1").await.as_deref(), Some("of-the-hub"));
    world.set(OF_TENANT, "of-the-tenant").await;
    assert_eq!(
        world.next_token("2").await.as_deref(),
        Some("of-the-tenant")
    );
    world.set(OF_TENANT, "rotated").await;
    assert_eq!(world.next_token("3").await.as_deref(), Some("rotated"));
    let delete = |path: &'static str| async {
        let admin = admin();
        let answer = world.rig.call(&admin, Method::DELETE, path, Value::Null);
        answer.await.status.as_u16()
    };
    assert_eq!(delete(OF_TENANT).await, 204);
    assert_eq!(delete(OF_TENANT).await, 404);
    assert_eq!(world.next_token("4").await.as_deref(), Some("of-the-hub"));
    assert_eq!(delete(OF_HUB).await, 204);
    assert_eq!(world.next_token("5").await, None);
}

#[tokio::test]
async fn no_tenant_reaches_the_credential_of_another_one() {
    let world = World::new().await;
    let template = json!({ "gitRepo": { "type": "unmanaged" } });
    world
        .tenant("other", template["gitRepo"].clone(), json!({}))
        .await;
    world
        .set("/v1/tenants/t-other/git-credentials/gitlab", "of-the-other")
        .await;
    for reference in [
        json!({ "name": "gitlab" }),
        json!({ "name": "gitlab", "namespace": "t-other" }),
        json!({ "name": "t-other/gitlab" }),
    ] {
        let patch = json!({ "gitRepo": repo(reference.clone()) });
        if world.server.times_asked("c-one") == 0 {
            world
                .asked_after("c-one", world.make("one", repo(reference.clone())))
                .await;
        } else {
            world
                .asked_after("c-one", world.patch("/clusters/c-one", patch))
                .await;
        }
        assert_eq!(world.last_token(), None, "{reference}");
    }
}

#[tokio::test]
async fn values_are_in_no_answer_and_no_log() {
    let world = World::new().await;
    world.set(OF_HUB, "s3cret-token").await;
    world.set(OF_TENANT, "s3cret-token").await;
    let list = world.rig.get(&admin(), "/v1/git-credentials").await;
    assert!(!list.text.contains("s3cret"), "{list:?}");
    assert_eq!(list.good()["items"][0]["name"], "gitlab");
    let of_tenant = "/v1/tenants/t-default/git-credentials";
    let list = world.rig.get(&admin(), of_tenant).await.good();
    assert_eq!(list["items"][0]["tenant"], "t-default");
    let log = world.rig.get(&admin(), "/v1/audit?kind=credential").await;
    assert!(log.text.contains("\"credential\""), "{log:?}");
    assert!(!log.text.contains("s3cret"), "{log:?}");
    assert!(
        !log.text.contains("v1."),
        "sealed texts are hidden: {log:?}"
    );
}

#[tokio::test]
async fn invalid_names_and_tokens_are_refused() {
    let world = World::new().await;
    for (path, token) in [
        (OF_HUB, ""),
        (OF_HUB, "two words"),
        (OF_HUB, "line\n"),
        (OF_HUB, "umlaut-\u{e4}"),
        ("/v1/git-credentials/.hidden", "x"),
        ("/v1/git-credentials/a%2Fb", "x"),
    ] {
        let admin = admin();
        let body = json!({ "token": token });
        let answer = world.rig.call(&admin, Method::PUT, path, body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {token:?}");
    }
}

#[tokio::test]
async fn deleted_tenants_take_their_credentials_along_and_retire_with_them() {
    let world = World::new().await;
    let template = json!({ "deletionPolicy": "Delete" });
    world
        .tenant("gone", repo(json!({ "name": "gitlab" })), template)
        .await;
    let path = "/v1/tenants/t-gone/git-credentials/gitlab";
    world.set(path, "of-the-gone").await;
    world
        .becomes("/tenants/t-gone", "created", Value::Null)
        .await;
    world.delete("/tenants/t-gone").await;
    let retired = world.retired(1).await;
    assert_eq!(retired[0].owner.to_string(), "t-gone");
    assert_eq!(world.last_token().as_deref(), Some("of-the-gone"));
    let none = json!({ "type": "unmanaged" });
    world.tenant("gone", none, json!({})).await;
    let list = "/v1/tenants/t-gone/git-credentials";
    let list = world.rig.get(&admin(), list).await.good();
    assert_eq!(list["items"], json!([]));
}
