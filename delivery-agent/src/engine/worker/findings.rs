//! Findings of the observer.

use std::{collections::HashMap, sync::Arc};

use fairlead_manifests::{ObjectKey, drift::Baseline};
use tracing::warn;

use super::{DriftEvent, FailureClass, JournalState, RunFailure, Worker};

impl Worker {
    /// Takes a finding of the observer.
    pub(super) async fn found(&mut self, event: DriftEvent) {
        let failure = |failure: fairlead_api::Failure| {
            RunFailure::new(FailureClass::Blocked, failure.code, failure.cause)
        };
        match event {
            DriftEvent::Drifted {
                objects,
                failure: cause,
            } => {
                self.drift = objects;
                self.drift_cause = cause.map(failure);
            }
            DriftEvent::Corrected { baselines, .. } => {
                self.drift.clear();
                self.keep_baselines(baselines).await;
            }
            DriftEvent::Blocked(cause) => self.fight = cause.map(failure),
            DriftEvent::HealthChanged(health) => self.health = Some(health),
            DriftEvent::BesideChanged(objects) => self.beside = objects,
        }
    }

    /// Notes new baselines. Without them the objects are compared once after a restart.
    async fn keep_baselines(&self, baselines: Vec<(ObjectKey, Baseline)>) {
        let mut baselines: HashMap<_, _> = baselines.into_iter().collect();
        let change = |state: &mut JournalState| {
            let mut content = (*state.content).clone();
            for object in &mut content.objects {
                let key = ObjectKey::of(&object.manifest);
                if let Some(baseline) = key.and_then(|key| baselines.remove(&key)) {
                    object.baseline = Some(baseline);
                }
            }
            state.content = Arc::new(content);
        };
        if let Err(failure) = self.journal.update(change).await {
            warn!(bundle = %self.bundle(), cause = %failure, "baselines not noted");
        }
    }
}
