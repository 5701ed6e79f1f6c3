//! Exchange of a CI's tokens for tokens of the hub (RFC 8693).

use axum::{Router, body::Body};
use fairlead_api::{
    Code,
    resources::{ExchangeToken, Role},
};
use fairlead_seam::{AuthenticateError, Caller};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use time::Duration;
use tower::ServiceExt;

use crate::{
    known::authenticate,
    people::People,
    rig::{Rig, admin},
};

const RULES: &str = r#"
exchange = true
exchange_ttl = "30m"
roles = [
    { claim = "sub", value = "repo:acme/*", role = "operator", tenant = "t-acme" },
    { claim = "sub", value = "repo:root:main", role = "admin" },
]"#;

const JWT: &str = ExchangeToken::JWT;

/// Sends a form; returns status and answer.
async fn post(rig: &Rig, form: &[(&str, &str)]) -> (u16, Value) {
    let mut encoded = String::new();
    for (name, value) in form {
        encoded.push_str(&format!("{name}={}&", value.replace(':', "%3A")));
    }
    send(rig, "application/x-www-form-urlencoded", encoded).await
}

async fn send(rig: &Rig, kind: &str, body: String) -> (u16, Value) {
    let request = Request::post("/v1/token").header(header::CONTENT_TYPE, kind);
    let request = request.body(Body::from(body)).unwrap();
    let modules = rig.control.seam().modules;
    let open = modules.iter().map(|module| module.open_routes());
    let open = open.fold(Router::new(), Router::merge);
    let response = open.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let cache = response.headers().get(header::CACHE_CONTROL).cloned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    if status == 200 {
        assert_eq!(cache.unwrap(), "no-store");
    }
    (status, serde_json::from_slice(&body).unwrap())
}

async fn exchange(rig: &Rig, token: &SecretString) -> (u16, Value) {
    let form = [
        ("grant_type", ExchangeToken::GRANT_TYPE),
        ("subject_token", token.expose_secret()),
        ("subject_token_type", JWT),
        ("unknown", "is ignored"),
    ];
    post(rig, &form).await
}

fn job(people: &People, rig: &Rig, sub: &str) -> SecretString {
    let expires = (rig.now() + Duration::minutes(5)).unix_timestamp();
    people.sign(sub, &[], expires)
}

fn access_token(answer: &Value) -> SecretString {
    answer["access_token"].as_str().unwrap().into()
}

#[tokio::test]
async fn token_of_a_ci_is_exchanged_for_a_short_one_of_its_subject() {
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, RULES)).await;
    rig.tenant("acme").await;
    let token = job(&people, &rig, "repo:acme/site:main");
    let (status, answer) = exchange(&rig, &token).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["token_type"], "Bearer");
    assert_eq!(answer["issued_token_type"], ExchangeToken::ACCESS_TOKEN);
    assert_eq!(answer["expires_in"], 1800);
    let exchanged = access_token(&answer);
    let caller = authenticate(&rig, &exchanged).await.unwrap();
    assert_eq!(caller.name, "corp.repo%3Aacme%2Fsite%3Amain");
    assert_eq!(caller.role, Role::Operator);
    assert_eq!(caller.tenant.clone().unwrap().as_str(), "t-acme");
    assert_eq!(caller.subject.clone().unwrap().sub, "repo:acme/site:main");
    assert!(caller.expires.unwrap() <= rig.now() + Duration::minutes(30));

    // It outlives the token of the issuer, not its own end, and is no subject token itself.
    rig.advance(Duration::minutes(10));
    assert!(authenticate(&rig, &token).await.is_err());
    authenticate(&rig, &exchanged).await.unwrap();
    assert_eq!(exchange(&rig, &exchanged).await.0, 400);
    let listed = rig.get(&admin(), "/v1/tokens").await.good();
    assert_eq!(listed["items"][0]["exchanged"], true, "{listed}");
    let path = format!("/v1/tokens/{}/owner", caller.token.clone().unwrap());
    let kept = rig
        .call(&admin(), Method::PUT, &path, json!({ "to": "me" }))
        .await;
    assert_eq!(kept.status, 400, "{}", kept.text);

    // A lock of the subject ends it, like that of any caller.
    let lock = "/v1/locks/user/corp.repo%253Aacme%252Fsite%253Amain";
    let locked = rig
        .call(&admin(), Method::PUT, lock, json!({ "reason": "x" }))
        .await;
    assert_eq!(locked.status, 200, "{}", locked.text);
    let refused = authenticate(&rig, &exchanged).await.unwrap_err();
    assert_eq!(refused.code(), Code::Locked);
    rig.delete(&admin(), lock).await;
    rig.advance(Duration::minutes(20));
    let expired = authenticate(&rig, &exchanged).await.unwrap_err();
    assert_eq!(expired, AuthenticateError::Expired);
}

#[tokio::test]
async fn exchanged_token_makes_no_token_that_outlives_it() {
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, RULES)).await;
    let (_, answer) = exchange(&rig, &job(&people, &rig, "repo:root:main")).await;
    let caller = authenticate(&rig, &access_token(&answer)).await.unwrap();
    let long = json!({ "name": "x", "role": "viewer", "ttlSeconds": 3600 });
    assert_eq!(rig.post(&caller, "/v1/tokens", long).await.status, 400);
    let made = json!({ "name": "x", "role": "viewer" });
    let made = rig.post(&caller, "/v1/tokens", made).await.good();
    let child: SecretString = made["token"].as_str().unwrap().into();
    authenticate(&rig, &child).await.unwrap();
    let path = format!("/v1/tokens/{}", caller.token.clone().unwrap());
    assert_eq!(rig.delete(&admin(), &path).await.status, 204);
    assert!(authenticate(&rig, &child).await.is_err());
}

#[tokio::test]
async fn refusals_have_the_errors_of_the_rfcs() {
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, RULES)).await;
    rig.tenant("acme").await;
    let good = job(&people, &rig, "repo:acme/site:main");
    let good = good.expose_secret();
    let nobody = job(&people, &rig, "repo:other/x:main");
    let grant = ("grant_type", ExchangeToken::GRANT_TYPE);
    let kind = ("subject_token_type", JWT);
    let valid = [grant, kind, ("subject_token", good)];
    let with = |more| valid.into_iter().chain([more]).collect::<Vec<_>>();
    for (form, status, error) in [
        (vec![], 400, "invalid_request"),
        (vec![grant, kind], 400, "invalid_request"),
        (
            vec![("grant_type", "password"), kind, ("subject_token", good)],
            400,
            "unsupported_grant_type",
        ),
        (
            vec![
                grant,
                ("subject_token_type", "saml2"),
                ("subject_token", good),
            ],
            400,
            "invalid_request",
        ),
        (
            vec![grant, kind, ("subject_token", "a.b.c")],
            400,
            "invalid_request",
        ),
        (
            vec![grant, kind, ("subject_token", nobody.expose_secret())],
            400,
            "unauthorized_client",
        ),
        (with(("audience", "other")), 400, "invalid_target"),
        (with(("scope", "admin")), 400, "invalid_scope"),
        (with(("actor_token", "x")), 400, "invalid_request"),
        (with(("requested_token_type", JWT)), 400, "invalid_request"),
        (with(kind), 400, "invalid_request"),
    ] {
        let (found, answer) = post(&rig, &form).await;
        assert_eq!(
            (found, &answer["error"]),
            (status, &error.into()),
            "{form:?} {answer}"
        );
        assert!(
            answer["code"].as_str().unwrap().starts_with("FL-"),
            "{answer}"
        );
        assert!(answer["error_description"].is_string(), "{answer}");
    }
    let (status, answer) = send(&rig, "application/json", "{}".to_owned()).await;
    assert_eq!((status, &answer["error"]), (415, &"invalid_request".into()));
    assert_eq!(post(&rig, &with(("scope", ""))).await.0, 200);
    let options = rig.open("/v1/sign-in").await.good();
    let issuer =
        json!({ "name": "corp", "url": People::URL, "audience": ["fairlead"], "ttlSeconds": 1800 });
    assert_eq!(options["tokenExchange"], json!([issuer]));
}

#[tokio::test]
async fn exchange_is_bounded_and_only_for_issuers_that_permit_it() {
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, RULES)).await;
    let token = job(&people, &rig, "repo:root:main");
    for _ in 0..64 {
        assert_eq!(exchange(&rig, &token).await.0, 200);
    }
    let (status, answer) = exchange(&rig, &token).await;
    assert_eq!(status, 429, "{answer}");
    let closed = RULES.replace("exchange = true\nexchange_ttl = \"30m\"", "");
    let rig = Rig::with(|config| people.configure(config, &closed)).await;
    let (status, answer) = exchange(&rig, &token).await;
    assert_eq!((status, &answer["error"]), (400, &"invalid_request".into()));
}

#[tokio::test]
async fn other_rules_end_exchanged_tokens() {
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, RULES)).await;
    let (_, answer) = exchange(&rig, &job(&people, &rig, "repo:root:main")).await;
    let token = access_token(&answer);
    let now = rig.now();
    let dir = rig.close().await;
    let open = async |rules: &str| {
        let mut config = crate::rig::config(&dir);
        people.configure(&mut config, rules);
        Rig::opened(config, now).await
    };
    let rig = open(RULES).await;
    authenticate(&rig, &token).await.unwrap();
    rig.control.close().await;
    drop(rig);
    let rig = open(&RULES.replace("repo:acme/", "repo:acme/site:")).await;
    let refused = authenticate(&rig, &token).await.unwrap_err();
    assert_eq!(refused.code(), Code::BadToken);
    assert!(refused.to_string().contains("rules"), "{refused}");
}

#[tokio::test]
async fn exchanged_token_has_all_roles_of_its_subject() {
    const SEVERAL: &str = r#"
exchange = true
roles = [
    { claim = "sub", value = "repo:shop:*", role = "operator", cluster = "c-one", namespaces = ["shop", "web"] },
    { claim = "sub", value = "repo:shop:main", role = "viewer", tenant = "t-acme", break_glass = "admin" },
    { claim = "sub", value = "repo:prod", role = "operator", selector = "env=prod" },
]"#;
    let people = People::new();
    let rig = Rig::with(|config| people.configure(config, SEVERAL)).await;
    rig.tenant("acme").await;
    rig.cluster("one", "t-acme").await;
    rig.cluster("two", "t-acme").await;
    let exchanged = async |sub: &str| {
        let (status, answer) = exchange(&rig, &job(&people, &rig, sub)).await;
        assert_eq!(status, 200, "{answer}");
        let caller = authenticate(&rig, &access_token(&answer)).await.unwrap();
        assert!(caller.token.is_some());
        caller
    };
    let role = async |caller: &Caller, cluster: &str| {
        let seam = rig.control.seam();
        // As each re-check of a running request does it.
        let now = seam.authenticator.recheck(caller).await.unwrap();
        assert_eq!(now, *caller);
        let cluster = cluster.parse().unwrap();
        match seam.authorizer.authorize(&now, &cluster).await {
            Ok(grant) => format!("{:?} {}", grant.role, grant.namespaces.len()),
            Err(error) => error.code().to_string(),
        }
    };
    let branch = exchanged("repo:shop:x").await;
    assert_eq!(role(&branch, "c-one").await, "None 2");
    assert_eq!(role(&branch, "c-two").await, "FL-1301");
    let main = exchanged("repo:shop:main").await;
    assert_eq!(role(&main, "c-one").await, "Some(Viewer) 2");
    assert_eq!(role(&main, "c-two").await, "Some(Viewer) 0");
    assert_eq!(main.grants.len(), 1, "no role for emergencies");
    let prod = exchanged("repo:prod").await;
    assert_eq!(role(&prod, "c-two").await, "FL-1301");
    let labelled = json!({ "facts": { "env": "prod" } });
    let labelled = rig
        .call(&admin(), Method::PATCH, "/clusters/c-two", labelled)
        .await;
    assert_eq!(labelled.status, 200);
    assert_eq!(role(&prod, "c-two").await, "Some(Operator) 0");

    // A list of tokens shows the limits.
    let listed = rig.get(&admin(), "/v1/tokens").await.good();
    let listed = listed["items"].as_array().unwrap();
    let of_branch = listed
        .iter()
        .find(|it| it["id"] == *branch.token.as_ref().unwrap());
    let expected = json!([{
        "role": "operator", "kind": "standing", "cluster": "c-one", "namespaces": ["shop", "web"],
    }]);
    assert_eq!(of_branch.unwrap()["grants"], expected);
    for (who, makes) in [(&branch, 403), (&prod, 403)] {
        let made = json!({ "name": "x", "role": "viewer" });
        assert_eq!(rig.post(who, "/v1/tokens", made).await.status, makes);
    }
}
