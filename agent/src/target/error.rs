//! Errors of the API server's address and credentials.

use std::{
    io,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure};

const CHECK_FILES: &str =
    "Check that `--kubeconfig` and the files named in it exist, and that this user may read them.";
const CHECK_PLUGIN: &str = "Install the credential plugin and run it in a shell, or use a kubeconfig with a token or a client certificate.";

/// Reason for an unusable address or credential. The texts contain paths, never contents.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("{} cannot be read: {cause}", path.display())]
    File { path: PathBuf, cause: String },
    #[error("{} holds no usable {what}", path.display())]
    Content { path: PathBuf, what: &'static str },
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    #[error("the credential plugin {command:?} failed: {cause}")]
    Plugin { command: String, cause: String },
    #[error("the API server's address or TLS cannot be set up: {0}")]
    Tls(String),
}

impl TargetError {
    pub(super) fn file(path: &Path, cause: &io::Error) -> Self {
        TargetError::File {
            path: path.to_owned(),
            cause: cause.to_string(),
        }
    }
}

/// For a person's kubeconfig. The service account of a pod is not checked at start.
impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        let failure = match &error {
            // The error's own text says so.
            TargetError::Kubeconfig(_) => {
                Failure::with_cause(Code::BadKubeconfig, error.to_string())
            }
            _ => Failure::because(Code::BadKubeconfig, &error),
        };
        match error {
            TargetError::File { .. } => failure.next(CHECK_FILES),
            TargetError::Plugin { .. } => failure.next(CHECK_PLUGIN),
            _ => failure,
        }
    }
}
