//! Deployments under drift detection.

use std::{fmt, sync::Arc};

use fairlead_api::{
    BundleId,
    delivery::{DriftPolicy, DriftedObject, IgnoreRule},
};
use fairlead_manifests::{
    BUNDLE_LABEL, ObjectKey,
    drift::{Baseline, FieldOwner, beside},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::kube::ApiResource;

const HELM_LABEL: &str = "app.kubernetes.io/managed-by";
const HELM_LABEL_VALUE: &str = "Helm";
/// Field manager of Helm 4.
const HELM_MANAGER: &str = "helm";
/// Fields beside those of the bundle that are kept per object and manager.
const MAX_BESIDE_FIELDS: usize = 10;
/// Managers of the control plane, whose notes in the metadata are on nearly each object.
const CONTROL_PLANE_MANAGERS: [&str; 3] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// Owner of the fields of a deployment's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOwner {
    /// Manifests of a bundle: manager `fairlead/BUNDLE`, label `fairlead/bundle`.
    Bundle(BundleId),
    /// A Helm release: manager `helm`, label `app.kubernetes.io/managed-by`.
    Helm,
}

impl DeliveryOwner {
    /// Owner by server-side apply.
    #[must_use]
    pub fn applied(&self) -> FieldOwner {
        match self {
            DeliveryOwner::Bundle(bundle) => FieldOwner::of_bundle(bundle.as_str()),
            DeliveryOwner::Helm => FieldOwner::apply(HELM_MANAGER),
        }
    }

    /// Owner of the fields of a live object: a release that began with Helm 3 has entries of `Update`.
    pub(crate) fn of_live(&self, live: &Value) -> FieldOwner {
        let applied = self.applied();
        let updated = FieldOwner {
            operation: "Update".to_owned(),
            ..applied.clone()
        };
        match self {
            DeliveryOwner::Helm
                if applied.entry(live).is_none() && updated.entry(live).is_some() =>
            {
                updated
            }
            _ => applied,
        }
    }

    /// Label of the objects: name and value.
    pub(super) fn label(&self) -> (&str, &str) {
        match self {
            DeliveryOwner::Bundle(bundle) => (BUNDLE_LABEL, bundle.as_str()),
            DeliveryOwner::Helm => (HELM_LABEL, HELM_LABEL_VALUE),
        }
    }

    /// Label selector of watches, which deployments of one kind share.
    pub(super) fn selector(&self) -> &'static str {
        match self {
            DeliveryOwner::Bundle(_) => BUNDLE_LABEL,
            DeliveryOwner::Helm => "app.kubernetes.io/managed-by=Helm",
        }
    }
}

/// Adds the label and the annotations of Helm to an object of a release's manifest. Helm adds them when it applies, not in
/// its record; without them an apply as manager `helm` would remove them.
pub fn mark_release_object(object: &mut Value, release: &str, namespace: &str) {
    let set = |object: &mut Value, field: &str, entries: &[(&str, &str)]| {
        let metadata = object
            .as_object_mut()?
            .entry("metadata")
            .or_insert(json!({}));
        let map = metadata.as_object_mut()?.entry(field).or_insert(json!({}));
        if map.is_null() {
            *map = Value::Object(Map::new());
        }
        let map = map.as_object_mut()?;
        for (name, value) in entries {
            map.insert((*name).to_owned(), json!(value));
        }
        Some(())
    };
    set(object, "labels", &[(HELM_LABEL, HELM_LABEL_VALUE)]);
    let annotations = [
        ("meta.helm.sh/release-name", release),
        ("meta.helm.sh/release-namespace", namespace),
    ];
    set(object, "annotations", &annotations);
}

/// A deployment after a run.
#[derive(Debug, Clone)]
pub struct FollowedDeployment {
    /// The bundle.
    pub bundle: BundleId,
    /// `NAME` in `fairlead-delivery`, or `NAMESPACE/NAME`: account of all requests.
    pub account: String,
    /// User of the account, like `system:serviceaccount:fairlead-delivery:deployer`.
    pub user: String,
    /// Owner of the objects' fields.
    pub owner: DeliveryOwner,
    /// Reaction to changes by others.
    pub policy: DriftPolicy,
    /// True: nothing is corrected now, differences are only reported.
    pub reports_only: bool,
    /// Fields that others may change.
    pub ignore: Vec<IgnoreRule>,
    /// Applied objects.
    pub objects: Vec<FollowedObject>,
    /// Returns to the last good state so far, of a deployment with the policy `repair`.
    pub rollbacks: RollbackNote,
}

impl FollowedDeployment {
    /// True if the objects are corrected.
    pub(super) fn is_corrected(&self) -> bool {
        !self.reports_only && matches!(self.policy, DriftPolicy::Correct | DriftPolicy::Repair)
    }

    /// True if objects of a GitOps tool are repaired.
    pub(super) fn is_repaired(&self) -> bool {
        !self.reports_only && self.policy == DriftPolicy::Repair
    }
}

/// Returns to the last good state because of one change that a GitOps tool made of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackNote {
    /// Name of the change.
    pub change: String,
    /// Number of returns.
    pub count: u32,
}

impl RollbackNote {
    /// True without any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// An applied object.
#[derive(Clone)]
pub struct FollowedObject {
    /// Identity.
    pub key: ObjectKey,
    /// Resource of its kind.
    pub resource: Arc<ApiResource>,
    /// Object as it was applied, in JSON. It may have secret values. The journal shares it.
    manifest: Arc<str>,
    /// Baseline of the answer to the apply. Without one the object is compared once.
    pub baseline: Option<Arc<Baseline>>,
}

impl FollowedObject {
    /// Object with its JSON as it was applied, and its baseline.
    #[must_use]
    pub fn new(
        key: ObjectKey,
        resource: Arc<ApiResource>,
        manifest: Arc<str>,
        baseline: Option<Arc<Baseline>>,
    ) -> Self {
        Self {
            key,
            resource,
            manifest,
            baseline,
        }
    }

    pub(super) fn path(&self) -> String {
        self.resource.object_path(&self.key)
    }

    pub(super) fn manifest(&self) -> Value {
        serde_json::from_str(&self.manifest).unwrap_or_default()
    }
}

/// Leaves the manifest out: it may have secret values.
impl fmt::Debug for FollowedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedObject")
            .field("key", &self.key)
            .field("baseline", &self.baseline)
            .finish_non_exhaustive()
    }
}

/// Fields of an object that others set beside those of the bundle, by manager. Notes of the control plane in the metadata,
/// like the revision of a Deployment, are left out: they are on nearly each object.
pub(crate) fn beside_fields(
    key: &ObjectKey,
    live: &Value,
    owner: &FieldOwner,
) -> Vec<DriftedObject> {
    let mut by_manager = std::collections::BTreeMap::<String, Vec<String>>::new();
    for field in beside(live, owner) {
        let path = field.path.to_string();
        let is_note = path.starts_with(".metadata.")
            && CONTROL_PLANE_MANAGERS.contains(&field.manager.as_str());
        if is_note {
            continue;
        }
        let fields = by_manager.entry(field.manager).or_default();
        if fields.len() < MAX_BESIDE_FIELDS {
            fields.push(path);
        }
    }
    let object = |(manager, fields)| DriftedObject {
        object: key.to_string(),
        fields,
        manager: Some(manager),
    };
    by_manager.into_iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster may have thousands: identity, and pointers to what the journal has anyway.
    #[test]
    fn a_followed_object_is_small() {
        assert!(size_of::<FollowedObject>() <= 128);
    }

    #[test]
    fn release_objects_get_the_marks_of_helm() {
        let mut object = json!({"metadata": {"name": "a", "annotations": null}});
        mark_release_object(&mut object, "shop", "apps");
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"][HELM_LABEL], HELM_LABEL_VALUE);
        let annotations = &metadata["annotations"];
        assert_eq!(annotations["meta.helm.sh/release-name"], "shop");
        assert_eq!(annotations["meta.helm.sh/release-namespace"], "apps");
    }

    #[test]
    fn notes_of_the_control_plane_are_not_beside() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
        let annotation =
            json!({"f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}}});
        let live = json!({"metadata": {"managedFields": [
            entry("kube-controller-manager", annotation.clone()),
            entry("kube-controller-manager", json!({"f:spec": {"f:replicas": {}}})),
            entry("injector", annotation),
        ]}});
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let owner = DeliveryOwner::Bundle("b-shop".parse().unwrap()).applied();
        let beside = beside_fields(&key, &live, &owner);
        let managers: Vec<_> = beside
            .iter()
            .filter_map(|it| it.manager.as_deref())
            .collect();
        assert_eq!(managers, ["injector", "kube-controller-manager"]);
        assert_eq!(beside[1].fields, [".spec.replicas"]);
    }

    #[test]
    fn objects_of_an_old_release_belong_to_its_updates() {
        let live = |operation: &str| {
            json!({"metadata": {"managedFields": [
                {"manager": "helm", "operation": operation, "fieldsV1": {"f:data": {}}}
            ]}})
        };
        let owner = DeliveryOwner::Helm;
        assert_eq!(owner.of_live(&live("Update")).operation, "Update");
        assert_eq!(owner.of_live(&live("Apply")).operation, "Apply");
        assert_eq!(owner.of_live(&json!({})).operation, "Apply");
    }
}
