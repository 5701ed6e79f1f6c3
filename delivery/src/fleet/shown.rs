//! Deployments as people read them: one state, and one sentence with cause, object and next step.

use fairlead_api::{
    BundleId, ClusterId, Code,
    delivery::{
        Deployment, DeploymentKey, DeploymentState, Generations, ObjectCounts, RolloutState,
    },
};
use fairlead_rollout::UnixMillis;
use fairlead_store::{View, model::Cluster};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    Fleet,
    bundle_state::BundleState,
    cells::{DeploymentCell, Targeting},
    cluster_entry::ClusterEntry,
    purge::is_purged,
    report::{ReportFacts, StoredReport},
};

/// Cause of the state of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateCause {
    /// Of the agent's report.
    Reported,
    /// The spec cannot be made.
    NoSpec,
    /// No agent is connected.
    Offline,
    /// The agent has not reported the released generation.
    NotReported,
    /// A person suspended the bundle or the deployment.
    Suspended,
    /// The wave has not started.
    Wave,
    /// A person, or too many failures, stopped the rollout.
    Stopped,
    /// A restored hub waits for its confirmation.
    Restored,
    Untargeted,
    Tombstone,
}

impl StateCause {
    const fn code(self) -> Option<Code> {
        match self {
            StateCause::Reported => None,
            StateCause::NoSpec => Some(Code::NoSpec),
            StateCause::Offline => Some(Code::ClusterOffline),
            StateCause::NotReported => Some(Code::NotReported),
            StateCause::Suspended => Some(Code::DeliverySuspended),
            StateCause::Wave => Some(Code::WaveWaits),
            StateCause::Stopped => Some(Code::RolloutStops),
            StateCause::Restored => Some(Code::ReleasesStopped),
            StateCause::Untargeted => Some(Code::NotTargeted),
            StateCause::Tombstone => Some(Code::RemovalRuns),
        }
    }
}

/// State of a deployment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownState {
    pub(crate) state: DeploymentState,
    cause: StateCause,
    since: UnixMillis,
}

/// Deployments that changed.
#[derive(Debug, Default)]
pub(crate) struct ChangedDeployments {
    pub(crate) changed: Vec<Deployment>,
    /// Deployments of which nothing is left.
    pub(crate) gone: Vec<DeploymentKey>,
}

/// A deployment in a list, before its texts are made.
#[derive(Clone, Copy)]
pub(crate) struct ListedDeployment<'a> {
    bundle: &'a BundleState,
    cell: &'a DeploymentCell,
    entry: &'a ClusterEntry,
    shown: ShownState,
}

impl<'a> ListedDeployment<'a> {
    pub(crate) fn cluster(&self) -> &'a ClusterId {
        &self.cell.cluster
    }

    pub(crate) fn bundle(&self) -> &'a BundleId {
        &self.bundle.id
    }
}

impl Fleet {
    /// Deployments of a bundle in visible clusters, ordered by cluster. Without states, those in all states.
    pub(crate) fn of_bundle<'a>(
        &'a self,
        id: &BundleId,
        states: &[DeploymentState],
        sees: impl Fn(&View, &Cluster) -> bool,
    ) -> Vec<ListedDeployment<'a>> {
        let Some(bundle) = self.bundles.get(id) else {
            return Vec::new();
        };
        let cells = bundle.cells.iter();
        let listed = cells.filter_map(|cell| self.listed(bundle, cell, states));
        listed
            .filter(|it| sees(&self.view, &it.entry.record.value))
            .collect()
    }

    /// Deployments in a cluster, ordered by bundle.
    pub(crate) fn of_cluster<'a>(
        &'a self,
        cluster: &ClusterId,
        states: &[DeploymentState],
    ) -> Vec<ListedDeployment<'a>> {
        let bundles = self.bundles.values();
        let cells = bundles.filter_map(|it| Some((it, it.cells.get(cluster)?)));
        cells
            .filter_map(|(bundle, cell)| self.listed(bundle, cell, states))
            .collect()
    }

    /// Deployments in visible clusters, of one bundle or of all.
    pub(crate) fn all_visible<'a>(
        &'a self,
        bundle: Option<&BundleId>,
        sees: impl Fn(&View, &Cluster) -> bool,
    ) -> Vec<ListedDeployment<'a>> {
        let bundles = self.bundles.values();
        let bundles = bundles.filter(|it| bundle.is_none_or(|only| it.id == *only));
        let listed = bundles.flat_map(|it| self.of_bundle(&it.id, &[], &sees));
        listed.collect()
    }

    /// Visible deployments that changed after a change, and those that are gone; `None` if older changes are missing, or if
    /// visibility of a deleted cluster cannot be decided.
    pub(crate) fn changes_since(
        &self,
        change: u64,
        bundle: Option<&BundleId>,
        sees: impl Fn(&View, &Cluster) -> bool,
    ) -> Option<ChangedDeployments> {
        let mut found = ChangedDeployments::default();
        for (cluster, of) in self.changes.since(change)? {
            if bundle.is_some_and(|it| it != of) {
                continue;
            }
            let entry = self.clusters.get(cluster)?;
            if !sees(&self.view, &entry.record.value) {
                continue;
            }
            match self.deployment_of(cluster, of) {
                Some(deployment) => found.changed.push(deployment),
                None => found.gone.push(DeploymentKey {
                    cluster: cluster.clone(),
                    bundle: of.clone(),
                }),
            }
        }
        Some(found)
    }

    fn listed<'a>(
        &'a self,
        bundle: &'a BundleState,
        cell: &'a DeploymentCell,
        states: &[DeploymentState],
    ) -> Option<ListedDeployment<'a>> {
        let entry = self.clusters.get(&cell.cluster)?;
        let shown = self.state_of(bundle, cell, entry);
        let matches = states.is_empty() || states.contains(&shown.state);
        matches.then_some(ListedDeployment {
            bundle,
            cell,
            entry,
            shown,
        })
    }

    /// A deployment; `None` if nothing of the bundle is in the cluster, and nothing is to come.
    pub(crate) fn deployment_of(
        &self,
        cluster: &ClusterId,
        bundle: &BundleId,
    ) -> Option<Deployment> {
        let bundle = self.bundles.get(bundle)?;
        let listed = self.listed(bundle, bundle.cells.get(cluster)?, &[])?;
        Some(self.deployment(&listed))
    }

    /// True if the bundle targets the cluster.
    pub(crate) fn is_targeted(&self, cluster: &ClusterId, bundle: &BundleId) -> bool {
        let bundle = self.bundles.get(bundle);
        let cell = bundle.and_then(|it| it.cells.get(cluster));
        cell.is_some_and(|it| it.targeting().is_targeted())
    }

    /// Highest generation that may be in the cluster.
    pub(crate) fn highest_generation(&self, cluster: &ClusterId, bundle: &BundleId) -> u64 {
        let bundle = self.bundles.get(bundle);
        let cell = bundle.and_then(|it| it.cells.get(cluster));
        cell.map_or(0, |it| {
            let reported = it.report.as_ref().map(StoredReport::facts);
            let reported = reported.map_or(0, |it| it.generation.max(it.applied));
            reported.max(it.released)
        })
    }

    /// Number of deployments in each state, in the order of [`DeploymentState::ALL`].
    pub(crate) fn count_states(&self) -> [usize; DeploymentState::ALL.len()] {
        let mut counts = [0; DeploymentState::ALL.len()];
        for bundle in self.bundles.values() {
            for cell in bundle.cells.iter() {
                let Some(entry) = self.clusters.get(&cell.cluster) else {
                    continue;
                };
                let state = self.state_of(bundle, cell, entry).state;
                let place = DeploymentState::ALL.iter().position(|it| *it == state);
                if let Some(count) = place.and_then(|it| counts.get_mut(it)) {
                    *count += 1;
                }
            }
        }
        counts
    }

    /// Number of newest rollouts in each state, in the order of [`RolloutState::ALL`].
    pub(crate) fn count_rollouts(&self) -> [usize; RolloutState::ALL.len()] {
        let mut counts = [0; RolloutState::ALL.len()];
        for rollout in self.bundles.values().filter_map(|it| it.rollout.as_ref()) {
            let state = rollout.machine.state();
            let place = RolloutState::ALL.iter().position(|it| *it == state);
            if let Some(count) = place.and_then(|it| counts.get_mut(it)) {
                *count += 1;
            }
        }
        counts
    }

    fn state_of(
        &self,
        bundle: &BundleState,
        cell: &DeploymentCell,
        entry: &ClusterEntry,
    ) -> ShownState {
        let shown = |state, cause, since| ShownState {
            state,
            cause,
            since,
        };
        if !cell.targeting().is_targeted() {
            return untargeted(bundle, cell, entry);
        }
        if cell.targeting() == Targeting::Blocked {
            return shown(DeploymentState::Blocked, StateCause::NoSpec, cell.changed());
        }
        let reported = cell
            .report
            .as_ref()
            .map(StoredReport::facts)
            .filter(|it| it.generation >= cell.released);
        if cell.released >= bundle.newest() {
            return match reported {
                Some(report) => shown(report.state, StateCause::Reported, report.since),
                None => waiting(bundle, cell, entry),
            };
        }
        let rollout = bundle.rollout.as_ref().map(|it| it.machine.state());
        let keeps = rollout == Some(RolloutState::Aborted) && cell.released > 0;
        if let Some(report) = reported
            && (keeps || report.state != DeploymentState::Ready)
        {
            return shown(report.state, StateCause::Reported, report.since);
        }
        if !entry.connected {
            return waiting(bundle, cell, entry);
        }
        let cause = match rollout {
            _ if self.awaits_confirmation() => StateCause::Restored,
            _ if bundle.is_suspended_in(&cell.cluster) => StateCause::Suspended,
            Some(RolloutState::Paused | RolloutState::Halted | RolloutState::Aborted) => {
                StateCause::Stopped
            }
            _ => StateCause::Wave,
        };
        shown(DeploymentState::Pending, cause, cell.changed())
    }

    /// The deployment as people read it.
    pub(crate) fn deployment(&self, listed: &ListedDeployment<'_>) -> Deployment {
        let ListedDeployment {
            bundle,
            cell,
            entry,
            shown,
        } = *listed;
        let report = cell.report.as_ref();
        let facts = report.map(StoredReport::facts);
        let reported = report.filter(|_| shown.cause == StateCause::Reported);
        let (reason, code) = match reported {
            Some(report) => (
                report.reason().map(str::to_owned),
                report.code().map(str::to_owned),
            ),
            None => (
                Some(self.reason(listed)),
                shown.cause.code().map(|it| it.to_string()),
            ),
        };
        Deployment {
            cluster: cell.cluster.clone(),
            bundle: bundle.id.clone(),
            kind: bundle.kind,
            state: shown.state,
            reason,
            code,
            since: shown.since.into(),
            offline: !entry.connected,
            suspended: bundle.is_suspended_in(&cell.cluster),
            generation: Generations {
                wanted: match cell.targeting().is_targeted() {
                    true => bundle.newest(),
                    false => 0,
                },
                released: cell.released,
                applied: facts.map_or(0, |it| it.applied),
            },
            attempt: facts.map_or(0, |it| it.attempt),
            next_try: report.and_then(StoredReport::next_try),
            objects: facts.map_or(ObjectCounts::default(), |it| it.objects),
            drift: report.map_or(Vec::new(), |it| it.drift().to_vec()),
            beside: report.map_or(Vec::new(), |it| it.beside().to_vec()),
            run: report.and_then(StoredReport::run),
        }
    }

    /// One sentence: cause, object, next step.
    fn reason(&self, listed: &ListedDeployment<'_>) -> String {
        let ListedDeployment {
            bundle,
            cell,
            entry,
            shown,
        } = *listed;
        let (id, cluster, newest) = (&bundle.id, &cell.cluster, bundle.newest());
        let since = OffsetDateTime::from(entry.since)
            .format(&Rfc3339)
            .unwrap_or_default();
        match shown.cause {
            StateCause::Reported => String::new(),
            StateCause::NoSpec => {
                let reasons = bundle.blocked_reasons(&self.view, &entry.record.value);
                let reasons = reasons.join("; ");
                format!("generation {newest} of {id} cannot be made for {cluster}: {reasons}")
            }
            StateCause::Offline => format!(
                "{cluster} is offline since {since}; it gets generation {newest} of {id} when it is back"
            ),
            StateCause::NotReported => format!(
                "generation {} of {id} is released, and the agent of {cluster} has not reported it; an agent of an older version cannot deliver",
                cell.released
            ),
            StateCause::Suspended => match bundle.document().is_some_and(|it| it.suspended) {
                true => format!("{id} is suspended; resume it with `fairlead bundle resume {id}`"),
                false => format!(
                    "the deployment is suspended; resume it with `fairlead deployment resume {cluster} {id}`"
                ),
            },
            StateCause::Wave => format!(
                "{cluster} waits for its wave; `fairlead rollout status {id}` shows the waves of generation {newest}"
            ),
            StateCause::Stopped => {
                let rollout = bundle.rollout.as_ref();
                let rollout = rollout.map(|it| (it.id.to_string(), it.machine.state().as_str()));
                let (rollout, state) = rollout.unwrap_or_default();
                format!("rollout {rollout} is {state}; `fairlead rollout status {id}` shows why")
            }
            StateCause::Restored => {
                "the hub was restored, and releases nothing until `fairlead confirm-restore`"
                    .to_owned()
            }
            StateCause::Untargeted => untargeted_reason(bundle, cluster),
            StateCause::Tombstone => match entry.connected {
                true => format!("the agent of {cluster} removes the objects of {id}"),
                false => format!(
                    "{cluster} is offline since {since}; the objects of {id} are removed when it is back"
                ),
            },
        }
    }
}

fn untargeted_reason(bundle: &BundleState, cluster: &ClusterId) -> String {
    let id = &bundle.id;
    match bundle.document() {
        None => format!("{id} was deleted, and its objects in {cluster} were kept"),
        Some(document) if document.orphaned => format!(
            "the folder of {id} was deleted from its source, and its objects in {cluster} are kept; delete the bundle, or add the folder again"
        ),
        Some(_) => format!(
            "{id} does not target {cluster} any more, and its objects are kept; target the cluster again, or remove the deployment"
        ),
    }
}

fn untargeted(bundle: &BundleState, cell: &DeploymentCell, entry: &ClusterEntry) -> ShownState {
    let removes = bundle.has_tombstone(&cell.cluster) || is_purged(bundle, &entry.record.value);
    let failed =
        |it: &ReportFacts| matches!(it.state, DeploymentState::Failed | DeploymentState::Blocked);
    let report = cell.report.as_ref().map(StoredReport::facts);
    // The agent reports why it cannot remove the objects.
    if let Some(report) = report.filter(failed).filter(|_| removes) {
        return ShownState {
            state: report.state,
            cause: StateCause::Reported,
            since: report.since,
        };
    }
    let (state, cause) = match removes {
        true => (DeploymentState::Removing, StateCause::Tombstone),
        false => (DeploymentState::Orphaned, StateCause::Untargeted),
    };
    ShownState {
        state,
        cause,
        since: cell.changed(),
    }
}

/// State of a deployment that the agent has not reported.
fn waiting(bundle: &BundleState, cell: &DeploymentCell, entry: &ClusterEntry) -> ShownState {
    let (cause, since) = if !entry.connected {
        (StateCause::Offline, entry.since.max(cell.changed()))
    } else if bundle.is_suspended_in(&cell.cluster) {
        (StateCause::Suspended, cell.changed())
    } else {
        (StateCause::NotReported, cell.changed())
    };
    ShownState {
        state: DeploymentState::Waiting,
        cause,
        since,
    }
}
