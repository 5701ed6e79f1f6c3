//! Errors of certificates and keys, and their codes.

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure, error_chain};

/// An error of making, reading or trusting certificates and keys.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// A file of the data directory cannot be read or written.
    #[error("{}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file of the data directory has invalid content or permissions.
    #[error("{}: {detail}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// One clause: the defect.
        detail: String,
    },
    /// A certificate, key or name of the settings is invalid.
    #[error("{0}")]
    Settings(String),
    /// A certificate request is invalid.
    #[error("{0}")]
    Request(String),
    /// A certificate request names another identity.
    #[error("{0}")]
    ForeignName(String),
    /// A certificate names no agent of this hub.
    #[error("{0}")]
    ForeignCertificate(&'static str),
    /// The hub issued a certificate that does not fit the key.
    #[error("{0}")]
    IssuedCertificate(String),
    /// Neither system roots nor settings contain an authority to trust.
    #[error(transparent)]
    NothingTrusted(rustls::Error),
    /// An error that no peer and no setting can cause.
    #[error(transparent)]
    Internal(Box<dyn Error + Send + Sync>),
}

impl CertsError {
    /// Code of the error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            CertsError::Io { .. } | CertsError::File { .. } => Code::DataDir,
            CertsError::Settings(_) => Code::BadConfig,
            CertsError::Request(_) => Code::BadCsr,
            CertsError::ForeignName(_) => Code::ForeignName,
            CertsError::ForeignCertificate(_) => Code::ForeignCertificate,
            CertsError::IssuedCertificate(_) => Code::DialProtocol,
            CertsError::NothingTrusted(_) => Code::DialTls,
            CertsError::Internal(_) => Code::Internal,
        }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        CertsError::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn file(path: &Path, detail: impl Into<String>) -> Self {
        CertsError::File {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }
}

impl From<CertsError> for Failure {
    fn from(error: CertsError) -> Self {
        Failure::because(error.code(), error_chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_code_and_its_detail() {
        let path = Path::new("/data/ca.key");
        let detail = || "detail".to_owned();
        for (error, code, cause) in [
            (
                CertsError::io(path, io::Error::other("disk")),
                Code::DataDir,
                "/data/ca.key: disk",
            ),
            (
                CertsError::file(path, "detail"),
                Code::DataDir,
                "/data/ca.key: detail",
            ),
            (CertsError::Settings(detail()), Code::BadConfig, "detail"),
            (CertsError::Request(detail()), Code::BadCsr, "detail"),
            (
                CertsError::ForeignName(detail()),
                Code::ForeignName,
                "detail",
            ),
            (
                CertsError::ForeignCertificate("detail"),
                Code::ForeignCertificate,
                "detail",
            ),
            (
                CertsError::IssuedCertificate(detail()),
                Code::DialProtocol,
                "detail",
            ),
            (
                CertsError::NothingTrusted(rustls::Error::General(detail())),
                Code::DialTls,
                "unexpected error: detail",
            ),
            (
                CertsError::Internal("detail".into()),
                Code::Internal,
                "detail",
            ),
        ] {
            assert_eq!(Failure::from(error), Failure::because(code, cause));
        }
    }
}
