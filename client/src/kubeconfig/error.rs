//! Errors of kubeconfig files, and their codes.

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure, error_chain};

use crate::files::FileError;

/// Reason not to write a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The environment names no file.
    #[error("neither KUBECONFIG nor HOME is set")]
    NoPlace,
    /// The file cannot be read or parsed.
    #[error("{}: {detail}", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system or of the parser.
        detail: String,
    },
    /// Another program writes the file.
    #[error("another program holds its lock {}", .0.display())]
    Locked(PathBuf),
    /// The lock of the file or its folder cannot be created.
    #[error("{}", path.display())]
    Lock {
        /// Path of the lock or of its folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The entries cannot be merged into the file.
    #[error("{}", path.display())]
    Merge {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: MergeError,
    },
    /// The file or its backup cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The entries have no text form.
    #[error("a kubeconfig cannot be serialized")]
    Serialize(#[source] Box<dyn Error + Send + Sync>),
}

/// Reason not to merge entries.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The file is no kubeconfig.
    #[error("{0}")]
    NoKubeconfig(String),
    /// A context of that name leads to another hub or cluster.
    #[error("{0}")]
    ContextTaken(String),
}

/// The template of context names yields one name for two clusters.
#[derive(Debug, thiserror::Error)]
#[error("--context-name: {0}")]
pub struct AmbiguousContext(pub(super) String);

impl KubeconfigError {
    pub(super) fn unusable(path: &Path, error: impl ToString) -> Self {
        KubeconfigError::Unusable {
            path: path.to_owned(),
            detail: error.to_string(),
        }
    }

    pub(super) fn serialize(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        KubeconfigError::Serialize(error.into())
    }

    pub(super) fn lock(path: &Path, source: io::Error) -> Self {
        KubeconfigError::Lock {
            path: path.to_owned(),
            source,
        }
    }
}

impl From<KubeconfigError> for Failure {
    fn from(error: KubeconfigError) -> Self {
        let because = |code| Failure::because(code, error_chain(&error));
        match error {
            KubeconfigError::NoPlace => because(Code::BadConfig)
                .next("Set one of them, or name the file with `--output F`."),
            KubeconfigError::Unusable { .. } => because(Code::BadKubeconfig)
                .next("Correct the file, or name another with `--output F`."),
            KubeconfigError::Locked(ref lock) => {
                let lock = lock.display();
                let step = format!("Try again; if no such program runs, remove {lock}.");
                because(Code::InUse).next(step)
            }
            KubeconfigError::Lock { .. } => because(Code::CannotWrite),
            KubeconfigError::Merge { path, source } => {
                let merge = Failure::from(source);
                Failure {
                    cause: format!("{}: {}", path.display(), merge.cause),
                    ..merge
                }
            }
            KubeconfigError::File(error) => error.into(),
            KubeconfigError::Serialize(_) => because(Code::Internal),
        }
    }
}

impl From<MergeError> for Failure {
    fn from(error: MergeError) -> Self {
        match error {
            MergeError::NoKubeconfig(_) => Failure::because(Code::BadKubeconfig, error),
            MergeError::ContextTaken(_) => Failure::because(Code::Conflict, error)
                .next("Choose another name with `--context-name`."),
        }
    }
}

impl From<AmbiguousContext> for Failure {
    fn from(error: AmbiguousContext) -> Self {
        Failure::because(Code::Invalid, error).next("Put {name} or {id} into the template.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_kubeconfig_has_its_code() {
        let path = || PathBuf::from("/config");
        let merge = |source| KubeconfigError::Merge {
            path: path(),
            source,
        };
        let taken = MergeError::ContextTaken("taken".to_owned());
        let none = MergeError::NoKubeconfig("no mapping".to_owned());
        for (error, code, cause) in [
            (KubeconfigError::NoPlace, Code::BadConfig, "neither"),
            (
                KubeconfigError::unusable(&path(), "detail"),
                Code::BadKubeconfig,
                ": /config: detail",
            ),
            (
                KubeconfigError::Locked(path()),
                Code::InUse,
                "holds its lock /config",
            ),
            (
                KubeconfigError::lock(&path(), io::Error::other("disk")),
                Code::CannotWrite,
                ": /config: disk",
            ),
            (merge(taken), Code::Conflict, "/config: the resource exists"),
            (
                merge(none),
                Code::BadKubeconfig,
                "/config: the kubeconfig cannot be used: no mapping",
            ),
        ] {
            let failure = Failure::from(error);
            assert_eq!(failure.code, code);
            assert!(failure.cause.contains(cause), "{failure}");
        }
    }
}
