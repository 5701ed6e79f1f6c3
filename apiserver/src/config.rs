//! Address of an API server, and the source of its credential.

use std::{fmt, path::PathBuf};

/// API server, and the credential for it.
#[derive(Debug, Clone)]
pub enum ApiServerConfig {
    /// API server of the cluster of this pod, with the pod's service account.
    InCluster {
        /// Host name or IP address of the API server.
        host: String,
        /// Its HTTPS port.
        port: u16,
        /// Directory with `token`, `ca.crt` and `namespace`; [`SERVICE_ACCOUNT_DIR`] in a pod.
        dir: PathBuf,
    },
    /// API server of a kubeconfig, with the credential of its user.
    Kubeconfig {
        /// Path of the kubeconfig file.
        path: PathBuf,
        /// Context of the kubeconfig. None: its current context.
        context: Option<String>,
    },
}

/// Directory of the service account in a pod.
pub const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Address and user for the log, without credentials.
impl fmt::Display for ApiServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiServerConfig::InCluster { host, port, .. } => {
                write!(f, "{host}:{port}, as this pod's service account")
            }
            ApiServerConfig::Kubeconfig {
                path,
                context: None,
            } => write!(f, "the current context of {}", path.display()),
            ApiServerConfig::Kubeconfig {
                path,
                context: Some(context),
            } => {
                write!(f, "context {context:?} of {}", path.display())
            }
        }
    }
}
