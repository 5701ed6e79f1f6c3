//! Errors of the hub's keys, and their codes.

use std::{io, path::PathBuf};

use fairlead_api::{CaPin, Code, Failure, error_chain};
use fairlead_certs::CertsError;
use fairlead_store::{StoreError, random::RandomError};

/// Reason not to use the hub's keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysError {
    /// The sealing key of the settings is invalid.
    #[error(
        "the store's sealing key must be 32 bytes in base64, as written by `openssl rand -base64 32`"
    )]
    SealingKey,
    /// The keys in the store are sealed with another key.
    #[error("the hub's keys in the store are sealed with another key")]
    OtherSealingKey,
    /// A file differs from the keys in the store.
    #[error("{}: it differs from the store's: this folder belongs to other hubs", .0.display())]
    OtherHubs(PathBuf),
    /// The store names a CA without a key here.
    #[error("the key of the CA {0} is neither in the folder nor in the store")]
    LostCa(CaPin),
    /// The keys are no longer in the store.
    #[error("the store's keys disappeared")]
    Disappeared,
    /// The store does not answer.
    #[error("keys in the store")]
    Store(#[source] StoreError),
    /// A file cannot be read, written or removed.
    #[error("{}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The key of bootstrap tokens is damaged.
    #[error("{}: expected 32 bytes in base64url", .0.display())]
    BootstrapKey(PathBuf),
    /// The authority or a key file cannot be used.
    #[error("a key file cannot be used")]
    Certs(#[from] CertsError),
    /// An error that no setting can cause.
    #[error("{0}")]
    Internal(&'static str),
    /// There are no random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl KeysError {
    /// Code of the error.
    pub(crate) const fn code(&self) -> Code {
        match self {
            KeysError::SealingKey => Code::BadConfig,
            KeysError::Certs(error) => error.code(),
            KeysError::Internal(_) | KeysError::Random(_) => Code::Internal,
            KeysError::OtherSealingKey
            | KeysError::OtherHubs(_)
            | KeysError::LostCa(_)
            | KeysError::Disappeared
            | KeysError::Store(_)
            | KeysError::File { .. }
            | KeysError::BootstrapKey(_) => Code::DataDir,
        }
    }
}

impl From<KeysError> for Failure {
    fn from(error: KeysError) -> Self {
        let because = |error: &KeysError| Failure::because(error.code(), error_chain(error));
        match error {
            KeysError::Certs(error) => error.into(),
            KeysError::OtherSealingKey => {
                because(&error).next("Pass the other hubs' key with `--store-key-file`.")
            }
            KeysError::OtherHubs(_) => because(&error)
                .next("Name the folder of a hub on this store with `--data`, or an empty one."),
            KeysError::LostCa(_) => because(&error).next(
                "Restore the newest backup with the CA, or copy `ca.key` and `ca.pem` of another hub on this store.",
            ),
            other => because(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_keys_has_its_code() {
        let path = || PathBuf::from("/data/ca.key");
        let file = KeysError::File {
            path: path(),
            source: io::Error::other("disk"),
        };
        for (error, code, cause) in [
            (KeysError::SealingKey, Code::BadConfig, "sealing key must"),
            (KeysError::OtherSealingKey, Code::DataDir, "another key"),
            (
                KeysError::OtherHubs(path()),
                Code::DataDir,
                ": /data/ca.key: it differs from the store's",
            ),
            (KeysError::Disappeared, Code::DataDir, "disappeared"),
            (
                KeysError::Store(StoreError::Away),
                Code::DataDir,
                "keys in the store: the database cannot be reached",
            ),
            (file, Code::DataDir, ": /data/ca.key: disk"),
            (
                KeysError::BootstrapKey(path()),
                Code::DataDir,
                ": /data/ca.key: expected 32 bytes",
            ),
            (
                CertsError::Settings("detail".to_owned()).into(),
                Code::BadConfig,
                ": detail",
            ),
            (KeysError::Internal("detail"), Code::Internal, ": detail"),
            (RandomError.into(), Code::Internal, "random bytes"),
        ] {
            let failure = Failure::from(error);
            assert_eq!(failure.code, code);
            assert!(failure.cause.contains(cause), "{failure}");
        }
    }
}
