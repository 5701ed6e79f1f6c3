//! The secure channel: TLS 1.3 of our own inside of the link, so that identity and everything said survive a proxy that
//! opens the outer TLS. It believes nothing itself: the two configurations it is given do.
//!
//! In TLS 1.3 the agent's handshake is done before the hub has looked at its certificate. So the hub's first byte inside
//! is [`GREETING`]: an agent that has read it has been accepted, and one that was refused finds the alert in its place.

use std::sync::Arc;

use rustls::{AlertDescription, ClientConfig, ServerConfig};

use crate::{
    link::LinkEnd,
    session::Limits,
    wire::{Agreed, Channel, Resumable, Socket, Wire, ws::Role},
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
}

/// The agent's end.
pub(crate) async fn client(
    socket: Socket,
    agreed: Agreed,
    config: Arc<ClientConfig>,
    limits: &Limits,
) -> Result<Wire, SecureError> {
    let channel = Channel::client(config)?;
    let mut wire = Wire::new(socket, agreed, channel, Role::Agent, limits);
    wire.handshake().await?;
    match wire.first_byte().await? {
        GREETING => {}
        other => {
            return Err(SecureError::Protocol(format!(
                "the hub speaks version {other} inside the secure channel, this agent {GREETING}"
            )));
        }
    }
    wire.make_resumable(None)?;
    Ok(wire)
}

/// The hub's end. The session may be resumed if it has a list of `known` ones.
pub(crate) async fn server(
    socket: Socket,
    agreed: Agreed,
    config: Arc<ServerConfig>,
    limits: &Limits,
    known: Option<&Resumable>,
) -> Result<Wire, SecureError> {
    let channel = Channel::server(config)?;
    let mut wire = Wire::new(socket, agreed, channel, Role::Hub, limits);
    wire.handshake().await?;
    wire.say(&[GREETING]).await?;
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
