//! Corrections of all due objects of a deployment in one run.

use std::sync::Arc;

use fairlead_api::{
    Code, Failure,
    delivery::{DriftPolicy, DriftedObject},
};
use fairlead_manifests::{
    ObjectKey,
    drift::{Baseline, Corrections},
};
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    super::{
        access::{AccessError, CorrectionOutcome},
        announce::Reason,
        api::ObjectApi,
        correct::CorrectError,
        event::DriftEvent,
    },
    Worker,
};

impl Worker<'_> {
    /// Corrects all due objects.
    pub(super) async fn correct_due(&mut self, observer: &Arc<dyn ObjectApi>) {
        let mut due = self.take_due();
        if self.follower.deployment.policy == DriftPolicy::Repair {
            due = self.without_paused(observer, due).await;
        }
        if due.is_empty() {
            return;
        }
        let deployment = &self.follower.deployment;
        let drift: Vec<_> = {
            let objects = self.follower.lock();
            let due = due.iter().filter_map(|index| objects.get(*index));
            due.flat_map(|state| state.drift.clone()).collect()
        };
        let access = &self.shared.access;
        let run = match access.begin_correction(&deployment.bundle, &drift).await {
            Ok(run) => run,
            Err(error) => {
                debug!(bundle = %deployment.bundle, %error, "correction waits");
                let failure = match error {
                    AccessError::Busy => None,
                    AccessError::Unavailable(cause) => {
                        Some(Failure::with_cause(Code::DriftRefused, cause))
                    }
                };
                for index in due {
                    self.update(index, |state| state.retry_correction(failure.clone()));
                }
                return;
            }
        };
        let api = run.api();
        let mut corrected = Vec::new();
        let mut baselines = Vec::new();
        let mut outcome = CorrectionOutcome::Corrected;
        for index in due {
            if self.stop.is_cancelled() {
                outcome = CorrectionOutcome::Incomplete;
                break;
            }
            match self.correct(&api, index).await {
                Some((drift, baseline)) => {
                    corrected.extend(drift);
                    baselines.extend(baseline);
                }
                None => outcome = CorrectionOutcome::Incomplete,
            }
        }
        let sentence = sentence(corrected.len(), outcome);
        let run = run.end(outcome, &sentence).await;
        if !corrected.is_empty() || !baselines.is_empty() {
            info!(bundle = %deployment.bundle, objects = corrected.len(), "drift corrected");
            self.send(DriftEvent::Corrected {
                objects: corrected,
                baselines,
                run,
            })
            .await;
        }
    }

    /// Takes the due objects. Those of a fight are blocked instead.
    fn take_due(&mut self) -> Vec<usize> {
        let now = Instant::now();
        let clock = now.saturating_duration_since(self.started_at);
        self.corrections.expire(clock);
        let deployment = &self.follower.deployment;
        let mut objects = self.follower.lock();
        let mut due = Vec::new();
        for (index, (state, object)) in objects.iter_mut().zip(&deployment.objects).enumerate() {
            if !state.take_correction(now) {
                continue;
            }
            if !state.drift.is_empty() && self.corrections.is_fight(&object.key, clock) {
                let sentence = Corrections::sentence(&object.key, &state.changes);
                state.set_blocked(Failure::with_cause(Code::DriftFight, sentence));
                continue;
            }
            due.push(index);
        }
        due
    }

    /// Corrects one object. None if that failed.
    async fn correct(
        &mut self,
        api: &Arc<dyn ObjectApi>,
        index: usize,
    ) -> Option<(Vec<DriftedObject>, Option<(ObjectKey, Baseline)>)> {
        let target = self.target(api, index)?;
        let key = target.object.key.clone();
        let corrected = target.correct().await;
        match corrected {
            Ok(correction) => {
                self.announce(api, index, Reason::Repaired, &correction)
                    .await;
                if !correction.drift.is_empty() {
                    self.corrections.record(&key, self.started_at.elapsed());
                }
                let baseline = correction.baseline.clone().map(|(it, _)| (key, it));
                self.update(index, |state| state.set_corrected(correction.baseline));
                Some((correction.drift, baseline))
            }
            Err(error) => {
                let blocked = matches!(error, CorrectError::Blocked(_));
                self.update(index, |state| match error {
                    CorrectError::Deleting => {
                        let drift = state.drift.clone();
                        state.set_deleting(None, drift);
                    }
                    CorrectError::Blocked(failure) => state.set_blocked(failure),
                    CorrectError::Failed(failure) => state.retry_correction(Some(failure)),
                    CorrectError::Unreachable(_) => state.retry_correction(None),
                });
                debug!(object = %key, blocked, "object not corrected");
                None
            }
        }
    }
}

fn sentence(corrected: usize, outcome: CorrectionOutcome) -> String {
    let objects = match corrected {
        1 => "1 object".to_owned(),
        more => format!("{more} objects"),
    };
    match outcome {
        CorrectionOutcome::Corrected => format!("corrected {objects}"),
        CorrectionOutcome::Incomplete => {
            format!("corrected {objects}, and others could not be corrected")
        }
    }
}
