//! State of a deployment, as a worker publishes it.

use fairlead_api::{
    Code, RunId,
    delivery::{DeploymentReport, DeploymentState, DriftPolicy, ObjectCounts, RunKind},
};
use fairlead_manifests::HealthState;
use time::OffsetDateTime;

use super::{FailureClass, JournalState, RunFailure, RunOrder, WaitCause, Worker};

/// Reported objects with drift.
const MAX_DRIFTED_OBJECTS: usize = 20;
/// Reported objects with fields beside those of the bundle.
const MAX_BESIDE_OBJECTS: usize = 10;

impl Worker {
    /// Report with the fields that the journal knows.
    fn report(&self, state: &JournalState, now: DeploymentState) -> DeploymentReport {
        let record = &state.record;
        let total = u32::try_from(state.inventory.len()).unwrap_or(u32::MAX);
        let ready = self.health.as_ref().map_or(0, |health| {
            let unready = health.total.saturating_sub(health.ready);
            total.saturating_sub(u32::try_from(unready).unwrap_or(u32::MAX))
        });
        DeploymentReport {
            bundle: self.bundle().clone(),
            state: now,
            reason: None,
            code: None,
            generation: record.accepted.as_ref().map_or(0, |it| it.generation),
            applied: record.applied.as_ref().map_or(0, |it| it.generation),
            attempt: record.retry.failed,
            next_try: None,
            retries_exhausted: false,
            objects: ObjectCounts { total, ready },
            drift: Vec::new(),
            beside: Vec::new(),
            run: record.last_run.clone(),
        }
    }

    pub(super) fn publish_run(
        &self,
        state: &JournalState,
        order: RunOrder,
        attempt: u32,
        run: &RunId,
    ) {
        let now = match order.kind {
            RunKind::Sync => DeploymentState::Applying,
            RunKind::Remove => DeploymentState::Removing,
            RunKind::Diff => return,
        };
        self.shared.report(DeploymentReport {
            attempt,
            run: Some(run.clone()),
            ..self.report(state, now)
        });
    }

    pub(super) fn publish_failure(
        &self,
        state: &JournalState,
        failure: &RunFailure,
        next_try: Option<OffsetDateTime>,
    ) {
        let now = match failure.class {
            FailureClass::Waiting => DeploymentState::Waiting,
            FailureClass::Blocked | FailureClass::Unknown => DeploymentState::Blocked,
            FailureClass::Retry | FailureClass::Permanent | FailureClass::Cancelled => {
                DeploymentState::Failed
            }
        };
        self.shared.report(DeploymentReport {
            reason: Some(failure.sentence.clone()),
            code: Some(failure.code.to_string()),
            next_try: next_try.filter(|_| failure.class != FailureClass::Waiting),
            retries_exhausted: matches!(
                failure.class,
                FailureClass::Permanent | FailureClass::Blocked | FailureClass::Unknown
            ),
            ..self.report(state, now)
        });
    }

    pub(super) fn publish_wait(
        &self,
        state: &JournalState,
        cause: &WaitCause,
        until: Option<OffsetDateTime>,
    ) {
        let (code, sentence) = match cause {
            WaitCause::Backoff => return self.publish_stored(state, until, false),
            WaitCause::Dependency(bundle) => (
                Code::DeploymentWaits,
                format!("waits until {bundle} is ready"),
            ),
            WaitCause::Suspended => (
                Code::DeploymentWaits,
                "the deployment is suspended; resume it".to_owned(),
            ),
            WaitCause::Paused => (
                Code::SiteForbids,
                "the site pauses delivery by its ConfigMap fairlead-delivery".to_owned(),
            ),
        };
        let failure = RunFailure::new(FailureClass::Waiting, code, sentence);
        self.publish_failure(state, &failure, until);
    }

    pub(super) fn publish_stop(&self, state: &JournalState) {
        self.publish_stored(state, None, true);
    }

    /// Publishes the failure in the journal.
    fn publish_stored(
        &self,
        state: &JournalState,
        next_try: Option<OffsetDateTime>,
        is_exhausted: bool,
    ) {
        let Some(stored) = &state.record.retry.failure else {
            return;
        };
        let failure = RunFailure::new(stored.class, stored.code(), stored.sentence.clone());
        self.publish_failure(state, &failure, next_try);
        if is_exhausted {
            self.shared.states.send_if_modified(|states| {
                let report = states.reports.get_mut(self.bundle());
                let open = report.filter(|report| !report.retries_exhausted);
                open.map(|report| report.retries_exhausted = true).is_some()
            });
        }
    }

    /// Publishes the state of a deployment without work.
    pub(super) fn publish_settled(&self, state: &JournalState, is_orphan: bool) {
        if let Some(fight) = &self.fight {
            return self.publish_failure(state, fight, None);
        }
        let Some(health) = &self.health else {
            // The first look follows at once.
            return;
        };
        let mut report = self.report(state, DeploymentState::Ready);
        if health.worst.state != HealthState::Ready {
            report.state = DeploymentState::NotReady;
            report.reason = Some(health.worst.reason.clone());
            report.code = Some(Code::NotReadyInTime.to_string());
            report.retries_exhausted = self.is_overdue;
        }
        if !self.drift.is_empty() {
            report.state = DeploymentState::Drifted;
            report.reason = Some(self.drift_sentence(state));
            report.code = self.drift_cause.as_ref().map(|it| it.code.to_string());
            report.drift = self
                .drift
                .iter()
                .take(MAX_DRIFTED_OBJECTS)
                .cloned()
                .collect();
        }
        if let Some(overwritten) = &self.overwritten {
            report.state = DeploymentState::Drifted;
            report.reason = Some(overwritten.sentence.clone());
            report.code = Some(overwritten.code.to_string());
            report.drift.extend(Self::drifted_release(state));
        }
        let beside = self.beside.iter().take(MAX_BESIDE_OBJECTS);
        report.beside = beside.cloned().collect();
        if is_orphan {
            report.state = DeploymentState::Orphaned;
        }
        self.shared.report(report);
    }

    /// Sentence about the difference, with the reason if it is not corrected.
    fn drift_sentence(&self, state: &JournalState) -> String {
        let count = self.drift.len();
        let first = self.drift.first().map(|it| it.object.as_str());
        let first = first.unwrap_or_default();
        let sentence = match &self.drift_cause {
            Some(cause) => cause.sentence.clone(),
            None if count == 1 => format!("{first} was changed by others"),
            None => format!(
                "{first} and {} more objects were changed by others",
                count - 1
            ),
        };
        let policy = state.content.applied.as_ref().map(|spec| spec.drift);
        let corrects = matches!(policy, Some(DriftPolicy::Correct | DriftPolicy::Repair));
        match self.correction_stop().filter(|_| corrects) {
            Some(stop) => format!("{sentence}; {}", stop.sentence()),
            None => sentence,
        }
    }
}
