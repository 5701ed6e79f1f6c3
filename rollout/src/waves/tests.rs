use std::collections::BTreeSet;

use fairlead_api::{
    BundleId, ClusterId, GroupId, Selector,
    delivery::{RolloutRules, Share, Wave},
};
use proptest::prelude::*;

use super::*;

/// Labels by the number in a cluster's name: `region` is one of three, and each tenth is in the group `g-edge`.
struct ByNumber;

fn number(cluster: &ClusterId) -> u32 {
    cluster.as_str().trim_start_matches("c-").parse().unwrap()
}

impl Membership for ByNumber {
    fn selects(&self, selector: &Selector, cluster: &ClusterId) -> bool {
        let region = format!("r{}", number(cluster) % 3);
        selector.matches(|name| (name == "region").then_some(region.as_str()))
    }

    fn in_group(&self, group: &GroupId, cluster: &ClusterId) -> bool {
        group.as_str() == "g-edge" && number(cluster).is_multiple_of(10)
    }
}

fn fleet(size: u32, connected: impl Fn(u32) -> bool) -> Vec<RolloutCluster> {
    let cluster = |number| RolloutCluster {
        id: format!("c-{number}").parse().unwrap(),
        connected: connected(number),
        before: 1,
    };
    (0..size).map(cluster).collect()
}

fn plan<'a>(bundle: &'a BundleId, rules: &'a RolloutRules) -> RolloutPlan<'a> {
    RolloutPlan {
        bundle,
        from: 1,
        to: 2,
        bad: None,
        rules,
        timeout: None,
    }
}

fn frozen(waves: &[Wave], clusters: Vec<RolloutCluster>) -> FrozenRollout {
    let rules = RolloutRules {
        waves: waves.to_vec(),
    };
    plan(&"b-shop".parse().unwrap(), &rules).freeze(clusters, &ByNumber)
}

fn sizes(rollout: &FrozenRollout) -> Vec<(&str, u32)> {
    let waves = rollout.waves.iter();
    waves
        .map(|it| (it.rules.name.as_str(), it.size()))
        .collect()
}

fn wave(name: &str) -> Wave {
    Wave {
        name: name.to_owned(),
        ..Wave::default()
    }
}

#[test]
fn default_is_one_canary_and_the_rest_at_each_size() {
    for size in [2, 3, 199, 200, 1000, 3000] {
        let rollout = frozen(&[], fleet(size, |_| true));
        assert_eq!(sizes(&rollout), [("canary", 1), ("rest", size - 1)]);
    }
    assert_eq!(
        sizes(&frozen(&[], fleet(1, |_| true))),
        [("canary", 1), ("rest", 0)]
    );
    assert_eq!(
        sizes(&frozen(&[], fleet(0, |_| true))),
        [("canary", 0), ("rest", 0)]
    );
}

#[test]
fn canary_is_connected_if_any_cluster_is() {
    for online in 0..50 {
        let rollout = frozen(&[], fleet(50, |number| number == online));
        assert_eq!(number(&rollout.waves[0].clusters[0]), online);
        assert_eq!(rollout.waves[0].connected, 1);
        assert_eq!(rollout.waves[1].connected, 0);
    }
}

#[test]
fn percentages_are_of_all_clusters_and_round_up() {
    let waves = [
        Wave {
            percent: Some(1),
            ..wave("one")
        },
        Wave {
            percent: Some(50),
            ..wave("half")
        },
        Wave {
            count: Some(2),
            ..wave("two")
        },
    ];
    for (size, expected) in [
        (1, vec![("one", 1), ("half", 0), ("two", 0)]),
        (3, vec![("one", 1), ("half", 2), ("two", 0)]),
        (
            199,
            vec![("one", 2), ("half", 100), ("two", 2), ("rest", 95)],
        ),
        (
            1000,
            vec![("one", 10), ("half", 500), ("two", 2), ("rest", 488)],
        ),
    ] {
        assert_eq!(sizes(&frozen(&waves, fleet(size, |_| true))), expected);
    }
}

#[test]
fn unmatched_clusters_form_a_last_wave() {
    let waves = [
        Wave {
            groups: vec!["g-edge".parse().unwrap()],
            ..wave("rest")
        },
        Wave {
            selector: Some("region in (r0,r1)".parse().unwrap()),
            ..wave("two-regions")
        },
    ];
    let rollout = frozen(&waves, fleet(100, |_| true));
    let expected = [("rest", 10), ("two-regions", 60), ("unmatched-rest", 30)];
    assert_eq!(sizes(&rollout), expected);
    let new = |number: u32| {
        let id = format!("c-{number}").parse().unwrap();
        rollout.wave_of_new(&id, &ByNumber)
    };
    assert_eq!([new(200), new(201), new(203)], [0, 1, 2]);
}

#[test]
fn order_mixes_neighbours_and_is_stable() {
    let rollout = frozen(&[], fleet(1000, |_| true));
    let order: Vec<u32> = rollout.waves[1].clusters.iter().map(number).collect();
    let first_quarter = order[..250].iter().filter(|it| **it < 250).count();
    assert!((30..100).contains(&first_quarter), "{first_quarter}");
    let mut reversed = fleet(1000, |_| true);
    reversed.reverse();
    assert_eq!(frozen(&[], reversed), rollout);
}

#[test]
fn rollback_begins_with_the_bad_generation() {
    let mut clusters = fleet(100, |number| number % 2 == 0);
    for cluster in &mut clusters {
        cluster.before = 1 + u64::from(number(&cluster.id) < 20);
    }
    let rules = RolloutRules::default();
    let bundle = "b-shop".parse().unwrap();
    let mut plan = plan(&bundle, &rules);
    plan.bad = Some(2);
    let rollout = plan.freeze(clusters, &ByNumber);
    let order: Vec<u32> = rollout
        .waves
        .iter()
        .flat_map(|it| &it.clusters)
        .map(number)
        .collect();
    assert!(order[..10].iter().all(|it| *it < 20 && it % 2 == 0));
    assert!(order[50..60].iter().all(|it| *it < 20 && it % 2 == 1));
    for (index, number) in (0..).zip(order) {
        assert_eq!(rollout.before(index), 1 + u64::from(number < 20));
    }
}

#[test]
fn stored_form_is_compact() {
    let rollout = frozen(&[], fleet(10_000, |_| true));
    let text = serde_json::to_string(&rollout).unwrap();
    assert!(text.len() < 60_000, "{}", text.len());
    assert_eq!(
        serde_json::from_str::<FrozenRollout>(&text).unwrap(),
        rollout
    );
    assert!(serde_json::from_str::<FrozenRollout>(&text.replacen(' ', " -", 1)).is_err());
}

#[test]
fn ids_of_a_stored_rollout_are_shared() {
    let known: Vec<ClusterId> = fleet(100, |_| true).into_iter().map(|it| it.id).collect();
    let text = serde_json::to_string(&frozen(&[], fleet(100, |_| true))).unwrap();
    let mut rollout: FrozenRollout = serde_json::from_str(&text).unwrap();
    let find = |id: &ClusterId| known.iter().find(|it| *it == id);
    rollout.share_ids(|id| find(id).cloned());
    let shared = rollout.waves.iter().flat_map(|it| &it.clusters);
    for id in shared {
        assert!(std::ptr::eq(id.as_str(), find(id).unwrap().as_str()));
    }
    let before = rollout.clone();
    rollout.share_ids(|_| Some(known[0].clone()));
    assert_eq!(rollout, before);
}

fn any_wave() -> impl Strategy<Value = Wave> {
    (0..6_u32, 1..60_u8).prop_map(|(kind, size)| Wave {
        count: (kind == 1).then_some(u32::from(size)),
        percent: (kind == 2).then_some(size),
        selector: (kind >= 4).then(|| format!("region=r{}", size % 3).parse().unwrap()),
        groups: if kind == 3 || kind == 4 {
            vec!["g-edge".parse().unwrap()]
        } else {
            Vec::new()
        },
        max_failures: (size > 30).then_some(Share::Percent(size)),
        ..wave(&format!("w{kind}"))
    })
}

proptest! {
    #[test]
    fn each_cluster_is_in_exactly_one_wave(
        waves in proptest::collection::vec(any_wave(), 0..6),
        size in 0_u32..300,
        offline in 1_u32..10,
    ) {
        let rollout = frozen(&waves, fleet(size, |number| number % offline != 0));
        let all: Vec<_> = rollout.waves.iter().flat_map(|it| &it.clusters).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        prop_assert_eq!(all.len(), distinct.len());
        prop_assert_eq!(all.len(), size as usize);
    }
}
