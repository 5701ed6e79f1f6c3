//! Deliveries: their namespace, the rights of the agent in it, the account of bundles, and the runner's container.

use fairlead_api::site::DeliveryRights;
use serde_json::{Value, json};

use super::{AGENT_NAME, ManifestInput, NAMESPACE, labels};

/// Namespace of journals and locks, and of the account of bundles.
pub(super) const DELIVERY_NAMESPACE: &str = "fairlead-delivery";
/// Account that bundles act as by default.
const DEPLOYER: &str = "deployer";
const DEPLOYER_BINDING: &str = "fairlead-deployer";
/// ClusterRole that a site operator binds in other namespaces with accounts for bundles.
pub(super) const DELIVERER_ROLE: &str = "fairlead-deliverer";
/// Names of the agent's role and policy for deliveries.
const OWN_NAME: &str = "fairlead-delivery";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION_VERSION: &str = "admissionregistration.k8s.io/v1";
/// Types of the Secrets that the agent makes.
const SECRET_TYPES: [&str; 3] = ["fairlead/run", "fairlead/release", "fairlead/gitops"];
/// Locks in other namespaces.
const LOCK_SLOTS: usize = 4;

const SOCKET: &str = "/run/fairlead/runner/socket";
const SOCKET_FOLDER: &str = "/run/fairlead";
const WORK_FOLDER: &str = "/run/fairlead-work";
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Lifetime of the agent's token, as the kubelet's own volumes have it.
const TOKEN_SECONDS: u32 = 3607;

/// Objects for deliveries beside the pod. Without rights of deliveries there is no account for bundles.
pub(super) fn objects(rights: DeliveryRights, returned: Option<(&str, &str)>) -> Vec<Value> {
    let agent = json!({ "kind": "ServiceAccount", "name": AGENT_NAME, "namespace": NAMESPACE });
    let [policy, policy_binding] = secrets_policy(returned);
    let mut objects = vec![
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": DELIVERY_NAMESPACE,
                "labels": {
                    "app.kubernetes.io/part-of": "fairlead",
                    "pod-security.kubernetes.io/enforce": "restricted",
                },
            },
        }),
        own_role(),
        json!({
            "apiVersion": RBAC_VERSION,
            "kind": "RoleBinding",
            "metadata": metadata(OWN_NAME),
            "roleRef": { "apiGroup": RBAC_GROUP, "kind": "Role", "name": OWN_NAME },
            "subjects": [agent],
        }),
        deliverer_role(),
        policy,
        policy_binding,
    ];
    if rights != DeliveryRights::None {
        objects.extend(deployer());
    }
    objects
}

fn deployer() -> [Value; 2] {
    let deployer =
        json!({ "kind": "ServiceAccount", "name": DEPLOYER, "namespace": DELIVERY_NAMESPACE });
    [
        account(DEPLOYER),
        json!({
            "apiVersion": RBAC_VERSION,
            "kind": "ClusterRoleBinding",
            "metadata": { "name": DEPLOYER_BINDING, "labels": labels() },
            "roleRef": { "apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [deployer],
        }),
    ]
}

/// Account of bundles. No pod runs as it; its tokens are bound to runs.
pub(super) fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(name),
        "automountServiceAccountToken": false,
    })
}

fn metadata(name: &str) -> Value {
    json!({ "name": name, "namespace": DELIVERY_NAMESPACE, "labels": labels() })
}

/// Rights of the agent: tokens of the namespace's accounts, and its own Secrets. It has no right on workloads.
fn own_role() -> Value {
    let leases = |verbs: &[&str], names: &[&str]| {
        let mut rule = json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs });
        if let (false, Value::Object(rule)) = (names.is_empty(), &mut rule) {
            rule.insert("resourceNames".to_owned(), json!(names));
        }
        rule
    };
    json!({
        "apiVersion": RBAC_VERSION,
        "kind": "Role",
        "metadata": metadata(OWN_NAME),
        "rules": [
            { "apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"] },
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "verbs": ["get", "list", "create", "update", "patch", "delete"],
            },
            // RBAC cannot restrict `create` by name.
            leases(&["create"], &[]),
            leases(&["get", "update"], &[OWN_NAME]),
            // Limits of the site.
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "verbs": ["get"],
                "resourceNames": [OWN_NAME],
            },
        ],
    })
}

/// Rights in another namespace with accounts for bundles. Server-side apply creates a Secret by name, unlike `create`.
fn deliverer_role() -> Value {
    let slots: Vec<_> = (0..LOCK_SLOTS)
        .map(|slot| format!("fairlead-run-{slot}"))
        .collect();
    json!({
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRole",
        "metadata": { "name": DELIVERER_ROLE, "labels": labels() },
        "rules": [
            { "apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"] },
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "verbs": ["get", "create", "patch", "delete"],
                "resourceNames": slots,
            },
        ],
    })
}

/// Limits the Secrets of the agent to its own types: one with a ServiceAccount's token would give it that account.
///
/// `returned`: namespace and name of a Secret of others, which the end of an adoption returns.
pub(super) fn secrets_policy(returned: Option<(&str, &str)>) -> [Value; 2] {
    let user = format!("system:serviceaccount:{NAMESPACE}:{AGENT_NAME}");
    let types = SECRET_TYPES.map(|it| format!("'{it}'")).join(", ");
    let mut allowed = format!("object.type in [{types}]");
    if let Some((namespace, name)) = returned {
        allowed += &format!(
            " || (object.type == 'Opaque' && object.metadata.namespace == '{namespace}' && object.metadata.name == '{name}')"
        );
    }
    let policy = json!({
        "apiVersion": ADMISSION_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": OWN_NAME, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                // Its identity and its join string are in its own namespace.
                "namespaceSelector": {
                    "matchExpressions": [{
                        "key": "kubernetes.io/metadata.name",
                        "operator": "NotIn",
                        "values": [NAMESPACE],
                    }],
                },
                "resourceRules": [{
                    "apiGroups": [""],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["secrets"],
                    "scope": "Namespaced",
                }],
            },
            "matchConditions": [{
                "name": "agent",
                "expression": format!("request.userInfo.username == '{user}'"),
            }],
            "validations": [{
                "expression": allowed,
                "message": "the agent makes Secrets of its own types only",
                "reason": "Forbidden",
            }],
        },
    });
    let binding = json!({
        "apiVersion": ADMISSION_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": OWN_NAME, "labels": labels() },
        "spec": { "policyName": OWN_NAME, "validationActions": ["Deny"] },
    });
    [policy, binding]
}

/// Adds the runner to the agent's pod. Only the agent's container gets the token of the ServiceAccount.
pub(super) fn add_runner(pod: &mut Value, input: &ManifestInput) {
    let Value::Object(pod) = pod else {
        return;
    };
    pod.insert("automountServiceAccountToken".to_owned(), json!(false));
    pod.insert("volumes".to_owned(), volumes());
    let Some(Value::Array(containers)) = pod.get_mut("containers") else {
        return;
    };
    if let Some(Value::Object(agent)) = containers.first_mut() {
        let mounts = json!([
            { "name": "token", "mountPath": TOKEN_FOLDER, "readOnly": true },
            { "name": "runner-socket", "mountPath": SOCKET_FOLDER },
        ]);
        agent.insert("volumeMounts".to_owned(), mounts);
        if let Some(Value::Array(variables)) = agent.get_mut("env") {
            variables.push(json!({ "name": "FAIRLEAD_DELIVERY", "value": "on" }));
            variables.push(json!({ "name": "FAIRLEAD_RUNNER_SOCKET", "value": SOCKET }));
        }
    }
    containers.push(runner(input));
}

/// Container of programs like Helm: it has no token, no Secret, and a memory limit of its own.
fn runner(input: &ManifestInput) -> Value {
    json!({
        "name": "runner",
        "image": input.image,
        "args": [
            "runner",
            "--socket", SOCKET,
            "--work", format!("{WORK_FOLDER}/runs"),
            "--helm", "/usr/local/bin/helm",
        ],
        "resources": {
            "requests": { "cpu": "10m", "memory": "16Mi" },
            "limits": { "memory": "1Gi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [
            { "name": "runner-socket", "mountPath": SOCKET_FOLDER },
            { "name": "runner-work", "mountPath": WORK_FOLDER },
        ],
    })
}

fn volumes() -> Value {
    let memory = |name: &str, limit: &str| json!({ "name": name, "emptyDir": { "medium": "Memory", "sizeLimit": limit } });
    json!([
        memory("runner-socket", "1Mi"),
        memory("runner-work", "256Mi"),
        {
            "name": "token",
            "projected": {
                "sources": [
                    { "serviceAccountToken": { "path": "token", "expirationSeconds": TOKEN_SECONDS } },
                    {
                        "configMap": {
                            "name": "kube-root-ca.crt",
                            "items": [{ "key": "ca.crt", "path": "ca.crt" }],
                        },
                    },
                    {
                        "downwardAPI": {
                            "items": [{
                                "path": "namespace",
                                "fieldRef": { "fieldPath": "metadata.namespace" },
                            }],
                        },
                    },
                ],
            },
        },
    ])
}
