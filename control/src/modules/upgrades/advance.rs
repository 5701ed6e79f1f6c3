//! Next step of an upgrade: takes over results, begins the next wave, stops. Pure.

use fairlead_api::{
    ClusterId, Code,
    resources::{AgentUpgradeState, ClusterUpgradeState},
};
use fairlead_store::model::{ClusterUpgradeOrder, FleetUpgrade, UpgradeProgress};
use time::{Duration, OffsetDateTime};

/// Time for an agent to learn of its upgrade and to report its result, in addition to that of the new pods.
pub(super) const REPORT_MARGIN: Duration = Duration::minutes(2);
const MAX_NAMED_FAILURES: usize = 3;

/// A cluster as the hub observes it.
pub(super) struct ObservedCluster {
    /// Last order in the record of the cluster.
    pub(super) order: Option<ClusterUpgradeOrder>,
    /// True if an agent has a session.
    pub(super) connected: bool,
}

/// Clusters whose records change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NextStep {
    /// Clusters that begin.
    pub(super) begin: Vec<ClusterId>,
    /// Clusters that have not reported in time; their agents shall not begin any more.
    pub(super) expired: Vec<ClusterId>,
}

/// Advances an upgrade. `observed`: `None` for a deleted cluster.
pub(super) fn advance(
    upgrade: &mut FleetUpgrade,
    now: OffsetDateTime,
    observed: impl Fn(&ClusterId) -> Option<ObservedCluster>,
) -> NextStep {
    let mut step = NextStep {
        begin: Vec::new(),
        expired: take_results(upgrade, now, &observed),
    };
    if upgrade.state != AgentUpgradeState::Running {
        return step;
    }
    let failed: Vec<&ClusterId> = upgrade
        .clusters
        .iter()
        .filter(|(_, it)| it.state.is_failure())
        .map(|(id, _)| id)
        .collect();
    if failed.len() > usize::try_from(upgrade.max_failed).unwrap_or(usize::MAX) {
        upgrade.reason = Some(reason(&failed));
        upgrade.state = AgentUpgradeState::Stopped;
        upgrade.finished = Some(now);
        return step;
    }
    let is_open = |id: &&ClusterId| {
        let progress = upgrade.clusters.get(*id);
        progress.is_some_and(|it| !it.state.is_final())
    };
    let wave = upgrade
        .waves
        .iter()
        .find(|it| it.iter().any(|id| is_open(&id)));
    let Some(wave) = wave else {
        upgrade.state = AgentUpgradeState::Done;
        upgrade.finished = Some(now);
        return step;
    };
    for id in wave {
        let Some(progress) = upgrade.clusters.get_mut(id) else {
            continue;
        };
        if progress.state == ClusterUpgradeState::Waiting {
            progress.state = ClusterUpgradeState::Upgrading;
            progress.started = Some(now);
            step.begin.push(id.clone());
        }
    }
    step
}

/// Takes over the results of clusters; returns those that have not reported in time.
fn take_results(
    upgrade: &mut FleetUpgrade,
    now: OffsetDateTime,
    observed: &impl Fn(&ClusterId) -> Option<ObservedCluster>,
) -> Vec<ClusterId> {
    let limit = Duration::seconds(i64::from(upgrade.timeout_seconds)) + REPORT_MARGIN;
    let mut expired = Vec::new();
    for (id, progress) in &mut upgrade.clusters {
        if progress.state != ClusterUpgradeState::Upgrading {
            continue;
        }
        let Some(cluster) = observed(id) else {
            end(progress, now, ClusterUpgradeState::Skipped, deleted());
            continue;
        };
        let own = cluster.order.filter(|it| it.id == upgrade.id);
        if let Some(order) = own.filter(|it| it.state.is_final()) {
            end(progress, now, order.state, order.cause);
            continue;
        }
        if progress
            .started
            .is_none_or(|started| now >= started + limit)
        {
            let cause = unreported(cluster.connected);
            end(progress, now, ClusterUpgradeState::Failed, Some(cause));
            expired.push(id.clone());
        }
    }
    expired
}

fn end(
    progress: &mut UpgradeProgress,
    now: OffsetDateTime,
    state: ClusterUpgradeState,
    cause: Option<String>,
) {
    progress.state = state;
    progress.cause = cause;
    progress.finished = Some(now);
}

fn deleted() -> Option<String> {
    Some("the cluster was deleted".to_owned())
}

/// Cause of a cluster without a report in time.
pub(super) fn unreported(connected: bool) -> String {
    let code = Code::AgentUpgradeUnreported;
    match connected {
        true => format!("{code}: the agent is connected and has reported no result"),
        false => format!("{code}: no agent is connected"),
    }
}

fn reason(failed: &[&ClusterId]) -> String {
    let named = failed.iter().take(MAX_NAMED_FAILURES);
    let named: Vec<&str> = named.map(|id| id.as_str()).collect();
    let more = match failed.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("failed: {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use time::macros::datetime;

    use super::*;
    use ClusterUpgradeState::{Done, Failed, RolledBack, Skipped, Upgrading, Waiting};

    const START: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    struct World {
        upgrade: FleetUpgrade,
        orders: BTreeMap<ClusterId, Option<ClusterUpgradeOrder>>,
        connected: bool,
        now: OffsetDateTime,
    }

    impl World {
        fn new(waves: &[&[&str]], max_failed: u32) -> Self {
            let waves: Vec<Vec<ClusterId>> = waves
                .iter()
                .map(|wave| wave.iter().map(|id| id.parse().unwrap()).collect())
                .collect();
            let ids = waves.iter().flatten().cloned();
            let clusters = ids
                .clone()
                .map(|id| (id, UpgradeProgress::new(Waiting, None)));
            World {
                orders: ids.map(|id| (id, None)).collect(),
                upgrade: FleetUpgrade {
                    id: "au-1".to_owned(),
                    version: "0.1.0".to_owned(),
                    image: "fairlead:0.1.0".to_owned(),
                    selector: None,
                    state: AgentUpgradeState::Running,
                    reason: None,
                    timeout_seconds: 300,
                    max_failed,
                    created: START,
                    created_by: "ann".to_owned(),
                    finished: None,
                    clusters: clusters.collect(),
                    waves,
                },
                connected: true,
                now: START,
            }
        }

        fn step(&mut self) -> Vec<String> {
            let orders = &self.orders;
            let connected = self.connected;
            let step = advance(&mut self.upgrade, self.now, |id| {
                let order = orders.get(id)?.clone();
                Some(ObservedCluster { order, connected })
            });
            for id in &step.begin {
                self.orders.insert(id.clone(), Some(self.upgrade.order()));
            }
            step.begin.iter().map(ToString::to_string).collect()
        }

        fn report(&mut self, id: &str, state: ClusterUpgradeState) {
            let order = self.orders.get_mut(&id.parse::<ClusterId>().unwrap());
            order.unwrap().as_mut().unwrap().state = state;
        }

        fn state(&self, id: &str) -> ClusterUpgradeState {
            self.upgrade.clusters[&id.parse::<ClusterId>().unwrap()].state
        }
    }

    #[test]
    fn each_wave_waits_for_the_one_before() {
        let mut world = World::new(&[&["c-a"], &["c-b", "c-c"]], 0);
        assert_eq!(world.step(), ["c-a"]);
        assert!(world.step().is_empty(), "the canary has no result yet");
        world.report("c-a", Done);
        assert_eq!(world.step(), ["c-b", "c-c"]);
        world.report("c-b", Done);
        assert!(world.step().is_empty());
        world.report("c-c", Done);
        world.step();
        assert_eq!(world.upgrade.state, AgentUpgradeState::Done);
        assert_eq!(world.upgrade.finished, Some(START));
    }

    #[test]
    fn first_failure_stops_and_leaves_the_others_untouched() {
        let mut world = World::new(&[&["c-a"], &["c-b", "c-c"], &["c-d"]], 0);
        world.step();
        world.report("c-a", Done);
        world.step();
        world.report("c-b", RolledBack);
        assert!(world.step().is_empty());
        assert_eq!(world.upgrade.state, AgentUpgradeState::Stopped);
        assert_eq!(world.upgrade.reason.as_deref(), Some("failed: c-b"));
        assert_eq!(world.state("c-d"), Waiting);
        assert!(world.upgrade.is_active(), "c-c has no result yet");
        world.report("c-c", Done);
        world.step();
        assert_eq!(world.state("c-c"), Done);
        assert!(!world.upgrade.is_active());
    }

    #[test]
    fn tolerated_failures_do_not_stop() {
        let mut world = World::new(&[&["c-a"], &["c-b"]], 1);
        world.step();
        world.report("c-a", RolledBack);
        assert_eq!(world.step(), ["c-b"]);
        world.report("c-b", RolledBack);
        world.step();
        assert_eq!(world.upgrade.state, AgentUpgradeState::Stopped);
    }

    #[test]
    fn cluster_without_a_report_fails_after_its_time() {
        let mut world = World::new(&[&["c-a"]], 0);
        world.step();
        world.now = START + Duration::seconds(300);
        world.step();
        assert_eq!(world.state("c-a"), Upgrading);
        world.now += REPORT_MARGIN;
        world.connected = false;
        world.step();
        assert_eq!(world.state("c-a"), Failed);
        let cause = world.upgrade.clusters.values().next().unwrap();
        assert_eq!(
            cause.cause.as_deref(),
            Some("FL-1522: no agent is connected")
        );
    }

    #[test]
    fn paused_and_cancelled_upgrades_begin_nothing_and_take_results() {
        for state in [AgentUpgradeState::Paused, AgentUpgradeState::Cancelled] {
            let mut world = World::new(&[&["c-a"], &["c-b"]], 0);
            world.step();
            world.upgrade.state = state;
            world.report("c-a", Done);
            assert!(world.step().is_empty());
            assert_eq!(world.state("c-a"), Done);
            assert_eq!((world.state("c-b"), world.upgrade.state), (Waiting, state));
        }
    }

    #[test]
    fn deleted_cluster_is_left_out() {
        let mut world = World::new(&[&["c-a"], &["c-b"]], 0);
        world.step();
        world.orders.remove(&"c-a".parse::<ClusterId>().unwrap());
        assert_eq!(world.step(), ["c-b"]);
        assert_eq!(world.state("c-a"), Skipped);
    }

    #[test]
    fn result_of_an_earlier_upgrade_does_not_count() {
        let mut world = World::new(&[&["c-a"]], 0);
        world.step();
        let order = world.orders.values_mut().next().unwrap();
        *order = Some(ClusterUpgradeOrder {
            id: "au-0".to_owned(),
            state: Done,
            ..order.clone().unwrap()
        });
        world.step();
        assert_eq!(world.state("c-a"), Upgrading);
    }
}
