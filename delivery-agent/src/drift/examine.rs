//! Comparison of one live object with its manifest, by a forced dry run.

use std::sync::Arc;

use fairlead_api::delivery::{DriftPolicy, DriftedObject, IgnoreRule};
use fairlead_manifests::{
    BUNDLE_LABEL, Failure as Refusal, FailureKind, ObjectKey, RequestContext,
    drift::{
        Baseline, ChangedField, Comparison, FieldOwner, compare, drifted, entries, fields_of,
        ignored_pointers, keep_live_values,
    },
    failure,
    repair::{change_of, overlaid, owns_secret_values},
};
use serde_json::Value;

use super::{
    api::ObjectApi,
    deployment::{DeliveryOwner, FollowedDeployment, FollowedObject},
};
use crate::kube::{KubeError, Query};

/// Fields with the values of a Secret.
const SECRET_VALUES: [&str; 2] = ["/data", "/stringData"];
/// Reported fields of a refused correction.
const MAX_FIELDS: usize = 20;

/// Result of a comparison.
#[derive(Debug)]
pub(super) enum Finding {
    /// Nothing differs. The baseline belongs to the owner.
    Same(Option<Baseline>, FieldOwner),
    /// All values are ours, and we own less.
    OwnershipLost(Desired),
    /// The object does not exist.
    Gone,
    /// The object is being deleted.
    Deleting,
    /// Another bundle has adopted the object.
    TakenOver(String),
    /// Others changed these fields.
    Drift(Vec<ChangedField>, Desired),
    /// A forced apply is refused because of the live object, so that it differs.
    Refused(Vec<DriftedObject>, Refusal, Desired),
}

/// Manifest as it is applied over a live object: ignored fields have their live values.
#[derive(Debug)]
pub(super) struct Desired(pub(super) Value);

/// Reason for a missing comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExamineError {
    /// The API server refused the dry run for a reason that lies not in the live object.
    Refused(Box<Refusal>),
    /// The API server did not answer.
    Unreachable(String),
}

/// Changes that a GitOps tool made of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnChanges {
    /// They are drift, as those of all others.
    Drift,
    /// They are no drift.
    Accepted,
    /// They are drift, and fields that only the tool has set are removed.
    Withdrawn,
}

impl OwnChanges {
    /// Changes of a deployment at rest.
    pub(super) fn of(policy: DriftPolicy) -> Self {
        match policy {
            DriftPolicy::Repair => OwnChanges::Accepted,
            _ => OwnChanges::Drift,
        }
    }
}

/// A deployment's object on an API server.
#[derive(Clone)]
pub(super) struct Target<'a> {
    pub(super) api: Arc<dyn ObjectApi>,
    pub(super) deployment: &'a FollowedDeployment,
    pub(super) object: &'a FollowedObject,
    pub(super) own_changes: OwnChanges,
}

impl Target<'_> {
    pub(super) async fn live(&self) -> Result<Option<Value>, ExamineError> {
        let live = self.api.get(&self.object.path()).await;
        live.map_err(|error| self.error(error, "get"))
    }

    /// Manifest with the changes that a GitOps tool made of itself, and the name of these changes. `None` without any.
    pub(super) fn own_change(&self, live: &Value) -> Option<(String, Value)> {
        let manifest = self.object.manifest();
        let state = overlaid(&manifest, live);
        (state != manifest).then(|| (change_of(&self.object.key, &state), state))
    }

    /// Compares a live object.
    pub(super) async fn examine(&self, live: Option<&Value>) -> Result<Finding, ExamineError> {
        let Some(live) = live else {
            return Ok(Finding::Gone);
        };
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(Finding::Deleting);
        }
        if let Some(other) = adopter(live, &self.deployment.owner) {
            return Ok(Finding::TakenOver(other));
        }
        let owner = self.deployment.owner.applied();
        let rules = &self.deployment.ignore;
        let mut manifest = self.object.manifest();
        if self.own_changes == OwnChanges::Accepted {
            manifest = overlaid(&manifest, live);
        }
        let mut ignored = keep_ignored(self.api.as_ref(), rules, &mut manifest, live, &owner).await;
        if self.own_changes == OwnChanges::Accepted && owns_secret_values(live) {
            let values = SECRET_VALUES.map(str::to_owned);
            keep_live_values(&mut manifest, live, &values, &owner);
            ignored.extend(values);
        }
        let path = self.object.path();
        let dry_run = self.api.apply(&path, &owner.manager, true, &manifest).await;
        let desired = Desired(manifest);
        let dry_run = match dry_run {
            Ok(dry_run) => dry_run,
            Err(error) => {
                return match self.error(error, "patch") {
                    ExamineError::Refused(refusal) => {
                        let fields = fields_of_refusal(&refusal.kind);
                        let Some(fields) = fields else {
                            return Err(ExamineError::Refused(refusal));
                        };
                        let drift = self.refused_fields(live, &owner, fields);
                        Ok(Finding::Refused(drift, *refusal, desired))
                    }
                    other => Err(other),
                };
            }
        };
        let live_owner = self.deployment.owner.of_live(live);
        Ok(match compare(live, &dry_run, &owner, &ignored) {
            Comparison::Same => Finding::Same(same_baseline(live, &dry_run, &owner), owner),
            // A release by updates never owns by apply: the live object itself is the baseline, because it is equal.
            Comparison::OwnershipLost if live_owner != owner => {
                Finding::Same(Baseline::of_answer(live, &live_owner), live_owner)
            }
            Comparison::OwnershipLost => Finding::OwnershipLost(desired),
            Comparison::Drift(changes) => Finding::Drift(changes, desired),
        })
    }

    /// Reads an error as the refusal of a verb.
    pub(super) fn error(&self, error: KubeError, verb: &str) -> ExamineError {
        match error {
            KubeError::Unreachable(cause) => ExamineError::Unreachable(cause),
            KubeError::Status { status, body } => {
                let context = RequestContext {
                    key: &self.object.key,
                    kind: &self.object.resource.kind,
                    resource: &self.object.resource.plural,
                    verb,
                    user: &self.deployment.user,
                };
                ExamineError::Refused(Box::new(failure(status, &body, &context)))
            }
        }
    }

    /// The fields of a refusal, with the managers of the lists that they are in.
    fn refused_fields(
        &self,
        live: &Value,
        owner: &FieldOwner,
        fields: &[String],
    ) -> Vec<DriftedObject> {
        let lists: Vec<_> = fields
            .iter()
            .map(|it| it.split('[').next().unwrap_or(it).replace('.', "/f:"))
            .collect();
        let has_list = |entry: &Value| {
            lists.iter().any(|list| {
                let pointer = format!("/f:{list}");
                entry.pointer(&pointer).is_some()
            })
        };
        let manager = entries(live)
            .filter(|it| !owner.has(it) && it.subresource != "status" && has_list(it.fields))
            .max_by_key(|it| it.time);
        let fields = fields.iter().take(MAX_FIELDS);
        vec![DriftedObject {
            object: self.object.key.to_string(),
            fields: fields.map(|it| format!(".{it}")).collect(),
            manager: manager.map(|it| it.manager.to_owned()),
        }]
    }
}

/// Gives the ignored fields of a manifest their live values. Returns the JSON pointers of these fields.
pub(crate) async fn keep_ignored(
    api: &dyn ObjectApi,
    rules: &[IgnoreRule],
    manifest: &mut Value,
    live: &Value,
    owner: &FieldOwner,
) -> Vec<String> {
    let Some(key) = ObjectKey::of(manifest) else {
        return Vec::new();
    };
    let ignored = ignored_of(api, rules, &key, live).await;
    keep_live_values(manifest, live, &ignored, owner);
    ignored
}

/// JSON pointers of the fields of a live object that others may change.
pub(crate) async fn ignored_of(
    api: &dyn ObjectApi,
    rules: &[IgnoreRule],
    key: &ObjectKey,
    live: &Value,
) -> Vec<String> {
    let has_autoscaler = has_autoscaler(api, key, live).await;
    ignored_pointers(rules, key, Some(live), has_autoscaler)
}

/// True if a HorizontalPodAutoscaler scales the object. It is read only if somebody used the subresource `scale`.
async fn has_autoscaler(api: &dyn ObjectApi, key: &ObjectKey, live: &Value) -> bool {
    let scaler = entries(live).find(|it| it.subresource == "scale");
    let (Some(scaler), Some(namespace)) = (scaler, &key.namespace) else {
        return false;
    };
    let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
    let list = match api.list(&path, &Query::default()).await {
        Ok(list) => list.unwrap_or_default(),
        // Without the right to read autoscalers, their controller's name decides.
        Err(_) => return scaler.manager == "kube-controller-manager",
    };
    let targets = list
        .items
        .iter()
        .filter_map(|it| it.pointer("/spec/scaleTargetRef"));
    targets.into_iter().any(|target| {
        let field = |name: &str| target.get(name).and_then(Value::as_str);
        field("kind") == Some(&key.kind) && field("name") == Some(&key.name)
    })
}

/// Baseline of an object without differences. Others may own ignored fields, which the dry run takes over: then the live
/// object itself is the baseline.
fn same_baseline(live: &Value, dry_run: &Value, owner: &FieldOwner) -> Option<Baseline> {
    let fields = |object| owner.entry(object).map(|it| it.fields);
    let is_owned = fields(live) == fields(dry_run);
    Baseline::of_answer(if is_owned { dry_run } else { live }, owner)
}

/// The object as drift, with changed fields by manager.
pub(super) fn drift_of(object: &FollowedObject, changes: &[ChangedField]) -> Vec<DriftedObject> {
    drifted(&object.key, changes)
}

/// The object as drift, without fields.
pub(super) fn whole_drift(object: &FollowedObject) -> Vec<DriftedObject> {
    vec![DriftedObject {
        object: object.key.to_string(),
        fields: Vec::new(),
        manager: None,
    }]
}

/// Fields of a refusal that a change of the live object can cause.
fn fields_of_refusal(kind: &FailureKind) -> Option<&[String]> {
    match kind {
        FailureKind::Invalid(fields) | FailureKind::Immutable(fields) => Some(fields),
        FailureKind::RemovedVersion => Some(&[]),
        _ => None,
    }
}

/// Bundle that has adopted the object: it has set the label by itself.
fn adopter(live: &Value, owner: &DeliveryOwner) -> Option<String> {
    let label = live
        .pointer("/metadata/labels")?
        .get(BUNDLE_LABEL)?
        .as_str()?;
    if matches!(owner, DeliveryOwner::Bundle(bundle) if bundle.as_str() == label) {
        return None;
    }
    let entry = FieldOwner::of_bundle(label).entry(live)?;
    let path = format!("f:{BUNDLE_LABEL}");
    let labels = entry.fields.pointer("/f:metadata/f:labels")?;
    labels.get(path)?;
    // An entry without other fields is no bundle's: somebody used its name for the label only.
    (fields_of(entry.fields).len() > 1).then(|| label.to_owned())
}
