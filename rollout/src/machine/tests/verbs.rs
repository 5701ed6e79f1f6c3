//! Verbs of people.

use serde_json::json;

use super::{
    failing,
    fleet::{Behaviour, Fleet, id, number, seconds},
    *,
};

#[test]
fn paused_rollout_releases_nothing_until_resumed() {
    let mut fleet = Fleet::start(&default_rules(), 100, all_ready);
    fleet.run(seconds(10));
    fleet.verb(RolloutVerb::Pause);
    fleet.verb(RolloutVerb::Pause);
    let released = fleet.released();
    fleet.run(ONE_HOUR);
    assert_eq!((fleet.released(), fleet.ready()), (released, released));
    fleet.restart();
    assert_eq!(fleet.machine.state(), RolloutState::Paused);
    fleet.verb(RolloutVerb::Resume);
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.ready(), 100);
}

#[test]
fn resume_forgets_failures_but_raises_no_limit() {
    let mut fleet = failing(200, 45, 3);
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Halted);
    // 50 are released at once, so that more than 20 may fail before the halt is decided.
    let failed = fleet.failed(1);
    fleet.verb(RolloutVerb::Resume);
    assert_eq!(fleet.machine.state(), RolloutState::Running);
    fleet.restart();
    assert_eq!(fleet.machine.state(), RolloutState::Running);
    assert_eq!(fleet.failed(1), failed, "shown as failed still");
    let unavailable = fleet.released() - fleet.ready();
    assert!(unavailable <= 50, "{unavailable}");
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Done);
    assert_eq!(fleet.ready(), 155);
}

#[test]
fn retry_counts_failed_clusters_anew() {
    let mut fleet = failing(200, 20, 3);
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Halted);
    for cluster in fleet.clusters.values_mut() {
        cluster.behaviour = Behaviour::Ready(5);
    }
    fleet.verb(RolloutVerb::Retry);
    assert_eq!(
        (fleet.machine.state(), fleet.failed(1)),
        (RolloutState::Running, 0)
    );
    fleet.restart();
    assert_eq!(
        (fleet.machine.state(), fleet.failed(1)),
        (RolloutState::Running, 0)
    );
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Done);
    assert_eq!(fleet.ready(), 200);
}

#[test]
fn promote_lifts_soak_and_limits_of_the_current_wave_only() {
    let rules = json!([
        {"name": "a", "count": 10, "maxUnavailable": 1, "maxFailures": 0, "soak": "1h"},
        {"name": "b", "maxUnavailable": 1},
    ]);
    let mut fleet = Fleet::start(&rules, 20, all_ready);
    assert_eq!(fleet.released(), 1);
    fleet.verb(RolloutVerb::Promote);
    assert_eq!(fleet.released(), 10);
    let failing = number(&fleet.wave(0).clusters[9]);
    fleet.clusters.get_mut(&id(failing)).unwrap().behaviour = Behaviour::Fails(1);
    fleet.set_state(failing, DeploymentState::Failed);
    fleet.restart();
    fleet.promoted = false;
    fleet.run(seconds(10));
    assert_eq!(fleet.waves_done, [0]);
    assert_eq!(fleet.released(), 11);
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.ready(), 19);
}

#[test]
fn aborted_rollout_leaves_both_generations() {
    let mut fleet = Fleet::start(&default_rules(), 100, all_ready);
    fleet.run(seconds(10));
    fleet.verb(RolloutVerb::Abort);
    let released = fleet.released();
    assert_eq!(released, 26);
    fleet.run(ONE_HOUR);
    fleet.restart();
    assert_eq!(fleet.machine.state(), RolloutState::Aborted);
    assert_eq!(fleet.released(), released);
    let old = fleet.machine.all_released().filter(|(_, it)| *it == 1);
    assert_eq!(old.count(), 74);
    for verb in [
        RolloutVerb::Resume,
        RolloutVerb::Promote,
        RolloutVerb::Retry,
    ] {
        let refused = fleet.machine.verb(fleet.now, verb).unwrap_err();
        assert_eq!(refused.state, RolloutState::Aborted);
    }
}
