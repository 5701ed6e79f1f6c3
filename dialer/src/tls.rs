//! TLS on rustls' form without buffers: [`TlsStream`] for connections, and its records, which the inner TLS has too. Name of the
//! hub in the inner TLS, and texts of TLS errors.

mod blocks;
mod client;
mod noted_name;
mod output;
pub(crate) mod records;
mod server;
mod stream;

pub use self::{client::ClientTls, server::ServerTls, stream::TlsStream};

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
