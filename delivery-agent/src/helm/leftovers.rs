//! Leftovers of failed revisions: objects that the release has no longer, deleted after the next success.
//!
//! Helm compares new content with the last deployed revision (`performUpgrade` in its `pkg/action/upgrade.go`). So it never
//! deletes an object that only a failed or killed revision had.

use std::ops::Range;

use fairlead_api::{BundleId, Code};
use fairlead_manifests::{
    BUNDLE_LABEL, DeleteDecision, Inventory, InventoryEntry, ObjectKey, decide_delete_owned,
    is_risky, plan_removal,
};
use fairlead_runner::{
    RunKey,
    release::{ObjectRef, Record, ReleaseStatus, Revision},
    release_description,
};
use serde_json::Value;

use super::{release::Release, target::ReleaseTarget};
use crate::{
    engine::{AppliedObject, FailureClass, RunFailure},
    manifests,
};

/// Annotation of objects that Helm never deletes, and its value.
const KEEP_ANNOTATION: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// A deployed revision, and the objects that the release has with it.
pub(crate) struct DeployedRevision<'a> {
    pub(crate) number: u32,
    pub(crate) record: &'a Record,
    pub(crate) objects: &'a [AppliedObject],
}

impl Release<'_> {
    /// Deletes objects of failed revisions that the deployed one has not.
    ///
    /// The note comes last: after a kill the next run finds the failed revisions in the history again.
    ///
    /// # Errors
    /// Objects that the API server does not delete.
    pub(crate) async fn delete_leftovers(
        &self,
        history: &[Revision],
        deployed: &DeployedRevision<'_>,
    ) -> Result<(), RunFailure> {
        // A note with a higher number is of a release that was removed by hand.
        let cleaned = self.note().await.cleaned;
        let cleaned = cleaned.filter(|it| *it <= deployed.number);
        let cleaned = cleaned.unwrap_or_default();
        let suspects = suspects(history, self.run.bundle(), cleaned + 1..deployed.number);
        if suspects.is_empty() {
            return Ok(());
        }
        let hooks = deployed.record.hook_objects().map_err(|error| {
            self.failure(FailureClass::Permanent, Code::HelmRecordUnreadable, error)
        })?;
        let is_present = |key: &ObjectKey| {
            let has_key = |it: &AppliedObject| is_same(&it.key, key);
            let is_hook = |hook: &ObjectRef| is_of_hook(hook, key, &self.target);
            deployed.objects.iter().any(has_key) || hooks.iter().any(is_hook)
        };
        let mut leftovers = Inventory::default();
        for revision in suspects {
            let objects = self.objects_of_failed(revision).await?;
            for object in objects.into_iter().filter(|it| !is_present(&it.key)) {
                leftovers.insert(InventoryEntry {
                    key: object.key,
                    version: object.kind.version,
                    uid: None,
                });
            }
        }
        if !leftovers.is_empty() {
            let step = format!("check {} objects of failed revisions", leftovers.len());
            self.run.begin_step(&step).await?;
            let decide = |entry: &InventoryEntry, live: &Value| decide(entry, live, &self.target);
            manifests::delete(self.run, &plan_removal(&leftovers), &decide).await?;
        }
        self.update_note(|note| note.cleaned = Some(deployed.number))
            .await
    }

    /// Objects of a revision of this bundle that never deployed; none of any other revision.
    async fn objects_of_failed(
        &self,
        revision: &Revision,
    ) -> Result<Vec<AppliedObject>, RunFailure> {
        let objects = match self.records().record(revision).await {
            Ok(Some(record)) if has_failed(revision, &record) => {
                self.objects(record.manifest()).await
            }
            Ok(_) => return Ok(Vec::new()),
            Err(failure) => Err(failure),
        };
        match objects {
            // A record that cannot be read today cannot be read tomorrow either.
            Err(failure) if failure.class == FailureClass::Permanent => {
                let number = revision.number;
                let line = format!("objects of revision {number} are not known: {failure}");
                self.run.log.line(&line);
                Ok(Vec::new())
            }
            objects => objects,
        }
    }
}

/// Revisions of the bundle in a range that may have failed. None without a failed one, so that most runs read no record.
///
/// A failed rollback marks the failed revision before it as superseded (`performRollback` in Helm's `pkg/action/rollback.go`).
fn suspects<'a>(
    history: &'a [Revision],
    bundle: &BundleId,
    range: Range<u32>,
) -> Vec<&'a Revision> {
    let is_ours = |it: &&Revision| {
        range.contains(&it.number) && it.bundle.as_deref() == Some(bundle.as_str())
    };
    let ended =
        |it: &&Revision| matches!(it.status, ReleaseStatus::Failed | ReleaseStatus::Superseded);
    let suspects: Vec<_> = history.iter().filter(is_ours).filter(ended).collect();
    let has_failed = suspects.iter().any(|it| it.status == ReleaseStatus::Failed);
    if has_failed { suspects } else { Vec::new() }
}

/// True for a revision of a run, or a rollback to one, that never deployed.
fn has_failed(revision: &Revision, record: &Record) -> bool {
    let key = revision.run.clone().zip(revision.attempt);
    let success = match (record.rolled_back_to(), key) {
        (Some(to), _) => format!("Rollback to {to}"),
        (None, Some((run, attempt))) if revision.is_by_run() => {
            release_description(&RunKey { run, attempt })
        }
        _ => return false,
    };
    revision.status == ReleaseStatus::Failed || record.description() != success
}

/// True for names of one object. The API server may serve it by two groups, as `Ingress` once.
fn is_same(one: &ObjectKey, other: &ObjectKey) -> bool {
    (&one.kind, &one.namespace, &one.name) == (&other.kind, &other.namespace, &other.name)
}

fn is_of_hook(hook: &ObjectRef, key: &ObjectKey, target: &ReleaseTarget) -> bool {
    let namespace = hook.namespace.as_deref().filter(|it| !it.is_empty());
    let namespace = namespace.unwrap_or(target.namespace.as_str());
    (&hook.kind, &hook.name) == (&key.kind, &key.name)
        && key.namespace.as_deref().is_none_or(|it| it == namespace)
}

/// Decides about a live object that the release has no longer. It may belong to others by now.
fn decide(entry: &InventoryEntry, live: &Value, target: &ReleaseTarget) -> DeleteDecision {
    let keep = |cause: &str| DeleteDecision::Keep(format!("{} {cause}", entry.key));
    let text = |field: &str, name: &str| {
        let map = live.pointer("/metadata").and_then(|it| it.get(field));
        map.and_then(|it| it.get(name)?.as_str())
    };
    let is_of_release = text("labels", "app.kubernetes.io/managed-by") == Some("Helm")
        && text("annotations", "meta.helm.sh/release-name") == Some(target.name.as_str())
        && text("annotations", "meta.helm.sh/release-namespace") == Some(target.namespace.as_str());
    if !is_of_release {
        return keep("is not part of the release");
    }
    if let Some(bundle) = text("labels", BUNDLE_LABEL) {
        return keep(&format!("belongs to bundle {bundle}"));
    }
    let (annotation, value) = KEEP_ANNOTATION;
    if text("annotations", annotation) == Some(value) {
        return keep(&format!("has the annotation {annotation}: {value}"));
    }
    if is_risky(&entry.key) {
        return keep("may hold data; delete it by hand");
    }
    decide_delete_owned(entry, live)
}

#[cfg(test)]
mod tests;
