//! Name of the hub in the inner TLS, and texts of TLS errors.

/// Server name of every hub in the inner TLS. It is in no DNS.
pub const HUB_SERVER_NAME: &str = "hub.fairlead.internal";

/// The verifier's own message, without rustls' wrapping.
pub(crate) fn explain(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error, OtherError};
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(own))) => own.to_string(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the certificate's issuer is not trusted".to_owned()
        }
        other => other.to_string(),
    }
}
