//! The secure channel: TLS 1.3 of our own inside of the link, so that identity and everything said survive a proxy that
//! opens the outer TLS. It believes nothing itself: the two configurations it is given do.
//!
//! In TLS 1.3 the agent's handshake is done before the hub has looked at its certificate. So the hub's first byte inside
//! is [`GREETING`]: an agent that has read it has been accepted, and one that was refused finds the alert in its place.

use std::{io, sync::Arc};

use rustls::{AlertDescription, ClientConfig, ServerConfig, pki_types::ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::{
    link::{LinkEnd, io::Link},
    session::CloseReason,
};

/// The name by which every agent asks for its hub inside of the tunnel. It is in no DNS and needs none.
pub const HUB_SERVER_NAME: &str = "hub.fairlead.internal";

/// The version of what runs inside the secure channel (yamux with HTTP/1.1 on its streams).
const GREETING: u8 = 1;

/// Why there is no secure channel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecureError {
    /// The hub's certificate is not believed.
    #[error("{}", explain(.0))]
    Hub(#[source] rustls::Error),
    /// The hub does not believe our certificate.
    #[error("the hub refused this agent's certificate ({0:?})")]
    Refused(AlertDescription),
    /// The peer speaks something else.
    #[error("{0}")]
    Protocol(String),
    #[error("{0}")]
    Link(#[source] LinkEnd),
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
}

/// The agent's end.
pub(crate) async fn client<IO>(
    link: Link<IO>,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<Link<IO>>, SecureError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(HUB_SERVER_NAME)
        .map_err(|error| SecureError::Protocol(error.to_string()))?;
    let mut tls = TlsConnector::from(config).connect(name, link).await?;
    match tls.read_u8().await? {
        GREETING => Ok(TlsStream::Client(tls)),
        other => Err(SecureError::Protocol(format!(
            "the hub speaks version {other} inside the secure channel, this agent {GREETING}"
        ))),
    }
}

/// The hub's end.
pub(crate) async fn server<IO>(
    link: Link<IO>,
    config: Arc<ServerConfig>,
) -> Result<TlsStream<Link<IO>>, SecureError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let accept = TlsAcceptor::from(config).accept(link).into_fallible();
    let mut tls = match accept.await {
        Ok(tls) => tls,
        Err((error, mut link)) => {
            // The alert that says why is on its way.
            link.close_with(CloseReason::Protocol);
            let _ = link.shutdown().await;
            return Err(error.into());
        }
    };
    tls.write_u8(GREETING).await?;
    tls.flush().await?;
    Ok(TlsStream::Server(tls))
}

impl From<io::Error> for SecureError {
    fn from(error: io::Error) -> Self {
        if let Some(end) = LinkEnd::find(&error) {
            return SecureError::Link(end.clone());
        }
        let tls = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::AlertReceived(alert)) if about_certificates(*alert) => {
                SecureError::Refused(*alert)
            }
            Some(wrong @ rustls::Error::InvalidCertificate(_))
            | Some(wrong @ rustls::Error::NoCertificatesPresented) => {
                SecureError::Hub(wrong.clone())
            }
            Some(other) => SecureError::Protocol(other.to_string()),
            None => SecureError::Broken(error),
        }
    }
}

fn about_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
            | AlertDescription::CertificateRequired
    )
}

/// A verifier's own words, where it has some, without rustls' around them.
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
