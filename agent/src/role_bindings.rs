//! Bindings of the install manifest for the hub's users, created by an agent outside of a pod, with a kubeconfig. Only
//! missing ones are created, and only when the cluster joins, so that a site operator's own bindings stay.

use fairlead_api::{
    impersonation,
    resources::Role,
    site::{OPERATOR_CLUSTER_ROLE, OperatorNamespace},
};
use fairlead_apiserver::{Upstream, UpstreamError};
use http::{Method, StatusCode};
use serde_json::json;
use tracing::{info, warn};

const RBAC_PATH: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Binding of a role's group. In a namespace also of the group of that namespace alone.
struct GroupBinding<'a> {
    role: Role,
    cluster_role: &'static str,
    /// None: in the whole cluster.
    namespace: Option<&'a OperatorNamespace>,
}

/// Binds the groups of Fairlead's roles unless bindings exist. A failure is only logged: the agent works
/// without them, and RBAC answers the users.
pub(crate) async fn bind_missing(upstream: &Upstream, operator_namespaces: &[OperatorNamespace]) {
    let in_cluster = Role::IN_CLUSTERS.map(|role| GroupBinding {
        role,
        cluster_role: role.default_cluster_role(),
        namespace: None,
    });
    let in_namespaces = operator_namespaces.iter().flat_map(|namespace| {
        impersonation::NAMESPACE_ROLES.map(|role| GroupBinding {
            role,
            cluster_role: match role {
                Role::Operator => OPERATOR_CLUSTER_ROLE,
                _ => role.default_cluster_role(),
            },
            namespace: Some(namespace),
        })
    });
    for binding in in_cluster.into_iter().chain(in_namespaces) {
        let (group, cluster_role) = (impersonation::group(binding.role), binding.cluster_role);
        let namespace = binding.namespace.map(OperatorNamespace::as_str);
        let refused = match binding.create(upstream).await {
            Ok(StatusCode::CREATED) => {
                info!(group, cluster_role, namespace, "group bound");
                continue;
            }
            Ok(StatusCode::CONFLICT) => continue,
            Ok(status) => format!("the API server answered {status}"),
            Err(error) => error.to_string(),
        };
        let next =
            "apply the install manifest as a cluster administrator, or bind the group yourself";
        warn!(
            group,
            cluster_role,
            namespace,
            cause = refused,
            next,
            "group not bound"
        );
    }
}

impl GroupBinding<'_> {
    async fn create(&self, upstream: &Upstream) -> Result<StatusCode, UpstreamError> {
        let rbac = "rbac.authorization.k8s.io";
        let (kind, path) = match self.namespace {
            None => (
                "ClusterRoleBinding",
                format!("{RBAC_PATH}/clusterrolebindings"),
            ),
            Some(namespace) => (
                "RoleBinding",
                format!("{RBAC_PATH}/namespaces/{}/rolebindings", namespace.as_str()),
            ),
        };
        let of_namespace = self
            .namespace
            .map(|it| impersonation::namespace_group(it, self.role));
        let groups = std::iter::once(impersonation::group(self.role)).chain(of_namespace);
        let subjects =
            groups.map(|name| json!({ "apiGroup": rbac, "kind": "Group", "name": name }));
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": format!("fairlead-{}", self.role),
                "labels": { "app.kubernetes.io/part-of": "fairlead" },
            },
            "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": self.cluster_role },
            "subjects": subjects.collect::<Vec<_>>(),
        });
        let body = Some(binding.to_string());
        let (status, _) = upstream.request(Method::POST, &path, body).await?;
        Ok(status)
    }
}
