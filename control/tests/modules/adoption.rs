//! Adoption by code: an announced key gets nothing but its own state until a person approves it by its code.

use fairlead_api::{
    Code, JoinString,
    adoption::{ADOPT_PATH, AdoptionCode},
    resources::Role,
};
use fairlead_certs::{AgentKey, csr_fingerprint};
use fairlead_control::AdoptionSettings;
use fairlead_seam::AgentPeer;
use http::Request;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use time::Duration;

use tempfile::TempDir;

use crate::rig::{Reply, Rig, START, admin, caller, config};

const CODE_LIFETIME: std::time::Duration = std::time::Duration::from_secs(3600);
const FIND: &str = "/v1/adoptions/find";
const APPROVE: &str = "/v1/adoptions/approve";
const REFUSE: &str = "/v1/adoptions/refuse";

async fn adopting() -> Rig {
    let on = Some(AdoptionSettings { ttl: CODE_LIFETIME });
    let rig = Rig::with(|config| config.enroll.adoption = on).await;
    rig.tenant("acme").await;
    rig
}

/// The hub of this folder, after a restart.
async fn reopened(dir: &TempDir) -> Rig {
    let mut config = config(dir);
    config.enroll.adoption = Some(AdoptionSettings { ttl: CODE_LIFETIME });
    Rig::opened(config, START).await
}

fn csr() -> String {
    AgentKey::generate().unwrap().csr().unwrap()
}

async fn announce(rig: &Rig, csr: &str) -> Reply {
    let body = json!({
        "csr": csr, "agentVersion": "0.1.0", "kubernetesVersion": "v1.36.0", "clusterUid": "uid-1",
    });
    let request = Request::post(ADOPT_PATH).header("content-type", "application/json");
    let request = request.body(body.to_string()).unwrap();
    rig.agent(&AgentPeer::Anonymous, request).await
}

/// Announces a key and returns its code.
async fn code_of(rig: &Rig, csr: &str) -> String {
    let answer = announce(rig, csr).await.good();
    assert_eq!(answer["state"], "pending", "{answer}");
    answer["code"].as_str().unwrap().to_owned()
}

async fn approve(rig: &Rig, code: &str, cluster: &str) -> Reply {
    let body = json!({ "code": code, "cluster": cluster });
    rig.post(&admin(), APPROVE, body).await
}

#[tokio::test]
async fn approved_key_enrols_as_the_agent_of_the_cluster() {
    let rig = adopting().await;
    rig.cluster("demo", "acme").await;
    let (own, other) = (csr(), csr());
    let code = code_of(&rig, &own).await;
    assert_eq!(
        code_of(&rig, &own).await,
        code,
        "a repetition keeps the code"
    );
    let typed = json!({ "code": code.to_lowercase() });
    let found = rig.post(&admin(), FIND, typed).await.good();
    let key = fairlead_api::hex::encode(&csr_fingerprint(&own).unwrap());
    assert_eq!(found["keyFingerprint"], key);
    assert_eq!(
        (
            &found["address"],
            &found["clusterUid"],
            &found["kubernetesVersion"]
        ),
        (&json!("127.0.0.1"), &json!("uid-1"), &json!("v1.36.0"))
    );
    let approved = approve(&rig, &code, "c-demo").await.good();
    assert_eq!(approved["state"], "approved");

    let answer = announce(&rig, &own).await.good();
    assert_eq!(answer["state"], "approved");
    let join: JoinString = answer["join"].as_str().unwrap().parse().unwrap();
    assert!(
        join.ca_pins
            .contains(fairlead_certs::ca_pin(&rig.control.ca_pem()).unwrap())
    );
    let token = join.token.expose_secret();
    let stolen = rig.enroll(token, &other).await;
    assert_eq!(
        stolen.code(),
        Code::BootstrapSpent,
        "the token is of one key"
    );
    let issued = rig.enroll(token, &own).await.good();
    assert_eq!(issued["cluster"], "c-demo");
    let again = approve(&rig, &code, "c-demo").await;
    assert_eq!(again.code(), Code::AdoptionUnknown, "a code counts once");
}

#[tokio::test]
async fn approval_survives_a_restart_of_the_hub() {
    let rig = adopting().await;
    rig.cluster("demo", "acme").await;
    let own = csr();
    let code = code_of(&rig, &own).await;
    let dir = rig.close().await;
    let rig = reopened(&dir).await;
    assert_eq!(code_of(&rig, &own).await, code);
    approve(&rig, &code, "c-demo").await.good();
    drop(rig.close().await);
    let rig = reopened(&dir).await;
    assert_eq!(announce(&rig, &own).await.good()["state"], "approved");
}

#[tokio::test]
async fn list_names_agents_and_no_codes() {
    let rig = adopting().await;
    let code = code_of(&rig, &csr()).await;
    let list = rig.get(&admin(), "/v1/adoptions").await;
    assert!(!list.text.contains(&code), "{list:?}");
    assert_eq!(list.good()["items"][0]["state"], "pending");
    let of_tenant = caller(Role::Admin, Some("t-acme"));
    let refused = rig.get(&of_tenant, "/v1/adoptions").await;
    assert_eq!(refused.code(), Code::NotAllowed, "they belong to no tenant");
}

#[tokio::test]
async fn hub_without_adoption_keeps_nothing() {
    let rig = Rig::new().await;
    assert_eq!(announce(&rig, &csr()).await.code(), Code::AdoptionOff);
    let list = rig.get(&admin(), "/v1/adoptions").await.good();
    assert_eq!(list["items"], json!([]));
    assert_eq!(
        rig.open("/install/adoption.yaml").await.code(),
        Code::AdoptionOff
    );
}

#[tokio::test]
async fn refused_agent_stays_refused_until_its_code_ends() {
    let rig = adopting().await;
    let own = csr();
    let code = code_of(&rig, &own).await;
    rig.post(&admin(), REFUSE, json!({ "code": code }))
        .await
        .good();
    assert_eq!(
        announce(&rig, &own).await.good(),
        json!({ "state": "refused" })
    );
    assert_eq!(
        approve(&rig, &code, "c-demo").await.code(),
        Code::NoSuchCluster
    );
    rig.advance(Duration::hours(1));
    assert_ne!(
        code_of(&rig, &own).await,
        code,
        "then it announces itself anew"
    );
}

#[tokio::test]
async fn expired_code_is_replaced() {
    let rig = adopting().await;
    rig.cluster("demo", "acme").await;
    let own = csr();
    let code = code_of(&rig, &own).await;
    rig.advance(Duration::hours(1));
    assert_eq!(
        approve(&rig, &code, "c-demo").await.code(),
        Code::AdoptionUnknown
    );
    assert_ne!(code_of(&rig, &own).await, code);
    let list = rig.get(&admin(), "/v1/adoptions").await.good();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
}

#[tokio::test]
async fn cluster_with_an_agent_is_not_taken_over() {
    let rig = adopting().await;
    let join = rig.cluster("demo", "acme").await;
    rig.enrolled(&join).await;
    let code = code_of(&rig, &csr()).await;
    assert_eq!(approve(&rig, &code, "c-demo").await.code(), Code::Conflict);
    let found = rig
        .post(&admin(), FIND, json!({ "code": code }))
        .await
        .good();
    assert_eq!(found["state"], "pending", "the agent still waits");
}

#[tokio::test]
async fn another_fingerprint_is_refused() {
    let rig = adopting().await;
    rig.cluster("demo", "acme").await;
    let (own, other) = (csr(), csr());
    let code = code_of(&rig, &own).await;
    let with = |key: Value| json!({ "code": code, "cluster": "c-demo", "keyFingerprint": key });
    let key = |csr: &str| fairlead_api::hex::encode(&csr_fingerprint(csr).unwrap());
    let wrong = rig.post(&admin(), APPROVE, with(key(&other).into())).await;
    assert_eq!(wrong.code(), Code::AdoptionKeyDiffers);
    let own = format!("SHA256:{}", key(&own).to_uppercase());
    rig.post(&admin(), APPROVE, with(own.into())).await.good();
}

#[tokio::test]
async fn people_guess_only_a_few_codes() {
    let rig = adopting().await;
    let code = code_of(&rig, &csr()).await;
    let guess = |bytes: [u8; 5]| AdoptionCode::from_bytes(bytes).to_string();
    let wrong = async |number: u8| {
        let body = json!({ "code": guess([number; 5]) });
        rig.post(&admin(), FIND, body).await.code()
    };
    for number in 0..10 {
        assert_eq!(wrong(number).await, Code::AdoptionUnknown);
    }
    assert_eq!(wrong(10).await, Code::TooManyRequests);
    let right = rig.post(&admin(), FIND, json!({ "code": code })).await;
    assert_eq!(
        right.code(),
        Code::TooManyRequests,
        "the right one waits, too"
    );
    let other = caller(Role::Tenant, Some("t-acme"));
    rig.post(&other, FIND, json!({ "code": code })).await.good();
    rig.advance(Duration::minutes(10));
    rig.post(&admin(), FIND, json!({ "code": code }))
        .await
        .good();
}

#[tokio::test]
async fn flood_of_one_address_takes_its_share_only() {
    let rig = adopting().await;
    let mut answers = Vec::new();
    for _ in 0..40 {
        answers.push(announce(&rig, &csr()).await);
    }
    let kept = answers.iter().filter(|it| it.status.is_success()).count();
    assert_eq!(kept, 16);
    assert!(
        answers[16..]
            .iter()
            .all(|it| it.code() == Code::AdoptionsFull)
    );
    let list = rig.get(&admin(), "/v1/adoptions").await.good();
    assert_eq!(list["items"].as_array().unwrap().len(), 16);
}

#[tokio::test]
async fn manifest_for_an_adoption_holds_no_secret() {
    let rig = adopting().await;
    let manifest = rig.open("/install/adoption.yaml?tenant=acme").await;
    assert!(manifest.status.is_success(), "{manifest:?}");
    let text = &manifest.text;
    assert!(
        text.contains("FAIRLEAD_ADOPT") && text.contains("https://hub.example:8443"),
        "{text}"
    );
    assert!(
        text.contains("fairlead:tenant:t-acme:admin") && text.contains("'events'"),
        "{text}"
    );
    assert!(!text.contains("fairlead-join"), "{text}");
    let without = rig.open("/install/adoption.yaml").await;
    assert_eq!(without.code(), Code::Invalid);
    assert_eq!(
        rig.open("/install/adoption.yaml?tenant=A%20b").await.code(),
        Code::Invalid
    );
}
