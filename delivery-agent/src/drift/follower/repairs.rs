//! Repairs of a GitOps tool: pauses, Events, its own changes, and the return to the last good state.

mod decide;
mod observed;

use std::{collections::BTreeSet, sync::Arc};

use fairlead_api::{Code, Failure, delivery::DriftPolicy};
use fairlead_manifests::repair::{is_paused, joined_change};
use tokio::time::Instant;
use tracing::{debug, info, warn};

pub(super) use self::decide::RepairState;
use self::decide::Step;
use super::{
    super::{
        access::CorrectionOutcome,
        announce::{Reason, announce},
        api::ObjectApi,
        correct::Correction,
        event::DriftEvent,
        examine::{OwnChanges, Target, whole_drift},
    },
    Worker,
};

impl Worker<'_> {
    /// Due objects whose repair no annotation pauses. The others wait.
    pub(super) async fn without_paused(
        &mut self,
        observer: &Arc<dyn ObjectApi>,
        due: Vec<usize>,
    ) -> Vec<usize> {
        if due.is_empty() {
            return due;
        }
        let paused = self.paused_namespaces(observer).await;
        let mut free = Vec::new();
        for index in due {
            let Some(target) = self.target(observer, index) else {
                continue;
            };
            let cause = match paused_by(&paused, target.object.key.namespace.as_deref()) {
                Some(namespace) => Some(format!("Namespace {namespace}")),
                None => match target.live().await {
                    Ok(Some(live)) if is_paused(&live) => Some(target.object.key.to_string()),
                    _ => None,
                },
            };
            match cause {
                None => free.push(index),
                Some(place) => {
                    let key = &target.object.key;
                    let sentence =
                        format!("{place} has the annotation that pauses repairs; {key} differs");
                    let failure = Failure::with_cause(Code::GitOpsRepairPaused, sentence);
                    self.update(index, |state| state.pause(failure));
                }
            }
        }
        free
    }

    /// Namespaces of the deployment with the annotation. Without an answer none is paused.
    async fn paused_namespaces(&self, observer: &Arc<dyn ObjectApi>) -> BTreeSet<String> {
        let objects = &self.follower.deployment.objects;
        let namespaces: BTreeSet<_> = objects
            .iter()
            .filter_map(|it| it.key.namespace.clone())
            .collect();
        let mut paused = BTreeSet::new();
        for namespace in namespaces {
            let path = format!("/api/v1/namespaces/{namespace}");
            match observer.get(&path).await {
                Ok(Some(object)) if is_paused(&object) => {
                    paused.insert(namespace);
                }
                Ok(_) => {}
                Err(error) => debug!(namespace, %error, "annotations of a namespace not read"),
            }
        }
        paused
    }

    /// Writes the Event of a repair. Ownership that was taken back is none.
    pub(super) async fn announce(
        &self,
        api: &Arc<dyn ObjectApi>,
        index: usize,
        reason: Reason,
        correction: &Correction,
    ) {
        let deployment = &self.follower.deployment;
        if deployment.policy != DriftPolicy::Repair || correction.drift.is_empty() {
            return;
        }
        let Some(object) = deployment.objects.get(index) else {
            return;
        };
        let managers: BTreeSet<_> = correction
            .changes
            .iter()
            .filter_map(|it| it.manager.as_deref())
            .collect();
        let managers = Vec::from_iter(managers).join(", ");
        let note = match managers.as_str() {
            "" => correction.diff.clone(),
            managers => format!("{} (changed by {managers})", correction.diff),
        };
        announce(api.as_ref(), object, &correction.uid, reason, &note).await;
    }

    /// Decides about changes that the tool made of itself.
    pub(super) async fn repair(&mut self, observer: &Arc<dyn ObjectApi>) {
        let changes = self.own_changes();
        let names = changes.iter().map(|it| it.1.as_str());
        let change = (!changes.is_empty()).then(|| joined_change(names));
        let tool = match change {
            None => decide::ToolState::Unknown,
            Some(_) => self.tool_state(observer).await,
        };
        match self.repair.step(Instant::now(), change.as_deref(), tool) {
            Step::Wait => {}
            Step::Accept => self.accept(observer, &changes).await,
            Step::RollBack(reason) => {
                if self.is_paused(observer, &changes).await {
                    self.repair.postpone(Instant::now());
                } else {
                    self.roll_back(&changes, &reason).await;
                }
            }
        }
    }

    /// True if an annotation of a namespace or of a changed object pauses the return to the last good state.
    async fn is_paused(&self, observer: &Arc<dyn ObjectApi>, changes: &[(usize, String)]) -> bool {
        if !self.paused_namespaces(observer).await.is_empty() {
            return true;
        }
        for (index, _) in changes {
            let Some(target) = self.target(observer, *index) else {
                continue;
            };
            if let Ok(Some(live)) = target.live().await
                && is_paused(&live)
            {
                return true;
            }
        }
        false
    }

    /// Objects with changes that the tool made of itself, and the names of these changes.
    fn own_changes(&self) -> Vec<(usize, String)> {
        let objects = self.follower.lock();
        let changes = objects.iter().enumerate();
        let changes = changes.filter_map(|(index, it)| Some((index, it.own_change.clone()?)));
        changes.collect()
    }

    /// Sends the live state of the changed objects as the last good one, if it is still the same.
    async fn accept(&mut self, observer: &Arc<dyn ObjectApi>, changes: &[(usize, String)]) {
        let mut good = Vec::new();
        for (index, change) in changes {
            let Some(target) = self.target(observer, *index) else {
                return;
            };
            let live = target.live().await.ok().flatten();
            let state = live.and_then(|live| target.own_change(&live));
            match state {
                Some((name, state)) if name == *change => {
                    good.push((target.object.key.clone(), state))
                }
                // It has changed meanwhile, and is read again.
                _ => return self.repair.postpone(Instant::now()),
            }
        }
        info!(bundle = %self.follower.deployment.bundle, objects = good.len(), "own change of the GitOps tool accepted");
        self.repair.postpone(Instant::now());
        self.send(DriftEvent::LastGood(good)).await;
    }

    /// Gives the changed objects their last good state back.
    async fn roll_back(&mut self, changes: &[(usize, String)], reason: &str) {
        let deployment = &self.follower.deployment;
        let objects = changes.iter().filter_map(|it| deployment.objects.get(it.0));
        let drift: Vec<_> = objects.flat_map(whole_drift).collect();
        let run = match self
            .shared
            .access
            .begin_correction(&deployment.bundle, &drift)
            .await
        {
            Ok(run) => run,
            Err(error) => {
                debug!(bundle = %deployment.bundle, %error, "return to the last good state waits");
                return self.repair.postpone(Instant::now());
            }
        };
        let api = run.api();
        let mut restored = Vec::new();
        let mut outcome = CorrectionOutcome::Corrected;
        for (index, _) in changes {
            match self.restore(&api, *index, reason).await {
                Some(drift) => restored.extend(drift),
                None => outcome = CorrectionOutcome::Incomplete,
            }
        }
        let sentence = format!("returned to the last good state: {reason}");
        run.end(outcome, &sentence).await;
        if outcome == CorrectionOutcome::Incomplete {
            return self.repair.postpone(Instant::now());
        }
        warn!(bundle = %deployment.bundle, reason, "own change of the GitOps tool taken back");
        let rollbacks = self.repair.note_rollback(Instant::now());
        self.send(DriftEvent::RolledBack {
            objects: restored,
            rollbacks,
        })
        .await;
    }

    /// Restores one object. `None` if that failed.
    async fn restore(
        &self,
        api: &Arc<dyn ObjectApi>,
        index: usize,
        reason: &str,
    ) -> Option<Vec<fairlead_api::delivery::DriftedObject>> {
        let target = Target {
            own_changes: OwnChanges::Withdrawn,
            ..self.target(api, index)?
        };
        match target.correct().await {
            Ok(mut correction) => {
                correction.diff = format!("{reason}; {}", correction.diff);
                self.announce(api, index, Reason::RolledBack, &correction)
                    .await;
                self.update(index, |state| {
                    state.own_change = None;
                    state.set_corrected(correction.baseline);
                });
                Some(correction.drift)
            }
            Err(error) => {
                debug!(object = %target.object.key, ?error, "object not restored");
                None
            }
        }
    }
}

/// Paused namespace that pauses an object. Objects of the cluster follow all namespaces of the deployment.
fn paused_by<'a>(paused: &'a BTreeSet<String>, namespace: Option<&str>) -> Option<&'a String> {
    match namespace {
        Some(namespace) => paused.get(namespace),
        None => paused.first(),
    }
}
