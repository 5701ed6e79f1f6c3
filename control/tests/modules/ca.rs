//! Rotation of the hub's CA.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use fairlead_api::{
    CaPin, CaPins, Code, JoinString,
    enroll::{CA_PATH, RENEW_PATH},
    resources::{JoinInfo, Role},
};
use fairlead_certs::{AgentKey, Authority, agent_identity, ca_pins};
use fairlead_control::Control;
use fairlead_seam::AgentPeer;
use http::Request;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{Reply, Rig, START, admin, bootstrap, caller, config, peer};

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

async fn rotate(rig: &Rig) -> Reply {
    rig.post(&admin(), "/v1/ca/rotation", Value::Null).await
}

async fn retire(rig: &Rig, force: bool) -> Reply {
    let body = json!({ "force": force });
    rig.post(&admin(), "/v1/ca/retirement", body).await
}

fn pins(control: &Control) -> CaPins {
    ca_pins(&control.ca_pem()).unwrap()
}

/// An agent with the key of its enrolment.
struct Agent {
    key: AgentKey,
    peer: AgentPeer,
}

impl Agent {
    async fn enrol(rig: &Rig, join: &JoinInfo) -> Self {
        let key = AgentKey::generate().unwrap();
        let reply = rig.enroll(&bootstrap(join), &key.csr().unwrap()).await;
        let certificate = reply.good()["certificate"].as_str().unwrap().to_owned();
        let leaf = key.with_certificate(&certificate).unwrap();
        let identity = agent_identity(leaf.chain(), rig.control.trust_domain()).unwrap();
        Agent {
            key,
            peer: peer(&identity),
        }
    }

    async fn post(&self, rig: &Rig, path: &str, body: Value) -> Reply {
        let request = Request::post(path).body(body.to_string()).unwrap();
        rig.agent(&self.peer, request).await
    }

    /// Renews, and reports the result as stored.
    async fn catch_up(&self, rig: &Rig) -> (CaPins, CaPin) {
        let body = json!({ "csr": self.key.csr().unwrap(), "agentVersion": "0.1.0" });
        let renewed = self.post(rig, RENEW_PATH, body).await.good();
        let pins = ca_pins(renewed["ca"].as_str().unwrap()).unwrap();
        let issuer: CaPin = renewed["issuer"].as_str().unwrap().parse().unwrap();
        let stored = json!({ "pins": pins.iter().collect::<Vec<_>>(), "issuer": issuer });
        self.post(rig, CA_PATH, stored).await.good();
        (pins, issuer)
    }
}

fn join_pins(join: &JoinInfo) -> CaPins {
    let join: JoinString = join.join.expose_secret().parse().unwrap();
    join.ca_pins
}

#[tokio::test]
async fn agents_take_over_a_new_ca_before_the_old_one_is_retired() {
    let rig = Rig::new().await;
    let old = pins(&rig.control);
    let join = rig.cluster("a", "t-default").await;
    assert_eq!(join_pins(&join), old);
    let agent = Agent::enrol(&rig, &join).await;
    let early = rig.get(&admin(), "/v1/clusters/c-a/config").await.good();
    assert_eq!(early.get("ca"), None);
    assert_eq!(retire(&rig, false).await.code(), Code::NoRotation);

    let begun = rotate(&rig).await;
    assert_eq!(begun.status, 201);
    let begun = begun.good();
    assert_eq!(
        (&begun["phase"], &begun["enrolled"]),
        (&json!("rotating"), &json!(1))
    );
    assert_eq!(begun["behind"][0]["cluster"], "c-a");
    assert_eq!(begun["authorities"].as_array().unwrap().len(), 2);
    assert_eq!(rotate(&rig).await.code(), Code::CaRotating);
    let refused = retire(&rig, false).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (409, Code::CaBehind)
    );
    assert!(refused.text.contains("c-a"), "{refused:?}");

    // New join strings, kubeconfigs and configurations have both.
    let both = pins(&rig.control);
    assert_eq!(both.first(), old.first());
    assert_ne!(both.last(), old.first());
    let fresh = rig.cluster("b", "t-default").await;
    assert_eq!(join_pins(&fresh), both);
    let about = rig.get(&admin(), "/v1/hub").await.good();
    assert_eq!(ca_pins(about["ca"].as_str().unwrap()).unwrap(), both);
    let config = rig.get(&admin(), "/v1/clusters/c-a/config").await.good();
    let named: Vec<CaPin> = serde_json::from_value(config["ca"].clone()).unwrap();
    assert!(both.iter().eq(named));

    let (trusted, issuer) = agent.catch_up(&rig).await;
    assert_eq!((trusted, issuer), (both, both.last()));
    let status = rig.get(&admin(), "/v1/ca").await.good();
    assert_eq!(
        (&status["trusting"], &status["identified"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(status["behind"], json!([]));

    let rig = rig.restart().await;
    assert_eq!(pins(&rig.control), both, "a rotation survives a restart");
    let ended = retire(&rig, false).await.good();
    assert_eq!(ended["phase"], "stable");
    assert_eq!(ended["retired"][0]["pin"], old.first().to_string());
    let new = CaPins::from(both.last());
    assert_eq!(pins(&rig.control), new);
    let (trusted, issuer) = agent.catch_up(&rig).await;
    assert_eq!((trusted, issuer), (new, new.first()));
    let files = names(&rig.dir.path().join("data"));
    assert!(!files.iter().any(|it| it.contains("next")), "{files:?}");
    let rig = rig.restart().await;
    assert_eq!(pins(&rig.control), new);

    let log = rig.get(&admin(), "/v1/audit").await.good();
    let of_ca = log["items"].as_array().unwrap().iter();
    let of_ca: Vec<_> = of_ca.filter(|it| it["kind"] == "authority").collect();
    assert_eq!(of_ca.len(), 2);
    assert!(
        of_ca.iter().all(|it| it["actor"] == "admin-of-all"),
        "{of_ca:?}"
    );
}

fn names(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir).unwrap();
    files
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn a_new_enrolment_has_to_report_its_trust_again() {
    let rig = Rig::new().await;
    let join = rig.cluster("a", "t-default").await;
    let agent = Agent::enrol(&rig, &join).await;
    rotate(&rig).await.good();
    agent.catch_up(&rig).await;
    let path = "/v1/clusters/c-a/bootstrap-token";
    let renewed = rig.post(&admin(), path, Value::Null).await.good();
    let again = Agent::enrol(&rig, &serde_json::from_value(renewed).unwrap()).await;
    assert_eq!(retire(&rig, false).await.code(), Code::CaBehind);
    let stored = json!({ "pins": [], "issuer": pins(&rig.control).last() });
    let void = agent.post(&rig, CA_PATH, stored.clone()).await;
    assert_eq!(void.code(), Code::IdentityRevoked);
    assert_eq!(
        again.post(&rig, CA_PATH, stored).await.code(),
        Code::BadRequest
    );
    again.catch_up(&rig).await;
    retire(&rig, false).await.good();
}

#[tokio::test]
async fn a_forced_retirement_records_its_loss() {
    let rig = Rig::new().await;
    for name in ["a", "b"] {
        let join = rig.cluster(name, "t-default").await;
        Agent::enrol(&rig, &join).await;
    }
    // Never enrolled: nothing is lost.
    rig.cluster("c", "t-default").await;
    rotate(&rig).await.good();
    let ended = retire(&rig, true).await.good();
    assert_eq!(ended["retired"][0]["leftBehind"], 2);
    rotate(&rig).await.good();
    assert_eq!(pins(&rig.control).iter().count(), 2);
}

#[tokio::test]
async fn only_an_admin_of_all_tenants_rotates() {
    let rig = Rig::new().await;
    for who in [
        caller(Role::Admin, Some("t-default")),
        caller(Role::Operator, None),
    ] {
        for (path, body) in [
            ("/v1/ca/rotation", Value::Null),
            ("/v1/ca/retirement", json!({})),
        ] {
            assert_eq!(rig.post(&who, path, body).await.code(), Code::NotAllowed);
        }
        assert_eq!(rig.get(&who, "/v1/ca").await.code(), Code::NotAllowed);
    }
}

#[tokio::test]
async fn an_interrupted_rotation_goes_on_with_the_same_ca() {
    let rig = Rig::new().await;
    let data = rig.dir.path().join("data");
    // Killed before the store's change.
    let left = Authority::open_or_create_next(&data, rig.control.trust_domain()).unwrap();
    let rig = rig.restart().await;
    assert_eq!(
        pins(&rig.control).iter().count(),
        1,
        "it was never announced"
    );
    rotate(&rig).await.good();
    assert_eq!(pins(&rig.control).last(), left.pin());
}

#[tokio::test]
async fn an_interrupted_retirement_is_completed_by_the_next_start() {
    let rig = Rig::new().await;
    let data = rig.dir.path().join("data");
    let read = |name: &str| fs::read_to_string(data.join(name)).unwrap();
    rotate(&rig).await.good();
    let files = ["ca.key", "ca.pem", "ca-next.key", "ca-next.pem"];
    let before = files.map(|name| (name, read(name)));
    retire(&rig, false).await.good();
    let new = pins(&rig.control);
    let rig = rig.restart().await;
    let dir = rig.close().await;
    // Killed before the first rename, and between both: then only the key has moved.
    for moved in [false, true] {
        for (name, text) in &before {
            fs::write(data.join(name), text).unwrap();
            fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        if moved {
            fs::rename(data.join("ca-next.key"), data.join("ca.key")).unwrap();
        }
        let control = Control::open(config(&dir)).await.unwrap();
        assert_eq!(pins(&control), new, "{moved}");
        control.close().await;
        drop(control);
        assert!(!data.join("ca-next.pem").exists());
        let again = Control::open(config(&dir)).await.unwrap();
        assert_eq!(pins(&again), new);
        again.close().await;
        drop(again);
    }
}

/// A hub in its own folder, with store and sealed keys in `shared`.
async fn hub(dir: &TempDir, shared: &TempDir) -> Rig {
    let config = fairlead_control::Config {
        store: Some(fairlead_store::Place::File(shared.path().join("shared.db"))),
        store_key: Some(KEY.to_owned().into()),
        ..config(dir)
    };
    Rig::opened(config, START).await
}

#[tokio::test]
async fn hubs_of_one_store_learn_of_each_step_from_it() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = hub(&one, &one).await;
    let old = pins(&first.control);
    first.close().await;
    let second = hub(&two, &one).await;
    assert_eq!(pins(&second.control), old);
    rotate(&second).await.good();
    let both = pins(&second.control);
    second.close().await;
    // It was away during the rotation.
    let first = hub(&one, &one).await;
    assert_eq!(pins(&first.control), both);
    let join = first.cluster("a", "t-default").await;
    let agent = Agent::enrol(&first, &join).await;
    let (_, issuer) = agent.catch_up(&first).await;
    assert_eq!(issuer, both.last(), "it has the key, too");
    retire(&first, false).await.good();
    first.close().await;
    // It was away during the retirement, and has the old key still.
    let second = hub(&two, &one).await;
    assert_eq!(pins(&second.control), CaPins::from(both.last()));
    second.close().await;
    let third = TempDir::new().unwrap();
    let third = hub(&third, &one).await;
    assert_eq!(pins(&third.control), CaPins::from(both.last()));
}
