//! Guard of the agent's namespace: an admission policy of the API server, in addition to the agent's own check.

use fairlead_api::{impersonation, resources::Role};
use serde_json::{Value, json};

use super::{NAMESPACE, labels};

const ADMISSION_VERSION: &str = "admissionregistration.k8s.io/v1";
const POLICY_NAME: &str = "fairlead-namespace";

/// The policy and its binding. Admission sees writes, `exec` and tokens, and no reads: RBAC and the agent decide on those.
pub(super) fn policy() -> [Value; 2] {
    let prefix = impersonation::NAME_PREFIX;
    let admin = impersonation::group(Role::Admin);
    let from_hub = format!(
        "has(request.userInfo.groups) && request.userInfo.groups.exists(g, g.startsWith('{prefix}'))"
    );
    let policy = json!({
        "apiVersion": ADMISSION_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": POLICY_NAME, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {
                    "matchLabels": { "kubernetes.io/metadata.name": NAMESPACE },
                },
                "resourceRules": [
                    {
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE", "CONNECT"],
                        "resources": ["*/*"],
                        "scope": "Namespaced",
                    },
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["UPDATE", "DELETE"],
                        "resources": ["namespaces", "namespaces/*"],
                        "scope": "Cluster",
                    },
                ],
            },
            "matchConditions": [{ "name": "user-of-the-hub", "expression": from_hub }],
            "validations": [{
                "expression": format!("'{admin}' in request.userInfo.groups"),
                "message": format!("namespace {NAMESPACE} is reserved to admins of the hub"),
                "reason": "Forbidden",
            }],
        },
    });
    let binding = json!({
        "apiVersion": ADMISSION_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": POLICY_NAME, "labels": labels() },
        "spec": { "policyName": POLICY_NAME, "validationActions": ["Deny"] },
    });
    [policy, binding]
}
