//! Errors of enrolment and renewal, and their codes.

use std::error::Error;

use fairlead_api::{Code, Failure, error_chain, site::SiteChoiceError};
use fairlead_certs::CertsError;
use fairlead_seam::DirectoryError;
use fairlead_store::{Refusal, StoreError};

use super::{
    renewals::{MAX_RENEWALS, RENEWALS_WINDOW},
    spend::SpendError,
};

/// A rejected request for an identity or an install manifest.
#[derive(Debug, thiserror::Error)]
pub(super) enum EnrollError {
    /// The bootstrap token is rejected.
    #[error("the bootstrap token is rejected")]
    Token(#[from] SpendError),
    /// The certificate request is rejected.
    #[error("the certificate request is rejected")]
    Request(#[from] CertsError),
    /// The identity is rejected.
    #[error("the identity is rejected")]
    Identity(#[from] DirectoryError),
    /// The identity has expired and may not be renewed.
    #[error("{0}")]
    Lapsed(&'static str),
    /// The cluster has renewed its identity too often.
    #[error("{MAX_RENEWALS} renewals of one cluster within {} minutes; check the clock of the agent's node", RENEWALS_WINDOW.whole_minutes())]
    TooManyRenewals,
    /// The choices of the site operator are invalid.
    #[error("{0}")]
    Choices(#[from] SiteChoiceError),
    /// The GitOps tool of the cluster cannot be installed.
    #[error("{0}")]
    Tool(String),
    /// A peer without an identity asks for a renewal.
    #[error("there is no identity to renew")]
    EnrolOnly,
    /// An error that no peer can cause.
    #[error(transparent)]
    Internal(Box<dyn Error + Send + Sync>),
}

impl EnrollError {
    /// Code of the error.
    pub(super) const fn code(&self) -> Code {
        match self {
            EnrollError::Token(error) => error.code(),
            EnrollError::Request(error) => error.code(),
            EnrollError::Identity(error) => error.code(),
            EnrollError::Lapsed(_) => Code::CertificateExpired,
            EnrollError::Choices(_) => Code::Invalid,
            EnrollError::Tool(_) => Code::GitOpsManifestUnusable,
            EnrollError::TooManyRenewals => Code::TooManyRequests,
            EnrollError::EnrolOnly => Code::EnrolOnly,
            EnrollError::Internal(_) => Code::Internal,
        }
    }

    /// True for a token that may have been guessed.
    pub(super) const fn is_unknown_token(&self) -> bool {
        matches!(self, EnrollError::Token(SpendError::Unknown))
    }

    pub(super) fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        EnrollError::Internal(error.into())
    }
}

impl Refusal for EnrollError {}

impl From<StoreError> for EnrollError {
    fn from(error: StoreError) -> Self {
        EnrollError::Token(SpendError::Store(error))
    }
}

impl SpendError {
    /// Code of the error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            SpendError::Unknown => Code::BootstrapUnknown,
            SpendError::Expired => Code::BootstrapExpired,
            SpendError::Spent => Code::BootstrapSpent,
            SpendError::Sign(error) => error.code(),
            SpendError::Store(error) => error.code(),
        }
    }
}

impl From<SpendError> for Failure {
    fn from(error: SpendError) -> Self {
        match error {
            SpendError::Sign(error) => error.into(),
            SpendError::Store(error) => error.into(),
            other => other.code().into(),
        }
    }
}

impl From<EnrollError> for Failure {
    fn from(error: EnrollError) -> Self {
        match error {
            EnrollError::Token(error) => error.into(),
            EnrollError::Request(error) => error.into(),
            EnrollError::Identity(error) => error.into(),
            EnrollError::EnrolOnly => error.code().into(),
            EnrollError::Choices(_)
            | EnrollError::Tool(_)
            | EnrollError::Lapsed(_)
            | EnrollError::TooManyRenewals
            | EnrollError::Internal(_) => Failure::because(error.code(), error_chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_enrolment_error_has_its_code() {
        let request = || CertsError::Request("detail".to_owned());
        for (error, failure) in [
            (
                SpendError::Unknown.into(),
                Failure::new(Code::BootstrapUnknown),
            ),
            (
                SpendError::Expired.into(),
                Failure::new(Code::BootstrapExpired),
            ),
            (SpendError::Spent.into(), Failure::new(Code::BootstrapSpent)),
            (
                SpendError::Sign(request()).into(),
                Failure::because(Code::BadCsr, "detail"),
            ),
            (StoreError::Away.into(), Failure::new(Code::StoreAway)),
            (request().into(), Failure::because(Code::BadCsr, "detail")),
            (
                DirectoryError::ClusterDeleted.into(),
                Failure::new(Code::ClusterDeleted),
            ),
            (
                EnrollError::Lapsed("detail"),
                Failure::because(Code::CertificateExpired, "detail"),
            ),
            (
                EnrollError::TooManyRenewals,
                Failure::because(
                    Code::TooManyRequests,
                    "60 renewals of one cluster within 10 minutes; check the clock of the agent's node",
                ),
            ),
            (EnrollError::EnrolOnly, Failure::new(Code::EnrolOnly)),
            (
                EnrollError::internal("detail"),
                Failure::because(Code::Internal, "detail"),
            ),
        ] {
            assert_eq!(error.code(), failure.code);
            assert_eq!(Failure::from(error), failure);
        }
    }
}
