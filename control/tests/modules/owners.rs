//! Owners of API tokens: their end, their fall with an owner, hand-over, last use.

use fairlead_api::{Code, resources::Role};
use fairlead_seam::{AuthenticateError, Caller};
use fairlead_testkit::wait::{TEST_DEADLINE, eventually};
use http::Method;
use secrecy::SecretString;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    known::authenticate,
    people::People,
    rig::{Rig, START, admin},
};

const RULES: &str = r#"roles = [
    { claim = "groups", value = "platform", role = "admin" },
    { claim = "groups", value = "acme", role = "admin", tenant = "t-acme" },
    { claim = "groups", value = "guests", role = "viewer" },
]"#;

async fn recheck(rig: &Rig, caller: &Caller) -> Result<Caller, AuthenticateError> {
    rig.control.seam().authenticator.recheck(caller).await
}

/// Creates a token; returns its secret and its id.
async fn create(rig: &Rig, who: &Caller, body: Value) -> (SecretString, String) {
    let made = rig.post(who, "/v1/tokens", body).await.good();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("token").into(), text("id"))
}

fn viewer() -> Value {
    json!({ "name": "ci", "role": "viewer" })
}

async fn listed(rig: &Rig, id: &str) -> Value {
    let all = rig.get(&admin(), "/v1/tokens").await.good();
    let items = all["items"].as_array().unwrap();
    items.iter().find(|it| it["id"] == id).unwrap().clone()
}

async fn hand_over(rig: &Rig, who: &Caller, id: &str, to: &str) -> (u16, String) {
    let path = format!("/v1/tokens/{id}/owner");
    let reply = rig.call(who, Method::PUT, &path, json!({ "to": to })).await;
    (reply.status.as_u16(), reply.text)
}

fn cause(refused: Result<Caller, AuthenticateError>) -> String {
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::BadToken, "{refused}");
    fairlead_api::Failure::from(refused).cause
}

fn seconds(rig: &Rig, after: i64) -> i64 {
    (rig.now() + Duration::seconds(after)).unix_timestamp()
}

/// Waits until the rights of a person are written.
async fn written<T>(check: impl AsyncFnMut() -> Option<T>) -> T {
    eventually(TEST_DEADLINE, "rights of a person", check)
        .await
        .unwrap()
}

#[tokio::test]
async fn token_of_a_token_ends_with_it_and_falls_with_it() {
    let rig = Rig::new().await;
    let parent = rig.mint("ops", Role::Admin, None, None).await;
    let parent = authenticate(&rig, &parent).await.unwrap();
    let parent_id = parent.token.clone().unwrap();
    let (child, id) = create(&rig, &parent, viewer()).await;
    let caller = authenticate(&rig, &child).await.unwrap();
    assert!(caller.expires.unwrap() <= parent.expires.unwrap());
    let long = json!({ "name": "ci", "role": "viewer", "ttlSeconds": 86_400 });
    let refused = rig.post(&parent, "/v1/tokens", long).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(
        refused.text.contains("no later than its owner"),
        "{}",
        refused.text
    );

    let shown = listed(&rig, &id).await;
    assert_eq!(shown["owner"], json!({ "name": "ops", "token": parent_id }));
    assert_eq!(shown["fallen"], Value::Null);

    // A lock of the owner takes its tokens along, and gives them back.
    let lock = format!("/v1/locks/token/{parent_id}");
    let reason = json!({ "reason": "stolen" });
    rig.call(&admin(), Method::PUT, &lock, reason).await.good();
    let refused = recheck(&rig, &caller).await.unwrap_err();
    assert_eq!(refused.code(), Code::Locked);
    assert_eq!(rig.delete(&admin(), &lock).await.status, 204);
    recheck(&rig, &caller).await.unwrap();

    let path = format!("/v1/tokens/{parent_id}");
    assert_eq!(rig.delete(&admin(), &path).await.status, 204);
    assert!(cause(recheck(&rig, &caller).await).contains("was deleted"));
    assert!(cause(authenticate(&rig, &child).await).contains("was deleted"));
    let fallen = listed(&rig, &id).await["fallen"].to_string();
    assert!(fallen.contains("was deleted"), "{fallen}");
}

#[tokio::test]
async fn fallen_token_is_valid_again_with_a_new_owner_and_the_log_has_both() {
    let rig = Rig::new().await;
    let parent = rig.mint("ops", Role::Admin, None, None).await;
    let parent = authenticate(&rig, &parent).await.unwrap();
    let (child, id) = create(&rig, &parent, viewer()).await;
    let heir = rig.mint("heir", Role::Admin, None, None).await;
    let heir = authenticate(&rig, &heir).await.unwrap();
    let heir_id = heir.token.clone().unwrap();
    let path = format!("/v1/tokens/{}", parent.token.clone().unwrap());
    assert_eq!(rig.delete(&admin(), &path).await.status, 204);
    assert!(authenticate(&rig, &child).await.is_err());

    // A cycle, a stranger and an owner without the right are refused.
    let (_, grandchild) = create(&rig, &heir, json!({ "name": "x", "role": "admin" })).await;
    let cycle = hand_over(&rig, &admin(), &heir_id, &grandchild).await;
    assert_eq!(cycle.0, 400, "{}", cycle.1);
    let own = hand_over(&rig, &admin(), &id, &id).await;
    assert_eq!(own.0, 400, "{}", own.1);
    let unknown = hand_over(&rig, &admin(), &id, "corp.nobody").await;
    assert_eq!(unknown.0, 400, "{}", unknown.1);
    let weak = rig.mint("weak", Role::Operator, None, None).await;
    let weak = authenticate(&rig, &weak).await.unwrap();
    let weak_id = weak.token.clone().unwrap();
    let refused = hand_over(&rig, &admin(), &id, &weak_id).await;
    assert!(
        refused.1.contains("no right to such a token"),
        "{}",
        refused.1
    );
    assert_eq!(hand_over(&rig, &weak, &id, &heir_id).await.0, 403);
    let missing = hand_over(&rig, &admin(), "k-0000000000000000", "me").await;
    assert_eq!(missing.0, 404);

    let given = hand_over(&rig, &heir, &id, "me").await;
    assert_eq!(given.0, 200, "{}", given.1);
    authenticate(&rig, &child).await.unwrap();
    let log = rig
        .get(&admin(), &format!("/v1/audit?kind=token&id={id}"))
        .await;
    assert!(log.text.contains(&heir_id), "{}", log.text);
}

#[tokio::test]
async fn tenants_admin_hands_over_tokens_of_the_tenant_only() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let root = rig.mint("root", Role::Admin, None, None).await;
    let root = authenticate(&rig, &root).await.unwrap();
    let acme = rig.mint("ann", Role::Admin, Some("t-acme"), None).await;
    let acme = authenticate(&rig, &acme).await.unwrap();
    let (_, everywhere) = create(&rig, &root, viewer()).await;
    let in_acme = json!({ "name": "ci", "role": "viewer", "tenant": "t-acme" });
    let (_, inside) = create(&rig, &root, in_acme).await;
    assert_eq!(hand_over(&rig, &acme, &everywhere, "me").await.0, 404);
    assert_eq!(hand_over(&rig, &acme, &inside, "me").await.0, 200);
    // An owner of the tenant is too weak for a token of all tenants.
    let acme_id = acme.token.clone().unwrap();
    assert_eq!(hand_over(&rig, &root, &everywhere, &acme_id).await.0, 400);
}

#[tokio::test]
async fn tokens_of_a_person_follow_the_role_of_the_last_sign_in() {
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, RULES)).await;
    rig.tenant("acme").await;
    let jane = people.sign("jane", &["platform"], seconds(&rig, 600));
    let jane = authenticate(&rig, &jane).await.unwrap();
    let too_long = json!({ "name": "ci", "role": "viewer", "ttlSeconds": 31 * 86_400 });
    assert_eq!(rig.post(&jane, "/v1/tokens", too_long).await.status, 400);
    let month = json!({ "name": "ci", "role": "viewer", "ttlSeconds": 30 * 86_400 });
    let (token, id) = create(&rig, &jane, month).await;
    let in_acme = json!({ "name": "ci", "role": "viewer", "tenant": "t-acme" });
    let (inside, _) = create(&rig, &jane, in_acme).await;
    let caller = authenticate(&rig, &token).await.unwrap();
    let owner = &listed(&rig, &id).await["owner"];
    assert_eq!(
        *owner,
        json!({ "name": "corp.jane", "issuer": People::URL, "sub": "jane" })
    );

    // Lowered to one tenant, then to no role at all; an older token of the issuer changes nothing.
    let lowered = people.sign("jane", &["acme"], seconds(&rig, 700));
    authenticate(&rig, &lowered).await.unwrap();
    let fell = written(async || recheck(&rig, &caller).await.err()).await;
    assert!(cause(Err(fell)).contains("no longer has the right"));
    authenticate(&rig, &inside).await.unwrap();
    let older = people.sign("jane", &["platform"], seconds(&rig, 650));
    let older = authenticate(&rig, &older).await.unwrap();
    assert!(recheck(&rig, &caller).await.is_err());
    let none = people.sign("jane", &["nobody"], seconds(&rig, 800));
    let refused = authenticate(&rig, &none).await.unwrap_err();
    assert_eq!(refused.code(), Code::NoRole);
    let fell = written(async || authenticate(&rig, &inside).await.err()).await;
    assert!(cause(Err(fell)).contains("no role at the last sign-in"));
    // A token of the time before has no right to new ones either.
    let (late, _) = create(&rig, &older, viewer()).await;
    assert!(authenticate(&rig, &late).await.is_err());

    // Back in the group, the tokens are valid again.
    let back = people.sign("jane", &["platform"], seconds(&rig, 900));
    authenticate(&rig, &back).await.unwrap();
    written(async || authenticate(&rig, &token).await.ok()).await;
    let lock = json!({ "reason": "left" });
    let path = "/v1/locks/user/corp.jane";
    rig.call(&admin(), Method::PUT, path, lock).await.good();
    assert_eq!(
        recheck(&rig, &caller).await.unwrap_err().code(),
        Code::Locked
    );
    rig.delete(&admin(), path).await;
    rig.advance(Duration::days(30));
    let expired = authenticate(&rig, &token).await.unwrap_err();
    assert_eq!(expired, AuthenticateError::Expired);
}

#[tokio::test]
async fn token_of_a_person_can_be_handed_to_another_one_and_ends_in_time() {
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, RULES)).await;
    let sign_in = async |sub: &str, groups: &[&str]| {
        let token = people.sign(sub, groups, seconds(&rig, 600));
        authenticate(&rig, &token).await.unwrap()
    };
    let jane = sign_in("jane", &["platform"]).await;
    let month = json!({ "name": "ci", "role": "viewer", "ttlSeconds": 30 * 86_400 });
    let (token, id) = create(&rig, &jane, month).await;
    let bob = sign_in("bob", &["platform"]).await;
    create(&rig, &bob, viewer()).await;
    assert_eq!(hand_over(&rig, &jane, &id, "corp.bob").await.0, 200);
    let locked = json!({ "reason": "left" });
    let path = "/v1/locks/user/corp.jane";
    rig.call(&admin(), Method::PUT, path, locked).await.good();
    authenticate(&rig, &token).await.unwrap();
    assert_eq!(listed(&rig, &id).await["owner"]["name"], "corp.bob");
    // A token as owner ends it earlier, for good.
    let short = rig.mint("short", Role::Admin, None, None).await;
    let short = authenticate(&rig, &short).await.unwrap();
    assert_eq!(hand_over(&rig, &short, &id, "me").await.0, 200);
    let end = short.expires.unwrap().format(&Rfc3339).unwrap();
    assert_eq!(listed(&rig, &id).await["expires"], end);
}

#[tokio::test]
async fn last_use_is_shown_written_once_and_survives_a_restart() {
    let rig = Rig::new().await;
    let token = rig.mint("ci", Role::Viewer, None, None).await;
    let id = {
        let all = rig.get(&admin(), "/v1/tokens").await.good();
        assert_eq!(all["items"][0]["lastUsed"], Value::Null);
        all["items"][0]["id"].as_str().unwrap().to_owned()
    };
    let revision = rig.get(&admin(), "/v1/tokens").await.headers["fairlead-revision"].clone();
    let caller = authenticate(&rig, &token).await.unwrap();
    rig.advance(Duration::seconds(5));
    // A running request that is checked again is no use.
    recheck(&rig, &caller).await.unwrap();
    let shown = listed(&rig, &id).await["lastUsed"].clone();
    let at = OffsetDateTime::parse(shown.as_str().unwrap(), &Rfc3339).unwrap();
    assert_eq!(at, START);
    let after = rig.get(&admin(), "/v1/tokens").await.headers["fairlead-revision"].clone();
    assert_eq!(revision, after);
    let rig = rig.restart().await;
    assert_eq!(listed(&rig, &id).await["lastUsed"], shown);
}
