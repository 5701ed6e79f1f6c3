//! The hub's end: from an upgraded HTTP connection to a session. Certificates are verified here;
//! the caller reads the agent's identity from them.

use std::{
    future::pending,
    pin::{Pin, pin},
    sync::Arc,
    time::SystemTime,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header,
};
use rustls::pki_types::CertificateDer;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

pub use crate::upgrade::{CONNECT_PATH, SUBPROTOCOL};
use crate::{
    close::CloseReason,
    dial::error::{DialError, DialStage, step},
    limits::Limits,
    link::{LinkEnd, frame::SessionId},
    link_io::LinkIo,
    mux::Side,
    secure::{self, SecureError},
    session::Session,
    upgrade::has_token,
    websocket::SocketRole,
    wire::{self, Agreed, Resumable, Socket},
};

/// New session with the peer's certificates. Without certificates the peer may only enrol.
pub struct Accepted {
    /// The new session.
    pub session: Session,
    /// The agent's verified certificates; empty if it has none.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Validates an upgrade request (RFC 6455, 4.2.1: method, headers, version, subprotocol) and
/// returns the head of the 101 response. The caller checks the path.
///
/// # Errors
///
/// 405 for another method, 426 without a WebSocket upgrade or for another version, 400 for anything
/// else.
pub fn upgrade_response<B>(request: &Request<B>) -> Result<Response<()>, StatusCode> {
    websocket_response(request, SUBPROTOCOL)
}

/// Answer to the upgrade to a WebSocket with this subprotocol.
///
/// # Errors
///
/// The status of the refusal.
pub fn websocket_response<B>(
    request: &Request<B>,
    subprotocol: &'static str,
) -> Result<Response<()>, StatusCode> {
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
    if !is_offered(headers, subprotocol) {
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
            HeaderValue::from_static(subprotocol),
        )
        .header(header::DATE, httpdate::fmt_http_date(SystemTime::now()))
        .body(())
        .map_err(|_| StatusCode::BAD_REQUEST)
}

/// Answer to a WebSocket over HTTP/2 with this subprotocol (RFC 8441, section 5). The caller checks method and protocol.
///
/// # Errors
///
/// The status of the refusal.
pub fn websocket_connect_response<B>(
    request: &Request<B>,
    subprotocol: &'static str,
) -> Result<Response<()>, StatusCode> {
    let headers = request.headers();
    if only(headers, header::SEC_WEBSOCKET_VERSION) != Some("13")
        || !is_offered(headers, subprotocol)
    {
        return Err(StatusCode::BAD_REQUEST);
    }
    Response::builder()
        .header(
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(subprotocol),
        )
        .body(())
        .map_err(|_| StatusCode::BAD_REQUEST)
}

/// True if the client offers the subprotocol. Subprotocols are case-sensitive, unlike other tokens.
fn is_offered(headers: &HeaderMap, subprotocol: &str) -> bool {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    lines
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|token| token.trim() == subprotocol)
}

/// Value of a header that must occur exactly once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value.trim())
}

/// Outcome of an agent's connection.
pub enum Arrival {
    /// A new session.
    New(Accepted),
    /// The agent has proved that a known session is its own; the session continues over this
    /// connection.
    Resumed,
    /// The agent wants a session that is unknown here, and no new one.
    Declined,
}

/// Accepts one agent over `io`, the connection after the 101. Returns when the agent's certificate,
/// if any, is verified. The session ends with its connection.
///
/// # Errors
///
/// With stage link, identity or protocol; each step has the handshake deadline of the limits.
pub async fn accept(
    io: impl Into<LinkIo>,
    tls: Arc<rustls::ServerConfig>,
    limits: Limits,
) -> Result<Accepted, DialError> {
    let mut socket = Socket::new(io, &[], SocketRole::Hub);
    let agreed = begin(&mut socket, &limits, None).await?;
    let never = pin!(pending());
    let accepted = establish(socket, agreed, tls, &limits, None, never);
    accepted
        .await?
        .ok_or_else(|| DialError::from(LinkEnd::Closed(CloseReason::Done)))
}

/// Accepts one agent, whose session outlives its connection. A new session is added to the `known`
/// ones, and an agent may resume one of them. When `evicted` completes, the hub needs the place of this
/// handshake for another peer: the agent gets that as the reason, as far as it takes no time.
///
/// # Errors
///
/// As for [`accept`], and `FL-3114` after `evicted`. An agent without a valid proof cannot harm a session.
pub async fn accept_resumable(
    io: impl Into<LinkIo>,
    tls: Arc<rustls::ServerConfig>,
    limits: Limits,
    known: &Resumable,
    evicted: impl Future<Output = ()>,
) -> Result<Arrival, DialError> {
    let mut evicted = pin!(evicted);
    let mut socket = Socket::new(io, &[], SocketRole::Hub);
    let agreed = tokio::select! {
        biased;
        agreed = begin(&mut socket, &limits, Some(known)) => agreed?,
        () = &mut evicted => {
            wire::refuse(&mut socket, CloseReason::Busy).await;
            return Err(LinkEnd::Closed(CloseReason::Busy).into());
        }
    };
    // The name of a new session is not known yet.
    if let Some(handle) = known.get(&agreed.session) {
        let resumed = async { Ok(handle.accept_resumption(socket, &agreed).await?) };
        step(DialStage::Link, limits.handshake, resumed).await?;
        return Ok(Arrival::Resumed);
    }
    let accepted = establish(socket, agreed, tls, &limits, Some(known), evicted);
    let accepted = accepted.await?;
    Ok(accepted.map_or(Arrival::Declined, Arrival::New))
}

/// Lets an agent resume a known session and declines new ones, as a draining hub does. Returns true
/// if a session was resumed.
///
/// # Errors
///
/// As for [`accept_resumable`].
pub async fn resume_only(
    io: impl Into<LinkIo>,
    limits: &Limits,
    known: &Resumable,
) -> Result<bool, DialError> {
    let mut socket = Socket::new(io, &[], SocketRole::Hub);
    let agreed = begin(&mut socket, limits, Some(known)).await?;
    let came_back = async {
        let Some(handle) = known.get(&agreed.session) else {
            wire::decline(&mut socket, CloseReason::Draining).await?;
            return Ok(false);
        };
        handle.accept_resumption(socket, &agreed).await?;
        Ok(true)
    };
    step(DialStage::Link, limits.handshake, came_back).await
}

async fn begin(
    socket: &mut Socket,
    limits: &Limits,
    known: Option<&Resumable>,
) -> Result<Agreed, DialError> {
    let known = known.map(|known| |id: &SessionId| known.get(id).is_some());
    let agreed = async { Ok(wire::choose(socket, wire::VERSIONS, limits, known).await?) };
    step(DialStage::Link, limits.handshake, agreed).await
}

/// Performs the inner handshake; `None` if the agent declines the session.
async fn establish(
    socket: Socket,
    agreed: Agreed,
    tls: Arc<rustls::ServerConfig>,
    limits: &Limits,
    known: Option<&Resumable>,
    evicted: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<Accepted>, DialError> {
    let secured = async {
        match secure::server(socket, agreed, tls, limits, known, evicted).await {
            Err(SecureError::Link(LinkEnd::Closed(CloseReason::Done))) => Ok(None),
            secured => Ok(Some(secured?)),
        }
    };
    let Some(wire) = step(DialStage::Identity, limits.handshake, secured).await? else {
        return Ok(None);
    };
    let certificates = wire.certificates();
    let session = match certificates.is_empty() {
        true => Session::start(wire, Side::Hub, &limits.unauthenticated()),
        false => Session::start(wire, Side::Hub, limits),
    };
    Ok(Some(Accepted {
        certificates,
        session,
    }))
}

#[cfg(test)]
mod tests;
