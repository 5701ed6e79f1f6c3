//! Objects that belong to others, and must not be applied without `adopt`.

use serde_json::Value;

use crate::{object::text, prepare::BUNDLE_LABEL};

/// Annotation of an object that may be deleted and made again if a field of it cannot change.
pub const RECREATE_ANNOTATION: &str = "fairlead/recreate";

/// Owner of a live object other than the bundle: `bundle b-web`, or `Helm release shop/web`. `managedFields` is not
/// needed, so that metadata is enough.
#[must_use]
pub fn foreign_owner(live: &Value, bundle: &str) -> Option<String> {
    let label = |name: &str| live.pointer("/metadata/labels")?.get(name)?.as_str();
    if let Some(other) = label(BUNDLE_LABEL) {
        return (other != bundle).then(|| format!("bundle {other}"));
    }
    if label("app.kubernetes.io/managed-by") != Some("Helm") {
        return None;
    }
    let annotation = |name: &str| live.pointer("/metadata/annotations")?.get(name)?.as_str();
    let release = annotation("meta.helm.sh/release-name")?;
    let namespace = annotation("meta.helm.sh/release-namespace")
        .or_else(|| text(live, "/metadata/namespace"))
        .unwrap_or("default");
    Some(format!("Helm release {namespace}/{release}"))
}

/// True if the manifest allows to delete the object and make it again.
#[must_use]
pub fn may_recreate(manifest: &Value) -> bool {
    let annotations = manifest.pointer("/metadata/annotations");
    let value = annotations.and_then(|it| it.get(RECREATE_ANNOTATION));
    value.and_then(Value::as_str) == Some("true")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_of_other_bundles_and_releases_are_foreign() {
        let helm = json!({"app.kubernetes.io/managed-by": "Helm"});
        let release =
            json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"});
        for (labels, annotations, owner) in [
            (json!({}), json!({}), None),
            (json!({"fairlead/bundle": "b-shop"}), json!({}), None),
            (
                json!({"fairlead/bundle": "b-web"}),
                json!({}),
                Some("bundle b-web"),
            ),
            (helm.clone(), release.clone(), Some("Helm release shop/web")),
            (
                helm.clone(),
                json!({"meta.helm.sh/release-name": "web"}),
                Some("Helm release x/web"),
            ),
            // A manifest of `helm template` has the label only.
            (helm, json!({}), None),
            // Adopted before: our label wins.
            (
                json!({"app.kubernetes.io/managed-by": "Helm", "fairlead/bundle": "b-shop"}),
                release,
                None,
            ),
        ] {
            let live = json!({"metadata": {"namespace": "x", "labels": labels, "annotations": annotations}});
            assert_eq!(foreign_owner(&live, "b-shop").as_deref(), owner, "{live}");
        }
    }

    #[test]
    fn only_true_allows_to_recreate() {
        let with =
            |value: Value| json!({"metadata": {"annotations": {RECREATE_ANNOTATION: value}}});
        assert!(may_recreate(&with(json!("true"))));
        assert!(!may_recreate(&with(json!("yes"))));
        assert!(!may_recreate(&json!({})));
    }
}
