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
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("{} cannot be read: {cause}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        cause: String,
    },
    /// A file has no usable content.
    #[error("{} holds no usable {kind}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Expected content.
        kind: &'static str,
    },
    /// The kubeconfig has a mistake.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    /// The credential plugin of the kubeconfig failed.
    #[error("the credential plugin {command:?} failed: {cause}")]
    Plugin {
        /// Its command.
        command: String,
        /// Its exit code or output.
        cause: String,
    },
    /// The address or the TLS material is unusable.
    #[error("the API server's address or TLS cannot be set up: {0}")]
    Tls(String),
}

impl CredentialsError {
    pub(super) fn file(path: &Path, cause: &io::Error) -> Self {
        CredentialsError::File {
            path: path.to_owned(),
            cause: cause.to_string(),
        }
    }
}

/// For a person's kubeconfig. The service account of a pod is not checked at start.
impl From<CredentialsError> for Failure {
    fn from(error: CredentialsError) -> Self {
        let failure = match &error {
            // The error's own text says so.
            CredentialsError::Kubeconfig(_) => {
                Failure::with_cause(Code::BadKubeconfig, error.to_string())
            }
            _ => Failure::because(Code::BadKubeconfig, &error),
        };
        match error {
            CredentialsError::File { .. } => failure.next(CHECK_FILES),
            CredentialsError::Plugin { .. } => failure.next(CHECK_PLUGIN),
            _ => failure,
        }
    }
}
