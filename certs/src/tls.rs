//! What all TLS configurations share: one cryptographic provider, named each time, and words for what went wrong.

use std::{fmt, sync::Arc};

use fairlead_api::{CaPin, Code, Failure, moment::unix_timestamp};
use rustls::{
    AlertDescription, CertificateError, CipherSuite, Error, OtherError,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs},
};

/// Never the process default: which provider that is depends on what else is linked in.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    // Between our own two ends the client chooses: 128 bits are as safe here, and a quarter cheaper than 256.
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

pub(crate) fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}

/// Nothing a stranger sent leads here.
pub(crate) fn internal(error: impl fmt::Display) -> Failure {
    Failure::because(Code::Internal, error)
}

/// Why a peer's certificate is not believed, where rustls has no words for it. Inside of
/// [`CertificateError::Other`]; [`TrustError::find`] gets it out again.
#[derive(Clone, thiserror::Error)]
pub enum TrustError {
    /// The peer showed no certificate of the pinned authority.
    #[error("the certificate is not of the pinned authority {0}")]
    NotPinned(CaPin),
    /// Neither the machine's roots, nor a configured CA, nor the pin leads to the certificate.
    #[error(
        "the certificate's issuer {0:?} is trusted neither by this machine nor by the configuration"
    )]
    UnknownIssuer(String),
}

// rustls prints an error inside of an error by its `Debug`.
impl fmt::Debug for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TrustError {
    /// The trust error inside of a TLS error, if that is what it is.
    #[must_use]
    pub fn find(error: &Error) -> Option<&TrustError> {
        match error {
            Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
                inner.downcast_ref()
            }
            _ => None,
        }
    }
}

impl From<TrustError> for Error {
    fn from(error: TrustError) -> Self {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
    }
}

/// A TLS error as a person should read it: one clause, no full stop.
#[must_use]
pub fn explain(error: &Error) -> String {
    if let Some(trust) = TrustError::find(error) {
        return trust.to_string();
    }
    let date = |at: rustls::pki_types::UnixTime| unix_timestamp(at.as_secs());
    match error {
        Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::ExpiredContext { not_after, .. } => {
                format!("the certificate expired at {}", date(*not_after))
            }
            CertificateError::Expired => "the certificate has expired".to_owned(),
            CertificateError::NotValidYetContext { not_before, .. } => format!(
                "the certificate is not valid before {}; is this machine's clock right?",
                date(*not_before)
            ),
            CertificateError::NotValidYet => "the certificate is not valid yet".to_owned(),
            CertificateError::UnknownIssuer => "the certificate's issuer is not trusted".to_owned(),
            CertificateError::BadEncoding => "the certificate is damaged".to_owned(),
            other => other.to_string(),
        },
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateExpired => {
                "the peer says that our certificate has expired".to_owned()
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError => {
                "the peer does not believe our certificate".to_owned()
            }
            other => format!("the peer ended the handshake with alert {other:?}"),
        },
        Error::InvalidMessage(_) => "what answered does not speak TLS".to_owned(),
        other => other.to_string(),
    }
}
