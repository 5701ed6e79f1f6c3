//! Correction of one object: a forced apply, and the ways around its refusals.

use fairlead_api::{Code, Failure, delivery::DriftedObject};
use fairlead_manifests::{
    Failure as Refusal, FailureKind,
    drift::{
        Baseline, ChangedField, FieldOwner, ManagedEntry, rewrite_version, take_over,
        take_over_lists,
    },
    may_recreate,
    repair::{is_sync_object, is_tool_manager, short_diff},
};
use serde_json::Value;

use super::examine::{Desired, ExamineError, Finding, OwnChanges, Target, drift_of, whole_drift};

/// Requests that a correction may repeat after a refusal or a concurrent change.
const MAX_ATTEMPTS: usize = 4;

/// A corrected object.
#[derive(Debug)]
pub(super) struct Correction {
    /// Differences before the correction. Empty: only ownership was taken back, or nothing was to do.
    pub(super) drift: Vec<DriftedObject>,
    /// Changed fields, for the sentence of a fight.
    pub(super) changes: Vec<ChangedField>,
    /// New baseline, and its owner.
    pub(super) baseline: Option<(Baseline, FieldOwner)>,
    /// Short differences for people.
    pub(super) diff: String,
    /// UID after the correction.
    pub(super) uid: String,
}

/// Reason for an object that is not corrected.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CorrectError {
    /// It is being deleted; its end is an event.
    Deleting,
    /// A person must decide.
    Blocked(Failure),
    /// It may succeed later.
    Failed(Failure),
    /// The API server does not answer.
    Unreachable(String),
}

impl Target<'_> {
    /// Compares again, and makes the object as its manifest has it.
    pub(super) async fn correct(&self) -> Result<Correction, CorrectError> {
        let mut correction = Correction {
            drift: Vec::new(),
            changes: Vec::new(),
            baseline: None,
            diff: String::new(),
            uid: String::new(),
        };
        let mut refused = None;
        let mut is_withdrawn = self.own_changes != OwnChanges::Withdrawn;
        for _ in 0..MAX_ATTEMPTS {
            let live = self.live().await.map_err(failed)?;
            let finding = self.examine(live.as_ref()).await.map_err(failed)?;
            if !is_withdrawn && let Some(live) = &live {
                is_withdrawn = true;
                if let Finding::Drift(changes, desired) = &finding {
                    self.note_changes(&mut correction, live, desired, changes);
                }
                if self.take_over_tool(live).await? {
                    continue;
                }
            }
            let desired = match finding {
                Finding::Same(baseline, owner) => {
                    correction.baseline = baseline.map(|it| (it, owner));
                    return Ok(correction);
                }
                Finding::TakenOver(other) => return Err(CorrectError::Blocked(self.taken(&other))),
                Finding::Deleting => return Err(CorrectError::Deleting),
                Finding::Gone => {
                    note(&mut correction, whole_drift(self.object));
                    "it did not exist".clone_into(&mut correction.diff);
                    Desired(self.object.manifest())
                }
                Finding::OwnershipLost(desired) => desired,
                Finding::Drift(changes, desired) => {
                    let live = live.unwrap_or_default();
                    self.note_changes(&mut correction, &live, &desired, &changes);
                    desired
                }
                Finding::Refused(drift, refusal, desired) => {
                    note(&mut correction, drift);
                    let live = live.unwrap_or_default();
                    self.make_way(&live, &desired, &refusal).await?;
                    refused = Some(refusal);
                    continue;
                }
            };
            let owner = self.deployment.owner.applied();
            let path = self.object.path();
            match self
                .api
                .apply(&path, &owner.manager, false, &desired.0)
                .await
            {
                Ok(answer) => {
                    let uid = answer.pointer("/metadata/uid").and_then(Value::as_str);
                    uid.unwrap_or_default().clone_into(&mut correction.uid);
                    correction.baseline =
                        Baseline::of_answer(&answer, &owner).map(|it| (it, owner));
                    return Ok(correction);
                }
                Err(error) => match self.error(error, "patch") {
                    // The object has changed since the dry run.
                    ExamineError::Refused(refusal) if is_outdated(&refusal.kind) => {
                        refused = Some(*refusal);
                    }
                    other => return Err(failed(other)),
                },
            }
        }
        let sentence = refused.map_or_else(
            || format!("{} changes again and again", self.object.key),
            |it| it.sentence,
        );
        Err(CorrectError::Failed(Failure::with_cause(
            Code::DriftRefused,
            sentence,
        )))
    }

    /// Keeps the differences of the first comparison: later ones are parts of them.
    fn note_changes(
        &self,
        correction: &mut Correction,
        live: &Value,
        desired: &Desired,
        changes: &[ChangedField],
    ) {
        if !correction.drift.is_empty() {
            return;
        }
        correction.diff = short_diff(&self.object.key, live, &desired.0, changes);
        correction.drift = drift_of(self.object, changes);
        correction.changes = changes.to_vec();
    }

    /// Takes the fields of a GitOps tool over, so that the next apply removes those that the manifest has not. Returns
    /// whether there are some.
    async fn take_over_tool(&self, live: &Value) -> Result<bool, CorrectError> {
        let is_of_tool = |entry: &ManagedEntry<'_>| {
            is_tool_manager(entry.manager) && entry.subresource.is_empty()
        };
        let owner = self.deployment.owner.applied();
        let patch = take_over(live, &owner, &is_of_tool);
        // Their status and their finalizers belong to the tool.
        let Some(patch) = patch.filter(|_| !is_sync_object(&self.object.key)) else {
            return Ok(false);
        };
        match self.api.json_patch(&self.object.path(), &patch).await {
            Ok(_) => Ok(true),
            Err(error) => Err(failed(self.error(error, "patch"))),
        }
    }

    /// Changes the live object so that the next apply is accepted.
    async fn make_way(
        &self,
        live: &Value,
        desired: &Desired,
        refusal: &Refusal,
    ) -> Result<(), CorrectError> {
        let owner = self.deployment.owner.applied();
        let path = self.object.path();
        let blocked = || {
            let failure = Failure::with_cause(Code::DriftRefused, refusal.sentence.clone());
            Err(CorrectError::Blocked(failure))
        };
        let patch = match &refusal.kind {
            FailureKind::Invalid(causes) => take_over_lists(live, &owner, &desired.0, causes),
            FailureKind::RemovedVersion => {
                rewrite_version(live, &owner, &self.object.resource.kind.api_version())
            }
            FailureKind::Immutable(_) if may_recreate(&desired.0) => {
                let uid = live.pointer("/metadata/uid").and_then(Value::as_str);
                let deleted = self.api.delete(&path, uid.unwrap_or_default()).await;
                return deleted.map_err(|error| failed(self.error(error, "delete")));
            }
            _ => None,
        };
        let Some(patch) = patch else {
            return blocked();
        };
        match self.api.json_patch(&path, &patch).await {
            Ok(_) => Ok(()),
            Err(error) => match self.error(error, "patch") {
                ExamineError::Refused(refusal) if is_outdated(&refusal.kind) => Ok(()),
                other => Err(failed(other)),
            },
        }
    }

    pub(super) fn taken(&self, other: &str) -> Failure {
        let key = &self.object.key;
        Failure::with_cause(
            Code::DriftTakenOver,
            format!("bundle {other} has taken over {key}"),
        )
    }
}

/// Keeps the differences of the first comparison: later ones are parts of them.
fn note(correction: &mut Correction, drift: Vec<DriftedObject>) {
    if correction.drift.is_empty() {
        correction.drift = drift;
    }
}

fn is_outdated(kind: &FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Outdated | FailureKind::NotFound | FailureKind::Invalid(_)
    )
}

fn failed(error: ExamineError) -> CorrectError {
    match error {
        ExamineError::Unreachable(cause) => CorrectError::Unreachable(cause),
        ExamineError::Refused(refusal) => {
            let failure = Failure::with_cause(Code::DriftRefused, refusal.sentence);
            if refusal.is_permanent {
                CorrectError::Blocked(failure)
            } else {
                CorrectError::Failed(failure)
            }
        }
    }
}
