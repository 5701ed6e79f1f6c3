mod causes;
mod fleet;
mod random;
mod verbs;

use std::time::Duration;

use fairlead_api::{
    ClusterId,
    delivery::{DeploymentState, RolloutState, WaveState},
};
use serde_json::json;

use self::fleet::{Behaviour, Fleet, id, number, seconds};
use super::*;

const ONE_HOUR: Duration = Duration::from_secs(3600);

/// Default rules.
fn default_rules() -> serde_json::Value {
    json!([])
}

fn all_ready(_: u32) -> (bool, Behaviour) {
    (true, Behaviour::Ready(10))
}

#[test]
fn rollout_of_each_size_ends_with_all_ready() {
    let percent = json!([{"name": "a", "percent": 1, "soak": "2m"}, {"name": "b", "percent": 50}]);
    let count = json!([{"name": "a", "count": 5}, {"name": "b", "count": 50, "maxUnavailable": 1}]);
    for size in [1, 2, 3, 199, 200, 1000] {
        for rules in [&default_rules(), &percent, &count] {
            let mut fleet = Fleet::start(rules, size, all_ready);
            fleet.run(ONE_HOUR);
            assert_eq!(fleet.machine.state(), RolloutState::Done, "{size} {rules}");
            assert_eq!(fleet.ready(), size);
            let waves = fleet.machine.waves();
            assert_eq!(waves.iter().map(|it| it.ready).sum::<u32>(), size);
            assert!(waves.iter().all(|it| it.state == WaveState::Done));
        }
    }
}

#[test]
fn a_done_rollout_has_memory_for_its_clusters_only() {
    let mut fleet = Fleet::start(&default_rules(), 1_000, all_ready);
    fleet.run(ONE_HOUR);
    let machine = &fleet.machine;
    let capacities = [machine.ids.capacity(), machine.slots.capacity()];
    assert_eq!(capacities, [1_000, 1_000]);
    assert_eq!(machine.deadlines.capacity(), 0);
}

#[test]
fn default_rules_release_one_canary_then_a_quarter() {
    let mut fleet = Fleet::start(&default_rules(), 401, all_ready);
    assert_eq!(fleet.released(), 1);
    fleet.run(seconds(9));
    assert_eq!(fleet.released(), 1);
    fleet.run(seconds(1));
    assert_eq!(fleet.released(), 101);
    fleet.run(seconds(40));
    assert_eq!(fleet.machine.state(), RolloutState::Done);
}

#[test]
fn failed_canary_halts_the_rollout() {
    for size in [1, 3, 200] {
        let mut fleet = Fleet::start(&default_rules(), size, |_| (true, Behaviour::Fails(5)));
        fleet.run(ONE_HOUR);
        assert_eq!(fleet.machine.state(), RolloutState::Halted);
        assert_eq!(fleet.released(), 1);
        let reason = fleet.machine.reason().unwrap();
        let expected = "1 of 1 clusters of wave canary failed, 0 are tolerated: 1x \"image pull failed\"; \
            deploy a corrected version, roll back, retry, or resume";
        assert_eq!(reason, expected);
    }
}

/// The canary is ready, then so many clusters of `rest` fail.
fn failing(size: u32, failures: u32, after: u64) -> Fleet {
    let fleet = Fleet::start(&default_rules(), size, all_ready);
    let rest = fleet.wave(1).clusters[..failures as usize].to_vec();
    Fleet::start(&default_rules(), size, |number| {
        let fails = rest.contains(&id(number));
        let behaviour = if fails {
            Behaviour::Fails(after)
        } else {
            Behaviour::Ready(10)
        };
        (true, behaviour)
    })
}

#[test]
fn failures_within_the_limit_are_tolerated() {
    for (size, failures) in [(200, 19), (1000, 99), (11, 1)] {
        let mut fleet = failing(size, failures, 3);
        fleet.run(ONE_HOUR);
        assert_eq!(fleet.machine.state(), RolloutState::Done);
        assert_eq!(
            (fleet.ready(), fleet.failed(1)),
            (size - failures, failures)
        );
    }
}

#[test]
fn failures_above_the_limit_halt_and_running_ones_end() {
    for (size, failures) in [(200, 20), (1000, 100)] {
        let mut fleet = failing(size, failures, 3);
        fleet.run(ONE_HOUR);
        assert_eq!(fleet.machine.state(), RolloutState::Halted);
        let released = fleet.released();
        assert!(released <= 1 + size / 4 + failures, "{released}");
        assert_eq!(fleet.ready(), released - failures);
        fleet.run(ONE_HOUR);
        assert_eq!(fleet.released(), released);
    }
}

#[test]
fn cluster_that_hangs_fails_after_the_timeout() {
    let mut fleet = Fleet::start(&default_rules(), 1, |_| (true, Behaviour::Hangs));
    fleet.run(seconds(299));
    assert_eq!(fleet.machine.state(), RolloutState::Running);
    fleet.run(seconds(2));
    assert_eq!(fleet.machine.state(), RolloutState::Halted);
    let reason = fleet.machine.reason().unwrap();
    assert!(reason.contains("1x \"not ready within 300 s\""), "{reason}");
    fleet.clusters.get_mut(&id(0)).unwrap().behaviour = Behaviour::Ready(1);
    fleet.set_state(0, DeploymentState::Ready);
    assert_eq!(fleet.failed(0), 0);
    assert_eq!(
        fleet.machine.state(),
        RolloutState::Halted,
        "a person resumes"
    );
}

/// Time until all connected clusters are ready.
fn time_to_ready(size: u32, offline: u32) -> u64 {
    let mut fleet = Fleet::start(&default_rules(), size, |number| {
        (number % 10 >= offline, Behaviour::Ready(10))
    });
    let start = fleet.now;
    while fleet.machine.state() == RolloutState::Running {
        fleet.run(seconds(1));
        assert!(fleet.now.since(start) < ONE_HOUR);
    }
    assert_eq!(fleet.ready(), fleet.count(|it| it.online));
    fleet.now.since(start).as_secs()
}

#[test]
fn offline_clusters_delay_nobody() {
    for size in [10, 199, 200, 1000] {
        assert!(time_to_ready(size, 3) <= time_to_ready(size, 0), "{size}");
    }
}

#[test]
fn rollout_without_connected_clusters_is_done_and_serves_them_on_return() {
    let mut fleet = Fleet::start(&default_rules(), 100, |_| (false, Behaviour::Ready(10)));
    assert_eq!(fleet.machine.state(), RolloutState::Done);
    for number in 0..100 {
        fleet.connect(number, true);
    }
    assert_eq!(fleet.released(), 25, "the last wave's maxUnavailable holds");
    fleet.run(seconds(10));
    assert_eq!(fleet.released(), 50);
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.ready(), 100);
}

#[test]
fn clusters_that_return_during_and_after_are_served() {
    for restart in [false, true] {
        let mut fleet = Fleet::start(&default_rules(), 1000, |number| {
            (number % 10 >= 3, Behaviour::Ready(10))
        });
        fleet.run(seconds(15));
        for number in (0..500).filter(|it| it % 10 < 3) {
            fleet.connect(number, true);
        }
        if restart {
            fleet.restart();
        }
        fleet.run(ONE_HOUR);
        assert_eq!(fleet.machine.state(), RolloutState::Done);
        assert_eq!(fleet.ready(), 850);
        if restart {
            fleet.restart();
        }
        for number in (500..1000).filter(|it| it % 10 < 3) {
            fleet.connect(number, true);
        }
        fleet.run(ONE_HOUR);
        assert_eq!(fleet.ready(), 1000);
    }
}

#[test]
fn returned_cluster_comes_before_new_ones() {
    let rules = json!([{"name": "all", "maxUnavailable": 1}]);
    let mut fleet = Fleet::start(&rules, 5, |number| (number != 3, Behaviour::Ready(10)));
    let order: Vec<u32> = fleet.wave(0).clusters.iter().map(number).collect();
    assert_eq!(order[4], 3, "offline clusters stand last");
    let second = order[1];
    fleet.connect(second, false);
    fleet.run(seconds(10));
    assert_eq!(number(fleet.history.last().unwrap()), order[2]);
    fleet.connect(second, true);
    fleet.run(seconds(10));
    assert_eq!(number(fleet.history.last().unwrap()), second);
}

#[test]
fn cluster_that_goes_offline_leaves_the_counts_of_its_wave() {
    let mut fleet = failing(200, 20, 3);
    fleet.run(seconds(12));
    let failed: Vec<u32> = fleet.wave(1).clusters[..5].iter().map(number).collect();
    let mut fleet = failing(200, 20, 30);
    fleet.run(seconds(11));
    for number in &failed {
        fleet.connect(*number, false);
    }
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Done);
    assert_eq!(fleet.failed(1), 15);
}

#[test]
fn wave_soaks_and_begins_anew_after_a_loss() {
    let rules = json!([{"name": "canary", "count": 1, "soak": "2m"}]);
    let mut fleet = Fleet::start(&rules, 10, all_ready);
    let canary = number(&fleet.wave(0).clusters[0]);
    fleet.run(seconds(100));
    assert_eq!(fleet.machine.waves()[0].state, WaveState::Soaking);
    fleet.set_state(canary, DeploymentState::NotReady);
    assert_eq!(fleet.machine.waves()[0].state, WaveState::Running);
    fleet.run(seconds(50));
    fleet.set_state(canary, DeploymentState::Ready);
    fleet.run(seconds(119));
    assert_eq!(fleet.released(), 1);
    fleet.run(seconds(1));
    assert_eq!(fleet.released(), 4);
}

#[test]
fn ready_clusters_at_the_generation_count_at_once() {
    let mut fleet = Fleet::start(&default_rules(), 100, all_ready);
    for number in 0..90 {
        let cluster = fleet.clusters.get_mut(&id(number)).unwrap();
        (cluster.accepted, cluster.applied) = (2, 2);
        fleet.report(&id(number));
    }
    fleet.run(seconds(10));
    assert_eq!(fleet.released(), 100);
    fleet.run(seconds(10));
    assert_eq!(fleet.machine.state(), RolloutState::Done);
}

#[test]
fn newer_generation_takes_all_clusters_again() {
    let mut fleet = Fleet::start(&default_rules(), 200, all_ready);
    fleet.run(seconds(15));
    assert_eq!(fleet.released(), 51);
    let mut fleet = fleet.next(&default_rules(), None);
    assert_eq!((fleet.machine.from(), fleet.machine.to()), (1, 3));
    let middle = fleet.machine.all_released().filter(|(_, it)| *it == 2);
    assert_eq!(
        middle.count(),
        50,
        "the canary has 3, and 50 the middle generation"
    );
    fleet.run(seconds(3));
    fleet.restart();
    fleet.run(ONE_HOUR);
    assert_eq!(
        (fleet.machine.state(), fleet.ready()),
        (RolloutState::Done, 200)
    );
}

#[test]
fn rollback_begins_with_the_clusters_that_have_the_bad_generation() {
    let mut fleet = failing(200, 40, 3);
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Halted);
    let bad: Vec<ClusterId> = fleet.history.clone();
    for cluster in fleet.clusters.values_mut() {
        cluster.behaviour = Behaviour::Ready(5);
    }
    let mut fleet = fleet.next(&default_rules(), Some(2));
    fleet.run(ONE_HOUR);
    assert_eq!(
        (fleet.machine.state(), fleet.ready()),
        (RolloutState::Done, 200)
    );
    let first = &fleet.history[..bad.len()];
    assert!(first.iter().all(|it| bad.contains(it)));
}

#[test]
fn untargeted_clusters_leave_the_counts() {
    let mut fleet = Fleet::start(&default_rules(), 1000, all_ready);
    fleet.run(seconds(12));
    for number in 0..300 {
        fleet.untarget(number);
    }
    fleet.restart();
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Done);
    let view = fleet
        .machine
        .view("r-1".parse().unwrap(), "b-shop".parse().unwrap());
    assert_eq!((view.from, view.to, view.state), (1, 2, RolloutState::Done));
    let clusters: u32 = view.waves.iter().map(|it| it.clusters).sum();
    assert_eq!(clusters, 700);
    assert_eq!(fleet.count(|it| it.targeted && it.is_ready(2)), 700);
    assert_eq!(fleet.machine.released(&id(0)), None);
}

#[test]
fn new_cluster_waits_until_its_wave_is_done() {
    for restart in [false, true] {
        let rules =
            json!([{"name": "r0", "selector": "region=r0"}, {"name": "others", "soak": "1h"}]);
        let mut fleet = Fleet::start(&rules, 30, all_ready);
        for number in [33, 34] {
            fleet.join(number);
            assert_eq!(fleet.machine.released(&id(number)), Some(1));
        }
        assert_eq!(fleet.machine.waves()[0].clusters, 10);
        if restart {
            fleet.restart();
        }
        fleet.run(ONE_HOUR / 2);
        assert_eq!(fleet.machine.released(&id(33)), Some(2), "its wave is done");
        assert_eq!(fleet.machine.released(&id(34)), Some(1), "its wave soaks");
        fleet.join(36);
        assert_eq!(fleet.machine.released(&id(36)), Some(2));
        if restart {
            fleet.restart();
        }
        fleet.run(2 * ONE_HOUR);
        assert_eq!(fleet.machine.state(), RolloutState::Done);
        assert_eq!(fleet.machine.released(&id(34)), Some(2));
        let clusters: u32 = fleet.machine.waves().iter().map(|it| it.clusters).sum();
        assert_eq!(clusters, 33);
    }
}

#[test]
fn tolerated_failures_that_use_up_the_limit_are_named() {
    let rules = json!([{"name": "all", "maxUnavailable": 1, "maxFailures": 5}]);
    let mut fleet = Fleet::start(&rules, 10, |_| (true, Behaviour::Fails(1)));
    fleet.run(seconds(10));
    assert_eq!(
        (fleet.machine.state(), fleet.released()),
        (RolloutState::Running, 1)
    );
    let reason = fleet.machine.reason().unwrap();
    let expected = "wave all waits: its failed clusters (1) use up maxUnavailable (1); ";
    assert!(reason.starts_with(expected), "{reason}");
}

#[test]
fn returned_clusters_behind_failed_ones_are_named() {
    let rules = json!([{"name": "all", "maxFailures": 1}]);
    let mut fleet = Fleet::start(&rules, 4, |number| (number < 2, Behaviour::Fails(5)));
    let first = number(&fleet.history[0]);
    fleet.clusters.get_mut(&id(1 - first)).unwrap().behaviour = Behaviour::Ready(1);
    fleet.connect(1 - first, false);
    fleet.run(seconds(10));
    assert_eq!(fleet.machine.state(), RolloutState::Done);
    assert_eq!(fleet.machine.reason(), None);
    fleet.connect(1 - first, true);
    assert_eq!(fleet.released(), 1);
    let reason = fleet.machine.reason().unwrap();
    assert!(
        reason.starts_with("clusters that returned (1) wait: "),
        "{reason}"
    );
    for cluster in fleet.clusters.values_mut() {
        cluster.behaviour = Behaviour::Ready(1);
    }
    fleet.verb(RolloutVerb::Retry);
    fleet.run(seconds(10));
    assert_eq!((fleet.ready(), fleet.machine.reason()), (2, None));
}

#[test]
fn restart_keeps_the_limits_of_clusters_that_went_offline() {
    let mut fleet = failing(201, 15, 3);
    fleet.run(seconds(14));
    assert_eq!(
        (fleet.machine.state(), fleet.failed(1)),
        (RolloutState::Running, 15)
    );
    let unreleased: Vec<u32> = fleet.wave(1).clusters[80..].iter().map(number).collect();
    for number in unreleased {
        fleet.connect(number, false);
    }
    fleet.restart();
    assert_eq!(fleet.machine.state(), RolloutState::Running);
    fleet.run(ONE_HOUR);
    assert_eq!(fleet.machine.state(), RolloutState::Done);
}

#[test]
fn progress_of_a_cluster_takes_six_bytes() {
    // A hub may have 500,000 of them, most of rollouts that are done.
    assert_eq!(size_of::<slot::Slot>(), 6);
}

#[test]
fn nothing_is_decided_while_agents_reconnect() {
    let mut fleet = Fleet::start(&default_rules(), 100, all_ready);
    fleet.run(seconds(5));
    let step = fleet.machine.step();
    let offline = RolloutObservation {
        connected: false,
        report: None,
    };
    let quiet_until = fleet.now + seconds(60);
    let (mut machine, effects) = RolloutMachine::restore(
        fleet.frozen.clone(),
        step.clone(),
        |_| Some(offline),
        fleet.now,
        Some(quiet_until),
    );
    assert_eq!(effects.wake, Some(quiet_until));
    for number in 0..100 {
        machine.connection(fleet.now, &id(number), true);
    }
    assert_eq!(machine.step(), step);
    machine.tick(quiet_until);
    assert_eq!(machine.step(), step, "the canary is not ready");
    assert_eq!(machine.waves()[0].in_progress, 1);
}

/// Prints the time of decisions: `cargo test -p fairlead-rollout --release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn time_of_decisions_with_10_000_clusters() {
    use std::time::SystemTime;
    let mut fleet = Fleet::start(&default_rules(), 10_000, |number| {
        (number % 10 >= 3, Behaviour::Ready(10))
    });
    fleet.run(seconds(9));
    let mut times: Vec<Duration> = Vec::new();
    let to = 2;
    let mut machine = fleet.machine.clone();
    let mut open = vec![machine.cluster(0).unwrap().clone()];
    let mut now = fleet.now;
    while let Some(cluster) = open.pop() {
        let report = ClusterReport {
            state: DeploymentState::Ready,
            generation: to,
            applied: to,
            retries_exhausted: false,
            since: now,
            cause: None,
        };
        let begin = SystemTime::now();
        let effects = machine.report(now, &cluster, &report);
        times.push(begin.elapsed().unwrap());
        now = now + Duration::from_millis(1);
        let released = effects.released.iter();
        open.extend(released.filter_map(|it| machine.cluster(*it).cloned()));
    }
    assert_eq!(machine.state(), RolloutState::Done);
    times.sort_unstable();
    let begin = SystemTime::now();
    let step = machine.step();
    let stepped = begin.elapsed().unwrap();
    let at = |share: usize| times[(times.len() - 1) * share / 1000];
    println!(
        "{} reports: p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}; step {stepped:?}, {} bytes",
        times.len(),
        at(500),
        at(990),
        at(999),
        at(1000),
        serde_json::to_string(&step).unwrap().len(),
    );
}
