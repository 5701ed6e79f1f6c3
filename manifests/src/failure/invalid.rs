//! Status 409 and 422: conflicts, rules of the kind, immutable fields.

use serde_json::Value;

use super::{FailureKind, FieldConflict, Finding, RequestContext};
use crate::{
    object::text,
    sentence::{between, short},
};

/// Causes in one sentence; the others are counted.
const MAX_CAUSES: usize = 3;

pub(super) fn conflict(body: &Value, message: &str) -> Finding {
    let conflicts: Vec<_> = causes(body)
        .filter(|cause| text(cause, "/reason") == Some("FieldManagerConflict"))
        .map(|cause| {
            let message = text(cause, "/message").unwrap_or_default();
            FieldConflict {
                field: text(cause, "/field").unwrap_or_default().to_owned(),
                manager: between(message, "\"", "\"").unwrap_or("unknown").to_owned(),
            }
        })
        .collect();
    if conflicts.is_empty() {
        let cause = format!("has changed: {}", short(message));
        return Finding::retry(FailureKind::Outdated, cause);
    }
    let texts = conflicts
        .iter()
        .map(|it| format!("{} is set by {}", it.field, it.manager));
    let cause = format!(
        "has fields of other managers: {}; `conflicts: force` takes them over",
        list(texts, "; ")
    );
    Finding::permanent(FailureKind::Conflict(conflicts), cause)
}

pub(super) fn invalid(body: &Value, request: &RequestContext<'_>) -> Finding {
    let is_secret = request.key.is("", "Secret");
    let fields: Vec<_> = causes(body)
        .filter_map(|it| text(it, "/field"))
        .map(str::to_owned)
        .collect();
    let immutable: Vec<_> = causes(body)
        .filter(|it| text(it, "/message").is_some_and(is_immutable))
        .filter_map(|it| text(it, "/field"))
        .map(str::to_owned)
        .collect();
    if !immutable.is_empty() {
        let names = list(immutable.iter().map(|it| format!(".{it}")), ", ");
        let cause = format!("cannot change {names}; delete the object to have it made again");
        return Finding::permanent(FailureKind::Immutable(immutable), cause);
    }
    let texts = causes(body).map(|cause| {
        let field = text(cause, "/field").unwrap_or_default();
        let message = text(cause, "/message").filter(|_| !is_secret);
        let message = message
            .or_else(|| text(cause, "/reason"))
            .unwrap_or_default();
        format!(".{field}: {}", short(message))
    });
    let texts = list(texts, "; ");
    let texts = if texts.is_empty() && !is_secret {
        short(text(body, "/message").unwrap_or_default())
    } else {
        texts
    };
    Finding::permanent(FailureKind::Invalid(fields), format!("is invalid: {texts}"))
}

fn causes(body: &Value) -> impl Iterator<Item = &Value> {
    let causes = body.pointer("/details/causes").and_then(Value::as_array);
    causes.into_iter().flatten()
}

/// Wordings of immutable fields in the validation of Kubernetes.
fn is_immutable(message: &str) -> bool {
    [
        "field is immutable",
        "is immutable",
        "may not be changed",
        "may not change",
        "updates to statefulset spec for fields other than",
        "cannot change",
        "cannot be changed",
        "can't be changed",
    ]
    .iter()
    .any(|it| message.contains(it))
}

fn list(texts: impl Iterator<Item = String>, separator: &str) -> String {
    let texts: Vec<_> = texts.collect();
    let shown: Vec<_> = texts.iter().take(MAX_CAUSES).cloned().collect();
    let shown = shown.join(separator);
    match texts.len().saturating_sub(MAX_CAUSES) {
        0 => shown,
        rest => format!("{shown}{separator}{rest} more"),
    }
}
