//! Status 403: missing rights, quotas, pod security, namespaces that are being deleted.

use serde_json::{Value, json};

use super::{FailureKind, Finding, RequestContext};
use crate::{
    object::text,
    sentence::{between, short},
};

pub(super) fn forbidden(body: &Value, message: &str, request: &RequestContext<'_>) -> Finding {
    let causes = body.pointer("/details/causes").and_then(Value::as_array);
    let is_ending = causes
        .into_iter()
        .flatten()
        .any(|it| text(it, "/reason") == Some("NamespaceTerminating"));
    if is_ending || message.contains("because it is being terminated") {
        let namespace = request.key.namespace.as_deref().unwrap_or_default();
        let cause = format!("waits for the deletion of namespace {namespace}");
        return Finding::retry(FailureKind::Namespace, cause);
    }
    if let Some((_, quota)) = message.split_once("exceeded quota: ") {
        let cause = format!("exceeds quota {}", short(quota));
        return Finding::retry(FailureKind::Quota, cause);
    }
    if let Some((_, rest)) = message.split_once("violates PodSecurity ") {
        let cause = format!("violates PodSecurity {}", short(rest));
        return Finding::permanent(FailureKind::Denied("PodSecurity".to_owned()), cause);
    }
    if let Some((_, rules)) = message.split_once("RBAC permissions not currently held:") {
        let rules = short(rules);
        let user = request.user;
        let cause = format!("grants rights that {user} does not have; add to it: {rules}");
        return Finding::retry(FailureKind::Forbidden(rules), cause);
    }
    missing_right(message, request)
}

/// The message has the form `... User "U" cannot patch resource "R" in API group "G" in the namespace "N"`. Parts that it
/// has not come from the request.
fn missing_right(message: &str, request: &RequestContext<'_>) -> Finding {
    let (user, rest) = match message.split_once("User \"") {
        Some((_, rest)) => rest.split_once('"').unwrap_or((request.user, rest)),
        None => (request.user, message),
    };
    let verb = between(rest, "cannot ", " ").unwrap_or(request.verb);
    let resource = between(rest, "resource \"", "\"").unwrap_or(request.resource);
    let group = between(rest, "API group \"", "\"").unwrap_or(&request.kind.group);
    let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
    // The verb `escalate` and the like are bound to one object.
    if matches!(verb, "escalate" | "bind" | "impersonate")
        && let Value::Object(rule) = &mut rule
    {
        rule.insert("resourceNames".to_owned(), json!([request.key.name]));
    }
    // The message names a namespace for Namespace objects, too, which only a ClusterRole can grant.
    let place = match &request.key.namespace {
        Some(namespace) => format!("a Role in namespace {namespace}"),
        None => "a ClusterRole".to_owned(),
    };
    let rule = rule.to_string();
    let cause =
        format!("may not be changed: {user} cannot {verb} {resource}; add to {place}: {rule}");
    Finding::retry(FailureKind::Forbidden(rule), cause)
}
