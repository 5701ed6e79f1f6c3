//! Waves, halts and verbs.

use fairlead_api::{
    Code,
    delivery::{DeploymentState, RolloutState},
};
use fairlead_rollout::RolloutVerb;
use serde_json::json;

use super::hub::{TestHub, id, shop};

#[tokio::test]
async fn rollouts_of_all_sizes_start_with_a_canary_and_end() {
    for clusters in [1, 3, 199, 200, 1_000] {
        let mut hub = TestHub::with(clusters).await;
        hub.deploy(json!({})).await;
        assert_eq!(hub.with_released(1).len(), 1, "one canary of {clusters}");
        let (canary, rollout) = (hub.with_released(1)[0], hub.rollout());
        assert_eq!(
            (rollout.id.as_str(), rollout.state),
            ("r-shop-1", RolloutState::Running)
        );
        hub.report_state(canary, DeploymentState::Ready, 1).await;
        hub.pass().await;
        let quarter = (clusters - 1).div_ceil(4);
        assert_eq!(
            hub.with_released(1).len(),
            1 + quarter,
            "a quarter of {clusters}"
        );
        hub.all_ready().await;
        assert_eq!(hub.with_released(1).len(), clusters);
        let rollout = hub.rollout();
        assert_eq!(rollout.state, RolloutState::Done);
        let ready: u32 = rollout.waves.iter().map(|it| it.ready).sum();
        assert_eq!(ready as usize, clusters);
        let stored = hub.stored().await;
        assert_eq!(stored, [("r-shop-1".parse().unwrap(), "Done")]);
    }
}

#[tokio::test]
async fn nothing_is_written_or_changed_at_rest() {
    let mut hub = TestHub::with(5).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    let rows = async |hub: &TestHub| {
        let id = "r-shop-1".parse().unwrap();
        let row = hub.parts.rollouts.get(&id).await.unwrap().unwrap();
        let mut read = 0;
        let last = hub.parts.deployments.read(-1, |_| read += 1).await.unwrap();
        (row.version, last, read)
    };
    let (before, revision) = (rows(&hub).await, hub.store.view().revision());
    for number in 0..5 {
        hub.report_state(number, DeploymentState::Ready, 1).await;
    }
    hub.advance(60).await;
    assert_eq!(rows(&hub).await, before);
    assert_eq!(hub.store.view().revision(), revision);
}

#[tokio::test]
async fn offline_clusters_delay_nobody_and_get_the_newest_generation_on_return() {
    let mut hub = TestHub::with(10).await;
    for number in 0..3 {
        hub.disconnect(number);
    }
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    assert_eq!(hub.rollout().state, RolloutState::Done);
    assert_eq!(hub.with_released(1), [3, 4, 5, 6, 7, 8, 9]);
    let (state, reason) = hub.shown(0);
    assert_eq!(state, DeploymentState::Waiting);
    assert!(
        reason.starts_with("c-0000 is offline since 2026-11-24T12:00:00Z"),
        "{reason}"
    );
    assert!(
        reason.ends_with("; it gets generation 1 of b-shop when it is back"),
        "{reason}"
    );
    assert_eq!(hub.code(0), Some(Code::ClusterOffline));

    hub.connect(0);
    hub.all_ready().await;
    assert_eq!(hub.released(0), 1, "back after the end");
    hub.deploy(json!({"vars": {"a": 1}})).await;
    hub.connect(1);
    hub.all_ready().await;
    assert_eq!(
        hub.with_released(2),
        [0, 1, 3, 4, 5, 6, 7, 8, 9],
        "back during a later one"
    );
    assert_eq!(hub.released(2), 0);
}

#[tokio::test]
async fn too_many_failures_halt_until_a_person_decides() {
    let mut hub = TestHub::with(20).await;
    hub.deploy(
        json!({"rollout": {"waves": [{"name": "all", "maxUnavailable": 20, "maxFailures": 2}]}}),
    )
    .await;
    let failing = |failures: usize| {
        move |number: usize| match number < failures {
            true => DeploymentState::Failed,
            false => DeploymentState::Ready,
        }
    };
    hub.agents(failing(2)).await;
    assert_eq!(
        hub.rollout().state,
        RolloutState::Done,
        "two failures are tolerated"
    );

    hub.deploy(json!({"vars": {"a": 1}, "rollout": {"waves": [{"name": "all", "maxUnavailable": 5, "maxFailures": 2}]}})).await;
    hub.agents(failing(20)).await;
    let halted = hub.rollout();
    assert_eq!(halted.state, RolloutState::Halted);
    let reason = halted.reason.unwrap();
    assert!(reason.contains("\"image pull failed\""), "{reason}");
    let released = hub.with_released(2).len();
    assert!(released < 20);
    let pending = (0..20).find(|it| hub.released(*it) == 1).unwrap();
    hub.report_state(pending, DeploymentState::Ready, 1).await;
    let (state, reason) = hub.shown(pending);
    assert_eq!(state, DeploymentState::Pending);
    assert_eq!(
        reason,
        "rollout r-shop-2 is Halted; `fairlead rollout status b-shop` shows why"
    );
    assert_eq!(hub.code(pending), Some(Code::RolloutStops));

    hub.verb(RolloutVerb::Retry).await.unwrap();
    assert_eq!(hub.rollout().state, RolloutState::Running);
    let retried = hub.parts.fleet.take_retries();
    assert!(
        retried.len() >= 3 && retried.iter().all(|(_, it)| *it == shop()),
        "{retried:?}"
    );
}

#[tokio::test]
async fn verbs_of_people_pause_resume_promote_and_abort() {
    let mut hub = TestHub::with(9).await;
    let waves = json!({"rollout": {"waves": [{"name": "one", "count": 1, "soak": "10m"}, {"name": "rest"}]}});
    hub.deploy(waves).await;
    hub.verb(RolloutVerb::Pause).await.unwrap();
    hub.all_ready().await;
    hub.advance(700).await;
    assert_eq!(hub.with_released(1).len(), 1, "paused");
    hub.verb(RolloutVerb::Resume).await.unwrap();
    hub.all_ready().await;
    assert_eq!(hub.with_released(1).len(), 1, "soaks");
    hub.verb(RolloutVerb::Promote).await.unwrap();
    hub.pass().await;
    assert!(hub.with_released(1).len() > 1, "promoted");
    hub.verb(RolloutVerb::Abort).await.unwrap();
    let released = hub.with_released(1);
    hub.all_ready().await;
    assert_eq!(hub.with_released(1), released, "aborted");
    let refused = hub.verb(RolloutVerb::Resume).await.unwrap_err();
    assert!(refused.to_string().contains("Aborted"), "{refused}");
    let states = hub.stored().await;
    assert_eq!(states, [("r-shop-1".parse().unwrap(), "Aborted")]);
}

#[tokio::test]
async fn waves_soak_by_the_clock_of_the_hub() {
    let mut hub = TestHub::with(4).await;
    hub.deploy(json!({"rollout": {"waves": [{"name": "one", "count": 1, "soak": "10m"}]}}))
        .await;
    hub.all_ready().await;
    hub.advance(599).await;
    assert_eq!(hub.with_released(1).len(), 1);
    let later = hub.with_released(0)[0];
    assert_eq!(hub.code(later), Some(Code::WaveWaits));
    let reason = format!(
        "{} waits for its wave; `fairlead rollout status b-shop` shows the waves of generation 1",
        id(later)
    );
    assert_eq!(hub.shown(later), (DeploymentState::Pending, reason));
    hub.advance(1).await;
    assert!(hub.with_released(1).len() > 1);
}

#[tokio::test]
async fn a_newer_generation_replaces_a_running_rollout() {
    let mut hub = TestHub::with(8).await;
    hub.deploy(json!({})).await;
    hub.deploy(json!({"vars": {"a": 1}})).await;
    let rollout = hub.rollout();
    assert_eq!((rollout.from, rollout.to), (1, 2));
    hub.all_ready().await;
    assert_eq!(hub.with_released(2).len(), 8);
    let stored = hub.stored().await;
    let of = |id: &str, state| (id.parse().unwrap(), state);
    assert_eq!(
        stored,
        [of("r-shop-1", "Superseded"), of("r-shop-2", "Done")]
    );
}

#[tokio::test]
async fn a_rollback_begins_with_clusters_of_the_bad_generation() {
    let mut hub = TestHub::with(12).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.deploy(json!({"vars": {"a": 1}})).await;
    let bad = hub.with_released(2);
    assert_eq!(bad.len(), 1);
    // The content of generation 1 under a higher number.
    hub.deploy(json!({})).await;
    assert_eq!(
        hub.with_released(3),
        bad,
        "the canary has the bad generation"
    );
    hub.all_ready().await;
    assert_eq!(hub.with_released(3).len(), 12);
}

#[tokio::test]
async fn a_suspended_bundle_releases_nothing() {
    let mut hub = TestHub::with(8).await;
    hub.deploy(json!({})).await;
    hub.amend(|it| it.suspended = true).await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(1).len(), 1);
    assert_eq!(hub.rollout().state, RolloutState::Paused);
    let pending = (0..8).find(|it| hub.released(*it) == 0).unwrap();
    assert_eq!(
        hub.shown(pending).1,
        "b-shop is suspended; resume it with `fairlead bundle resume b-shop`"
    );
    assert_eq!(hub.code(pending), Some(Code::DeliverySuspended));
    assert!(hub.entry(hub.with_released(1)[0]).unwrap().suspended);
    hub.deploy(json!({"vars": {"a": 1}})).await;
    assert_eq!(hub.rollout().to, 1, "no rollout starts");
    hub.amend(|it| it.suspended = false).await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(2).len(), 8);
}

#[tokio::test]
async fn a_suspended_bundle_is_not_released_to_returning_clusters() {
    let mut hub = TestHub::with(4).await;
    hub.disconnect(3);
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    assert_eq!(hub.rollout().state, RolloutState::Done);
    hub.amend(|it| it.suspended = true).await;
    hub.connect(3);
    hub.all_ready().await;
    assert_eq!(hub.released(3), 0);
    hub.amend(|it| it.suspended = false).await;
    hub.all_ready().await;
    assert_eq!(hub.released(3), 1);
}

#[tokio::test]
async fn a_suspended_deployment_counts_as_offline() {
    let mut hub = TestHub::with(4).await;
    hub.deploy(json!({})).await;
    hub.all_ready().await;
    hub.amend(|it| {
        it.suspended_in.insert("c-0002".parse().unwrap());
    })
    .await;
    hub.deploy(json!({"vars": {"a": 1}})).await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(2), [0, 1, 3]);
    assert_eq!(hub.rollout().state, RolloutState::Done);
    assert!(hub.entry(2).unwrap().suspended);
    let suspended = [1, 2].map(|it| hub.deployment(it).unwrap().suspended);
    assert_eq!(suspended, [false, true]);
    assert_eq!(hub.code(2), Some(Code::DeliverySuspended));
    assert_eq!(
        hub.shown(2).1,
        "the deployment is suspended; resume it with `fairlead deployment resume c-0002 b-shop`"
    );
    hub.amend(|it| it.suspended_in.clear()).await;
    hub.all_ready().await;
    assert_eq!(hub.with_released(2), [0, 1, 2, 3]);
}
