//! Deployments whose objects are not corrected any more. A second bundle is corrected meanwhile.

use super::*;

const SITE: &str = "/api/v1/namespaces/fairlead-delivery/configmaps/fairlead-delivery";

/// Changes the value of both objects, as a person does.
fn edit(api: &FakeApi) {
    for name in ["a", "z"] {
        api.change(&format!("{OBJECTS}{name}"), |map| {
            map["data"]["g"] = json!("theirs");
            let entry = json!({
                "manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1", "time": "2026-11-24T13:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:g": {}}},
            });
            map["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
            map["metadata"]["resourceVersion"] = json!("9000");
        });
    }
}

fn value(api: &FakeApi, name: &str) -> serde_json::Value {
    api.get(&format!("{OBJECTS}{name}")).unwrap()["data"]["g"].clone()
}

/// True if an apply of `a` was tried since the start, be it a dry run.
fn is_compared(api: &FakeApi) -> bool {
    let path = format!("PATCH {OBJECTS}a");
    api.take_requests().contains(&path)
}

/// Two bundles with `drift: correct`: `b-shop` with `a`, and `b-other` with `z`.
async fn started() -> (FakeApi, Arc<FakeHub>, Agent) {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let corrected = |spec: &mut Spec| spec.drift = DriftPolicy::Correct;
    hub.release_with(1, &["z"], |spec| {
        corrected(spec);
        spec.bundle = "b-other".parse().unwrap();
    });
    let other = hub.state.lock().unwrap().bundles.clone();
    hub.release_with(1, &["a"], corrected);
    hub.state.lock().unwrap().bundles.extend(other);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    until("z", || api.get(&format!("{OBJECTS}z")).is_some()).await;
    until("no locks", || api.paths(LOCKS).is_empty()).await;
    (api, hub, agent)
}

/// Restarts the agent, which compares all objects then. The objects were edited before.
fn restart(api: &FakeApi, hub: &Arc<FakeHub>, agent: Agent) -> Agent {
    drop(agent);
    free_lease(api);
    edit(api);
    api.take_requests();
    Agent::start(api, hub)
}

async fn until_other_is_corrected(api: &FakeApi) {
    until("correction of z", || value(api, "z") == "1").await;
}

#[tokio::test]
async fn edited_objects_are_corrected_after_a_restart() {
    let (api, hub, agent) = started().await;
    let _agent = restart(&api, &hub, agent);
    until("correction of a", || value(&api, "a") == "1").await;
}

#[tokio::test]
async fn kept_objects_of_an_ended_bundle_are_not_corrected_even_without_the_hub() {
    let (api, hub, agent) = started().await;
    let ended = hub.state.lock().unwrap().bundles.remove(0);
    agent.nudge(&hub);
    let is_orphan = || {
        hub.report()
            .is_some_and(|it| it.state == DeploymentState::Orphaned)
    };
    until("Orphaned", is_orphan).await;
    *hub.is_away.lock().unwrap() = true;
    let agent = restart(&api, &hub, agent);
    until_other_is_corrected(&api).await;
    assert!(!is_compared(&api), "an object of nobody was compared");
    assert_eq!(value(&api, "a"), "theirs");
    // A bundle that is targeted again is corrected again.
    *hub.is_away.lock().unwrap() = false;
    hub.state.lock().unwrap().bundles.insert(0, ended);
    agent.nudge(&hub);
    until("correction of a", || value(&api, "a") == "1").await;
}

#[tokio::test]
async fn suspended_deployment_reports_its_drift_even_without_the_hub() {
    let (api, hub, agent) = started().await;
    hub.state.lock().unwrap().bundles[0].suspended = true;
    agent.nudge(&hub);
    let is_noted = || returns::record(&api)["standstill"] == "suspended";
    until("note in the journal", is_noted).await;
    *hub.is_away.lock().unwrap() = true;
    let _agent = restart(&api, &hub, agent);
    until_other_is_corrected(&api).await;
    assert_eq!(value(&api, "a"), "theirs");
    *hub.is_away.lock().unwrap() = false;
    let reason = || hub.report()?.reason;
    let expected =
        "ConfigMap shop/a differs in .data.g; kubectl-edit changed it; the deployment is suspended";
    until("Drifted", || reason().as_deref() == Some(expected)).await;
    assert_eq!(hub.report().unwrap().state, DeploymentState::Drifted);
}

#[tokio::test]
async fn pause_of_the_site_stops_corrections_and_shows_the_drift() {
    let (api, hub, agent) = started().await;
    api.put(
        SITE,
        json!({"metadata": {"name": "fairlead-delivery"}, "data": {"pause": "true"}}),
    );
    let agent = restart(&api, &hub, agent);
    let reason = || hub.report()?.reason;
    let expected = "ConfigMap shop/a differs in .data.g; kubectl-edit changed it; the site pauses delivery by its ConfigMap fairlead-delivery";
    until("Drifted", || reason().as_deref() == Some(expected)).await;
    assert_eq!(hub.report().unwrap().state, DeploymentState::Drifted);
    // Without the pause the next start corrects both, later than a correction under the pause would have come.
    assert_eq!(
        (value(&api, "a"), value(&api, "z")),
        (json!("theirs"), json!("theirs"))
    );
    api.delete(SITE);
    let _agent = restart(&api, &hub, agent);
    until_other_is_corrected(&api).await;
    until("correction of a", || value(&api, "a") == "1").await;
}
