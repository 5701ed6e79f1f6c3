//! Parts shared by all TLS configurations: the cryptographic provider, and error texts.

use std::{error::Error as StdError, fmt, sync::Arc};

use fairlead_api::{CaPins, moment::unix_timestamp};
use rustls::{
    AlertDescription, CertificateError, CipherSuite, Error, NamedGroup, OtherError,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs},
};

use crate::error::CertsError;

/// Never the process default: that depends on the other crates in the program.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(with_cheap_ciphers())
}

/// Provider of the inner TLS: its key exchange is X25519MLKEM768, unless a peer knows only a classic one.
///
/// Recorded traffic therefore stays secret from a later quantum computer. The ClientHello grows to two TCP segments,
/// which no box on the path can see: it is inside of a WebSocket.
pub(crate) fn inner_provider() -> Arc<CryptoProvider> {
    let mut provider = with_cheap_ciphers();
    provider
        .kx_groups
        .sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
    Arc::new(provider)
}

fn with_cheap_ciphers() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    // Between our own two ends the client's order decides: 128 bits are as safe here, and a quarter cheaper than 256.
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

pub(crate) fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}

/// For errors that no peer can cause.
pub(crate) fn internal(error: impl Into<Box<dyn StdError + Send + Sync>>) -> CertsError {
    CertsError::Internal(error.into())
}

/// Reason to distrust a peer's certificate that rustls has no variant for.
///
/// It travels inside [`CertificateError::Other`]; [`TrustError::find`] extracts it.
#[derive(Clone, thiserror::Error)]
pub enum TrustError {
    /// The peer sent no certificate of the pinned authority.
    #[error("the certificate does not belong to the pinned authority {0}")]
    NotPinned(CaPins),
    /// Neither the system roots, nor a configured CA, nor the pin leads to the certificate.
    #[error(
        "the certificate's issuer {0:?} is trusted neither by this machine nor by the configuration"
    )]
    UnknownIssuer(String),
}

// rustls prints a nested error by its `Debug`.
impl fmt::Debug for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TrustError {
    /// Extracts the trust error from a TLS error.
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

/// A TLS error for users: one clause, no full stop.
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
                "the peer rejected our certificate as expired".to_owned()
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError => {
                "the peer does not trust our certificate".to_owned()
            }
            other => format!("the peer ended the handshake with alert {other:?}"),
        },
        Error::InvalidMessage(_) => "the peer does not speak TLS".to_owned(),
        other => other.to_string(),
    }
}
