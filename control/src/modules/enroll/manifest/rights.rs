//! Roles and bindings: the rights of the agent, and of the hub's users by their groups.

use fairlead_api::{
    TenantId, impersonation,
    resources::Role,
    site::{ImpersonationMode, OPERATOR_CLUSTER_ROLE, OperatorNamespace, SiteChoices},
};
use serde_json::{Value, json};

use super::{
    AGENT_NAME, FACTS_ROLE, HELM_FACTS_ROLE, IDENTITY_SECRET, ManifestInput, NAMESPACE, labels,
    metadata,
};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// Verbs of requests to the API server, for constrained impersonation. Verbs of RBAC alone, like `escalate`, are not requests.
const REQUEST_VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];
/// Verbs of requests outside of resources, like `/version`.
const PATH_VERBS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// Roles of the agent with their bindings.
pub(super) fn of_agent(input: &ManifestInput) -> Vec<Value> {
    let (tenant, choices) = (&input.tenant, &input.choices);
    let agent = || json!({ "kind": "ServiceAccount", "name": AGENT_NAME, "namespace": NAMESPACE });
    vec![
        cluster_role(AGENT_NAME, impersonation_rules(tenant, choices)),
        cluster_binding(AGENT_NAME, AGENT_NAME, agent()),
        namespace_role(),
        json!({
            "apiVersion": RBAC_VERSION,
            "kind": "RoleBinding",
            "metadata": metadata(AGENT_NAME),
            "roleRef": { "apiGroup": RBAC_GROUP, "kind": "Role", "name": AGENT_NAME },
            "subjects": [agent()],
        }),
        cluster_role(FACTS_ROLE, facts_rules()),
        cluster_binding(FACTS_ROLE, FACTS_ROLE, agent()),
        // Helm keeps its releases in Secrets. The agent reads only their labels, but RBAC cannot enforce that. So no
        // binding is installed: a site operator adds it to collect these facts.
        cluster_role(
            HELM_FACTS_ROLE,
            json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] }]),
        ),
    ]
}

/// Bindings of the hub's users. A site operator may bind the groups differently.
pub(super) fn of_users(choices: &SiteChoices) -> Vec<Value> {
    let in_cluster = Role::IN_CLUSTERS.map(|role| {
        let name = format!("fairlead-{role}");
        cluster_binding(&name, role.default_cluster_role(), group(role))
    });
    let in_namespaces = choices.operator_namespaces.iter().flat_map(|namespace| {
        impersonation::NAMESPACE_ROLES.map(|role| namespace_binding(namespace, role))
    });
    in_cluster.into_iter().chain(in_namespaces).collect()
}

/// Binds a role's group in a namespace, and the group of those with the role in this namespace only.
fn namespace_binding(namespace: &OperatorNamespace, role: Role) -> Value {
    let cluster_role = match role {
        Role::Operator => OPERATOR_CLUSTER_ROLE,
        _ => role.default_cluster_role(),
    };
    json!({
        "apiVersion": RBAC_VERSION,
        "kind": "RoleBinding",
        "metadata": {
            "name": format!("fairlead-{role}"),
            "namespace": namespace.as_str(),
            "labels": labels(),
        },
        "roleRef": { "apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": cluster_role },
        "subjects": [group(role), named_group(impersonation::namespace_group(namespace, role))],
    })
}

fn group(role: Role) -> Value {
    named_group(impersonation::group(role))
}

fn named_group(name: String) -> Value {
    json!({ "apiGroup": RBAC_GROUP, "kind": "Group", "name": name })
}

fn cluster_role(name: &str, rules: Value) -> Value {
    json!({
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRole",
        "metadata": { "name": name, "labels": labels() },
        "rules": rules,
    })
}

fn cluster_binding(name: &str, role: &str, subject: Value) -> Value {
    json!({
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": { "name": name, "labels": labels() },
        "roleRef": { "apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    })
}

/// Groups are granted by name. RBAC cannot grant users by prefix, so the agent rejects every user outside
/// `fairlead:` itself.
fn impersonation_rules(tenant: &TenantId, choices: &SiteChoices) -> Value {
    let mode = choices.impersonation;
    let mut groups = impersonation::groups(tenant);
    groups.extend(impersonation::namespace_groups(
        &choices.operator_namespaces,
    ));
    // The namespace's UID distinguishes this cluster from one with a copied identity.
    let uid = json!({
        "apiGroups": [""],
        "resources": ["namespaces"],
        "verbs": ["get"],
        "resourceNames": ["kube-system"],
    });
    let (api_group, verb) = match mode {
        ImpersonationMode::Plain => ("", "impersonate"),
        ImpersonationMode::Constrained => ("authentication.k8s.io", "impersonate:user-info"),
    };
    let named = json!({
        "apiGroups": [api_group],
        "resources": ["groups"],
        "verbs": [verb],
        "resourceNames": groups,
    });
    let users = json!({ "apiGroups": [api_group], "resources": ["users"], "verbs": [verb] });
    let on = |verbs: &[&str]| -> Vec<String> {
        let verbs = verbs.iter();
        verbs
            .map(|verb| format!("impersonate-on:user-info:{verb}"))
            .collect()
    };
    match mode {
        ImpersonationMode::Plain => json!([named, users, uid]),
        ImpersonationMode::Constrained => json!([
            named,
            users,
            uid,
            { "apiGroups": ["*"], "resources": ["*"], "verbs": on(&REQUEST_VERBS) },
            { "nonResourceURLs": ["*"], "verbs": on(&PATH_VERBS) },
        ]),
    }
}

/// Read access for the agent's collectors of facts, one rule each. A site operator may remove any
/// of them; the facts then report the gap.
fn facts_rules() -> Value {
    let list = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["list"] });
    let get = |group: &str, resource: &str, name: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get"], "resourceNames": [name] });
    json!([
        list("", &["nodes"]),
        list("", &["namespaces"]),
        list("networking.k8s.io", &["ingresses"]),
        list(
            "gateway.networking.k8s.io",
            &["gateways", "httproutes", "grpcroutes"]
        ),
        list("apps", &["deployments", "statefulsets", "daemonsets"]),
        list("apiextensions.k8s.io", &["customresourcedefinitions"]),
        list("argoproj.io", &["applications"]),
        list("kustomize.toolkit.fluxcd.io", &["kustomizations"]),
        list("helm.toolkit.fluxcd.io", &["helmreleases"]),
        list("route.openshift.io", &["routes"]),
        get("route.openshift.io", "routes", "oauth-openshift"),
        get("config.openshift.io", "clusterversions", "version"),
    ])
}

fn namespace_role() -> Value {
    json!({
        "apiVersion": RBAC_VERSION,
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
            // The code of an adoption, and the cause of failed dials.
            { "apiGroups": [""], "resources": ["events"], "verbs": ["create"] },
            // Upgrades of the agent, and the cause of one that fails. `--upgrades off` of the agent needs neither rule.
            {
                "apiGroups": ["apps"],
                "resources": ["deployments"],
                "verbs": ["get", "patch"],
                "resourceNames": [AGENT_NAME],
            },
            { "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] },
        ],
    })
}
