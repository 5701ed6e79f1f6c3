//! Runs against a real HTTPS server on loopback: a token issuer, and a cluster that reviews tokens.

mod config;
mod grants;
mod keys;
mod rig;

use std::{net::Ipv4Addr, sync::Arc};

use fairlead_api::{ClusterId, Code, TenantId, resources::Role};
use fairlead_seam::{ClusterScope, Subject, SubjectProof};
use jsonwebtoken::Algorithm;
use serde_json::json;
use time::Duration;
use tokio::task::JoinSet;

use rig::{Idp, NOW, claims};
use turns::MAX_REVIEWS_PER_ADDRESS;

use super::*;

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[tokio::test]
async fn a_valid_token_yields_a_caller_and_keys_are_fetched_once() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    let token = idp.sign(&claims(
        &idp,
        json!({ "sub": "Jane@Corp.example", "groups": ["dev", "ops"] }),
    ));
    let vouched = issuers.vouch(&token, FROM, NOW).await.unwrap().unwrap();
    let expected = Vouched {
        name: "corp.Jane@Corp.example".to_owned(),
        role: Role::Operator,
        tenant: Some("t-acme".parse().unwrap()),
        clusters: ClusterScope::All,
        namespaces: Vec::new(),
        grants: Arc::default(),
        subject: Subject {
            issuer: idp.url().into(),
            sub: "Jane@Corp.example".to_owned(),
            proof: SubjectProof::Signed,
        },
        // With the default tolerance of a minute; the cache forgets it earlier.
        expires: Some(NOW + Duration::hours(1) + Duration::minutes(1)),
    };
    assert_eq!(vouched, expected);
    let requests = idp.requests();
    for _ in 0..3 {
        assert_eq!(
            issuers.vouch(&token, FROM, NOW).await.unwrap(),
            Some(expected.clone())
        );
    }
    assert_eq!(requests, ["/.well-known/openid-configuration", "/keys"]);
    assert_eq!(idp.requests(), requests);
}

#[tokio::test]
async fn two_subjects_never_share_a_name() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    let mut names = std::collections::BTreeSet::new();
    let subjects = [
        "jane",
        "Jane",
        "auth0|jane",
        "auth0%7Cjane",
        "auth0:jane",
        "j\u{e4}ne",
    ];
    for sub in subjects {
        let token = idp.sign(&claims(&idp, json!({ "sub": sub, "groups": ["ops"] })));
        let vouched = issuers.vouch(&token, FROM, NOW).await.unwrap().unwrap();
        assert!(vouched.name.is_ascii(), "{}", vouched.name);
        names.insert(vouched.name);
    }
    assert_eq!(names.len(), subjects.len(), "{names:?}");
    assert!(names.contains("corp.auth0%7Cjane"), "{names:?}");
    let long = idp.sign(&claims(
        &idp,
        json!({ "sub": "x".repeat(250), "groups": ["ops"] }),
    ));
    let refused = issuers.vouch(&long, FROM, NOW).await.unwrap_err();
    assert_eq!(refused.code(), Code::NoRole);
}

#[tokio::test]
async fn email_is_a_name_or_a_reason_for_a_role_only_if_verified() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("name_claim = \"email\"\nprefix = \"\"");
    let sign = |more| idp.sign(&claims(&idp, more));
    let good = json!({ "email": "jane@corp.example", "email_verified": true, "groups": ["ops"] });
    let vouched = issuers
        .vouch(&sign(good), FROM, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(vouched.name, "jane@corp.example");
    for bad in [
        json!({ "email": "jane@corp.example", "groups": ["ops"] }),
        json!({ "email": "jane@corp.example", "email_verified": false, "groups": ["ops"] }),
        json!({ "email": "ci", "email_verified": true, "groups": ["ops"] }),
    ] {
        let refused = issuers.vouch(&sign(bad), FROM, NOW).await.unwrap_err();
        assert_eq!(refused.code(), Code::NoRole);
    }
    assert!(issuers.reserves("jane@corp.example") && !issuers.reserves("ci"));
    let prefixed = idp.issuers("");
    assert!(prefixed.reserves("corp.jane") && !prefixed.reserves("jane@corp.example"));
}

#[tokio::test]
async fn sign_in_options_have_no_more_than_the_client_needs() {
    let idp = Idp::start().await;
    assert_eq!(idp.issuers("").sign_in_options().issuers, []);
    let options = idp
        .issuers("client_id = \"cli\"\ndevice = true")
        .sign_in_options();
    let shown = serde_json::to_value(&options.issuers[0]).unwrap();
    let ca = options.issuers[0].ca.clone().unwrap();
    assert!(ca.contains("BEGIN CERTIFICATE") && !ca.contains("PRIVATE"));
    let expected = json!({
        "name": "corp",
        "url": idp.url(),
        "clientId": "cli",
        "scopes": ["openid", "email", "offline_access"],
        "audience": ["fairlead", "cli"],
        "flows": ["browser", "device"],
        "redirectHost": "127.0.0.1",
        "ca": ca,
    });
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn invalid_tokens_are_rejected_without_quoting_them() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    let good = || claims(&idp, json!({ "groups": ["ops"] }));
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = good();
        claims[name] = value;
        claims
    };
    let seconds = |from: Duration| (NOW + from).unix_timestamp();
    let tampered = {
        let (theirs, ours) = (
            idp.sign(&good()),
            idp.sign(&with("groups", json!(["root"]))),
        );
        let signed = theirs
            .expose_secret()
            .rsplit_once('.')
            .unwrap()
            .1
            .to_owned();
        format!(
            "{}.{signed}",
            ours.expose_secret().rsplit_once('.').unwrap().0
        )
    };
    let mut no_expiry = good();
    no_expiry.as_object_mut().unwrap().remove("exp");
    let mut no_audience = good();
    no_audience.as_object_mut().unwrap().remove("aud");
    for (case, token, code) in [
        (
            "another audience",
            idp.sign(&with("aud", json!(["other"]))),
            Code::BadToken,
        ),
        ("no audience", idp.sign(&no_audience), Code::BadToken),
        ("no expiry", idp.sign(&no_expiry), Code::BadToken),
        (
            "expired",
            idp.sign(&with("exp", json!(seconds(Duration::seconds(-61))))),
            Code::TokenExpired,
        ),
        (
            "not yet",
            idp.sign(&with("nbf", json!(seconds(Duration::seconds(61))))),
            Code::BadToken,
        ),
        ("tampered with", tampered.into(), Code::BadToken),
        (
            "unknown key",
            idp.sign_with_unknown_key(&good()),
            Code::BadToken,
        ),
        (
            "by a shared secret",
            idp.sign_with_public_key_as_secret(&good()),
            Code::BadToken,
        ),
    ] {
        let failure = issuers.vouch(&token, FROM, NOW).await.unwrap_err();
        assert_eq!(failure.code(), code, "{case}: {failure}");
        assert!(
            !failure.to_string().contains(token.expose_secret()),
            "{case}: {failure}"
        );
    }
    let endless = with("exp", json!(253_402_300_799_i64));
    let endless = issuers.vouch(&idp.sign(&endless), FROM, NOW).await;
    assert!(endless.unwrap().is_some(), "the last representable second");
    let expired = with("exp", json!(seconds(Duration::seconds(-59))));
    assert!(
        issuers
            .vouch(&idp.sign(&expired), FROM, NOW)
            .await
            .unwrap()
            .is_some(),
        "within the leeway"
    );
}

#[tokio::test]
async fn a_token_without_role_or_usable_name_is_rejected() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    for more in [
        json!({ "groups": ["guests"] }),
        json!({}),
        json!({ "groups": ["ops"], "sub": "" }),
        json!({ "groups": ["ops"], "sub": "x".repeat(241) }),
    ] {
        let token = idp.sign(&claims(&idp, more.clone()));
        let failure = issuers.vouch(&token, FROM, NOW).await.unwrap_err();
        assert_eq!(failure.code(), Code::NoRole, "{more}: {failure}");
    }
}

#[tokio::test]
async fn a_token_of_no_issuer_causes_no_request() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    let mut other = claims(&idp, json!({ "groups": ["ops"] }));
    let unsigned = Idp::unsigned(&other);
    other["iss"] = json!("https://other.example");
    for (case, token) in [
        ("another issuer", idp.sign(&other)),
        ("no algorithm", unsigned),
        ("no token", "a.b.c".into()),
        ("our own", "flt_0123456789".into()),
        ("nothing", "".into()),
    ] {
        assert_eq!(
            issuers.vouch(&token, FROM, NOW).await.unwrap(),
            None,
            "{case}"
        );
    }
    assert!(idp.requests().is_empty());
}

#[tokio::test]
async fn the_widest_matching_rule_gives_the_own_role_and_a_star_names_the_cluster() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    for (more, role, tenant, cluster) in [
        (
            json!({ "groups": ["ops", "root"] }),
            Role::Admin,
            None,
            None,
        ),
        (
            json!({ "groups": "ops" }),
            Role::Operator,
            Some("t-acme"),
            None,
        ),
        (
            json!({ "realm_access": { "roles": ["fairlead-viewer"] } }),
            Role::Viewer,
            None,
            None,
        ),
        (
            json!({ "sub": "system:serviceaccount:lieutenant:c-blue-sky-42" }),
            Role::Cluster,
            None,
            Some("c-blue-sky-42"),
        ),
    ] {
        let token = idp.sign(&claims(&idp, more.clone()));
        let vouched = issuers.vouch(&token, FROM, NOW).await.unwrap().unwrap();
        assert_eq!(vouched.role, role, "{more}");
        assert_eq!(
            vouched.tenant.as_ref().map(TenantId::as_str),
            tenant,
            "{more}"
        );
        assert_eq!(
            vouched.clusters.id().map(ClusterId::as_str),
            cluster,
            "{more}"
        );
    }
    let token = idp.sign(&claims(
        &idp,
        json!({ "sub": "system:serviceaccount:lieutenant:c-a" }),
    ));
    let vouched = issuers.vouch(&token, FROM, NOW).await.unwrap().unwrap();
    assert_eq!(vouched.name, "corp.lieutenant.c-a");
    let token = idp.sign(&claims(
        &idp,
        json!({ "sub": "system:serviceaccount:lieutenant:default" }),
    ));
    assert_eq!(
        issuers.vouch(&token, FROM, NOW).await.unwrap_err().code(),
        Code::NoRole
    );
}

#[tokio::test]
async fn a_reviewing_cluster_resolves_tokens() {
    let idp = Idp::start().await;
    let issuers = idp.reviewing();
    let vouched = issuers
        .vouch(&"opaque".into(), FROM, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (vouched.name.as_str(), vouched.role),
        ("syn.lieutenant.api", Role::Admin)
    );
    let requests = idp.requests().len();
    issuers
        .vouch(&"opaque".into(), FROM, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(idp.requests().len(), requests, "the result is cached");
    assert_eq!(
        issuers.vouch(&"unknown".into(), FROM, NOW).await.unwrap(),
        None
    );
    assert_eq!(
        issuers
            .vouch(&"for-others".into(), FROM, NOW)
            .await
            .unwrap(),
        None
    );
    idp.down(true);
    let failure = issuers.vouch(&"later".into(), FROM, NOW).await.unwrap_err();
    assert_eq!(failure.code(), Code::IssuerDown);
    assert!(
        !failure.to_string().contains("later") && !failure.to_string().contains("reviewers-own"),
        "{failure}"
    );
}

#[tokio::test]
async fn guesses_from_one_address_do_not_delay_other_addresses() {
    let idp = Idp::start().await;
    let issuers = Arc::new(idp.reviewing());
    let guesses: JoinSet<_> = (0..100)
        .map(|n| {
            let (issuers, token) = (Arc::clone(&issuers), format!("guess {n}").into());
            async move { issuers.vouch(&token, FROM, NOW).await }
        })
        .collect();
    idp.wait_for_guesses(MAX_REVIEWS_PER_ADDRESS).await;
    let elsewhere = [192, 0, 2, 7].into();
    let vouched = issuers.vouch(&"opaque".into(), elsewhere, NOW).await;
    assert!(vouched.unwrap().is_some(), "no guess was answered before");
    idp.answer_guesses();
    let answers = guesses.join_all().await;
    assert!(
        answers.iter().all(|it| matches!(
            it,
            Ok(None) | Err(fairlead_seam::AuthenticateError::IssuerDown(_))
        )),
        "{answers:?}"
    );
    assert_eq!(idp.max_guesses(), MAX_REVIEWS_PER_ADDRESS);
}
