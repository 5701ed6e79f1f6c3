//! Namespace and ServiceAccount of deliveries, created by an agent outside of a pod, with a kubeconfig.
//!
//! The binding is created only together with the ServiceAccount, so that a site operator's own bindings stay.

use fairlead_apiserver::{Upstream, UpstreamError};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tracing::{info, warn};

const NAMESPACE: &str = "fairlead-delivery";
const ACCOUNT: &str = "deployer";
const BINDING: &str = "fairlead-deployer";

/// Creates missing objects. A failure is only logged: deployments report what they lack.
pub(crate) async fn create_missing(upstream: &Upstream) {
    let labels = json!({ "app.kubernetes.io/part-of": "fairlead" });
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": NAMESPACE, "labels": labels },
    });
    create(upstream, "/api/v1/namespaces", &namespace).await;
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": ACCOUNT, "namespace": NAMESPACE, "labels": labels },
    });
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    if !create(upstream, &accounts, &account).await {
        return;
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": BINDING, "labels": labels },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE }],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    create(upstream, bindings, &binding).await;
}

/// Creates an object. True if it did not exist.
async fn create(upstream: &Upstream, path: &str, object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str);
    match post(upstream, path, object).await {
        Ok(StatusCode::CREATED) => {
            info!(kind, "object for deliveries created");
            true
        }
        Ok(StatusCode::CONFLICT) => false,
        Ok(status) => {
            let next = "apply the install manifest as a cluster administrator";
            warn!(kind, %status, next, "object for deliveries not created");
            false
        }
        Err(error) => {
            warn!(kind, %error, "object for deliveries not created");
            false
        }
    }
}

async fn post(
    upstream: &Upstream,
    path: &str,
    object: &Value,
) -> Result<StatusCode, UpstreamError> {
    let body = Some(object.to_string());
    let (status, _) = upstream.request(Method::POST, path, body).await?;
    Ok(status)
}
