//! State of one object, and the times of its next steps.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use fairlead_api::{
    Failure,
    delivery::{DriftPolicy, DriftedObject},
};
use fairlead_manifests::{
    Health,
    drift::{Baseline, ChangedField, FieldOwner, Observation, Seen},
    repair::SyncState,
};
use serde_json::Value;
use tokio::time::Instant;

use super::super::{
    deployment::{FollowedDeployment, FollowedObject, beside_fields},
    fingerprint::fingerprint,
    health::{HEALTH_INTERVAL, HEALTH_QUIET, has_health},
};

/// Delay of a comparison, so that a burst of writes needs one.
const COMPARE_DELAY: Duration = Duration::from_millis(300);
/// Quiet time of an object before its correction.
const CORRECTION_QUIET: Duration = Duration::from_secs(5);
/// Longest delay of a correction by further writes.
const CORRECTION_DELAY_MAX: Duration = Duration::from_secs(30);
/// Interval of comparisons without a reason.
const FULL_INTERVAL: Duration = Duration::from_secs(3600);
/// Interval of comparisons without a watch.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(600);
/// Delays after failures: doubled each time.
const RETRY_INTERVAL_MIN: Duration = Duration::from_secs(10);
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(600);
/// Time to the next poll of an object that is being deleted, in case its event is lost.
const DELETION_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Time to the next poll of an annotation that pauses repairs.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Kind of a due check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Compare if the metadata of the object says so.
    Metadata,
    /// Compare in any case.
    Full,
    /// Read the health.
    Health,
}

/// State of one object.
#[derive(Debug)]
pub(super) struct ObjectState {
    /// The objects of a deployment share it.
    owner: Arc<FieldOwner>,
    baseline: Option<Arc<Baseline>>,
    applied_at: Instant,
    /// Fingerprint of the last metadata.
    observed: Option<u64>,
    /// Fingerprint of the last compared metadata.
    compared: Option<u64>,
    changed_at: Instant,
    unsettled_since: Option<Instant>,
    check_at: Option<Instant>,
    full_at: Instant,
    correct_at: Option<Instant>,
    health_at: Option<Instant>,
    health_pending_since: Option<Instant>,
    health_read_at: Option<Instant>,
    is_watched: bool,
    failures: u32,
    pub(super) has_health: bool,
    pub(super) health: Option<Health>,
    pub(super) drift: Vec<DriftedObject>,
    pub(super) changes: Vec<ChangedField>,
    pub(super) beside: Vec<DriftedObject>,
    pub(super) blocked: Option<Box<Failure>>,
    pub(super) failed: Option<Box<Failure>>,
    /// Name of the change that a GitOps tool made of itself, until it is part of the last good state.
    pub(super) own_change: Option<String>,
    /// Last sync, of the objects of a GitOps tool that report one.
    pub(super) sync: Option<Box<SyncState>>,
}

impl ObjectState {
    pub(super) fn new(
        object: &FollowedObject,
        deployment: &FollowedDeployment,
        owner: Arc<FieldOwner>,
        now: Instant,
    ) -> Self {
        // Full comparisons of many objects are spread.
        let spread = RandomState::new().hash_one(0) % FULL_INTERVAL.as_secs();
        let is_compared = deployment.policy != DriftPolicy::Ignore;
        Self {
            owner,
            baseline: object.baseline.clone(),
            applied_at: now,
            observed: None,
            compared: None,
            changed_at: now,
            unsettled_since: None,
            check_at: is_compared.then_some(now),
            // Changes that a tool made of itself before a restart are not in the baseline.
            full_at: match deployment.policy {
                DriftPolicy::Repair => now,
                _ => now + FULL_INTERVAL / 2 + Duration::from_secs(spread / 2),
            },
            correct_at: None,
            health_at: (!is_compared).then_some(now),
            health_pending_since: None,
            health_read_at: None,
            is_watched: true,
            failures: 0,
            has_health: has_health(&object.key),
            health: None,
            drift: Vec::new(),
            changes: Vec::new(),
            beside: Vec::new(),
            blocked: None,
            failed: None,
            own_change: None,
            sync: None,
        }
    }

    /// Takes metadata, or the end of the object.
    pub(super) fn observe(
        &mut self,
        seen: Seen<'_>,
        deployment: &FollowedDeployment,
        now: Instant,
    ) {
        let print = match seen {
            Seen::Present(object) => Some(fingerprint(object)),
            Seen::Deleted(_) => None,
        };
        self.schedule_health(now);
        if deployment.policy == DriftPolicy::Ignore {
            return;
        }
        let is_changed = self.observed != print || print.is_none();
        self.observed = print;
        if is_changed {
            self.changed_at = now;
            if self.correct_at.is_some() {
                self.schedule_correction();
            }
        }
        let since_apply = now.saturating_duration_since(self.applied_at);
        let observation = self
            .baseline
            .as_ref()
            .map(|it| it.judge(seen, &self.owner, deployment.owner.label(), since_apply));
        let is_due = match observation {
            Some(Observation::Same) => false,
            Some(Observation::Compare(reason)) => {
                is_changed || reason == fairlead_manifests::drift::CompareReason::SameSecond
            }
            Some(Observation::Gone | Observation::LeftSelector) => is_changed,
            None => self.compared.is_none() || self.compared != print,
        };
        // Fields that only a tool has set are not in the baseline.
        let is_due = is_due || (is_changed && deployment.policy == DriftPolicy::Repair);
        if is_due {
            self.unsettled_since.get_or_insert(now);
            self.check_at.get_or_insert(now + COMPARE_DELAY);
        } else if is_changed && let Seen::Present(object) = seen {
            self.note_beside(object, deployment);
        }
    }

    /// Fields that others set beside those of the bundle. A field that differs is one of the bundle's own.
    pub(super) fn shown_beside(&self) -> impl Iterator<Item = DriftedObject> {
        self.beside.iter().filter_map(|it| {
            let mut object = it.clone();
            let differs = |field: &String| self.drift.iter().any(|it| it.fields.contains(field));
            object.fields.retain(|it| !differs(it));
            (!object.fields.is_empty()).then_some(object)
        })
    }

    /// True if the object is about to be compared.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled_since.is_some()
    }

    /// Notes the fields beside those of the bundle. Those of an object to compare are noted with its differences.
    pub(super) fn note_beside(&mut self, object: &Value, deployment: &FollowedDeployment) {
        if let Some(key) = fairlead_manifests::ObjectKey::of(object)
            && deployment.policy != DriftPolicy::Ignore
        {
            self.beside = beside_fields(&key, object, &deployment.owner.of_live(object));
        }
    }

    /// Decides about an object that was read.
    pub(super) fn judge(&self, live: Option<&Value>, deployment: &FollowedDeployment) -> bool {
        let since_apply = self.applied_at.elapsed();
        let seen = live.map_or(Seen::Deleted(None), Seen::Present);
        let observation = self
            .baseline
            .as_ref()
            .map(|it| it.judge(seen, &self.owner, deployment.owner.label(), since_apply));
        observation != Some(Observation::Same)
    }

    fn schedule_health(&mut self, now: Instant) {
        if !self.has_health {
            return;
        }
        let pending = *self.health_pending_since.get_or_insert(now);
        let earliest = self.health_read_at.map_or(now, |at| at + HEALTH_INTERVAL);
        let quiet = (now + HEALTH_QUIET).max(earliest);
        self.health_at = Some(quiet.min(earliest.max(pending + HEALTH_INTERVAL)));
    }

    /// Takes the health of an object that was read.
    pub(super) fn set_health(&mut self, health: Health) {
        let now = Instant::now();
        self.health_read_at = Some(now);
        self.health_pending_since = None;
        let is_polled = !self.is_watched && health != Health::READY;
        self.health_at = is_polled.then(|| now + HEALTH_INTERVAL);
        self.health = Some(health);
    }

    fn schedule_correction(&mut self) {
        let quiet = self.changed_at + CORRECTION_QUIET;
        let latest = self.unsettled_since.map(|at| at + CORRECTION_DELAY_MAX);
        self.correct_at = Some(latest.map_or(quiet, |it| it.min(quiet)));
    }

    /// Notes a comparison. Empty `drift` with `corrects` takes ownership back.
    pub(super) fn set_drift(
        &mut self,
        live: Option<&Value>,
        drift: Vec<DriftedObject>,
        corrects: bool,
    ) {
        self.compared = live.map(fingerprint);
        if drift.is_empty() {
            self.settle();
        }
        self.drift = drift;
        if corrects && self.blocked.is_none() {
            // A failed correction waits for its own time.
            if self.failed.is_none() || self.correct_at.is_none() {
                self.schedule_correction();
            }
        } else {
            self.correct_at = None;
        }
    }

    /// Notes that the object is as its manifest has it.
    pub(super) fn set_same(
        &mut self,
        live: Option<&Value>,
        baseline: Option<(Baseline, FieldOwner)>,
    ) {
        self.compared = live.map(fingerprint);
        if let Some((baseline, owner)) = baseline {
            self.baseline = Some(baseline.into());
            if *self.owner != owner {
                self.owner = owner.into();
            }
        }
        self.settle();
        self.drift.clear();
        self.correct_at = None;
    }

    /// Notes a correction.
    pub(super) fn set_corrected(&mut self, baseline: Option<(Baseline, FieldOwner)>) {
        self.set_same(None, baseline);
        self.applied_at = Instant::now();
    }

    fn settle(&mut self) {
        self.changes.clear();
        self.blocked = None;
        self.failed = None;
        self.failures = 0;
        self.unsettled_since = None;
    }

    /// Notes a deletion that others have begun.
    pub(super) fn set_deleting(&mut self, live: Option<&Value>, drift: Vec<DriftedObject>) {
        self.compared = live.map(fingerprint);
        self.drift = drift;
        self.correct_at = None;
        self.check_at = Some(Instant::now() + DELETION_POLL_INTERVAL);
    }

    /// Lets the correction wait, because an annotation pauses it.
    pub(super) fn pause(&mut self, failure: Failure) {
        self.failed = Some(failure.into());
        self.correct_at = Some(Instant::now() + PAUSE_POLL_INTERVAL);
    }

    /// Notes that a person must decide. Only the end of the difference, or a new run, ends it.
    pub(super) fn set_blocked(&mut self, failure: Failure) {
        self.blocked = Some(failure.into());
        self.correct_at = None;
    }

    /// Notes a failed comparison.
    pub(super) fn retry_check(&mut self, failure: Option<Failure>) {
        self.check_at = Some(Instant::now() + self.next_delay());
        if failure.is_some() {
            self.failed = failure.map(Box::new);
        }
    }

    /// Notes a failed correction.
    pub(super) fn retry_correction(&mut self, failure: Option<Failure>) {
        self.correct_at = Some(Instant::now() + self.next_delay());
        if failure.is_some() {
            self.failed = failure.map(Box::new);
        }
    }

    fn next_delay(&mut self) -> Duration {
        let delay = RETRY_INTERVAL_MIN * 2_u32.saturating_pow(self.failures.min(8));
        self.failures += 1;
        delay.min(RETRY_INTERVAL_MAX)
    }

    pub(super) fn set_watched(&mut self, is_watched: bool, now: Instant) {
        if self.is_watched && !is_watched {
            self.full_at = self.full_at.min(now + UNWATCHED_INTERVAL);
            self.schedule_health(now);
        }
        self.is_watched = is_watched;
    }

    pub(super) fn compare_at(&mut self, at: Instant) {
        self.full_at = at;
    }

    /// The due check, if there is one.
    pub(super) fn take_check(&mut self, now: Instant) -> Option<Check> {
        if self.full_at <= now {
            let interval = if self.is_watched {
                FULL_INTERVAL
            } else {
                UNWATCHED_INTERVAL
            };
            self.full_at = now + interval;
            self.check_at = None;
            return Some(Check::Full);
        }
        if self.check_at.is_some_and(|at| at <= now) {
            self.check_at = None;
            return Some(Check::Metadata);
        }
        if self.health_at.is_some_and(|at| at <= now) {
            self.health_at = None;
            return Some(Check::Health);
        }
        None
    }

    /// True if the object is to be corrected now.
    pub(super) fn take_correction(&mut self, now: Instant) -> bool {
        let is_due = self.correct_at.is_some_and(|at| at <= now);
        if is_due {
            self.correct_at = None;
        }
        is_due
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        let times = [
            self.check_at,
            self.correct_at,
            self.health_at,
            Some(self.full_at),
        ];
        times.into_iter().flatten().min()
    }

    /// Moves due work to a later time.
    pub(super) fn postpone(&mut self, at: Instant) {
        for time in [
            &mut self.check_at,
            &mut self.correct_at,
            &mut self.health_at,
        ] {
            *time = time.map(|it| it.max(at));
        }
        self.full_at = self.full_at.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster may have thousands, most of them as they were applied.
    #[test]
    fn state_of_an_object_is_small() {
        let size = size_of::<ObjectState>();
        assert!(size <= 400, "{size}");
    }
}
