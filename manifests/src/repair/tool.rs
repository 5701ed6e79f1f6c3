//! Field managers of GitOps tools, the annotation that pauses repairs, and names and texts of changes.

use aws_lc_rs::digest;
use serde_json::Value;

use crate::{
    drift::{ChangedField, FieldChange},
    object::{ObjectKey, text},
};

/// Annotation of an object, or of its namespace, that stops repairs with the value `true`.
pub const PAUSED_ANNOTATION: &str = "fairlead/paused";

/// Managers of Flux and Argo CD, of their controllers and of their programs.
const TOOL_MANAGERS: [&str; 14] = [
    "argocd",
    "argocd-application-controller",
    "argocd-applicationset-controller",
    "argocd-controller",
    "argocd-server",
    "flux",
    "flux-operator",
    "gotk-controller",
    "helm-controller",
    "image-automation-controller",
    "image-reflector-controller",
    "kustomize-controller",
    "notification-controller",
    "source-controller",
];

/// Bytes of the name of a change.
const CHANGE_BYTES: usize = 12;
/// Fields in a short diff.
const MAX_DIFF_FIELDS: usize = 3;
/// Characters of a value in a short diff.
const MAX_DIFF_CHARS: usize = 60;

/// True for a field manager of a GitOps tool. A name proves nothing about its user: it decides between a correction and a
/// check of the tool, and grants no right.
#[must_use]
pub fn is_tool_manager(manager: &str) -> bool {
    TOOL_MANAGERS.contains(&manager)
}

/// True if the annotation of the object stops repairs.
#[must_use]
pub fn is_paused(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let paused = annotations.and_then(|it| it.get(PAUSED_ANNOTATION));
    paused.and_then(Value::as_str) == Some("true")
}

/// Name of a change of one object: digest of its new state.
#[must_use]
pub fn change_of(key: &ObjectKey, state: &Value) -> String {
    named(format!("{}/{key}\n{state}", key.group).as_bytes())
}

/// Name of the changes of several objects, in any order.
#[must_use]
pub fn joined_change<'a>(changes: impl IntoIterator<Item = &'a str>) -> String {
    let mut changes: Vec<_> = changes.into_iter().collect();
    changes.sort_unstable();
    named(changes.join("\n").as_bytes())
}

fn named(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    let start = digest.as_ref().iter().take(CHANGE_BYTES);
    start.map(|byte| format!("{byte:02x}")).collect()
}

/// Differences for people, like `.data.a: "9" to "1"`. Values of Secrets are left out.
#[must_use]
pub fn short_diff(
    key: &ObjectKey,
    live: &Value,
    desired: &Value,
    changes: &[ChangedField],
) -> String {
    let is_secret = key.is("", "Secret");
    let field = |change: &ChangedField| {
        let path = &change.path;
        if is_secret {
            return path.to_string();
        }
        let value = |object: &Value| {
            object
                .pointer(&change.pointer)
                .map_or_else(|| "nothing".to_owned(), shortened)
        };
        match change.change {
            FieldChange::Added => format!("{path}: {} to nothing", value(live)),
            FieldChange::Removed => format!("{path}: nothing to {}", value(desired)),
            FieldChange::Changed => format!("{path}: {} to {}", value(live), value(desired)),
        }
    };
    let mut fields: Vec<_> = changes.iter().take(MAX_DIFF_FIELDS).map(field).collect();
    if let Some(more) = changes
        .len()
        .checked_sub(MAX_DIFF_FIELDS)
        .filter(|it| *it > 0)
    {
        fields.push(format!("{more} more fields"));
    }
    fields.join("; ")
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_DIFF_CHARS {
        return text;
    }
    let start: String = text.chars().take(MAX_DIFF_CHARS).collect();
    format!("{start}...")
}

/// Time in the status, as text.
pub(super) fn status<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    text(object, &format!("/status/{field}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::drift::{Comparison, FieldOwner, compare};

    fn key(kind: &str) -> ObjectKey {
        ObjectKey {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: Some("flux-system".to_owned()),
            name: "a".to_owned(),
        }
    }

    #[test]
    fn annotation_pauses_with_the_value_true_only() {
        let of = |value: Value| {
            is_paused(&json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}))
        };
        assert!(of(json!("true")));
        assert!(!of(json!("false")) && !of(json!(true)));
        assert!(!is_paused(&json!({"metadata": {}})));
    }

    #[test]
    fn change_is_named_by_its_objects_in_any_order() {
        let (a, b) = (
            change_of(&key("A"), &json!(1)),
            change_of(&key("B"), &json!(1)),
        );
        assert_ne!(a, b);
        assert_eq!(
            joined_change([a.as_str(), b.as_str()]),
            joined_change([b.as_str(), a.as_str()])
        );
        assert_ne!(joined_change([a.as_str()]), joined_change([b.as_str()]));
    }

    #[test]
    fn diff_has_values_but_not_those_of_secrets() {
        let object = |value: &str| {
            json!({"data": {"a": value}, "metadata": {"managedFields": [
                {"manager": "fairlead/b", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}},
            ]}})
        };
        let (live, desired) = (object("9"), object("1"));
        let owner = FieldOwner::apply("fairlead/b");
        let Comparison::Drift(changes) = compare(&live, &desired, &owner, &[]) else {
            panic!("it differs");
        };
        assert_eq!(
            short_diff(&key("ConfigMap"), &live, &desired, &changes),
            r#".data.a: "9" to "1""#
        );
        assert_eq!(
            short_diff(&key("Secret"), &live, &desired, &changes),
            ".data.a"
        );
        let long = object(&"x".repeat(500));
        let diff = short_diff(&key("ConfigMap"), &long, &desired, &changes);
        assert!(diff.len() < 100, "{diff}");
    }
}
