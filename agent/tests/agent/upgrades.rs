//! Upgrades of the agent by itself: the configuration names one, the Deployment changes, the hub gets reports.

use std::time::Duration;

use fairlead_agent::UpgradeRule;
use fairlead_api::{
    config::DESIRED_REVISION_HEADER, headers::PROBE_PATH, resources::ClusterUpgradeState,
    upgrade::UpgradeReport,
};
use fairlead_testkit::hub::ConnectedAgent;
use http::Request;
use serde_json::{Value, json};

use crate::rig::{Agent, Rig, nothing, send, until};

const FORMER: &str = "reg/fairlead:0.0.0-test";
const NEW: &str = "reg/fairlead:next";

/// The Deployment as installed, with its only pod ready.
fn install(rig: &Rig) {
    *rig.api.script.deployment.lock().unwrap() = Some(json!({
        "metadata": { "resourceVersion": "1", "generation": 1, "annotations": {} },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "fairlead-agent" } },
            "strategy": { "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "template": { "spec": { "containers": [{ "name": "agent", "image": FORMER }] } },
        },
        "status": ready(1),
    }));
}

fn ready(generation: u64) -> Value {
    json!({
        "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
    })
}

fn image(rig: &Rig) -> String {
    let deployment = rig.api.script.deployment.lock().unwrap();
    let deployment = deployment.as_ref().unwrap();
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap().to_owned()
}

/// Plays the Deployment controller.
fn set_status(rig: &Rig, status: Value) {
    rig.api.script.deployment.lock().unwrap().as_mut().unwrap()["status"] = status;
}

fn desire(rig: &Rig, id: &str, timeout_seconds: u32) {
    let upgrade = json!({
        "id": id, "version": "0.0.0-test", "image": NEW, "timeoutSeconds": timeout_seconds,
    });
    let document = json!({ "upgrade": upgrade });
    *rig.hub.script.configuration.lock().unwrap() = Some((id.to_owned(), document));
}

async fn probe(connected: &ConnectedAgent, desired: &str) {
    let probe = Request::get(PROBE_PATH).header(DESIRED_REVISION_HEADER, desired);
    let probe = probe.header("host", "kubernetes.default.svc");
    send(&connected.exchanges, probe.body(nothing()).unwrap()).await;
}

fn reports(rig: &Rig) -> Vec<UpgradeReport> {
    rig.hub.script.upgrades.lock().unwrap().clone()
}

fn states(rig: &Rig) -> Vec<ClusterUpgradeState> {
    reports(rig).into_iter().map(|it| it.state).collect()
}

async fn started(rig: &Rig, id: &str, timeout_seconds: u32) -> (Agent, ConnectedAgent) {
    install(rig);
    desire(rig, id, timeout_seconds);
    let (agent, connected) = rig.connected().await;
    until(|| image(rig) == NEW).await;
    (agent, connected)
}

#[tokio::test]
async fn upgrade_changes_the_image_and_reports_its_end() {
    let rig = Rig::new().await;
    let (_agent, _connected) = started(&rig, "au-1", 300).await;
    until(|| states(&rig) == [ClusterUpgradeState::Upgrading]).await;
    set_status(&rig, ready(2));
    let end = [ClusterUpgradeState::Upgrading, ClusterUpgradeState::Done];
    until(|| states(&rig) == end).await;
    assert_eq!(image(&rig), NEW);
}

#[tokio::test]
async fn upgrade_that_is_not_ready_in_time_returns_and_is_not_tried_again() {
    let rig = Rig::new().await;
    let pods = "/api/v1/namespaces/fairlead-site/pods?labelSelector=app%3Dfairlead-agent&limit=50";
    let waiting = json!({ "reason": "ImagePullBackOff", "message": "no such image" });
    let pod = json!({
        "metadata": { "name": "new" },
        "spec": { "containers": [{ "image": NEW }] },
        "status": { "containerStatuses": [{ "state": { "waiting": waiting } }] },
    });
    let answer = (200, json!({ "items": [pod] }));
    rig.api
        .script
        .answers
        .lock()
        .unwrap()
        .insert(pods.to_owned(), answer);
    let (agent, connected) = started(&rig, "au-1", 0).await;
    until(|| image(&rig) == FORMER).await;
    let is_back = || states(&rig).last() == Some(&ClusterUpgradeState::RolledBack);
    until(is_back).await;
    let cause = reports(&rig).pop().unwrap().cause.unwrap();
    assert_eq!(cause, "FL-1521: new: ImagePullBackOff: no such image");

    // A new process reads the result, and reports it once more.
    agent.process.finish(Duration::ZERO).await;
    drop((agent, connected));
    rig.hub.script.upgrades.lock().unwrap().clear();
    let _again = rig.connected().await;
    until(|| states(&rig) == [ClusterUpgradeState::RolledBack]).await;
    assert_eq!(image(&rig), FORMER);
}

#[tokio::test]
async fn another_process_ends_an_upgrade_that_a_former_one_began() {
    let rig = Rig::new().await;
    let (agent, connected) = started(&rig, "au-1", 300).await;
    // A report on its way would arrive after the list is emptied.
    until(|| states(&rig) == [ClusterUpgradeState::Upgrading]).await;
    agent.process.finish(Duration::ZERO).await;
    drop((agent, connected));
    rig.hub.script.upgrades.lock().unwrap().clear();
    // The hub desires nothing any more; the Deployment still has to get a result.
    *rig.hub.script.configuration.lock().unwrap() = Some(("none".to_owned(), json!({})));
    set_status(&rig, ready(2));
    let _again = rig.connected().await;
    until(|| states(&rig) == [ClusterUpgradeState::Done]).await;
}

#[tokio::test]
async fn refused_upgrade_is_reported_once_with_its_cause() {
    let rig = Rig::new().await;
    let mut config = rig.config();
    config.upgrades = UpgradeRule::Off;
    install(&rig);
    desire(&rig, "au-1", 300);
    let _agent = rig.start(config);
    let connected = rig.hub.next().await;
    until(|| states(&rig) == [ClusterUpgradeState::Refused]).await;
    assert!(
        reports(&rig)[0]
            .cause
            .as_ref()
            .unwrap()
            .contains("--upgrades off")
    );
    assert_eq!(image(&rig), FORMER);

    // Without rights on its Deployment, an agent refuses as well.
    *rig.api.script.deployment.lock().unwrap() = None;
    desire(&rig, "au-2", 300);
    probe(&connected, "au-2").await;
    until(|| reports(&rig).len() == 2).await;
    assert_eq!(reports(&rig)[1].id, "au-2");
    assert!(
        reports(&rig)[1]
            .cause
            .as_ref()
            .unwrap()
            .contains("no Deployment")
    );
}
