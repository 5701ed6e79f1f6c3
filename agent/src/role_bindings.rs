//! Bindings of the install manifest for the hub's users, created by an agent outside of a pod, with a kubeconfig.
//!
//! Only missing ones are created. Those of the whole cluster are created only when the cluster joins, so that a site
//! operator's own bindings stay. Those of `--operator-namespaces` are created at each start, as the flag demands them.

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

/// Binds the groups of Fairlead's roles in the whole cluster unless bindings exist.
pub(crate) async fn bind_in_cluster(upstream: &Upstream) {
    for role in Role::IN_CLUSTERS {
        let cluster_role = role.default_cluster_role();
        let binding = GroupBinding {
            role,
            cluster_role,
            namespace: None,
        };
        binding.create_missing(upstream).await;
    }
}

/// Binds the groups in the namespaces of the site's choice unless bindings exist.
pub(crate) async fn bind_in_namespaces(upstream: &Upstream, namespaces: &[OperatorNamespace]) {
    for namespace in namespaces {
        for role in impersonation::NAMESPACE_ROLES {
            let cluster_role = match role {
                Role::Operator => OPERATOR_CLUSTER_ROLE,
                _ => role.default_cluster_role(),
            };
            let binding = GroupBinding {
                role,
                cluster_role,
                namespace: Some(namespace),
            };
            binding.create_missing(upstream).await;
        }
    }
}

impl GroupBinding<'_> {
    /// A failure is only logged: the agent works without the binding, and RBAC answers the users.
    async fn create_missing(&self, upstream: &Upstream) {
        let next = match self.namespace {
            None => {
                "apply the install manifest as a cluster administrator, or bind the group yourself"
            }
            Some(_) => {
                "create the namespace if it is missing, then restart the agent or bind the group yourself"
            }
        };
        let cause = match self.create(upstream).await {
            Ok(StatusCode::CONFLICT) => return,
            Ok(StatusCode::CREATED) => None,
            Ok(status) => Some(format!("the API server answered {status}")),
            Err(error) => Some(error.to_string()),
        };
        let (group, cluster_role) = (impersonation::group(self.role), self.cluster_role);
        let namespace = self.namespace.map(OperatorNamespace::as_str);
        match cause {
            None => info!(group, cluster_role, namespace, "group bound"),
            Some(cause) => warn!(
                group,
                cluster_role, namespace, cause, next, "group not bound"
            ),
        }
    }

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
