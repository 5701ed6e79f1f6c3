//! The newest rollout of a bundle: events of its clusters, and the steps that must be stored before their effects.

use fairlead_api::{
    ClusterId, GroupId, RolloutId, Selector,
    delivery::{DeploymentState, RolloutState},
};
use fairlead_delivery_store::RolloutRow;
use fairlead_registry::has_labels;
use fairlead_rollout::{
    ClusterReport, FrozenRollout, Membership, NewTarget, RolloutCluster, RolloutEffects,
    RolloutMachine, RolloutObservation, RolloutPlan, RolloutVerb, UnixMillis, VerbRefused,
};
use fairlead_store::{View, model::BundleRecord};

use super::{
    bundle_state::{BundleState, Surroundings},
    cells::{DeploymentCell, Targeting},
    report::StoredReport,
    rollout_row::{RolloutBody, rollout_id},
};
use crate::members::is_member;

/// Cause of the failure of clusters without a spec.
const BLOCKED_CAUSE: &str = "the bundle cannot be made for the cluster (FL-6403)";

/// A rollout and what is not stored of it.
#[derive(Debug)]
pub(crate) struct BundleRollout {
    pub(crate) id: RolloutId,
    pub(crate) machine: RolloutMachine,
    /// Stored version; 0 before the first.
    pub(crate) version: u64,
    /// True: the suspension of the bundle paused it.
    pub(crate) paused_by_suspension: bool,
    /// Time of the next tick.
    pub(crate) wake: Option<UnixMillis>,
    pending: PendingStep,
}

/// Effects of a stored step.
#[derive(Debug, Default)]
pub(crate) struct AppliedStep {
    /// Clusters with another released generation.
    pub(crate) released: Vec<ClusterId>,
    /// Clusters that must try again.
    pub(crate) retried: Vec<ClusterId>,
}

/// Effects that wait for their step to be stored.
#[derive(Debug, Default)]
struct PendingStep {
    save: bool,
    /// Waves of a new rollout as JSON.
    waves: Option<String>,
    /// Row of the rollout that this one replaces.
    superseded: Option<RolloutRow>,
    /// True: the released generation of all clusters may have changed.
    all_released: bool,
    /// Clusters whose released generation may have changed.
    released: Vec<ClusterId>,
    /// Clusters that must try again.
    retried: Vec<ClusterId>,
}

/// A step to be stored.
#[derive(Debug)]
pub(crate) struct RolloutSave {
    pub(crate) row: RolloutRow,
    /// Waves of a new rollout as JSON.
    pub(crate) waves: Option<String>,
    /// Row of the replaced rollout, to be stored first.
    pub(crate) superseded: Option<RolloutRow>,
}

impl BundleRollout {
    /// A rollout of a stored step.
    pub(crate) fn restored(
        id: RolloutId,
        version: u64,
        paused_by_suspension: bool,
        (machine, effects): (RolloutMachine, RolloutEffects),
    ) -> Self {
        let mut rollout = BundleRollout {
            id,
            machine,
            version,
            paused_by_suspension,
            wake: None,
            pending: PendingStep::default(),
        };
        rollout.pending.all_released = true;
        rollout.add(effects);
        rollout
    }

    /// Takes effects of the machine.
    pub(crate) fn add(&mut self, effects: RolloutEffects) {
        let ids = |indexes: Vec<u32>| {
            let found = indexes
                .into_iter()
                .filter_map(|it| self.machine.cluster(it));
            found.cloned().collect::<Vec<_>>()
        };
        let (released, retried) = (ids(effects.released), ids(effects.retried));
        self.pending.save |= effects.save;
        self.pending.released.extend(released);
        self.pending.retried.extend(retried);
        self.wake = effects.wake;
    }

    /// Applies a verb.
    pub(crate) fn verb(&mut self, now: UnixMillis, verb: RolloutVerb) -> Result<(), VerbRefused> {
        let effects = self.machine.verb(now, verb)?;
        self.paused_by_suspension = false;
        self.add(effects);
        Ok(())
    }

    fn row(&self, bundle: &BundleState) -> RolloutRow {
        RolloutRow {
            id: self.id.clone(),
            bundle: bundle.id.clone(),
            generation: self.machine.to(),
            state: self.machine.state(),
            version: self.version + 1,
            body: RolloutBody::of(&self.machine, self.paused_by_suspension).to_json(),
        }
    }
}

/// Membership of clusters by the documents of the hub.
pub(crate) struct ViewMembership<'a>(pub(crate) &'a View);

impl Membership for ViewMembership<'_> {
    fn selects(&self, selector: &Selector, cluster: &ClusterId) -> bool {
        let cluster = self.0.cluster(cluster);
        cluster.is_some_and(|it| has_labels(self.0, &it.value, selector))
    }

    fn in_group(&self, group: &GroupId, cluster: &ClusterId) -> bool {
        let (group, cluster) = (self.0.group(group), self.0.cluster(cluster));
        let both = group.zip(cluster);
        both.is_some_and(|(group, cluster)| is_member(self.0, &group.value, &cluster.value))
    }
}

/// The hub's knowledge of a deployment, as its rollout reads it.
fn observation<'a>(
    bundle: &BundleState,
    around: Surroundings<'_>,
    cell: &'a DeploymentCell,
) -> RolloutObservation<'a> {
    RolloutObservation {
        connected: takes_part(bundle, around, &cell.cluster),
        report: report_of(cell, around.now),
    }
}

/// True if the cluster is connected. One with a suspended deployment counts as offline: it delays nobody. So does one that a
/// suspended bundle must not be released to.
fn takes_part(bundle: &BundleState, around: Surroundings<'_>, cluster: &ClusterId) -> bool {
    let is_suspended = bundle.document().is_some_and(|it| {
        it.suspended_in.contains(cluster) || (it.suspended && bundle.waits_for_release(cluster))
    });
    let entry = around.clusters.get(cluster);
    !is_suspended && entry.is_some_and(|it| it.connected)
}

/// Report of a cluster. A cluster without a spec has failed: no retry helps.
fn report_of(cell: &DeploymentCell, now: UnixMillis) -> Option<ClusterReport<'_>> {
    if cell.targeting() == Targeting::Blocked {
        return Some(ClusterReport {
            state: DeploymentState::Failed,
            generation: u64::MAX,
            applied: 0,
            retries_exhausted: true,
            since: now,
            cause: Some(BLOCKED_CAUSE),
        });
    }
    cell.report.as_ref().map(StoredReport::for_rollout)
}

/// Report of a cluster that has nothing of the bundle.
const NO_REPORT: ClusterReport<'_> = ClusterReport {
    state: DeploymentState::Pending,
    generation: 0,
    applied: 0,
    retries_exhausted: false,
    since: UnixMillis(0),
    cause: None,
};

/// Generation that a rollback replaces: the newest one repeats an older one than that before.
fn replaced_by_rollback(record: &BundleRecord) -> Option<u64> {
    let [newest, before, older @ ..] = record.generations.as_slice() else {
        return None;
    };
    let content = (&newest.artifact, &newest.options);
    let repeats = older
        .iter()
        .any(|it| (&it.artifact, &it.options) == content);
    (repeats && (&before.artifact, &before.options) != content).then_some(before.number)
}

impl BundleState {
    /// Lets the rollout know that a cluster is connected or disconnected.
    pub(crate) fn note_connection(&mut self, around: Surroundings<'_>, cluster: &ClusterId) {
        let connected = takes_part(self, around, cluster);
        if let Some(rollout) = &mut self.rollout {
            let effects = rollout.machine.connection(around.now, cluster, connected);
            rollout.add(effects);
        }
    }

    /// Lets the rollout know that the bundle is suspended or resumed.
    pub(crate) fn note_suspension(&mut self, around: Surroundings<'_>) {
        let cells = self.cells.iter().map(|it| &it.cluster);
        let waiting = cells.filter(|it| self.waits_for_release(it)).cloned();
        let waiting: Vec<ClusterId> = waiting.collect();
        for cluster in &waiting {
            self.note_connection(around, cluster);
        }
    }

    /// True unless the newest generation is released to the cluster.
    fn waits_for_release(&self, cluster: &ClusterId) -> bool {
        let cell = self.cells.get(cluster);
        cell.is_none_or(|it| it.released < self.newest())
    }

    /// Lets the rollout know the last report of a cluster.
    pub(crate) fn note_report(&mut self, around: Surroundings<'_>, cluster: &ClusterId) {
        let (Some(rollout), Some(cell)) = (&mut self.rollout, self.cells.get(cluster)) else {
            return;
        };
        let report = report_of(cell, around.now).unwrap_or(NO_REPORT);
        let effects = rollout.machine.report(around.now, cluster, &report);
        rollout.add(effects);
    }

    /// Lets the rollout know that a cluster begins or ceases to match.
    pub(crate) fn note_targeting(&mut self, around: Surroundings<'_>, cluster: &ClusterId) {
        let Some(mut rollout) = self.rollout.take() else {
            return;
        };
        // The rollout of a newer generation begins with the targets of that one.
        if rollout.machine.to() >= self.newest() {
            let cell = self
                .cells
                .get(cluster)
                .filter(|it| it.targeting().is_targeted());
            let effects = match cell {
                None => rollout.machine.untarget(around.now, cluster),
                Some(cell) => {
                    let membership = ViewMembership(around.view);
                    let kept = |number: u64| {
                        let document = self.document();
                        document
                            .is_some_and(|it| it.generations.iter().any(|it| it.number == number))
                    };
                    let from = rollout.machine.from();
                    let effects = rollout.machine.target(
                        around.now,
                        &NewTarget {
                            cluster,
                            wave: rollout.machine.wave_of_new(cluster, &membership),
                            before: if kept(from) { from } else { 0 },
                            observed: observation(self, around, cell),
                        },
                    );
                    rollout.pending.released.push(cluster.clone());
                    rollout.pending.save = true;
                    effects
                }
            };
            rollout.add(effects);
        }
        self.rollout = Some(rollout);
    }

    /// Starts, pauses and resumes the rollout as the document demands, and lets it know the time.
    pub(crate) fn drive(&mut self, around: Surroundings<'_>) {
        let Some(document) = self.document() else {
            return;
        };
        let (suspended, newest) = (document.suspended, self.newest());
        let released = self.rollout.as_ref().map_or(0, |it| it.machine.to());
        let may_start = self.is_rollout_known && !suspended && !self.targets_nothing();
        if newest > released && may_start && self.is_loaded(newest) {
            self.start(around);
            return;
        }
        let Some(rollout) = &mut self.rollout else {
            return;
        };
        if suspended && !rollout.paused_by_suspension {
            let runs = rollout.machine.state() == RolloutState::Running;
            if runs && rollout.verb(around.now, RolloutVerb::Pause).is_ok() {
                rollout.paused_by_suspension = true;
            }
        } else if !suspended && rollout.paused_by_suspension {
            let resumed = rollout.verb(around.now, RolloutVerb::Resume);
            rollout.paused_by_suspension = false;
            rollout.pending.save |= resumed.is_err();
        }
        if rollout.wake.is_some_and(|it| it <= around.now) {
            let effects = rollout.machine.tick(around.now);
            rollout.add(effects);
        }
    }

    /// Starts the rollout of the newest generation, in place of the one before.
    fn start(&mut self, around: Surroundings<'_>) {
        let Some(document) = self.document() else {
            return;
        };
        let newest = self.newest();
        let Some(id) = rollout_id(&self.id, newest) else {
            return;
        };
        let rules = document.fields.rollout.clone().unwrap_or_default();
        let plan = RolloutPlan {
            bundle: &self.id,
            from: self.rollout.as_ref().map_or(0, |it| it.machine.to()),
            to: newest,
            bad: replaced_by_rollback(document),
            rules: &rules,
            timeout: document.fields.timeout,
        };
        let targeted = self.cells.iter().filter(|it| it.targeting().is_targeted());
        let clusters = targeted.map(|it| RolloutCluster {
            id: it.cluster.clone(),
            connected: takes_part(self, around, &it.cluster),
            before: it.released,
        });
        let frozen = plan.freeze(clusters, &ViewMembership(around.view));
        // Serialization of texts and numbers cannot fail.
        let waves = serde_json::to_string(&frozen).unwrap_or_default();
        let started = RolloutMachine::start(frozen, |it| self.observe(around, it), around.now);
        let superseded = self.rollout.take().and_then(|mut before| {
            let effects = before.machine.supersede(around.now);
            before.add(effects);
            before.pending.save.then(|| before.row(self))
        });
        let mut rollout = BundleRollout::restored(id, 0, false, started);
        rollout.pending.waves = Some(waves);
        // A replaced rollout that was never stored needs no row.
        rollout.pending.superseded = superseded.filter(|it| it.version > 1);
        self.rollout = Some(rollout);
    }

    /// The hub's knowledge of a targeted cluster.
    fn observe(
        &self,
        around: Surroundings<'_>,
        cluster: &ClusterId,
    ) -> Option<RolloutObservation<'_>> {
        let cell = self.cells.get(cluster)?;
        let is_targeted = cell.targeting().is_targeted();
        is_targeted.then(|| observation(self, around, cell))
    }

    /// Restores the rollout of a stored step, in place of the one in memory.
    pub(crate) fn restore(
        &mut self,
        around: Surroundings<'_>,
        row: &RolloutRow,
        mut frozen: FrozenRollout,
        body: RolloutBody,
        quiet_until: Option<UnixMillis>,
    ) {
        frozen.share_ids(|it| around.clusters.get(it).map(|it| it.record.value.id.clone()));
        let restored = RolloutMachine::restore(
            frozen,
            body.step,
            |it| self.observe(around, it),
            around.now,
            quiet_until,
        );
        self.rollout = Some(BundleRollout::restored(
            row.id.clone(),
            row.version,
            body.paused_by_suspension,
            restored,
        ));
    }

    /// Step that must be stored now.
    pub(crate) fn save(&self) -> Option<RolloutSave> {
        let rollout = self.rollout.as_ref().filter(|it| it.pending.save)?;
        Some(RolloutSave {
            row: rollout.row(self),
            waves: rollout.pending.waves.clone(),
            superseded: rollout.pending.superseded.clone(),
        })
    }

    /// Notes that the step is stored.
    pub(crate) fn saved(&mut self) {
        if let Some(rollout) = &mut self.rollout {
            rollout.version += 1;
            rollout.pending.save = false;
            rollout.pending.waves = None;
            rollout.pending.superseded = None;
        }
    }

    /// Applies the effects of the stored step; nothing while it is not stored.
    pub(crate) fn apply(&mut self, around: Surroundings<'_>) -> AppliedStep {
        let Some(rollout) = self.rollout.as_mut().filter(|it| !it.pending.save) else {
            return AppliedStep::default();
        };
        let machine = &rollout.machine;
        let released: Vec<(ClusterId, u64)> = if std::mem::take(&mut rollout.pending.all_released) {
            rollout.pending.released.clear();
            let all = machine.all_released();
            all.map(|(id, generation)| (id.clone(), generation))
                .collect()
        } else {
            let some = std::mem::take(&mut rollout.pending.released).into_iter();
            some.filter_map(|id| machine.released(&id).map(|it| (id, it)))
                .collect()
        };
        let mut applied = AppliedStep {
            retried: std::mem::take(&mut rollout.pending.retried),
            ..AppliedStep::default()
        };
        for (cluster, generation) in released {
            if self.set_released(around, &cluster, generation) {
                applied.released.push(cluster);
            }
        }
        applied
    }
}
