//! Fields that a GitOps tool has set on an object of its own deployment, put into the manifest of the object.

use serde_json::{Map, Value};

use super::tool::{PAUSED_ANNOTATION, is_tool_manager};
use crate::{drift::entries, object::ObjectKey};

/// Fields of Secrets whose values never go into a manifest.
const SECRET_FIELDS: [&str; 2] = ["data", "stringData"];
/// Parts of an object that are no desired state. Applications of Argo CD have their status without a subresource.
const OTHER_FIELDS: [&str; 4] = ["apiVersion", "kind", "status", "operation"];
/// Parts of the metadata that a manifest may have.
const METADATA_FIELDS: [&str; 2] = ["labels", "annotations"];
/// Annotations that request work, and are no desired state.
const REQUEST_ANNOTATIONS: [&str; 3] = [
    "reconcile.fluxcd.io/",
    "argocd.argoproj.io/refresh",
    PAUSED_ANNOTATION,
];

/// The manifest with the values of all fields of the live object that a GitOps tool owns. Values of Secrets are left out.
#[must_use]
pub fn overlaid(manifest: &Value, live: &Value) -> Value {
    let mut overlaid = manifest.clone();
    let is_secret = ObjectKey::of(manifest).is_some_and(|it| it.is("", "Secret"));
    for entry in entries(live) {
        if !is_tool_manager(entry.manager) || entry.subresource == "status" {
            continue;
        }
        for (element, fields) in entry.fields.as_object().into_iter().flatten() {
            let Some(name) = element.strip_prefix("f:") else {
                continue;
            };
            let is_value = is_secret && SECRET_FIELDS.contains(&name);
            if OTHER_FIELDS.contains(&name) || is_value {
                continue;
            }
            let fields = match name {
                "metadata" => metadata_of(fields),
                _ => fields.clone(),
            };
            let one = Map::from_iter([(element.clone(), fields)]);
            put(&mut overlaid, live, &one);
        }
    }
    overlaid
}

/// True if a GitOps tool owns values of a Secret: they are kept in the cluster, and never copied.
#[must_use]
pub fn owns_secret_values(live: &Value) -> bool {
    let is_secret = ObjectKey::of(live).is_some_and(|it| it.is("", "Secret"));
    let mut of_tool = entries(live).filter(|it| is_tool_manager(it.manager));
    is_secret
        && of_tool.any(|it| {
            SECRET_FIELDS
                .iter()
                .any(|name| it.fields.get(format!("f:{name}")).is_some())
        })
}

fn metadata_of(fields: &Value) -> Value {
    let mut kept = Map::new();
    for name in METADATA_FIELDS {
        let element = format!("f:{name}");
        let Some(Value::Object(of_field)) = fields.get(&element) else {
            continue;
        };
        let mut of_field = of_field.clone();
        of_field.retain(|it, _| {
            let name = it.strip_prefix("f:").unwrap_or(it);
            !REQUEST_ANNOTATIONS
                .iter()
                .any(|start| name.starts_with(start))
        });
        // Without children the element would stand for the whole map.
        if of_field.keys().any(|it| it != ".") {
            kept.insert(element, Value::Object(of_field));
        }
    }
    Value::Object(kept)
}

/// Copies the fields of a `fieldsV1` node from the live value.
fn put(target: &mut Value, live: &Value, fields: &Map<String, Value>) {
    for (element, below) in fields {
        match element.split_at_checked(2) {
            Some(("f:", name)) => put_field(target, live, name, below),
            Some(("k:", key)) => put_item(target, live, key, below),
            Some(("v:", value)) => put_value(target, value),
            // `.` is the value itself; positions name no item that could be found again.
            _ => {}
        }
    }
}

fn put_field(target: &mut Value, live: &Value, name: &str, below: &Value) {
    let Some(value) = live.get(name) else {
        return;
    };
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    if let Some(children) = children(below) {
        let empty = match value {
            Value::Array(_) => Value::Array(Vec::new()),
            _ => Value::Object(Map::new()),
        };
        put(target.entry(name).or_insert(empty), value, children);
    } else {
        target.insert(name.to_owned(), value.clone());
    }
}

/// Item of a list with keys. A new item gets its keys, too.
fn put_item(target: &mut Value, live: &Value, key: &str, below: &Value) {
    let Ok(Value::Object(key)) = serde_json::from_str(key) else {
        return;
    };
    let has_key = |item: &Value| {
        key.iter()
            .all(|(name, value)| item.get(name) == Some(value))
    };
    let item = live
        .as_array()
        .and_then(|items| items.iter().find(|it| has_key(it)));
    let (Some(item), Value::Array(items)) = (item, target) else {
        return;
    };
    let known = items.iter_mut().position(|it| has_key(it));
    let place = known.unwrap_or(items.len());
    if known.is_none() {
        items.push(Value::Object(key.clone()));
    }
    let Some(own) = items.get_mut(place) else {
        return;
    };
    match children(below) {
        Some(children) => put(own, item, children),
        None => own.clone_from(item),
    }
}

/// Value of a set.
fn put_value(target: &mut Value, value: &str) {
    let (Ok(value), Value::Array(items)) = (serde_json::from_str::<Value>(value), target) else {
        return;
    };
    if !items.contains(&value) {
        items.push(value);
    }
}

/// Elements below a node; none for a field that is owned as a whole.
fn children(node: &Value) -> Option<&Map<String, Value>> {
    let children = node.as_object()?;
    (!children.is_empty()).then_some(children)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "source-controller", "labels": {"fairlead/bundle": "b-flux"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "manager", "image": "source:1", "env": [{"name": "A", "value": "1"}]},
            ]}}},
        })
    }

    fn live(manager: &str) -> Value {
        let mut live = manifest();
        live["metadata"]["labels"]["version"] = json!("2");
        live["metadata"]["annotations"] =
            json!({"reconcile.fluxcd.io/requestedAt": "now", "a": "b"});
        let pod = &mut live["spec"]["template"]["spec"];
        pod["containers"][0]["image"] = json!("source:2");
        pod["containers"][0]["args"] = json!(["--new"]);
        pod["containers"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"name": "sidecar", "image": "s", "tty": true}));
        live["spec"]["replicas"] = json!(9);
        live["status"] = json!({"replicas": 9});
        live["metadata"]["managedFields"] = json!([{
            "manager": manager, "operation": "Apply", "fieldsV1": {
                "f:metadata": {
                    "f:labels": {"f:version": {}},
                    "f:annotations": {"f:reconcile.fluxcd.io/requestedAt": {}},
                    "f:finalizers": {"v:\"x\"": {}},
                },
                "f:status": {"f:replicas": {}},
                "f:spec": {"f:template": {"f:spec": {"f:containers": {
                    "k:{\"name\":\"manager\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {}},
                    "k:{\"name\":\"sidecar\"}": {".": {}, "f:name": {}, "f:image": {}},
                }}}},
            },
        }]);
        live
    }

    #[test]
    fn fields_of_the_tool_alone_are_taken() {
        let overlaid = overlaid(&manifest(), &live("kustomize-controller"));
        let mut expected = manifest();
        expected["metadata"]["labels"]["version"] = json!("2");
        expected["spec"]["template"]["spec"]["containers"] = json!([
            {"name": "manager", "image": "source:2", "args": ["--new"], "env": [{"name": "A", "value": "1"}]},
            {"name": "sidecar", "image": "s"},
        ]);
        assert_eq!(
            overlaid, expected,
            "replicas, requests and status belong to others"
        );
    }

    #[test]
    fn fields_of_people_are_left_out() {
        assert_eq!(overlaid(&manifest(), &live("kubectl-edit")), manifest());
    }

    #[test]
    fn values_of_secrets_are_never_copied() {
        let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": data});
        let mut live = secret(json!({"identity": "cHJpdmF0ZQ=="}));
        assert!(!owns_secret_values(&live));
        live["metadata"]["managedFields"] = json!([{
            "manager": "kustomize-controller", "operation": "Apply", "fieldsV1": {"f:data": {"f:identity": {}}, "f:type": {}},
        }]);
        assert!(owns_secret_values(&live));
        let overlaid = overlaid(&secret(json!({})), &live);
        assert_eq!(overlaid, secret(json!({})));
    }

    #[test]
    fn set_and_missing_parents_are_made() {
        let live = json!({
            "metadata": {"managedFields": [{
                "manager": "argocd-controller", "operation": "Apply",
                "fieldsV1": {"f:spec": {"f:a": {"f:b": {}}, "f:set": {"v:\"x\"": {}}}},
            }]},
            "spec": {"a": {"b": 1, "c": 2}, "set": ["x", "y"]},
        });
        let manifest = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}});
        assert_eq!(
            overlaid(&manifest, &live)["spec"],
            json!({"a": {"b": 1}, "set": ["x"]})
        );
    }
}
