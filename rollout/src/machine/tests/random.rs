//! Random fleets: the rules hold after each event, with restarts of the hub at random points.

use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::{
    fleet::{Behaviour, Fleet, id, seconds},
    *,
};

#[derive(Debug, Clone)]
enum Event {
    Run(u64),
    Connect(u32, bool),
    Untarget(u32),
    Join(u32),
    Relapse(u32),
    Verb(RolloutVerb),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let verbs = [
        RolloutVerb::Pause,
        RolloutVerb::Resume,
        RolloutVerb::Promote,
        RolloutVerb::Retry,
    ];
    prop_oneof![
        6 => (1_u64..120).prop_map(Event::Run),
        4 => (0_u32..60, any::<bool>()).prop_map(|(number, on)| Event::Connect(number, on)),
        1 => (0_u32..60).prop_map(Event::Untarget),
        1 => (0_u32..90).prop_map(Event::Join),
        1 => (0_u32..60).prop_map(Event::Relapse),
        2 => proptest::sample::select(verbs.to_vec()).prop_map(Event::Verb),
        2 => Just(Event::Restart),
    ]
}

fn behaviour() -> impl Strategy<Value = (bool, Behaviour)> {
    let behaviour = prop_oneof![
        8 => (1_u64..90).prop_map(Behaviour::Ready),
        1 => (1_u64..90).prop_map(Behaviour::Fails),
        1 => Just(Behaviour::Hangs),
    ];
    (proptest::bool::weighted(0.7), behaviour)
}

fn waves() -> impl Strategy<Value = serde_json::Value> {
    let limit = || {
        prop_oneof![
            (0_u32..5).prop_map(|it| json!(it)),
            (0_u32..=100).prop_map(|it| json!(format!("{it}%")))
        ]
    };
    let wave = (0_u32..4, 1_u32..30, limit(), limit(), 0_u64..60).prop_map(|(kind, size, unavailable, failures, soak)| {
        let mut wave = json!({"name": "w", "maxUnavailable": unavailable, "maxFailures": failures, "soak": format!("{soak}s")});
        match kind {
            1 => wave["count"] = json!(size),
            2 => wave["percent"] = json!(size),
            3 => wave["selector"] = json!(format!("region=r{}", size % 3)),
            _ => {}
        }
        wave
    });
    vec(wave, 0..4).prop_map(serde_json::Value::from)
}

fn is_ready(fleet: &Fleet, number: u32) -> bool {
    fleet.clusters[&id(number)].is_ready(2)
}

fn happen(fleet: &mut Fleet, event: &Event) {
    let known = |fleet: &Fleet, number| {
        fleet
            .clusters
            .get(&id(number))
            .is_some_and(|it| it.targeted)
    };
    match *event {
        Event::Run(span) => fleet.run(seconds(span)),
        Event::Connect(number, on) if known(fleet, number) => fleet.connect(number, on),
        Event::Untarget(number) if known(fleet, number) => fleet.untarget(number),
        Event::Join(number) if !known(fleet, number) => fleet.join(number),
        Event::Relapse(number) if known(fleet, number) && is_ready(fleet, number) => {
            fleet.set_state(number, DeploymentState::NotReady);
        }
        Event::Verb(verb) => {
            if let Ok(effects) = fleet.machine.verb(fleet.now, verb) {
                fleet.promoted |= verb == RolloutVerb::Promote;
                fleet.apply(&effects);
            }
        }
        Event::Restart => {
            let before = fleet.history.len();
            let state = fleet.machine.state();
            fleet.restart();
            // Participants that never had the generation and are offline leave the base of the limits.
            if fleet.machine.state() == state {
                assert_eq!(fleet.history.len(), before, "a restart releases nothing");
            }
        }
        _ => {}
    }
    halts_exactly_above_the_limit(fleet);
}

/// A running rollout is within its limit; a wave that goes on has released all it may.
fn halts_exactly_above_the_limit(fleet: &Fleet) {
    let wave = fleet.machine.wave;
    if fleet.machine.state() != RolloutState::Running {
        return;
    }
    let limits = fleet.limits(wave);
    let counters = fleet.machine.counters(wave);
    assert!(fleet.machine.promoted || counters.failed <= limits.max_failures);
    if counters.unreleased > 0 {
        assert!(
            counters.unavailable() >= limits.max_unavailable,
            "a cluster waits for nothing"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn rules_hold_in_random_fleets(
        waves in waves(),
        fleet in vec(behaviour(), 1..60),
        events in vec(event(), 0..60),
    ) {
        let mut fleet = Fleet::start(&waves, fleet.len() as u32, |number| fleet[number as usize]);
        for event in &events {
            happen(&mut fleet, event);
        }
    }

    #[test]
    fn offline_clusters_never_block_a_healthy_fleet(
        waves in waves(),
        online in vec(any::<bool>(), 1..60),
        events in vec((0_u32..60, any::<bool>(), 1_u64..30), 0..40),
    ) {
        let behave = |number: u32| (online[number as usize], Behaviour::Ready(10));
        let mut fleet = Fleet::start(&waves, online.len() as u32, behave);
        for (number, on, span) in events {
            happen(&mut fleet, &Event::Connect(number, on));
            fleet.run(seconds(span));
        }
        fleet.run(ONE_HOUR);
        prop_assert_eq!(fleet.machine.state(), RolloutState::Done);
        prop_assert_eq!(fleet.count(|it| it.online && !it.is_ready(2)), 0);
    }

    #[test]
    fn restarts_change_no_release(
        waves in waves(),
        behaviours in vec(behaviour(), 1..40),
        events in vec(event(), 0..40),
    ) {
        // A restart counts timeouts from the last change of state, so that clusters that hang fail later.
        let online = |number: u32| match behaviours[number as usize].1 {
            Behaviour::Hangs => (true, Behaviour::Fails(7)),
            other => (true, other),
        };
        let mut plain = Fleet::start(&waves, behaviours.len() as u32, online);
        let mut restarted = Fleet::start(&waves, behaviours.len() as u32, online);
        // A restart begins a soak time anew: compare at rest.
        for event in events.iter().filter(|it| matches!(it, Event::Run(_) | Event::Restart)) {
            if !matches!(event, Event::Restart) {
                happen(&mut plain, event);
            }
            happen(&mut restarted, event);
            prop_assert!(restarted.released() <= plain.released());
        }
        plain.run(ONE_HOUR);
        restarted.run(2 * ONE_HOUR);
        prop_assert_eq!(plain.machine.state(), restarted.machine.state());
        prop_assert_eq!(plain.machine.step(), restarted.machine.step());
    }
}
