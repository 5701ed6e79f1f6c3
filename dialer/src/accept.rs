//! The hub's end: from an upgraded HTTP connection to a session. Who the agent is, the caller reads from the
//! certificates; here they are only verified.

use std::{sync::Arc, time::SystemTime};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header,
};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::{
    dial::{DialError, Stage, step},
    link::{LinkEnd, frame::SessionId},
    mux::Side,
    secure::{self, SecureError},
    session::{CloseReason, Limits, Session},
    wire::{self, Agreed, Resumable, Socket, ws::Role},
};

/// Path and subprotocol of the WebSocket.
pub const CONNECT_PATH: &str = "/connect";
pub const SUBPROTOCOL: &str = "fairlead.v1";

/// A session with its peer's certificates (none: the peer showed none and may enrol only).
pub struct Accepted {
    pub session: Session,
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Checks an upgrade request (RFC 6455, 4.2.1: method, headers, version, subprotocol) and gives the 101 head to answer
/// with, or the refusal. The path is the caller's.
///
/// # Errors
/// 405 for another method, 426 where no WebSocket is asked for or another version, 400 for anything else.
pub fn upgrade_response<B>(request: &Request<B>) -> Result<Response<()>, StatusCode> {
    let headers = request.headers();
    if request.method() != Method::GET {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    if request.version() != Version::HTTP_11
        || !has_token(headers, header::UPGRADE, "websocket")
        || !has_token(headers, header::CONNECTION, "upgrade")
        || only(headers, header::SEC_WEBSOCKET_VERSION) != Some("13")
    {
        return Err(StatusCode::UPGRADE_REQUIRED);
    }
    let key = only(headers, header::SEC_WEBSOCKET_KEY)
        // 16 bytes in base64.
        .filter(|key| key.len() == 24 && key.ends_with("=="))
        .ok_or(StatusCode::BAD_REQUEST)?;
    let offered = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        // Unlike other tokens, these are told apart by case.
        .any(|token| token.trim() == SUBPROTOCOL);
    if !offered {
        return Err(StatusCode::BAD_REQUEST);
    }
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(
            header::SEC_WEBSOCKET_ACCEPT,
            derive_accept_key(key.as_bytes()),
        )
        .header(
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(SUBPROTOCOL),
        )
        .header(header::DATE, httpdate::fmt_http_date(SystemTime::now()))
        .body(())
        .map_err(|_| StatusCode::BAD_REQUEST)
}

/// The value of a header that must stand there exactly once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value.trim())
}

/// Whether a list of tokens, told apart without case, has this one.
pub(crate) fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|entry| entry.trim().eq_ignore_ascii_case(token))
}

/// What came of an agent's connection.
pub enum Arrival {
    New(Accepted),
    /// An agent has proved that a session which is known here is its own: it goes on over this connection.
    Resumed,
    /// An agent wants a session that is not known here, and no other one.
    Declined,
}

/// `io` is the connection after the 101. Returns once the agent's certificate, if it has shown one, has been verified.
/// The session ends with its connection.
///
/// # Errors
/// With stage link, identity or protocol; each step has the limits' handshake deadline.
pub async fn accept<IO>(
    io: IO,
    tls: Arc<rustls::ServerConfig>,
    limits: Limits,
) -> Result<Accepted, DialError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut socket = Socket::new(Box::new(io), &[], Role::Hub);
    let agreed = begin(&mut socket, &limits, None).await?;
    let accepted = establish(socket, agreed, tls, &limits, None).await?;
    accepted.ok_or_else(|| DialError::from(LinkEnd::Closed(CloseReason::Done)))
}

/// The same, where sessions outlive their connections: a new one is entered into those that are `known`, and an agent
/// may go on with one of them.
///
/// # Errors
/// As for [`accept`]. An agent that cannot prove itself, or that says what cannot be, harms no session.
pub async fn arrive<IO>(
    io: IO,
    tls: Arc<rustls::ServerConfig>,
    limits: Limits,
    known: &Resumable,
) -> Result<Arrival, DialError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut socket = Socket::new(Box::new(io), &[], Role::Hub);
    let agreed = begin(&mut socket, &limits, Some(known)).await?;
    // A new session has a name that is not known yet.
    if let Some(line) = known.get(&agreed.session) {
        let resumed = async { Ok(line.grant(socket, &agreed).await?) };
        step(Stage::Link, limits.handshake, resumed).await?;
        return Ok(Arrival::Resumed);
    }
    let accepted = establish(socket, agreed, tls, &limits, Some(known)).await?;
    Ok(accepted.map_or(Arrival::Declined, Arrival::New))
}

/// The same, where nothing new begins any more: an agent may go on with a session that is known. Whether it does; else it is
/// told to go elsewhere.
///
/// # Errors
/// As for [`arrive`].
pub async fn come_back<IO>(io: IO, limits: &Limits, known: &Resumable) -> Result<bool, DialError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut socket = Socket::new(Box::new(io), &[], Role::Hub);
    let agreed = begin(&mut socket, limits, Some(known)).await?;
    let came_back = async {
        let Some(line) = known.get(&agreed.session) else {
            wire::decline(&mut socket, CloseReason::Draining).await?;
            return Ok(false);
        };
        line.grant(socket, &agreed).await?;
        Ok(true)
    };
    step(Stage::Link, limits.handshake, came_back).await
}

async fn begin(
    socket: &mut Socket,
    limits: &Limits,
    known: Option<&Resumable>,
) -> Result<Agreed, DialError> {
    let known = known.map(|known| |id: &SessionId| known.get(id).is_some());
    let agreed = async { Ok(wire::choose(socket, wire::VERSIONS, limits, known).await?) };
    step(Stage::Link, limits.handshake, agreed).await
}

/// None where the agent wants nothing of the session.
async fn establish(
    socket: Socket,
    agreed: Agreed,
    tls: Arc<rustls::ServerConfig>,
    limits: &Limits,
    known: Option<&Resumable>,
) -> Result<Option<Accepted>, DialError> {
    let secured = async {
        match secure::server(socket, agreed, tls, limits, known).await {
            Err(SecureError::Link(LinkEnd::Closed(CloseReason::Done))) => Ok(None),
            secured => Ok(Some(secured?)),
        }
    };
    let Some(wire) = step(Stage::Identity, limits.handshake, secured).await? else {
        return Ok(None);
    };
    let certificates = wire.certificates();
    let session = match certificates.is_empty() {
        true => Session::start(wire, Side::Hub, &limits.of_a_stranger()),
        false => Session::start(wire, Side::Hub, limits),
    };
    Ok(Some(Accepted {
        certificates,
        session,
    }))
}

#[cfg(test)]
mod tests;
