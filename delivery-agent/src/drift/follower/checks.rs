//! Checks of objects: health, metadata, comparison.

use std::sync::Arc;

use fairlead_api::{Code, Failure, delivery::DriftPolicy};
use fairlead_manifests::{Health, repair::SyncState};
use serde_json::Value;
use tracing::debug;

use super::{
    super::{
        api::ObjectApi,
        examine::{ExamineError, Finding, Target, drift_of, whole_drift},
    },
    Worker,
    state::{Check, ObjectState},
};

impl Worker<'_> {
    /// Reads an object, and compares it if needed.
    pub(super) async fn check(&mut self, api: &Arc<dyn ObjectApi>, index: usize, check: Check) {
        let Some(target) = self.target(api, index) else {
            return;
        };
        let live = match target.live().await {
            Ok(live) => live,
            Err(error) => return self.check_failed(index, error),
        };
        self.note_tool(index, &target, live.as_ref());
        self.read_health(api, index, live.as_ref()).await;
        let deployment = &self.follower.deployment;
        let note_beside = |state: &mut ObjectState| {
            if let Some(live) = &live {
                state.note_beside(live, deployment);
            }
        };
        if check == Check::Health || deployment.policy == DriftPolicy::Ignore {
            return self.update(index, |state| {
                if !state.is_unsettled() {
                    note_beside(state);
                }
            });
        }
        let is_suspect = {
            let objects = self.follower.lock();
            let state = objects.get(index);
            state.is_some_and(|state| state.judge(live.as_ref(), deployment))
        };
        if check == Check::Metadata && !is_suspect {
            return self.update(index, |state| {
                state.set_same(live.as_ref(), None);
                note_beside(state);
            });
        }
        let Some(target) = self.target(api, index) else {
            return;
        };
        match target.examine(live.as_ref()).await {
            Ok(finding) => {
                self.found(index, live.as_ref(), finding);
                self.update(index, note_beside);
            }
            Err(error) => self.check_failed(index, error),
        }
    }

    async fn read_health(&mut self, api: &Arc<dyn ObjectApi>, index: usize, live: Option<&Value>) {
        let deployment = &self.follower.deployment;
        let Some(object) = deployment.objects.get(index) else {
            return;
        };
        let health = match live {
            None => Health::missing(&object.key),
            Some(live) => self.classes.health(api.as_ref(), live).await,
        };
        self.update(index, |state| state.set_health(health));
    }

    /// Notes the last sync, and changes that a GitOps tool made of itself.
    fn note_tool(&self, index: usize, target: &Target<'_>, live: Option<&Value>) {
        if self.follower.deployment.policy != DriftPolicy::Repair {
            return;
        }
        let sync = live.and_then(SyncState::of);
        let own_change = live.and_then(|live| target.own_change(live));
        self.update(index, |state| {
            state.sync = sync.map(Box::new);
            state.own_change = own_change.map(|it| it.0);
        });
    }

    fn found(&self, index: usize, live: Option<&Value>, finding: Finding) {
        let deployment = &self.follower.deployment;
        let Some(object) = deployment.objects.get(index) else {
            return;
        };
        let corrects = deployment.is_corrected();
        self.update(index, |state| match finding {
            Finding::Same(baseline, owner) => {
                state.set_same(live, baseline.map(|it| (it, owner)));
            }
            Finding::OwnershipLost(_) => state.set_drift(live, Vec::new(), corrects),
            Finding::Gone => state.set_drift(None, whole_drift(object), corrects),
            Finding::Deleting => state.set_deleting(live, whole_drift(object)),
            Finding::TakenOver(other) => {
                let failure = Failure::with_cause(
                    Code::DriftTakenOver,
                    format!("bundle {other} has taken over {}", object.key),
                );
                state.set_drift(live, whole_drift(object), false);
                state.set_blocked(failure);
            }
            Finding::Drift(changes, _) => {
                state.set_drift(live, drift_of(object, &changes), corrects);
                state.changes = changes;
            }
            Finding::Refused(drift, _, _) => state.set_drift(live, drift, corrects),
        });
    }

    fn check_failed(&self, index: usize, error: ExamineError) {
        let failure = match error {
            ExamineError::Unreachable(cause) => {
                debug!(bundle = %self.follower.deployment.bundle, cause, "comparison got no answer");
                None
            }
            ExamineError::Refused(refusal) => {
                Some(Failure::with_cause(Code::DriftRefused, refusal.sentence))
            }
        };
        self.update(index, |state| state.retry_check(failure));
    }
}
