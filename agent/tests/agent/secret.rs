//! Identity in a Secret of the agent's own cluster.

use std::sync::atomic::Ordering::SeqCst;

use fairlead_agent::IdentityLocation;
use serde_json::json;

use crate::rig::{Rig, until};

fn in_a_secret(rig: &Rig) -> fairlead_agent::Config {
    let mut config = rig.config();
    config.state = IdentityLocation::Secret { namespace: None };
    config
}

#[tokio::test]
async fn identity_is_stored_in_the_pods_namespace_and_reloaded() {
    let rig = Rig::new().await;
    let agent = rig.start(in_a_secret(&rig));
    rig.hub.next().await;
    let secret = rig.api.script.secret.lock().unwrap().clone().unwrap();
    assert_eq!(secret["metadata"]["name"], "fairlead-identity");
    assert!(secret["data"]["identity.json"].is_string() && secret["data"]["pending.key"].is_null());
    drop(agent);

    let mut config = in_a_secret(&rig);
    config.join = None;
    let _agent = rig.start(config);
    rig.hub.next().await;
    assert_eq!(rig.hub.script.enrolment_keys.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn data_of_others_in_the_secret_stays() {
    let rig = Rig::new().await;
    *rig.api.script.secret.lock().unwrap() = Some(json!({
        "metadata": { "resourceVersion": "7", "labels": { "app": "fairlead" } },
        "data": { "theirs": "eA==" },
    }));
    let _agent = rig.start(in_a_secret(&rig));
    rig.hub.next().await;
    let secret = rig.api.script.secret.lock().unwrap().clone().unwrap();
    assert_eq!(secret["data"]["theirs"], "eA==");
    assert_eq!(secret["metadata"]["labels"]["app"], "fairlead");
    assert_eq!(
        secret["metadata"]["resourceVersion"], "9",
        "one write for the key, one for the identity"
    );
}

#[tokio::test]
async fn unavailable_store_delays_enrolment_without_spending_the_token() {
    let rig = Rig::new().await;
    *rig.api.script.token.lock().unwrap() = Some("another".to_owned());
    let agent = rig.start(in_a_secret(&rig));
    until(|| rig.api.script.received.lock().unwrap().len() >= 3).await;
    assert!(!agent.running.is_finished() && !agent.process.is_ready());
    assert_eq!(
        rig.hub.script.relay.connections_taken(),
        0,
        "a key that cannot be kept must not be used"
    );
    *rig.api.script.token.lock().unwrap() = None;
    rig.hub.next().await;
}

#[tokio::test]
async fn agents_that_start_together_enrol_with_one_key() {
    let rig = Rig::new().await;
    let (_one, _two) = (rig.start(in_a_secret(&rig)), rig.start(in_a_secret(&rig)));
    let (one, two) = (rig.hub.next().await, rig.hub.next().await);
    assert_eq!(one.identity.cluster, two.identity.cluster);
    assert_eq!(
        rig.hub.script.enrolment_keys.lock().unwrap().len(),
        1,
        "one enrols, the other loads the stored identity"
    );
    assert_eq!(one.identity.serial, two.identity.serial);
}

#[tokio::test]
async fn crashed_enrolment_blocks_others_for_seconds_only() {
    let rig = Rig::new().await;
    rig.hub.script.lost_answers.store(usize::MAX, SeqCst);
    let first = rig.start(in_a_secret(&rig));
    until(|| !rig.hub.script.enrolment_keys.lock().unwrap().is_empty()).await;
    drop(first);
    rig.hub.script.lost_answers.store(0, SeqCst);
    let _second = rig.start(in_a_secret(&rig));
    rig.hub.next().await;
    let keys = rig.hub.script.enrolment_keys.lock().unwrap().clone();
    assert!(
        keys.iter().all(|key| *key == keys[0]),
        "the token is bound to the first key that asks"
    );
}

/// Each renews for its own session, and an older certificate never replaces a newer one.
#[tokio::test]
async fn older_certificate_never_replaces_a_newer_one() {
    let rig = Rig::new().await;
    *rig.hub.script.certificate_age.lock().unwrap() = std::time::Duration::from_secs(20 * 3600);
    // Wait until both sessions exist with the same certificate.
    rig.hub.script.failing_renewals.store(usize::MAX, SeqCst);
    let one = rig.start(in_a_secret(&rig));
    rig.hub.next().await;
    let two = rig.start(in_a_secret(&rig));
    rig.hub.next().await;
    rig.hub.script.failing_renewals.store(0, SeqCst);
    until(|| rig.hub.script.renewals.load(SeqCst) == 2).await;
    until(|| one.process.is_ready() && two.process.is_ready()).await;
    let version = || {
        let secret = rig.api.script.secret.lock().unwrap().clone().unwrap();
        let version = secret["metadata"]["resourceVersion"].as_str().unwrap();
        version.parse::<u32>().unwrap()
    };
    until(|| version() >= 3).await;
    assert!(version() <= 4, "key, identity, and renewals");
}
