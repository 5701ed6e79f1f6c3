//! From invitation to identity: tokens are valid once, for one key, one cluster and half an hour.

use fairlead_api::{Code, resources::JoinInfo};
use fairlead_certs::{AgentIdentity, AgentKey, CLOCK_SLACK, LEAF_LIFETIME, agent_identity};
use fairlead_seam::AgentPeer;
use http::{Request, StatusCode, header};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{Rig, admin, bootstrap};

pub(crate) fn csr() -> String {
    AgentKey::generate().unwrap().csr().unwrap()
}

/// An agent of a new cluster `demo`: its certificate request and its identity.
pub(crate) async fn enrolled(rig: &Rig) -> (String, AgentIdentity) {
    let join = rig.cluster("demo", "t-default").await;
    let key = AgentKey::generate().unwrap();
    let own = key.csr().unwrap();
    let reply = rig.enroll(&bootstrap(&join), &own).await.good();
    let chain = reply["certificate"].as_str().unwrap();
    let leaf = key.with_certificate(chain).unwrap();
    let identity = agent_identity(leaf.chain(), rig.control.trust_domain()).unwrap();
    (own, identity)
}

/// A certificate request with this common name.
pub(crate) fn csr_naming(name: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let key = rcgen::KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

#[tokio::test]
async fn a_token_becomes_an_identity() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let join = rig.cluster("demo", "acme").await;
    let reply = rig.enroll(&bootstrap(&join), &csr()).await.good();
    assert_eq!(
        (&reply["cluster"], &reply["tenant"]),
        (&json!("c-demo"), &json!("t-acme"))
    );
    assert_eq!(reply["ca"], rig.control.ca_pem());
    let other = rig.cluster("other", "acme").await;
    let (leaf, identity) = rig.enrolled(&other).await;
    assert_eq!(
        (identity.tenant.as_str(), identity.cluster.as_str()),
        ("t-acme", "c-other")
    );
    assert_eq!(
        leaf.not_after() - leaf.not_before(),
        LEAF_LIFETIME + CLOCK_SLACK
    );
    rig.control.seam().directory.admit(&identity).await.unwrap();
    let shown = rig.get(&admin(), "/clusters/c-demo").await.good();
    assert!(
        shown.get("installURL").is_none(),
        "a spent token is not shown"
    );
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn each_rejection_has_its_own_code() {
    let rig = Rig::new().await;
    let (spent, old) = (
        rig.cluster("spent", "t-default").await,
        rig.cluster("old", "t-default").await,
    );
    let deleted = bootstrap(&rig.cluster("deleted", "t-default").await);
    rig.delete(&admin(), "/clusters/c-deleted").await.good();
    let own_key = csr();
    rig.enroll(&bootstrap(&spent), &own_key).await.good();
    rig.post(&admin(), "/v1/clusters/c-old/bootstrap-token", Value::Null)
        .await
        .good();
    let fresh = bootstrap(&rig.cluster("fresh", "t-default").await);
    let forged = fresh.replace("c-fresh", "c-spent");
    let table = [
        ("no token", String::new(), csr(), Code::BootstrapUnknown),
        (
            "garbage",
            "x.y.z.w".to_owned(),
            csr(),
            Code::BootstrapUnknown,
        ),
        (
            "another cluster's name on it",
            forged,
            csr(),
            Code::BootstrapUnknown,
        ),
        (
            "an older generation",
            bootstrap(&old),
            csr(),
            Code::BootstrapUnknown,
        ),
        (
            "of a deleted cluster",
            deleted,
            csr(),
            Code::BootstrapUnknown,
        ),
        (
            "spent, another key",
            bootstrap(&spent),
            csr(),
            Code::BootstrapSpent,
        ),
        (
            "no request",
            fresh.clone(),
            "nonsense".to_owned(),
            Code::BadCsr,
        ),
        (
            "another identity",
            fresh.clone(),
            csr_naming("c-spent"),
            Code::ForeignName,
        ),
        (
            "the hub's identity",
            fresh.clone(),
            csr_naming("hub.fairlead.internal"),
            Code::ForeignName,
        ),
    ];
    for (case, token, csr, code) in table {
        let reply = rig.enroll(&token, &csr).await;
        assert_eq!(reply.code(), code, "{case}");
        let secret = token.rsplit('.').next().unwrap();
        assert!(
            secret.len() < 10 || !reply.text.contains(secret),
            "{case}: {}",
            reply.text
        );
    }
    rig.enroll(&bootstrap(&spent), &own_key).await.good();
    rig.enroll(&fresh, &csr()).await.good();
    rig.advance(Duration::minutes(30));
    let late = rig.enroll(&bootstrap(&spent), &own_key).await;
    assert_eq!(
        late.code(),
        Code::BootstrapExpired,
        "the same key, but late"
    );
}

#[tokio::test]
async fn the_same_key_is_answered_again_after_a_lost_answer() {
    let rig = Rig::new().await;
    let join = rig.cluster("demo", "t-default").await;
    let key = AgentKey::generate().unwrap();
    let token = bootstrap(&join);
    let first = rig.enroll(&token, &key.csr().unwrap()).await.good();
    rig.advance(Duration::minutes(29));
    let rig = rig.restart().await;
    let second = rig.enroll(&token, &key.csr().unwrap()).await.good();
    let serial = |reply: &Value| {
        let leaf = key
            .with_certificate(reply["certificate"].as_str().unwrap())
            .unwrap();
        agent_identity(leaf.chain(), rig.control.trust_domain())
            .unwrap()
            .serial
    };
    assert_ne!(serial(&first), serial(&second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_hundred_agents_that_race_with_one_token_exactly_one_enrols() {
    let rig = std::sync::Arc::new(Rig::new().await);
    let token = bootstrap(&rig.cluster("demo", "t-default").await);
    let racers: Vec<_> = (0..200)
        .map(|_| {
            let (rig, token) = (rig.clone(), token.clone());
            tokio::spawn(async move { rig.enroll(&token, &csr()).await })
        })
        .collect();
    let mut won = 0;
    for racer in racers {
        let reply = racer.await.unwrap();
        if reply.status.is_success() {
            won += 1;
        } else {
            assert_eq!(reply.code(), Code::BootstrapSpent);
        }
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn enrolment_bodies_are_bounded_and_whole() {
    let rig = Rig::new().await;
    for (body, code) in [
        (String::new(), Code::BadRequest),
        ("{}".to_owned(), Code::Invalid),
        (
            json!({ "token": "x", "csr": "y".repeat(20_000), "agentVersion": "1" }).to_string(),
            Code::BadRequest,
        ),
    ] {
        let request = Request::post(fairlead_api::enroll::ENROLL_PATH)
            .body(body)
            .unwrap();
        assert_eq!(rig.agent(&AgentPeer::Anonymous, request).await.code(), code);
    }
    let request = Request::get(fairlead_api::enroll::ENROLL_PATH)
        .body(String::new())
        .unwrap();
    assert_eq!(
        rig.agent(&AgentPeer::Anonymous, request).await.code(),
        Code::MethodNotAllowed
    );
}

#[tokio::test]
async fn revoked_identity_is_void_until_its_agent_enrols_again() {
    let rig = Rig::new().await;
    let directory = rig.control.seam().directory;
    let mut revocations = directory.revocations();
    let join = rig.cluster("demo", "t-default").await;
    let path = "/v1/clusters/c-demo/identity";
    let early = rig.delete(&admin(), path).await;
    assert_eq!(early.code(), Code::NotFound, "no agent is enrolled");
    let key = AgentKey::generate().unwrap();
    let own = key.csr().unwrap();
    let reply = rig.enroll(&bootstrap(&join), &own).await.good();
    let leaf = key.with_certificate(reply["certificate"].as_str().unwrap());
    let identity = agent_identity(leaf.unwrap().chain(), rig.control.trust_domain()).unwrap();
    directory.admit(&identity).await.unwrap();

    rig.delete(&admin(), path).await.good();
    assert_eq!(revocations.try_recv().unwrap(), identity.cluster);
    let refused = directory.admit(&identity).await.unwrap_err();
    assert_eq!(refused.code(), Code::IdentityRevoked);
    // The spent token does not bring the key back, as it would for a lost certificate.
    let spent = rig.enroll(&bootstrap(&join), &own).await;
    assert_eq!(spent.code(), Code::BootstrapSpent);
    let audit = rig.get(&admin(), "/v1/audit?cluster=c-demo&limit=1").await;
    assert_eq!(audit.good()["items"][0]["actor"], admin().name);

    let again = invited_anew(&rig).await;
    let (_, fresh) = rig.enrolled(&again).await;
    directory.admit(&fresh).await.unwrap();
}

#[tokio::test]
async fn bootstrap_token_dies_with_its_cluster() {
    let rig = Rig::new().await;
    let first = rig.cluster("demo", "t-default").await;
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    // Within the same second, so generation and expiry are equal.
    let second = rig.cluster("demo", "t-default").await;
    assert_eq!(first.expires, second.expires);
    assert_ne!(bootstrap(&first), bootstrap(&second));
    let old = rig.enroll(&bootstrap(&first), &csr()).await;
    assert_eq!(old.code(), Code::BootstrapUnknown);
    for url in [&first.install_url, &first.agent_install_url] {
        let path = url.expose_secret().strip_prefix("https://hub.example:8443");
        assert_eq!(rig.open(path.unwrap()).await.status, 401);
    }
    rig.enroll(&bootstrap(&second), &csr()).await.good();
}

pub(crate) async fn invited_anew(rig: &Rig) -> JoinInfo {
    let path = "/v1/clusters/c-demo/bootstrap-token";
    let answer = rig.post(&admin(), path, Value::Null).await.good();
    serde_json::from_value(answer).unwrap()
}

#[tokio::test]
async fn the_install_url_serves_a_manifest_until_the_token_is_spent() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let join = rig.cluster("demo", "acme").await;
    let url = join.agent_install_url.expose_secret();
    let path = url.strip_prefix("https://hub.example:8443").unwrap();
    for _ in 0..2 {
        let reply = rig.open(path).await;
        assert_eq!(reply.status, StatusCode::OK, "looking at it spends nothing");
        assert!(
            reply.headers[header::CONTENT_TYPE]
                .to_str()
                .unwrap()
                .starts_with("application/yaml")
        );
        assert_eq!(reply.headers[header::CACHE_CONTROL], "no-store");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&reply.text).unwrap();
        let secret = objects.iter().find(|o| o["kind"] == "Secret").unwrap();
        assert_eq!(secret["stringData"]["join"], join.join.expose_secret());
        assert!(reply.text.contains("fairlead:tenant:t-acme:operator"));
        assert!(reply.text.contains("registry.example/fairlead:0.1.0"));
    }
    for (bad, code) in [
        ("/install/agent.yaml".to_owned(), Code::BootstrapUnknown),
        (
            "/install/agent.yaml?token=".to_owned(),
            Code::BootstrapUnknown,
        ),
        (
            "/install/agent.yaml?token=c-demo.1.1.x".to_owned(),
            Code::BootstrapUnknown,
        ),
        (path.replace("c-demo", "c-other"), Code::BootstrapUnknown),
    ] {
        let reply = rig.open(&bad).await;
        assert_eq!(
            (reply.code(), reply.status),
            (code, StatusCode::UNAUTHORIZED),
            "{bad}"
        );
    }
    let other = rig.cluster("other", "acme").await;
    rig.enroll(&bootstrap(&join), &csr()).await.good();
    assert_eq!(rig.open(path).await.code(), Code::BootstrapSpent);
    rig.post(&admin(), "/v1/clusters/c-demo/bootstrap-token", Value::Null)
        .await
        .good();
    assert_eq!(rig.open(path).await.code(), Code::BootstrapUnknown);
    rig.advance(Duration::minutes(30));
    let late = other.agent_install_url.expose_secret();
    let late = late.strip_prefix("https://hub.example:8443").unwrap();
    assert_eq!(rig.open(late).await.code(), Code::BootstrapExpired);
    rig.delete(&admin(), "/clusters/c-other").await.good();
    assert_eq!(rig.open(late).await.code(), Code::BootstrapUnknown);
}
