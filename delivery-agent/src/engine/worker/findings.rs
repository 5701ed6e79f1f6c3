//! Findings of the observer.

use std::{collections::HashMap, sync::Arc};

use fairlead_api::{
    Code, RunId,
    delivery::{DriftPolicy, DriftedObject},
};
use fairlead_manifests::{
    ObjectKey,
    drift::{Baseline, FIGHT_CORRECTIONS, FIGHT_WINDOW},
};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::time::Instant;
use tracing::warn;

use super::{DriftEvent, FailureClass, JournalState, RunFailure, Worker};
use crate::{
    drift::RollbackNote,
    helm::{ReleaseChange, ReleaseTarget},
    journal::StoredObject,
    repairs,
};

/// Times of the last corrections of a release.
#[derive(Debug, Default)]
pub(super) struct ReleaseCorrections(Vec<Instant>);

impl ReleaseCorrections {
    /// Notes a correction. False if there were so many that it would be a fight.
    fn note(&mut self, now: Instant) -> bool {
        self.0.retain(|at| now.duration_since(*at) < FIGHT_WINDOW);
        let is_allowed = self.0.len() < FIGHT_CORRECTIONS;
        if is_allowed {
            self.0.push(now);
        }
        is_allowed
    }
}

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
            DriftEvent::Corrected {
                objects,
                baselines,
                run,
            } => {
                self.drift.clear();
                self.note_correction(baselines, run).await;
                self.note_repairs(&objects, "Repaired").await;
            }
            DriftEvent::LastGood(objects) => self.note_last_good(objects).await,
            DriftEvent::RolledBack { objects, rollbacks } => {
                let change = |state: &mut JournalState| state.record.rollbacks = rollbacks;
                if let Err(failure) = self.journal.update(change).await {
                    warn!(bundle = %self.bundle(), cause = %failure, "return to the last good state not noted");
                }
                self.note_repairs(&objects, "RolledBack").await;
            }
            DriftEvent::Blocked(cause) => self.fight = cause.map(failure),
            DriftEvent::HealthChanged(health) => self.health = Some(health),
            DriftEvent::BesideChanged(objects) => self.beside = objects,
        }
    }

    /// Takes a change of the release by somebody else. With drift correction the next run puts the revision of the bundle
    /// on top, unless that has happened too often.
    pub(super) async fn release_changed(&mut self, change: Option<ReleaseChange>) {
        let state = self.journal.state().await;
        // The next run judges the release after a killed one.
        if state.record.pending.is_some() || state.record.helm.step.is_some() {
            return;
        }
        let spec = state.content.applied.as_ref();
        let Some(target) = spec.and_then(|spec| ReleaseTarget::of(spec).ok()) else {
            return;
        };
        let blocked = |code, sentence| RunFailure::new(FailureClass::Blocked, code, sentence);
        self.overwritten =
            change.map(|change| blocked(Code::HelmForeignRevision, format!("{target}: {change}")));
        if self.overwritten.is_none() || !self.corrects(&state) {
            return;
        }
        if !self.overwrites.note(Instant::now()) {
            let sentence = format!("{target}: somebody else changes it after each correction");
            self.fight = Some(blocked(Code::DriftFight, sentence));
        }
    }

    /// True if a run corrects changes of the release.
    pub(super) fn corrects(&self, state: &JournalState) -> bool {
        let policy = state.content.applied.as_ref().map(|spec| spec.drift);
        policy == Some(DriftPolicy::Correct)
            && self.fight.is_none()
            && self.correction_stop().is_none()
    }

    /// Release of the bundle as a drifted object.
    pub(super) fn drifted_release(state: &JournalState) -> Option<DriftedObject> {
        let target = ReleaseTarget::of(state.content.applied.as_ref()?).ok()?;
        Some(DriftedObject {
            object: target.to_string(),
            fields: Vec::new(),
            manager: None,
        })
    }

    /// Lists repairs of a GitOps tool for its facts.
    async fn note_repairs(&self, objects: &[DriftedObject], reason: &str) {
        let state = self.journal.state().await;
        let policy = state.content.applied.as_ref().map(|spec| spec.drift);
        if policy != Some(DriftPolicy::Repair) || objects.is_empty() {
            return;
        }
        let repairs = repairs::repairs_of(objects, reason, OffsetDateTime::now_utc());
        if let Err(error) = repairs::note(&self.shared.client, &repairs).await {
            warn!(bundle = %self.bundle(), %error, "repairs not listed");
        }
    }

    /// Notes the last good state of objects that a GitOps tool has changed, and follows it from now on. The journal has
    /// it in the place of the content that was applied.
    async fn note_last_good(&mut self, objects: Vec<(ObjectKey, Value)>) {
        let mut good: HashMap<_, _> = objects.into_iter().collect();
        let change = |state: &mut JournalState| {
            let mut content = (*state.content).clone();
            for object in &mut content.objects {
                let key = ObjectKey::of(&object.manifest());
                if let Some(manifest) = key.and_then(|key| good.remove(&key)) {
                    *object = StoredObject::new(&manifest, None);
                }
            }
            state.content = Arc::new(content);
            state.record.rollbacks = RollbackNote::default();
        };
        match self.journal.update(change).await {
            Ok(()) => self.observe().await,
            Err(failure) => {
                warn!(bundle = %self.bundle(), cause = %failure, "last good state not noted");
            }
        }
    }

    /// Notes the run of a correction, and new baselines. Without them the objects are compared once after a restart.
    async fn note_correction(&self, baselines: Vec<(ObjectKey, Baseline)>, run: Option<RunId>) {
        let mut baselines: HashMap<_, _> = baselines.into_iter().collect();
        let change = |state: &mut JournalState| {
            let mut content = (*state.content).clone();
            for object in &mut content.objects {
                let key = ObjectKey::of(&object.manifest());
                if let Some(baseline) = key.and_then(|key| baselines.remove(&key)) {
                    object.baseline = Some(baseline.into());
                }
            }
            state.content = Arc::new(content);
            if run.is_some() {
                state.record.last_run = run;
            }
        };
        if let Err(failure) = self.journal.update(change).await {
            warn!(bundle = %self.bundle(), cause = %failure, "correction not noted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixth_correction_of_a_release_in_ten_minutes_is_a_fight() {
        let mut corrections = ReleaseCorrections::default();
        let start = Instant::now();
        for number in 0..5 {
            assert!(corrections.note(start + FIGHT_WINDOW / 10 * number));
        }
        assert!(!corrections.note(start + FIGHT_WINDOW / 2));
        // The first one is forgotten.
        assert!(corrections.note(start + FIGHT_WINDOW));
        assert!(!corrections.note(start + FIGHT_WINDOW));
    }
}
