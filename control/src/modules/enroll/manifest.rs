//! The install manifest: all objects that a cluster needs to be reachable, in one YAML stream.
//!
//! Its grants define the site operator's trust in the hub. They are spelled out here in full and
//! kept minimal.

use fairlead_api::{ClusterId, TenantId, impersonation, resources::Role};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

const NAMESPACE: &str = "fairlead";
const AGENT_NAME: &str = "fairlead-agent";
/// Secret with the agent's identity.
const IDENTITY_SECRET: &str = "fairlead-identity";
const JOIN_SECRET: &str = "fairlead-join";
/// ClusterRole for the collectors of facts.
const FACTS_ROLE: &str = "fairlead-facts";
const HELM_FACTS_ROLE: &str = "fairlead-facts-helm";
const ADMIN_PORT: u16 = 9090;
/// User id of the image, as in distroless images.
const IMAGE_UID: u32 = 65532;

/// Inputs of an install manifest.
#[derive(Debug, Clone)]
pub struct ManifestInput {
    /// Id of the cluster.
    pub cluster: ClusterId,
    /// Tenant of the cluster; its groups may be impersonated.
    pub tenant: TenantId,
    /// The join string.
    pub join: SecretString,
    /// Image of the agent.
    pub image: String,
    /// Version of the agent, as an annotation.
    pub version: String,
}

/// The manifest for `kubectl apply -f`, one YAML document per object. It contains the join string.
///
/// # Errors
/// It cannot be written as YAML.
pub fn manifest(input: &ManifestInput) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = format!(
        "# Fairlead agent of cluster {} ({}).\n# Holds a token that is good once: do not keep this file.\n",
        input.cluster, input.tenant
    );
    // All strings are quoted, so that no parser reads one as a number or boolean.
    let options = serde_saphyr::ser_options! { quote_all: true };
    for object in objects(input) {
        let yaml = serde_saphyr::to_string_with_options(&object, options.clone())?;
        text.push_str("---\n");
        text.push_str(yaml.trim_start_matches("---\n"));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

fn objects(input: &ManifestInput) -> Vec<Value> {
    let mut objects = vec![
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": NAMESPACE,
                "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
            },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(AGENT_NAME),
        }),
        impersonation_role(&input.tenant),
        binding("ClusterRoleBinding", AGENT_NAME, AGENT_NAME, agent()),
        namespace_role(),
        binding("RoleBinding", AGENT_NAME, AGENT_NAME, agent()),
        facts_role(),
        binding("ClusterRoleBinding", FACTS_ROLE, FACTS_ROLE, agent()),
        helm_role(),
    ];
    // Meaning of Fairlead's roles in this cluster; a site operator may bind them differently.
    for role in Role::IN_CLUSTERS {
        let group = json!({
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Group",
            "name": impersonation::group(role),
        });
        let name = format!("fairlead-{role}");
        objects.push(binding(
            "ClusterRoleBinding",
            &name,
            role.default_cluster_role(),
            group,
        ));
    }
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(JOIN_SECRET),
        "type": "Opaque",
        "stringData": { "join": input.join.expose_secret() },
    }));
    objects.push(deployment(input));
    objects
}

fn metadata(name: &str) -> Value {
    json!({ "name": name, "namespace": NAMESPACE, "labels": labels() })
}

fn labels() -> Value {
    json!({ "app.kubernetes.io/name": AGENT_NAME, "app.kubernetes.io/part-of": "fairlead" })
}

fn agent() -> Value {
    json!({ "kind": "ServiceAccount", "name": AGENT_NAME, "namespace": NAMESPACE })
}

/// Groups are granted by name. RBAC cannot grant users by prefix, so the agent rejects every user
/// outside `fairlead:` itself.
fn impersonation_role(tenant: &TenantId) -> Value {
    let groups = impersonation::groups(tenant);
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": AGENT_NAME, "labels": labels() },
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["groups"],
                "verbs": ["impersonate"],
                "resourceNames": groups,
            },
            { "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"] },
            // The namespace's UID distinguishes this cluster from one with a copied identity.
            {
                "apiGroups": [""],
                "resources": ["namespaces"],
                "verbs": ["get"],
                "resourceNames": ["kube-system"],
            },
        ],
    })
}

/// Read access for the agent's collectors of facts, one rule each. A site operator may remove any
/// of them; the facts then report the gap.
fn facts_role() -> Value {
    let list = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["list"] });
    let get = |group: &str, resource: &str, name: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get"], "resourceNames": [name] });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": FACTS_ROLE, "labels": labels() },
        "rules": [
            list("", &["nodes"]),
            list("", &["namespaces"]),
            list("networking.k8s.io", &["ingresses"]),
            list("gateway.networking.k8s.io", &["gateways", "httproutes", "grpcroutes"]),
            list("apps", &["deployments", "statefulsets", "daemonsets"]),
            list("apiextensions.k8s.io", &["customresourcedefinitions"]),
            list("route.openshift.io", &["routes"]),
            get("route.openshift.io", "routes", "oauth-openshift"),
            get("config.openshift.io", "clusterversions", "version"),
        ],
    })
}

/// Helm keeps its releases in Secrets. The agent reads only their labels, but RBAC cannot enforce
/// that. So no binding is installed: a site operator adds it to collect these facts.
fn helm_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": HELM_FACTS_ROLE, "labels": labels() },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] }],
    })
}

fn namespace_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(AGENT_NAME),
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "verbs": ["get", "update", "patch"],
                "resourceNames": [IDENTITY_SECRET],
            },
            // RBAC cannot restrict `create` by name.
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
            // Additional facts provided by the site operator.
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "verbs": ["get"],
                "resourceNames": ["additional-facts"],
            },
        ],
    })
}

fn binding(kind: &str, name: &str, role: &str, subject: Value) -> Value {
    let (metadata, role_kind) = match kind {
        "RoleBinding" => (metadata(name), "Role"),
        _ => (json!({ "name": name, "labels": labels() }), "ClusterRole"),
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role_kind,
            "name": role,
        },
        "subjects": [subject],
    })
}

fn deployment(input: &ManifestInput) -> Value {
    let selector = json!({ "app.kubernetes.io/name": AGENT_NAME });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(AGENT_NAME),
        "spec": {
            "replicas": 1,
            "strategy": { "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "selector": { "matchLabels": selector },
            "template": {
                "metadata": {
                    "labels": labels(),
                    "annotations": { "fairlead/version": input.version },
                },
                "spec": {
                    "serviceAccountName": AGENT_NAME,
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": IMAGE_UID,
                        "runAsGroup": IMAGE_UID,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [container(input)],
                },
            },
        },
    })
}

fn container(input: &ManifestInput) -> Value {
    // Ready means connected to the hub. An unreachable hub must neither restart the pod nor let a
    // rollout terminate the previous one.
    let probe = |path: &str, failures: u32| {
        json!({
            "httpGet": { "path": path, "port": "admin" },
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        })
    };
    json!({
        "name": "agent",
        "image": input.image,
        "args": ["agent"],
        "env": [
            {
                "name": "FAIRLEAD_JOIN",
                "valueFrom": { "secretKeyRef": { "name": JOIN_SECRET, "key": "join" } },
            },
            { "name": "FAIRLEAD_ADMIN", "value": format!("0.0.0.0:{ADMIN_PORT}") },
            {
                "name": "FAIRLEAD_POD_UID",
                "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } },
            },
        ],
        "ports": [{ "name": "admin", "containerPort": ADMIN_PORT }],
        "readinessProbe": probe("/readyz", 3),
        "livenessProbe": probe("/healthz", 6),
        "resources": {
            "requests": { "cpu": "10m", "memory": "32Mi" },
            "limits": { "memory": "256Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> ManifestInput {
        ManifestInput {
            cluster: "c-demo".parse().unwrap(),
            tenant: "t-acme".parse().unwrap(),
            join: "fl1.c2VjcmV0".into(),
            image: "registry.example/fairlead:0.1.0".to_owned(),
            version: "0.1.0".to_owned(),
        }
    }

    fn parsed() -> Vec<Value> {
        serde_saphyr::from_multiple(&manifest(&input()).unwrap()).unwrap()
    }

    fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
        let mut found = objects
            .iter()
            .filter(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        let object = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
        assert!(found.next().is_none(), "two of {kind} {name}");
        object
    }

    #[test]
    fn written_manifests_parse_back() {
        assert_eq!(parsed(), objects(&input()));
    }

    #[test]
    fn the_agent_gets_minimal_permissions() {
        let objects = parsed();
        let role = find(&objects, "ClusterRole", AGENT_NAME);
        let rules = role["rules"].as_array().unwrap();
        assert_eq!(rules.len(), 3);
        for rule in &rules[..2] {
            assert_eq!(rule["verbs"], json!(["impersonate"]));
        }
        assert_eq!(
            (&rules[2]["verbs"], &rules[2]["resourceNames"]),
            (&json!(["get"]), &json!(["kube-system"]))
        );
        assert_eq!(
            rules[0]["resourceNames"],
            json!([
                "fairlead:admin",
                "fairlead:operator",
                "fairlead:viewer",
                "fairlead:tenant:t-acme:admin",
                "fairlead:tenant:t-acme:operator",
                "fairlead:tenant:t-acme:viewer",
            ])
        );
        let role = find(&objects, "Role", AGENT_NAME);
        assert_eq!(role["metadata"]["namespace"], "fairlead");
        assert_eq!(
            role["rules"][0]["resourceNames"],
            json!(["fairlead-identity"])
        );
        assert_eq!(role["rules"][1]["verbs"], json!(["create"]));
        assert_eq!(
            role["rules"][2]["resourceNames"],
            json!(["additional-facts"])
        );
        let facts = find(&objects, "ClusterRole", FACTS_ROLE)["rules"]
            .as_array()
            .unwrap();
        for rule in facts {
            let all = rule["verbs"] == json!(["list"]);
            let one = rule["verbs"] == json!(["get"]) && rule["resourceNames"].is_array();
            assert!(all || one, "{rule}");
            assert!(!rule.to_string().contains("secrets"), "{rule}");
        }
        let roles = objects.iter().filter(|o| o["kind"] == "ClusterRole");
        assert_eq!(roles.count(), 3);
        let mut bindings = objects.iter().filter(|o| o["kind"] == "ClusterRoleBinding");
        assert!(
            bindings.all(|o| o["roleRef"]["name"] != HELM_FACTS_ROLE),
            "listing Secrets requires a binding by the site operator"
        );
        for object in &objects {
            let text = object.to_string();
            assert!(!text.contains("\"*\""), "{text}");
        }
    }

    #[test]
    fn roles_are_bound_as_documented() {
        let objects = parsed();
        for (role, bound) in [
            ("admin", "cluster-admin"),
            ("operator", "edit"),
            ("viewer", "view"),
        ] {
            let binding = find(&objects, "ClusterRoleBinding", &format!("fairlead-{role}"));
            assert_eq!(binding["roleRef"]["name"], bound);
            assert_eq!(binding["subjects"][0]["name"], format!("fairlead:{role}"));
        }
    }

    #[test]
    fn the_pod_passes_the_restricted_standard() {
        let objects = parsed();
        let pod = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "registry.example/fairlead:0.1.0");
        assert_eq!(container["args"], json!(["agent"]));
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        let secret = find(&objects, "Secret", JOIN_SECRET);
        assert_eq!(secret["stringData"]["join"], "fl1.c2VjcmV0");
        assert!(
            !container.to_string().contains("c2VjcmV0"),
            "only the Secret contains the token"
        );
    }

    #[test]
    fn the_pod_is_ready_with_a_session_only_and_alive_without_one() {
        let objects = parsed();
        let deployment = &find(&objects, "Deployment", AGENT_NAME)["spec"];
        let container = &deployment["template"]["spec"]["containers"][0];
        let path = |probe: &str| container[probe]["httpGet"]["path"].clone();
        assert_eq!(path("readinessProbe"), "/readyz");
        assert_eq!(path("livenessProbe"), "/healthz");
        let rolling = &deployment["strategy"]["rollingUpdate"];
        assert_eq!(
            rolling["maxUnavailable"], 0,
            "the old pod serves until the new one is ready"
        );
    }

    #[test]
    fn strings_that_look_like_other_types_stay_strings() {
        let mut ambiguous = input();
        ambiguous.version = "1.10".to_owned();
        ambiguous.image = "yes: #no\n---\n".to_owned();
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&manifest(&ambiguous).unwrap()).unwrap();
        let template = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"];
        assert_eq!(
            template["metadata"]["annotations"]["fairlead/version"],
            "1.10"
        );
        assert_eq!(template["spec"]["containers"][0]["image"], ambiguous.image);
    }
}
