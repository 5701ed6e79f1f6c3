//! Refusals of the API server as typed failures with one sentence.

mod forbidden;
mod invalid;

use serde_json::Value;

use crate::{
    object::{ObjectKey, ObjectKind, text},
    sentence::{between, short},
};

/// The refused request.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext<'a> {
    /// The object.
    pub key: &'a ObjectKey,
    /// Its API group, version and kind.
    pub kind: &'a ObjectKind,
    /// Resource of the kind, like `deployments`.
    pub resource: &'a str,
    /// Verb of RBAC, like `patch`.
    pub verb: &'a str,
    /// User of the request, like `system:serviceaccount:fairlead-delivery:deployer`.
    pub user: &'a str,
}

/// A field that another manager holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    /// Field, like `.spec.replicas`.
    pub field: String,
    /// Its manager.
    pub manager: String,
}

/// Kind of a [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureKind {
    /// Other managers hold fields, and the apply was not forced.
    Conflict(Vec<FieldConflict>),
    /// The object has changed since it was read, or its UID is another one.
    Outdated,
    /// The object breaks rules of its kind. The texts are fields, like `spec.ports[1].name`.
    Invalid(Vec<String>),
    /// Fields cannot change. The texts are fields, like `spec.selector`.
    Immutable(Vec<String>),
    /// The manifest does not fit the schema of its kind.
    Manifest,
    /// Our entry of `managedFields` names a version that the definition no longer has.
    RemovedVersion,
    /// The cluster has no such kind yet.
    UnknownKind,
    /// The namespace is missing, or is being deleted.
    Namespace,
    /// The object is missing.
    NotFound,
    /// The user lacks a right. The text is the missing rule of RBAC, in JSON.
    Forbidden(String),
    /// A quota is exhausted.
    Quota,
    /// An admission webhook or policy refuses the object, by name.
    Denied(String),
    /// An admission webhook cannot be reached, by name.
    Webhook(String),
    /// The token is refused.
    Unauthorized,
    /// The object is too large.
    TooLarge,
    /// The API server is overloaded or away.
    Unavailable,
    /// Any other refusal.
    Other,
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kind.
    pub kind: FailureKind,
    /// True: the same request fails again until content or a person changes something.
    pub is_permanent: bool,
    /// Sentence with object and cause.
    pub sentence: String,
    /// Time to wait, if the API server gives one.
    pub retry_after_seconds: Option<u64>,
}

/// Reads the answer to a refused request: its HTTP status, and its body if that is a `metav1.Status`.
///
/// Messages of the API server can quote values, so that those about Secrets are left out.
#[must_use]
pub fn failure(status: u16, body: &Value, request: &RequestContext<'_>) -> Failure {
    let message = text(body, "/message").unwrap_or_default();
    let finding = admission(message)
        .or_else(|| schema(status, message, request))
        .or_else(|| match status {
            409 => Some(invalid::conflict(body, message)),
            422 => Some(invalid::invalid(body, request)),
            403 => Some(forbidden::forbidden(body, message, request)),
            404 => Some(not_found(body, request)),
            401 => Some(Finding::retry(
                FailureKind::Unauthorized,
                format!("API server refuses the token of {}", request.user),
            )),
            413 => Some(Finding::permanent(
                FailureKind::TooLarge,
                "is too large for the API server",
            )),
            429 | 502..=504 => Some(Finding::retry(
                FailureKind::Unavailable,
                format!("API server is unavailable ({status})"),
            )),
            _ => None,
        })
        .unwrap_or_else(|| other(status, message));
    let quotes_values = request.key.is("", "Secret")
        && matches!(
            finding.kind,
            FailureKind::Other | FailureKind::Manifest | FailureKind::Denied(_)
        );
    let cause = if quotes_values {
        format!("was refused ({status})")
    } else {
        finding.cause
    };
    Failure {
        sentence: format!("{} {cause}", request.key),
        kind: finding.kind,
        is_permanent: finding.is_permanent,
        retry_after_seconds: body
            .pointer("/details/retryAfterSeconds")
            .and_then(Value::as_u64),
    }
}

/// Result of a rule; the cause continues a sentence that begins with the object.
struct Finding {
    kind: FailureKind,
    is_permanent: bool,
    cause: String,
}

impl Finding {
    fn permanent(kind: FailureKind, cause: impl Into<String>) -> Self {
        Self {
            kind,
            is_permanent: true,
            cause: cause.into(),
        }
    }

    fn retry(kind: FailureKind, cause: impl Into<String>) -> Self {
        Self {
            kind,
            is_permanent: false,
            cause: cause.into(),
        }
    }
}

/// Refusals by webhooks and policies, with any status.
fn admission(message: &str) -> Option<Finding> {
    if let Some(rest) = message.split_once("failed calling webhook ").map(|it| it.1) {
        let name = between(rest, "\"", "\"")?;
        let cause = rest.split_once("\": ").map_or(rest, |it| it.1);
        let cause = format!("waits for webhook {name}: {}", short(cause));
        return Some(Finding::retry(FailureKind::Webhook(name.to_owned()), cause));
    }
    let denied = |name: &str, rest: &str| {
        let cause = format!("was refused by {name}: {}", short(rest));
        Finding::permanent(FailureKind::Denied(name.to_owned()), cause)
    };
    if let Some((_, rest)) = message.split_once("admission webhook \"") {
        let (name, rest) = rest.split_once("\" ")?;
        let rest = rest.split_once(": ").map_or("no reason given", |it| it.1);
        return Some(denied(name, rest));
    }
    let (_, rest) = message.split_once("ValidatingAdmissionPolicy '")?;
    let (name, rest) = rest.split_once('\'')?;
    let rest = rest.split_once("denied request: ").map_or(rest, |it| it.1);
    Some(denied(name, rest))
}

/// Refusals because of schema, version or size. The API server reports some of them with 500.
fn schema(status: u16, message: &str, request: &RequestContext<'_>) -> Option<Finding> {
    if message.contains("failed to create typed patch object")
        || message.contains("failed to create manager for existing fields")
            && !message.contains("invalid group/version")
    {
        let cause = message
            .split_once("errors:")
            .or_else(|| message.split_once("): "));
        let cause = short(cause.map_or(message, |it| it.1));
        let cause = format!("does not fit its schema: {cause}");
        return Some(Finding::permanent(FailureKind::Manifest, cause));
    }
    if let Some((_, cause)) = message.split_once("error decoding from json: ") {
        let cause = format!("does not fit its schema: {}", short(cause));
        return Some(Finding::permanent(FailureKind::Manifest, cause));
    }
    if message.contains("invalid group/version") {
        let cause = "has fields of a version that its definition no longer has";
        return Some(Finding::retry(FailureKind::RemovedVersion, cause));
    }
    if message.contains("request is too large") {
        return Some(Finding::permanent(
            FailureKind::TooLarge,
            "is too large for the API server",
        ));
    }
    if status == 400 {
        let cause = format!("is no valid {}: {}", request.kind.kind, short(message));
        return Some(Finding::permanent(FailureKind::Manifest, cause));
    }
    None
}

fn not_found(body: &Value, request: &RequestContext<'_>) -> Finding {
    if text(body, "/details/kind") == Some("namespaces") && request.resource != "namespaces" {
        let namespace = text(body, "/details/name").unwrap_or_default();
        let cause = format!("waits for namespace {namespace}, which does not exist");
        return Finding::retry(FailureKind::Namespace, cause);
    }
    if text(body, "/details/name").is_some() {
        return Finding::retry(FailureKind::NotFound, "does not exist");
    }
    let ObjectKind { kind, .. } = request.kind;
    let version = request.kind.api_version();
    let cause = format!("waits for kind {kind} ({version}), which the cluster has not");
    Finding::retry(FailureKind::UnknownKind, cause)
}

fn other(status: u16, message: &str) -> Finding {
    let cause = match short(message) {
        it if it.is_empty() => format!("was refused with status {status}"),
        it => format!("was refused with status {status}: {it}"),
    };
    // Errors of the server pass; those of the request do not.
    Finding {
        kind: FailureKind::Other,
        is_permanent: (400..500).contains(&status) && status != 408,
        cause,
    }
}

#[cfg(test)]
mod tests;
