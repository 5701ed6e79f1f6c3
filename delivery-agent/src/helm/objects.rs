//! Objects of a release, from its manifest.

use fairlead_api::Code;
use fairlead_manifests::{Inventory, InventoryEntry, ObjectKey, ObjectKind, Scope, clean, yaml};
use serde_json::{Map, Value};

use super::{release::Release, target::ReleaseTarget};
use crate::{
    engine::{Applied, AppliedObject, FailureClass, RunFailure},
    kube::ResourceTable,
};

/// Name of the manifest in messages.
const MANIFEST_NAME: &str = "manifest of the release";

impl Release<'_> {
    /// Objects of a manifest, as Helm applies them.
    pub(crate) async fn objects(&self, manifest: &str) -> Result<Vec<AppliedObject>, RunFailure> {
        let parsed = yaml::parse(MANIFEST_NAME, manifest.as_bytes()).map_err(|error| {
            let class = FailureClass::Permanent;
            self.failure(class, Code::HelmTemplateFailed, error)
        })?;
        let kinds: Vec<_> = parsed
            .iter()
            .filter_map(|it| ObjectKind::of(&it.object))
            .collect();
        let table = self.run.discovery.table_of(&kinds).await;
        let table = table.map_err(|error| self.records().failure(&error))?;
        let objects = parsed.into_iter().map(|it| it.object);
        Ok(objects
            .filter_map(|object| applied(object, &self.target, &table))
            .collect())
    }

    /// Checks the objects against the limits of the site.
    pub(crate) fn check_site(&self, objects: &[AppliedObject]) -> Result<(), RunFailure> {
        let mut keys = objects.iter().map(|it| &it.key);
        keys.try_for_each(|key| self.run.site.check_object(key))
    }
}

fn applied(
    mut object: Value,
    target: &ReleaseTarget,
    table: &ResourceTable,
) -> Option<AppliedObject> {
    let kind = ObjectKind::of(&object)?;
    let scope = table.get_any_version(&kind).map(|it| it.scope);
    prepare(&mut object, scope, target)?;
    Some(AppliedObject {
        key: ObjectKey::of(&object)?,
        kind,
        manifest: object,
        baseline: None,
    })
}

/// Sets namespace, label and annotations as Helm does before it applies an object.
fn prepare(object: &mut Value, scope: Option<Scope>, target: &ReleaseTarget) -> Option<()> {
    // A label that is no string fails in the API server already.
    let _ = clean(object);
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let has_namespace = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .is_some_and(|it| !it.is_empty());
    match scope {
        Some(Scope::Cluster) => drop(metadata.remove("namespace")),
        _ if has_namespace => {}
        _ => drop(metadata.insert("namespace".to_owned(), target.namespace.as_str().into())),
    }
    set(
        metadata,
        "labels",
        &[("app.kubernetes.io/managed-by", "Helm")],
    )?;
    let annotations = [
        ("meta.helm.sh/release-name", target.name.as_str()),
        ("meta.helm.sh/release-namespace", target.namespace.as_str()),
    ];
    set(metadata, "annotations", &annotations)
}

fn set(metadata: &mut Map<String, Value>, field: &str, pairs: &[(&str, &str)]) -> Option<()> {
    let map = metadata.entry(field).or_insert(Value::Null);
    if map.is_null() {
        *map = Value::Object(Map::new());
    }
    let map = map.as_object_mut()?;
    for (key, value) in pairs {
        map.insert((*key).to_owned(), (*value).into());
    }
    Some(())
}

/// Result of a run with these objects.
pub(crate) fn result(objects: Vec<AppliedObject>) -> Applied {
    let mut inventory = Inventory::default();
    for object in &objects {
        inventory.insert(InventoryEntry {
            key: object.key.clone(),
            version: object.kind.version.clone(),
            uid: None,
        });
    }
    Applied {
        objects,
        inventory,
        ..Applied::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing, *};

    #[test]
    fn object_gets_namespace_label_and_annotations_of_its_release() {
        let target = ReleaseTarget::of(&testing::spec()).unwrap();
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "status": {},
            "metadata": {"name": "a", "labels": null, "annotations": {"x": "y"}},
        });
        prepare(&mut object, Some(Scope::Namespaced), &target).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "namespace": "shop", "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {
                    "x": "y", "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop",
                },
            },
        });
        assert_eq!(object, expected);
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "a", "namespace": "x"},
        });
        prepare(&mut role, Some(Scope::Cluster), &target).unwrap();
        assert_eq!(role["metadata"].get("namespace"), None);
        let mut other = json!({"kind": "A", "metadata": {"name": "a", "namespace": "x"}});
        prepare(&mut other, None, &target).unwrap();
        assert_eq!(other["metadata"]["namespace"], "x");
    }
}
