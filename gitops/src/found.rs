//! A tool that is in the cluster already: by the labels of its workloads, and by its definitions.

use fairlead_api::gitops::{FoundState, FoundTool, GitOpsTool};
use serde_json::Value;

use crate::kube::{ObjectError, Objects};

/// Label of objects that a delivery has applied.
const BUNDLE_LABEL: &str = "/metadata/labels/fairlead~1bundle";
/// Prefix of the bundles of tools.
const OWN_BUNDLE: &str = "b-gitops-";
const VERSION_LABEL: &str = "/metadata/labels/app.kubernetes.io~1version";
const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// Workloads of a tool in all namespaces, and the definition of its source.
const fn lists(tool: GitOpsTool) -> &'static [&'static str] {
    match tool {
        GitOpsTool::Flux => &[
            "/apis/apps/v1/deployments?limit=50&labelSelector=app.kubernetes.io%2Fpart-of%3Dflux",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=1&fieldSelector=metadata.name%3Dgitrepositories.source.toolkit.fluxcd.io",
        ],
        GitOpsTool::Argocd => &[
            "/apis/apps/v1/statefulsets?limit=50&labelSelector=app.kubernetes.io%2Fpart-of%3Dargocd",
            "/apis/apps/v1/deployments?limit=50&labelSelector=app.kubernetes.io%2Fpart-of%3Dargocd",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=1&fieldSelector=metadata.name%3Dapplications.argoproj.io",
        ],
        GitOpsTool::None => &[],
    }
}

/// Looks for the tool. One object of others makes it theirs.
pub(crate) async fn find(objects: &Objects, tool: GitOpsTool) -> Result<FoundTool, ObjectError> {
    let mut found = Vec::new();
    for path in lists(tool) {
        let list = objects.get(path).await?;
        let items = list.as_ref().and_then(|it| it.get("items")?.as_array());
        found.extend(items.into_iter().flatten().cloned());
    }
    Ok(owner(&found))
}

fn owner(objects: &[Value]) -> FoundTool {
    let is_own = |object: &&Value| {
        let bundle = object.pointer(BUNDLE_LABEL).and_then(Value::as_str);
        bundle.is_some_and(|it| it.starts_with(OWN_BUNDLE))
    };
    let foreign = objects.iter().find(|it| !is_own(it));
    let state = match (foreign, objects) {
        (Some(_), _) => FoundState::Foreign,
        (None, []) => FoundState::Absent,
        (None, _) => FoundState::Own,
    };
    let shown = foreign.or(objects.first());
    FoundTool {
        state,
        version: shown.and_then(version),
        by: foreign.and_then(manager),
        saved: false,
    }
}

/// Version of the label, else the tag of the image.
fn version(object: &Value) -> Option<String> {
    let label = object.pointer(VERSION_LABEL).and_then(Value::as_str);
    let tag = || {
        let image = object.pointer(IMAGE)?.as_str()?;
        let image = image.split('@').next()?;
        Some(image.rsplit_once(':')?.1)
    };
    label.or_else(tag).map(str::to_owned)
}

/// Field manager of the oldest entry.
fn manager(object: &Value) -> Option<String> {
    let fields = object.pointer("/metadata/managedFields")?.as_array()?;
    let manager = fields.iter().find_map(|it| it.get("manager")?.as_str());
    manager.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(bundle: Option<&str>, version: Option<&str>) -> Value {
        json!({
            "metadata": {
                "labels": { "fairlead/bundle": bundle, "app.kubernetes.io/version": version },
                "managedFields": [{ "manager": "flux" }, { "manager": "kubectl" }],
            },
            "spec": { "template": { "spec": { "containers": [{ "image": "r.example:5000/a:v1.2@sha256:0" }] } } },
        })
    }

    #[test]
    fn one_object_of_others_makes_the_tool_theirs() {
        assert_eq!(owner(&[]).state, FoundState::Absent);
        let own = object(Some("b-gitops-c-1"), None);
        let found = owner(std::slice::from_ref(&own));
        assert_eq!((found.state, found.by), (FoundState::Own, None));
        let found = owner(&[own, object(None, Some("v2.9.0"))]);
        assert_eq!(found.state, FoundState::Foreign);
        assert_eq!(found.by.as_deref(), Some("flux"));
        assert_eq!(found.version.as_deref(), Some("v2.9.0"));
    }

    #[test]
    fn version_is_the_tag_of_the_image_without_a_label() {
        let found = owner(&[object(Some("b-shop"), None)]);
        assert_eq!(found.state, FoundState::Foreign, "of another bundle");
        assert_eq!(found.version.as_deref(), Some("v1.2"));
    }
}
