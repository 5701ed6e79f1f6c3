//! Enrolment, sessions, renewal and shutdown of an agent.

use std::{fs, os::unix::fs::PermissionsExt, sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::Code;
use fairlead_apiserver::ApiServerConfig;
use fairlead_dialer::{CloseReason, LinkState, Resumable, SessionError};
use http_body_util::BodyExt;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::rig::{Rig, closed, get, send, soon, until};

#[tokio::test]
async fn agent_stores_its_identity_and_reconnects_with_it() {
    let rig = Rig::new().await;
    let (agent, hub) = rig.connected().await;
    assert_eq!(hub.identity.cluster.as_str(), "c-demo");
    until(|| agent.process.is_ready()).await;
    let file = rig.state().join("identity.json");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(!rig.state().join("pending.key").exists());
    drop((agent, hub));

    // Without a join string: the stored identity is enough.
    let mut config = rig.config();
    config.join = None;
    let _agent = rig.start(config);
    rig.hub.next().await;
    assert_eq!(rig.hub.script.enrolment_keys.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn enrolment_is_repeated_with_the_same_key_after_a_lost_answer() {
    let rig = Rig::new().await;
    rig.hub.script.lost_answers.store(2, SeqCst);
    let (agent, _hub) = rig.connected().await;
    let keys = rig.hub.script.enrolment_keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]));
    until(|| agent.process.is_ready()).await;
}

#[tokio::test]
async fn restarted_agent_repeats_its_enrolment_with_the_same_key() {
    let rig = Rig::new().await;
    rig.hub.script.lost_answers.store(usize::MAX, SeqCst);
    let agent = rig.start(rig.config());
    until(|| !rig.hub.script.enrolment_keys.lock().unwrap().is_empty()).await;
    drop(agent);
    rig.hub.script.lost_answers.store(0, SeqCst);
    let (_agent, _hub) = rig.connected().await;
    let keys = rig.hub.script.enrolment_keys.lock().unwrap().clone();
    assert!(keys.len() >= 2 && keys.iter().all(|key| *key == keys[0]));
}

#[tokio::test]
async fn rejected_enrolment_is_retried_and_never_ends_the_agent() {
    let rig = Rig::new().await;
    *rig.hub.script.enrolment_error.lock().unwrap() = Some(Code::Store);
    let agent = rig.start(rig.config());
    until(|| rig.hub.script.enrolment_keys.lock().unwrap().len() >= 2).await;
    assert!(!agent.process.is_ready() && !agent.running.is_finished());
    *rig.hub.script.enrolment_error.lock().unwrap() = None;
    rig.hub.next().await;
}

#[tokio::test]
async fn agent_reconnects_after_each_broken_session() {
    let rig = Rig::new().await;
    let (agent, hub) = rig.connected().await;
    for _ in 0..3 {
        rig.hub.cut();
        rig.hub.next().await;
    }
    soon(hub.session.closed()).await;
    until(|| agent.process.is_ready()).await;
}

/// Running requests see a pause at most. A hub that has lost the session opens a new one over the same dial.
#[tokio::test]
async fn session_is_resumed_over_another_connection() {
    let rig = Rig::new().await;
    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    let (agent, hub) = rig.connected().await;
    // The hub is a message ahead of the agent.
    until(|| agent.process.is_ready()).await;
    let mut link = hub.session.link();
    let stream = hub.session.open().await.unwrap();
    for _ in 0..3 {
        rig.hub.cut();
        soon(link.wait_for(|link| *link != LinkState::Up))
            .await
            .unwrap();
        soon(link.wait_for(|link| *link == LinkState::Up))
            .await
            .unwrap();
        assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
    }
    until(|| agent.process.is_ready()).await;
    drop(stream);

    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    rig.hub.cut();
    let new = rig.hub.next().await;
    assert_eq!(send(&new.exchanges, get("/version")).await.status(), 200);
    until(|| agent.process.is_ready()).await;
}

#[tokio::test]
async fn next_hub_is_dialled_after_one_without_answer() {
    let rig = Rig::new().await;
    let (_held, closed) = closed();
    let mut config = rig.config();
    config.hubs = vec![format!("https://{closed}").parse().unwrap(), rig.hub.url()];
    let _agent = rig.start(config);
    rig.hub.next().await;
}

#[tokio::test]
async fn draining_hub_is_redialled_soon_and_after_a_replacement_later() {
    let rig = Rig::new().await;
    let (agent, hub) = rig.connected().await;
    hub.session.close(CloseReason::Draining);
    let again = rig.hub.next().await;
    until(|| agent.process.is_ready()).await;
    let dials = rig.hub.script.relay.connections_taken();
    again.session.close(CloseReason::Replaced);
    until(|| !agent.process.is_ready()).await;
    assert_eq!(rig.hub.script.relay.connections_taken(), dials);
}

/// End of the certificate in the state directory.
fn kept_until(rig: &Rig) -> OffsetDateTime {
    let kept = fs::read(rig.state().join("identity.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    OffsetDateTime::parse(kept["notAfter"].as_str().unwrap(), &Rfc3339).unwrap()
}

#[tokio::test]
async fn renewal_on_the_live_session_keeps_the_key_and_all_requests() {
    let rig = Rig::new().await;
    *rig.hub.script.certificate_age.lock().unwrap() = Duration::from_secs(20 * 3600);
    rig.hub.script.failing_renewals.store(1, SeqCst);
    let (agent, hub) = rig.connected().await;
    let mut watch = send(&hub.exchanges, get("/watch?watch=true"))
        .await
        .into_body();
    until(|| rig.hub.script.renewal_keys.lock().unwrap().len() == 2).await;
    // Compared with the first session's certificate: it may have been renewed before the first read.
    until(|| kept_until(&rig) > hub.identity.not_after).await;
    let key = rig.hub.script.enrolment_keys.lock().unwrap()[0];
    assert!(
        rig.hub
            .script
            .renewal_keys
            .lock()
            .unwrap()
            .iter()
            .all(|renewed| *renewed == key)
    );

    rig.api.script.events.send_replace("still there".to_owned());
    let frame = soon(watch.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "still there");
    assert!(agent.process.is_ready());

    rig.hub.cut();
    let next = rig.hub.next().await;
    assert!(
        next.identity.not_after > hub.identity.not_after,
        "the next dial uses the new certificate"
    );
    assert_ne!(next.identity.serial, hub.identity.serial);
}

#[tokio::test]
async fn expired_identity_is_renewed_for_a_known_key() {
    let rig = Rig::new().await;
    *rig.hub.script.certificate_age.lock().unwrap() = Duration::from_secs(24 * 3600 + 600);
    *rig.hub.script.hello_error.lock().unwrap() = Some(Code::CertificateExpired);
    let agent = rig.start(rig.config());
    let lapsed = rig.hub.next().await;
    assert!(lapsed.identity.not_after < OffsetDateTime::now_utc());
    let renewed = rig.hub.next().await;
    assert!(renewed.identity.not_after > OffsetDateTime::now_utc());
    until(|| agent.process.is_ready()).await;
    let keys = rig.hub.script.enrolment_keys.lock().unwrap().clone();
    assert_eq!(
        keys,
        *rig.hub.script.renewal_keys.lock().unwrap(),
        "once each"
    );
    assert!(kept_until(&rig) == renewed.identity.not_after);
}

/// If the renewal is rejected for good, a new join string helps.
#[tokio::test]
async fn identity_without_renewal_is_replaced_with_the_join_string() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    *rig.hub.script.renewal_expired.lock().unwrap() = true;
    *rig.hub.script.hello_error.lock().unwrap() = Some(Code::CertificateExpired);
    hub.session.close(CloseReason::Expired);
    until(|| rig.hub.script.enrolment_keys.lock().unwrap().len() == 2).await;
}

#[tokio::test]
async fn rejected_identity_is_replaced_with_the_join_string() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    hub.session.close(CloseReason::Deleted);
    let again = rig.hub.next().await;
    assert_ne!(again.identity.serial, hub.identity.serial);
    let keys = rig.hub.script.enrolment_keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "a new identity has a new key");
}

#[tokio::test]
async fn draining_waits_for_requests_and_closes_the_session() {
    let rig = Rig::new().await;
    let (agent, hub) = rig.connected().await;
    let mut watch = send(&hub.exchanges, get("/watch?watch=true"))
        .await
        .into_body();
    let process = agent.process.clone();
    let finished = tokio::spawn(async move { process.finish(Duration::from_secs(20)).await });
    until(|| !agent.process.is_ready()).await;
    rig.api.script.events.send_replace("last words".to_owned());
    let frame = soon(watch.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "last words");
    assert!(!finished.is_finished());
    rig.api.script.events.send_replace("end".to_owned());
    assert!(soon(watch.frame()).await.is_none());
    assert!(soon(finished).await.unwrap(), "nothing had to be cut off");
    assert!(matches!(
        soon(hub.session.closed()).await,
        SessionError::Peer(CloseReason::Done)
    ));
}

#[tokio::test]
async fn configuration_mistakes_end_the_agent_at_once() {
    let rig = Rig::new().await;
    let run = async |change: &dyn Fn(&mut fairlead_agent::Config)| {
        let mut config = rig.config();
        change(&mut config);
        let process = fairlead_runtime::Process::new();
        soon(Box::pin(fairlead_agent::run(config, process)))
            .await
            .unwrap_err()
            .code
    };
    assert_eq!(run(&|config| config.join = None).await, Code::NotEnrolled);
    assert_eq!(
        run(&|config| config.allow_groups.push("system:masters".to_owned())).await,
        Code::BadConfig
    );
    assert_eq!(
        run(&|config| config.https_proxy = Some("ftp://x".to_owned())).await,
        Code::BadConfig
    );
    let missing = ApiServerConfig::Kubeconfig {
        path: rig.dir.path().join("none"),
        context: None,
    };
    let code = run(&|config| config.target = missing.clone()).await;
    assert_eq!(code, Code::BadKubeconfig);
}

/// Source of the pod's readiness probe.
#[tokio::test]
async fn agent_is_ready_only_while_a_session_serves() {
    let rig = Rig::new().await;
    *rig.hub.script.hello_error.lock().unwrap() = Some(Code::Store);
    let agent = rig.start(rig.config());
    rig.hub.next().await;
    until(|| !rig.hub.script.hellos.lock().unwrap().is_empty()).await;
    assert!(!agent.process.is_ready(), "a session that may not serve");
    *rig.hub.script.hello_error.lock().unwrap() = None;
    until(|| agent.process.is_ready()).await;
    rig.hub.disconnect();
    until(|| !agent.process.is_ready()).await;
    rig.hub.reconnect();
    until(|| agent.process.is_ready()).await;
    assert!(!agent.running.is_finished());
}

/// A person starts the agent here, so the failure names the file, and the next step fits it.
#[tokio::test]
async fn start_failure_names_the_file_and_fits_its_next_step() {
    let rig = Rig::new().await;
    let kubeconfig = |user: &str| {
        let cluster = "{name: c, cluster: {server: 'https://127.0.0.1:1'}}";
        let text = format!(
            "{{clusters: [{cluster}], users: [{{name: u, user: {user}}}], contexts: [{{name: c, context: {{cluster: c, user: u}}}}], current-context: c}}"
        );
        let path = rig.dir.path().join("kubeconfig");
        fs::write(&path, text).unwrap();
        let context = None;
        ApiServerConfig::Kubeconfig { path, context }
    };
    let failure = async |change: &dyn Fn(&mut fairlead_agent::Config)| {
        let mut config = rig.config();
        change(&mut config);
        let process = fairlead_runtime::Process::new();
        soon(Box::pin(fairlead_agent::run(config, process)))
            .await
            .unwrap_err()
    };
    let plugin = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /nosuch/plugin, interactiveMode: Never}}";
    for (user, words, next) in [
        (
            "{client-certificate: /nosuch/cert, client-key: /nosuch/key}",
            "/nosuch/cert",
            "--kubeconfig",
        ),
        (
            "{tokenFile: /nosuch/token}",
            "/nosuch/token",
            "--kubeconfig",
        ),
        (plugin, "/nosuch/plugin", "plugin"),
    ] {
        let target = kubeconfig(user);
        let failure = failure(&|config| config.target = target.clone()).await;
        assert_eq!(failure.code, Code::BadKubeconfig, "{failure}");
        assert!(failure.cause.contains(words), "{failure}");
        assert!(failure.next_step().contains(next), "{failure:?}");
    }
    let target = kubeconfig("{token: x}");
    let no_ca = |config: &mut fairlead_agent::Config| {
        config.target = target.clone();
        config.ca_file = Some("/nosuch/ca.pem".into());
    };
    let no_ca = failure(&no_ca).await;
    assert_eq!(no_ca.code, Code::CannotRead);
    assert!(no_ca.cause.contains("/nosuch/ca.pem") && no_ca.next_step().contains("--ca-file"));
    fs::create_dir(rig.state()).unwrap();
    let identity = rig.state().join("identity.json");
    fs::write(&identity, "{}").unwrap();
    fs::set_permissions(&identity, fs::Permissions::from_mode(0o600)).unwrap();
    let damaged = failure(&|config| config.target = target.clone()).await;
    assert_eq!(damaged.code, Code::DataDir);
    let state = rig.state().display().to_string();
    assert!(damaged.cause.contains(&state), "{damaged}");
    assert!(
        damaged.next_step().contains("new join string"),
        "{damaged:?}"
    );
}
