//! Syncs of a GitOps tool, as the status of its own objects reports them.

use serde_json::Value;

use super::tool::status;
use crate::object::{ObjectKey, text};

/// Kinds whose status reports a sync, by group.
const SYNC_KINDS: [(&str, &str); 5] = [
    ("argoproj.io", "Application"),
    ("helm.toolkit.fluxcd.io", "HelmRelease"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"),
    ("source.toolkit.fluxcd.io", "GitRepository"),
    ("source.toolkit.fluxcd.io", "OCIRepository"),
];

/// Texts of failures that the tool's own installation causes: its rights, its definitions, and its services.
const TOOL_FAILURES: [&str; 5] = [
    "is forbidden: User",
    "no matches for kind",
    "http://source-controller.",
    "argocd-repo-server",
    "the server could not find the requested resource",
];

/// Cause of a failed sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncFailure {
    /// Rights, definitions or services of the tool.
    Tool(String),
    /// The repository or its content.
    Git(String),
}

/// Last sync of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncState {
    /// Text that changes with each sync; empty before the first.
    pub mark: String,
    /// Reason of a failed sync.
    pub failure: Option<SyncFailure>,
    /// True after a successful sync.
    pub is_ready: bool,
}

/// True for a kind whose status reports a sync.
#[must_use]
pub fn is_sync_object(key: &ObjectKey) -> bool {
    SYNC_KINDS.iter().any(|(group, kind)| key.is(group, kind))
}

impl SyncState {
    /// Reads the status of an object. `None` for another kind.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let key = ObjectKey::of(object).filter(is_sync_object)?;
        Some(match key.kind.as_str() {
            "Application" => Self::of_argocd(object),
            _ => Self::of_flux(object),
        })
    }

    /// The condition `Ready` of Flux; its time moves with each reconciliation of a Kustomization.
    fn of_flux(object: &Value) -> Self {
        let conditions = object
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|it| text(it, "/type") == Some("Ready"));
        let of_ready = |pointer: &str| ready.and_then(|it| text(it, pointer));
        let marks = [
            of_ready("/lastTransitionTime"),
            status(object, "lastHandledReconcileAt"),
            status(object, "lastAppliedRevision"),
            status(object, "artifact/revision"),
            status(object, "history/0/lastReconciled"),
        ];
        let message = of_ready("/message").unwrap_or_default();
        let state = of_ready("/status");
        Self {
            mark: marks
                .map(Option::unwrap_or_default)
                .join(" ")
                .trim()
                .to_owned(),
            failure: (state == Some("False")).then(|| failure(message)),
            is_ready: state == Some("True"),
        }
    }

    fn of_argocd(object: &Value) -> Self {
        let conditions = object
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let error = conditions.find(|it| text(it, "/type").is_some_and(|it| it.ends_with("Error")));
        let message = error.map(|it| text(it, "/message").unwrap_or_default());
        let marks = [
            status(object, "reconciledAt"),
            status(object, "operationState/finishedAt"),
        ];
        let is_synced = status(object, "sync/status") == Some("Synced");
        Self {
            mark: marks
                .map(Option::unwrap_or_default)
                .join(" ")
                .trim()
                .to_owned(),
            failure: message.map(failure),
            is_ready: is_synced && error.is_none(),
        }
    }
}

fn failure(message: &str) -> SyncFailure {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match TOOL_FAILURES.iter().any(|part| message.contains(part)) {
        true => SyncFailure::Tool(message),
        false => SyncFailure::Git(message),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kustomization(ready: &str, message: &str, at: &str) -> Value {
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"namespace": "flux-system", "name": "flux-system"},
            "status": {"conditions": [
                {"type": "Ready", "status": ready, "message": message, "lastTransitionTime": at},
            ]},
        })
    }

    #[test]
    fn mark_of_flux_moves_with_each_reconciliation() {
        let first = SyncState::of(&kustomization("True", "", "10:00")).unwrap();
        let second = SyncState::of(&kustomization("True", "", "10:10")).unwrap();
        assert!(first.is_ready && first.failure.is_none());
        assert_ne!(first.mark, second.mark);
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        assert_eq!(SyncState::of(&config), None);
        let fresh = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "a"}});
        assert_eq!(SyncState::of(&fresh), Some(SyncState::default()));
    }

    #[test]
    fn failures_of_git_are_not_those_of_the_tool() {
        for (message, is_tool) in [
            ("knownhosts: key mismatch", false),
            ("kustomize build failed: accumulating resources", false),
            (
                r#"deployments is forbidden: User "system:serviceaccount:flux-system:kustomize-controller" cannot patch"#,
                true,
            ),
            (
                "failed to get http://source-controller.flux-system.svc.cluster.local./x: connection refused",
                true,
            ),
            ("no matches for kind \"HelmRelease\"", true),
        ] {
            let state = SyncState::of(&kustomization("False", message, "1")).unwrap();
            assert!(!state.is_ready);
            assert_eq!(
                matches!(state.failure, Some(SyncFailure::Tool(_))),
                is_tool,
                "{message}"
            );
        }
    }

    #[test]
    fn application_of_argocd_is_ready_once_it_is_synced() {
        let application = |sync: &str, conditions: Value| {
            json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
                "status": {"sync": {"status": sync}, "reconciledAt": "1", "conditions": conditions},
            })
        };
        assert!(
            SyncState::of(&application("Synced", json!([])))
                .unwrap()
                .is_ready
        );
        assert!(
            !SyncState::of(&application("OutOfSync", json!([])))
                .unwrap()
                .is_ready
        );
        let failed = json!([{"type": "ComparisonError", "message": "dial tcp: lookup argocd-repo-server: no such host"}]);
        let failed = SyncState::of(&application("Unknown", failed)).unwrap();
        assert!(
            matches!(failed.failure, Some(SyncFailure::Tool(_))),
            "{failed:?}"
        );
    }
}
