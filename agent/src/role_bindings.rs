//! Cluster role bindings of the install manifest, created by an agent outside of a pod, with a kubeconfig. Only
//! missing ones are created, and only when the cluster joins, so that a site operator's own bindings stay.

use fairlead_api::{impersonation, resources::Role};
use http::{Method, StatusCode};
use serde_json::json;
use tracing::{info, warn};

use fairlead_apiserver::{Upstream, UpstreamError};

const BINDINGS_PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Binds the groups of Fairlead's roles unless bindings exist. A failure is only logged: the agent works
/// without them, and RBAC answers the users.
pub(crate) async fn bind_missing(upstream: &Upstream) {
    for role in Role::IN_CLUSTERS {
        let group = impersonation::group(role);
        let cluster_role = role.default_cluster_role();
        let refused = match bind(upstream, role, &group).await {
            Ok(StatusCode::CREATED) => {
                info!(group, cluster_role, "group bound");
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
            cause = refused,
            next,
            "group not bound"
        );
    }
}

async fn bind(upstream: &Upstream, role: Role, group: &str) -> Result<StatusCode, UpstreamError> {
    let rbac = "rbac.authorization.k8s.io";
    let name = format!("fairlead-{role}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": name, "labels": { "app.kubernetes.io/part-of": "fairlead" } },
        "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": role.default_cluster_role() },
        "subjects": [{ "apiGroup": rbac, "kind": "Group", "name": group }],
    });
    let (status, _) = upstream
        .request(Method::POST, BINDINGS_PATH, Some(binding.to_string()))
        .await?;
    Ok(status)
}
