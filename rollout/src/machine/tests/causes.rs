//! Causes that a rollout names.

use super::*;

#[test]
fn three_most_frequent_causes_are_named() {
    let rules = json!([{"name": "all", "maxUnavailable": "100%", "maxFailures": 19}]);
    let mut fleet = Fleet::start(&rules, 100, |_| (true, Behaviour::Hangs));
    let causes = ["a", "b", "b", "c", "c", "c", "d", "d", "d", "d"];
    for (number, cause) in (0..20).zip(causes.iter().cycle()) {
        let report = ClusterReport {
            state: DeploymentState::Failed,
            generation: 2,
            applied: 1,
            retries_exhausted: true,
            since: fleet.now,
            cause: Some(cause),
        };
        assert_eq!(fleet.machine.state(), RolloutState::Running);
        fleet.machine.report(fleet.now, &id(number), &report);
    }
    let reason = fleet.machine.reason().unwrap();
    let expected =
        "20 of 100 clusters of wave all failed, 19 are tolerated: 8x \"d\", 6x \"c\", 4x \"b\"; ";
    assert!(reason.starts_with(expected), "{reason}");
}

#[test]
fn running_rollout_tells_what_its_clusters_wait_for() {
    let mut fleet = Fleet::start(&default_rules(), 3, |_| (true, Behaviour::Hangs));
    assert_eq!(fleet.machine.reason(), None);
    let canary = fleet.wave(0).clusters[0].clone();
    let mut report = ClusterReport {
        state: DeploymentState::Blocked,
        generation: 2,
        applied: 1,
        retries_exhausted: true,
        since: fleet.now,
        cause: Some("would delete 3 of 4 objects"),
    };
    fleet.machine.report(fleet.now, &canary, &report);
    let reason = fleet.machine.reason();
    let expected = "wave canary waits: 1x \"would delete 3 of 4 objects\"";
    assert_eq!(reason.as_deref(), Some(expected));
    report.cause = None;
    fleet.machine.report(fleet.now, &canary, &report);
    assert_eq!(fleet.machine.reason(), None);
}
