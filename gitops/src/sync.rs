//! Status of the last sync, from the tool's own object.

use serde_json::Value;

use crate::{secrets, tool::Layout};

/// Annotation that requests a sync of Flux, and whose value Flux reports back.
const REQUEST: &str = "reconcile.fluxcd.io/requestedAt";

/// Sync of the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sync {
    /// No object of the tool uses the Secret.
    NoSource,
    Source(SourceStatus),
}

/// Status of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourceStatus {
    /// Last requested sync.
    pub(crate) requested: Option<String>,
    /// Last requested sync that has ended.
    pub(crate) handled: Option<String>,
    pub(crate) outcome: Outcome,
}

/// Outcome of the last sync.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    Unknown,
    Succeeded,
    Failed(String),
}

impl Sync {
    /// Sync of a `GitRepository` of Flux.
    pub(crate) fn of_flux(layout: &Layout, object: Option<&Value>) -> Self {
        let used = |object: &Value| {
            let name = object.pointer("/spec/secretRef/name")?.as_str()?;
            (name == layout.secret).then_some(())
        };
        let Some(object) = object.filter(|object| used(object).is_some()) else {
            return Sync::NoSource;
        };
        let handled = object.pointer("/status/lastHandledReconcileAt");
        Sync::Source(SourceStatus {
            requested: secrets::annotation(object, REQUEST).map(str::to_owned),
            handled: handled.and_then(Value::as_str).map(str::to_owned),
            outcome: outcome(object),
        })
    }
}

fn outcome(object: &Value) -> Outcome {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let field = |condition: &Value, name: &str| {
        let value = condition.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let mut conditions = conditions.into_iter().flatten();
    let Some(ready) = conditions.find(|it| field(it, "type") == "Ready") else {
        return Outcome::Unknown;
    };
    match field(ready, "status").as_str() {
        "True" => Outcome::Succeeded,
        "False" => Outcome::Failed(field(ready, "message")),
        _ => Outcome::Unknown,
    }
}

/// The object with a request for a sync.
pub(crate) fn with_request(mut object: Value, token: &str) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let annotations = metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Value::Object(annotations) = annotations {
            annotations.insert(REQUEST.to_owned(), token.into());
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use fairlead_api::gitops::GitOpsTool;
    use serde_json::json;

    use super::*;

    fn source(ready: &str) -> Value {
        json!({
            "metadata": { "annotations": { REQUEST: "two" } },
            "spec": { "secretRef": { "name": "flux-system" } },
            "status": {
                "lastHandledReconcileAt": "one",
                "conditions": [
                    { "type": "ArtifactInStorage", "status": "True" },
                    { "type": "Ready", "status": ready, "message": "no access" },
                ],
            },
        })
    }

    fn of(object: Option<&Value>) -> Sync {
        Sync::of_flux(&Layout::of(GitOpsTool::Flux).unwrap(), object)
    }

    #[test]
    fn outcome_is_the_condition_ready() {
        for (ready, outcome) in [
            ("True", Outcome::Succeeded),
            ("False", Outcome::Failed("no access".to_owned())),
            ("Unknown", Outcome::Unknown),
        ] {
            let expected = SourceStatus {
                requested: Some("two".to_owned()),
                handled: Some("one".to_owned()),
                outcome,
            };
            assert_eq!(of(Some(&source(ready))), Sync::Source(expected), "{ready}");
        }
    }

    #[test]
    fn source_with_another_secret_is_none() {
        assert_eq!(of(None), Sync::NoSource);
        let mut other = source("True");
        other["spec"]["secretRef"]["name"] = json!("other");
        assert_eq!(of(Some(&other)), Sync::NoSource);
    }

    #[test]
    fn request_is_an_annotation_beside_the_others() {
        let mut object = source("True");
        object["metadata"]["annotations"]["a"] = json!("b");
        let requested = with_request(object, "three");
        assert_eq!(
            requested["metadata"]["annotations"],
            json!({ REQUEST: "three", "a": "b" })
        );
        let bare = with_request(json!({ "metadata": {} }), "one");
        assert_eq!(bare["metadata"]["annotations"][REQUEST], "one");
    }
}
