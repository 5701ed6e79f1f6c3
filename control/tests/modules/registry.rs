//! The hub's own API as a whole; tenants and tokens.

use std::sync::Arc;

use fairlead_api::{
    Code,
    resources::{CreateToken, CreatedToken, Role},
};
use fairlead_registry::TokenCondition;
use fairlead_seam::{Caller, ClusterScope};
use http::{Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{FROM, Rig, admin, caller};

#[tokio::test]
async fn the_hub_info_contains_kubeconfig_settings() {
    let rig = Rig::new().await;
    let about = rig
        .get(&caller(Role::Viewer, Some("t-default")), "/v1/hub")
        .await
        .good();
    assert_eq!(about["publicUrl"], "https://hub.example:8443");
    assert_eq!(about["clusterDomain"], "clusters.hub.example");
    assert_eq!(about["namesCovered"], true);
    assert_eq!(about["ca"], rig.control.ca_pem());
    assert_eq!(about["caller"], "viewer-of-t-default");
    assert_eq!(about["version"], "0.1.0");
}

#[tokio::test]
async fn a_tenant_lives_from_creation_to_deletion() {
    let rig = Rig::new().await;
    let repo = json!({ "type": "unmanaged" });
    let body = json!({ "id": "acme", "displayName": "Acme Ltd", "gitRepo": repo });
    let made = rig.post(&admin(), "/tenants", body.clone()).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(made.good()["id"], "t-acme");
    assert_eq!(made.good()["created"], "2026-11-21T12:00:00.25Z");
    let twice = rig.post(&admin(), "/tenants", body).await;
    assert_eq!(twice.code(), Code::Conflict);
    assert_eq!(
        rig.get(&admin(), "/tenants/t-acme").await.good(),
        made.good()
    );
    let list = rig.get(&admin(), "/tenants").await.good();
    let ids: Vec<_> = list.as_array().unwrap().iter().map(|t| &t["id"]).collect();
    assert_eq!(ids, ["t-acme", "t-default"]);
    let made_up = rig
        .post(&admin(), "/tenants", json!({ "gitRepo": repo }))
        .await
        .good();
    assert_eq!(made_up["id"], made_up["displayName"]);

    rig.cluster("demo", "acme").await;
    let used = rig.delete(&admin(), "/tenants/t-acme").await;
    assert_eq!(used.code(), Code::InUse);
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    rig.delete(&admin(), "/tenants/t-acme").await.good();
    assert_eq!(
        rig.delete(&admin(), "/tenants/t-acme").await.code(),
        Code::NotFound
    );
    assert_eq!(
        rig.delete(&admin(), "/tenants/t-default").await.code(),
        Code::InUse
    );
    assert_eq!(
        rig.delete(&admin(), "/tenants/%2e%2e").await.code(),
        Code::NotFound
    );
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn invalid_fields_are_rejected_by_name() {
    let rig = Rig::new().await;
    let table = [
        (
            "/clusters",
            json!({ "nmae": "x" }),
            Code::Invalid,
            "property \\\"tenant\\\" is missing",
        ),
        (
            "/clusters",
            json!({ "id": "Demo" }),
            Code::Invalid,
            "id: an id has lower-case",
        ),
        (
            "/clusters",
            json!({ "id": "a".repeat(62) }),
            Code::Invalid,
            "63",
        ),
        ("/clusters", json!({ "id": "../x" }), Code::Invalid, "id:"),
        (
            "/clusters",
            json!({ "tenant": "A" }),
            Code::NotFound,
            "tenant: there is no such tenant",
        ),
        (
            "/clusters",
            json!({ "tenant": "none" }),
            Code::NotFound,
            "tenant: there is no such tenant",
        ),
        (
            "/clusters",
            json!({ "tenant": "default", "displayName": "a\nb" }),
            Code::Invalid,
            "displayName",
        ),
        (
            "/clusters",
            json!({ "tenant": "default", "displayName": 7 }),
            Code::Invalid,
            "expected a string",
        ),
        (
            "/tenants",
            json!({ "extra": 1 }),
            Code::Invalid,
            "gitRepo.url is required",
        ),
        ("/tenants", json!([]), Code::Invalid, ""),
        (
            "/v1/tokens",
            json!({ "name": "a" }),
            Code::Invalid,
            "missing field `role`",
        ),
        (
            "/v1/tokens",
            json!({ "name": "a", "role": "root" }),
            Code::Invalid,
            "unknown variant `root`",
        ),
        (
            "/v1/tokens",
            json!({ "name": "system:admin", "role": "admin" }),
            Code::Invalid,
            "name has",
        ),
        (
            "/v1/tokens",
            json!({ "name": "a", "role": "admin", "ttlSeconds": 59 }),
            Code::Invalid,
            "ttlSeconds",
        ),
        (
            "/v1/tokens",
            json!({ "name": "a", "role": "admin", "ttlSeconds": 40_000_000 }),
            Code::Invalid,
            "ttlSeconds",
        ),
        (
            "/v1/tokens",
            json!({ "name": "a", "role": "admin", "tenant": "t-none" }),
            Code::NotFound,
            "no such tenant",
        ),
    ];
    for (path, body, code, says) in table {
        let reply = rig.post(&admin(), path, body.clone()).await;
        assert_eq!(reply.code(), code, "{path} {body}");
        assert!(reply.text.contains(says), "{path} {body}: {}", reply.text);
    }
    for garbage in ["", "{", "nonsense", "{\"id\":\"x\"} y", "\u{0}"] {
        let reply = rig.raw(&admin(), Method::POST, "/clusters", garbage).await;
        assert_eq!(reply.code(), Code::Invalid, "{garbage:?}");
    }
    let huge = format!("{{\"id\":\"{}\"}}", "a".repeat(1_100_000));
    let reply = rig.raw(&admin(), Method::POST, "/clusters", huge).await;
    assert_eq!(reply.code(), Code::BadRequest);
    assert_eq!(rig.get(&admin(), "/clusters").await.good(), json!([]));
}

#[tokio::test]
async fn a_wrong_method_lists_the_allowed_ones() {
    let rig = Rig::new().await;
    for (path, method, allow) in [
        ("/v1/hub", Method::POST, "GET,HEAD"),
        ("/clusters", Method::DELETE, "GET,HEAD,POST"),
        ("/clusters/c-x", Method::POST, "GET,HEAD,PUT,PATCH,DELETE"),
        ("/v1/clusters/c-x/catalog", Method::PATCH, "GET,HEAD,PUT"),
        ("/v1/tokens/k-1", Method::GET, "DELETE"),
    ] {
        let reply = rig.call(&admin(), method.clone(), path, Value::Null).await;
        assert_eq!(reply.code(), Code::MethodNotAllowed, "{method} {path}");
        assert_eq!(reply.headers[header::ALLOW], allow, "{method} {path}");
    }
}

#[tokio::test]
async fn a_token_is_shown_once_and_opens_until_it_expires_or_is_deleted() {
    let rig = Rig::new().await;
    let body = json!({ "name": "alice", "role": "operator", "ttlSeconds": 3600 });
    let made = rig.post(&admin(), "/v1/tokens", body).await;
    assert_eq!(made.headers[header::CACHE_CONTROL], "no-store");
    let made: CreatedToken = serde_json::from_value(made.good()).unwrap();
    let text = made.token.expose_secret().to_owned();
    assert!(text.starts_with("flt_") && text.len() == 47, "{text}");
    let listed = rig.get(&admin(), "/v1/tokens").await;
    assert!(!listed.text.contains(&text));
    assert_eq!(listed.good()["items"][0]["id"], made.about.id);

    let seam = rig.control.seam();
    let alice = seam
        .authenticator
        .authenticate(&made.token, FROM)
        .await
        .unwrap();
    let expected = Caller {
        token: Some(made.about.id.clone()),
        name: "alice".into(),
        role: Role::Operator,
        tenant: None,
        clusters: ClusterScope::All,
        namespaces: Vec::new(),
        grants: Arc::default(),
        subject: None,
        expires: Some(made.about.expires),
    };
    assert_eq!(alice, expected);
    let flipped = format!("{}A", &text[..46]);
    let mut bad = vec![
        String::new(),
        "flt_".into(),
        "x".repeat(10_000),
        text[..46].into(),
        format!("{text}x"),
    ];
    if flipped != text {
        bad.push(flipped);
    }
    bad.push(text.to_uppercase());
    for forged in bad {
        let failure = seam
            .authenticator
            .authenticate(&SecretString::from(forged.clone()), FROM)
            .await
            .unwrap_err();
        assert_eq!(failure.code(), Code::BadToken, "{forged}");
    }
    rig.advance(Duration::seconds(3600));
    let failure = seam
        .authenticator
        .authenticate(&made.token, FROM)
        .await
        .unwrap_err();
    assert_eq!(failure.code(), Code::TokenExpired);
    rig.advance(-Duration::seconds(1));
    assert!(
        seam.authenticator
            .authenticate(&made.token, FROM)
            .await
            .is_ok()
    );
    let path = format!("/v1/tokens/{}", made.about.id);
    rig.delete(&admin(), &path).await.good();
    let failure = seam
        .authenticator
        .authenticate(&made.token, FROM)
        .await
        .unwrap_err();
    assert_eq!(failure.code(), Code::BadToken);
    assert_eq!(rig.delete(&admin(), &path).await.code(), Code::NotFound);
}

#[tokio::test]
async fn the_store_contains_no_token() {
    let rig = Rig::new().await;
    let token = rig.token(Role::Admin).await;
    let join = rig.cluster("demo", "t-default").await;
    let bootstrap = crate::rig::bootstrap(&join);
    let (_, tag) = bootstrap.rsplit_once('.').unwrap();
    rig.control.close().await;
    let data = rig.dir.path().join("data");
    for file in std::fs::read_dir(&data).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for secret in [token.expose_secret(), tag] {
            let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!found);
        }
    }
}

#[tokio::test]
async fn expired_tokens_are_deleted_in_the_background() {
    let rig = Rig::new().await;
    let token = rig.token(Role::Viewer).await;
    let seam = rig.control.seam();
    rig.advance(Duration::hours(8) + Duration::days(7) + Duration::SECOND);
    let failure = seam
        .authenticator
        .authenticate(&token, FROM)
        .await
        .unwrap_err();
    assert_eq!(failure.code(), Code::TokenExpired);
    let process = fairlead_runtime::Process::new();
    process.start_drain();
    for module in &seam.modules {
        module.run(process.clone()).await;
    }
    let failure = seam
        .authenticator
        .authenticate(&token, FROM)
        .await
        .unwrap_err();
    assert_eq!(failure.code(), Code::BadToken);
    let create = CreateToken {
        name: "Bad Name".into(),
        role: Role::Admin,
        tenant: None,
        cluster: None,
        ttl_seconds: None,
    };
    let failure = rig.control.mint_token(create).await.unwrap_err();
    assert_eq!(failure.code, Code::Invalid);
}

#[tokio::test]
async fn the_first_token_is_handed_over_before_it_is_valid() {
    let rig = Rig::new().await;
    let create = || CreateToken {
        name: "admin".into(),
        role: Role::Admin,
        tenant: None,
        cluster: None,
        ttl_seconds: None,
    };
    let full = |_: &SecretString| Err(Code::DataDir.into());
    let failure = rig
        .control
        .mint_token_if(TokenCondition::FirstToken, create(), full)
        .await;
    assert_eq!(failure.unwrap_err().code, Code::DataDir);
    assert!(rig.control.is_new().await.unwrap(), "nobody has one");
    let mut handed = None;
    let keep = |token: &SecretString| {
        handed = Some(token.clone());
        Ok(())
    };
    rig.control
        .mint_token_if(TokenCondition::FirstToken, create(), keep)
        .await
        .unwrap();
    let authenticator = rig.control.seam().authenticator;
    let caller = authenticator.authenticate(&handed.unwrap(), FROM).await;
    assert_eq!(caller.unwrap().name, "admin");
}

#[tokio::test]
async fn of_hubs_that_start_at_once_one_makes_the_first_token() {
    let rig = Rig::new().await;
    let create = || CreateToken {
        name: "admin".into(),
        role: Role::Admin,
        tenant: None,
        cluster: None,
        ttl_seconds: None,
    };
    // Each has found that there is no token.
    let start = || {
        let first = TokenCondition::FirstToken;
        rig.control.mint_token_if(first, create(), |_| Ok(()))
    };
    let (one, two, three) = tokio::join!(start(), start(), start());
    let results = [one, two, three];
    assert_eq!(results.iter().filter(|it| it.is_ok()).count(), 1);
    let refused = results.into_iter().filter_map(Result::err);
    assert!(refused.map(|it| it.code).all(|code| code == Code::Conflict));
    assert!(!rig.control.is_new().await.unwrap());
}
