//! Runs of people, and runs that the hub is not told of.

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::delivery::{AttemptOutcome, RunKind};

use super::*;

#[tokio::test]
async fn bundle_that_the_cluster_does_not_have_is_compared() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a", "b"]);
    let named = hub.state.lock().unwrap().bundles.remove(0);
    let agent = Agent::start(&api, &hub);
    hub.claims.lock().unwrap().push(ClaimedRun {
        run: crate::new_run_id(time::OffsetDateTime::now_utc()),
        bundle: named.bundle,
        kind: RunKind::Diff,
        attempt: 1,
        lease_seconds: 60,
        generation: 0,
        spec: named.spec,
        confirm: false,
        created_by: "anna".to_owned(),
        log_offset: 0,
    });
    hub.state.lock().unwrap().commands = 1;
    agent.nudge(&hub);
    until("result", || !hub.outcomes.lock().unwrap().is_empty()).await;
    let outcome = hub.outcomes.lock().unwrap().remove(0);
    assert_eq!(outcome.outcome, AttemptOutcome::Succeeded, "{outcome:?}");
    assert_eq!(outcome.diff.unwrap().objects.len(), 2);
    assert!(api.paths(OBJECTS).is_empty() && api.get(JOURNAL).is_none());
}

#[tokio::test]
async fn attempts_that_wait_for_the_same_are_one_run() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let account = "/api/v1/namespaces/fairlead-delivery/serviceaccounts/deployer";
    api.delete(account);
    hub.release(1, &["a"]);
    let _agent = Agent::start(&api, &hub);
    let runs = || {
        let runs = hub.runs.lock().unwrap();
        let results = runs.iter().filter(|it| it.ends_with("/result"));
        results.cloned().collect::<Vec<_>>()
    };
    until("first attempt", || runs().len() == 1).await;
    until("second attempt", || waited(&api) == 1).await;
    let report = hub.report().unwrap();
    assert_eq!(report.state, DeploymentState::Waiting);
    let run = format!("PUT /agent/v1/runs/{}/result", report.run.unwrap());
    assert_eq!(runs(), [run]);
}

#[tokio::test]
async fn correction_is_the_last_run() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release_with(1, &["a"], |spec| spec.drift = DriftPolicy::Correct);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    drop(agent);
    let applied = hub.report().unwrap().run;
    api.change(&format!("{OBJECTS}a"), |map| {
        map["data"]["g"] = json!("9");
        map["metadata"]["managedFields"] = json!([]);
    });
    free_lease(&api);
    let _agent = Agent::start(&api, &hub);
    until("correction", || {
        hub.report()
            .is_some_and(|it| it.run != applied && it.state == DeploymentState::Ready)
    })
    .await;
    let run = hub.report().unwrap().run.unwrap();
    let result = format!("PUT /agent/v1/runs/{run}/result");
    until("result", || hub.runs.lock().unwrap().contains(&result)).await;
    let outcomes = hub.outcomes.lock().unwrap();
    assert_eq!(
        outcomes.last().unwrap().sentence.as_deref(),
        Some("corrected 1 object")
    );
}

/// Number of attempts that waited for the same as the one before.
fn waited(api: &FakeApi) -> u64 {
    let record = api.get(JOURNAL).map(|it| it["data"]["record"].clone());
    let record = record.and_then(|it| STANDARD.decode(it.as_str()?).ok());
    let record: Option<serde_json::Value> = record.and_then(|it| serde_json::from_slice(&it).ok());
    record.map_or(0, |it| it["retry"]["waited"].as_u64().unwrap())
}
