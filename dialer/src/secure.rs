//! The secure channel: TLS 1.3 of our own inside the link, so that identities and data survive a
//! proxy that intercepts the outer TLS. Trust is decided by the two TLS configurations.
//!
//! In TLS 1.3 the agent's handshake ends before the hub has verified the agent's certificate.
//! Therefore the hub first sends [`GREETING_VERSION`]: an accepted agent reads it, a refused agent reads
//! the alert in its place.

use std::sync::Arc;

use rustls::{AlertDescription, ClientConfig, ServerConfig};

use crate::{
    close::CloseReason,
    limits::Limits,
    link::LinkEnd,
    tls::explain,
    websocket::SocketRole,
    wire::{Agreed, Channel, Resumable, Socket, Wire},
};

/// Version of the protocol inside the secure channel (yamux with HTTP/1.1 on its streams).
const GREETING_VERSION: u8 = 1;

/// Failure of the inner handshake.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecureError {
    /// The hub's certificate is not trusted.
    #[error("{}", explain(.0))]
    Hub(#[source] rustls::Error),
    /// The hub does not trust the agent's certificate.
    #[error("the hub refused this agent's certificate ({0:?})")]
    Refused(AlertDescription),
    /// The peer speaks another protocol.
    #[error("{0}")]
    Protocol(String),
    #[error("{0}")]
    Link(#[source] LinkEnd),
}

/// Performs the agent's side of the handshake.
pub(crate) async fn client(
    socket: Socket,
    agreed: Agreed,
    config: Arc<ClientConfig>,
    limits: &Limits,
) -> Result<Wire, SecureError> {
    let channel = Channel::client(config)?;
    let mut wire = Wire::new(socket, agreed, channel, SocketRole::Agent, limits);
    wire.handshake().await?;
    match wire.first_byte().await? {
        GREETING_VERSION => {}
        other => {
            return Err(SecureError::Protocol(format!(
                "the hub speaks version {other} inside the secure channel, this agent {GREETING_VERSION}"
            )));
        }
    }
    wire.make_resumable(None)?;
    Ok(wire)
}

/// Performs the hub's side of the handshake. With a list of `known` sessions, the new session is
/// resumable. `evicted` ends the handshake, with a reason for the peer.
pub(crate) async fn server(
    socket: Socket,
    agreed: Agreed,
    config: Arc<ServerConfig>,
    limits: &Limits,
    known: Option<&Resumable>,
    evicted: impl Future<Output = ()>,
) -> Result<Wire, SecureError> {
    let channel = Channel::server(config)?;
    let mut wire = Wire::new(socket, agreed, channel, SocketRole::Hub, limits);
    let shaken = async {
        wire.handshake().await?;
        wire.send_now(&[GREETING_VERSION]).await
    };
    let shaken = tokio::select! {
        biased;
        shaken = shaken => shaken,
        () = evicted => {
            wire.refuse(CloseReason::Busy).await;
            Err(LinkEnd::Closed(CloseReason::Busy))
        }
    };
    shaken?;
    wire.make_resumable(known)?;
    Ok(wire)
}

impl From<LinkEnd> for SecureError {
    fn from(end: LinkEnd) -> Self {
        match end {
            LinkEnd::Secure(error) => error.into(),
            other => SecureError::Link(other),
        }
    }
}

impl From<rustls::Error> for SecureError {
    fn from(error: rustls::Error) -> Self {
        use rustls::Error;
        match error {
            Error::AlertReceived(alert) if about_certificates(alert) => SecureError::Refused(alert),
            wrong @ (Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
                SecureError::Hub(wrong)
            }
            other => SecureError::Protocol(other.to_string()),
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
