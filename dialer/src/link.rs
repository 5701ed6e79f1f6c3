//! One live WebSocket between an agent and a hub. It counts the bytes each way, so that a session can be resumed
//! later, marks them, which proves the peer alive and measures the round trip, and says why it ends. It must go on
//! reading, up to the session's budget, whatever the layer above does.
//!
//! Nothing in a link is secret or believed: it runs outside of our own TLS, so a proxy that ends the outer TLS can read
//! and forge it. All that such a proxy wins is to end the session, which it can do anyway; the reason in a CLOSE is a
//! hint.

pub mod frame;
pub(crate) mod io;
mod marks;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message},
};

use self::{
    frame::{Frame, Hello, SessionId},
    io::Link,
};
use crate::{
    session::{CloseReason, Limits, SessionError},
    ws::MESSAGE_LIMIT,
};

/// The versions of the link that this program speaks.
pub const VERSIONS: (u8, u8) = (1, 1);
/// The largest message that is sent, tag included, in bytes: with the WebSocket's header and mask (8) it is exactly one
/// TLS record of 16 KiB of the outer TLS.
pub(crate) const MESSAGE: usize = 16_376;
/// A peer that takes less per message is not served: it could make us send byte by byte.
const LEAST_MESSAGE: usize = 1024;

/// Why a link ended, or never began.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkEnd {
    #[error("closed by the peer ({0:?})")]
    Closed(CloseReason),
    #[error("the peer has been silent for {0:?}")]
    Silent(std::time::Duration),
    #[error("the WebSocket ended without a reason")]
    Eof,
    #[error("the WebSocket broke: {0}")]
    Broken(String),
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    #[error(
        "no link version in common: the peer speaks {theirs_low} to {theirs_high}, this side {ours_low} to {ours_high}"
    )]
    Versions {
        theirs_low: u8,
        theirs_high: u8,
        ours_low: u8,
        ours_high: u8,
    },
}

impl LinkEnd {
    fn versions(ours: (u8, u8), theirs: Hello) -> Self {
        LinkEnd::Versions {
            theirs_low: theirs.lowest,
            theirs_high: theirs.highest,
            ours_low: ours.0,
            ours_high: ours.1,
        }
    }

    /// The link's end inside of an I/O error that came up through the layers above it.
    pub(crate) fn find(error: &std::io::Error) -> Option<&LinkEnd> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<LinkEnd> for std::io::Error {
    fn from(end: LinkEnd) -> Self {
        std::io::Error::new(std::io::ErrorKind::ConnectionReset, end)
    }
}

impl From<tungstenite::Error> for LinkEnd {
    fn from(error: tungstenite::Error) -> Self {
        use tungstenite::{Error, error::ProtocolError};
        match error {
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => LinkEnd::Eof,
            Error::Protocol(error) => LinkEnd::Protocol(error.to_string()),
            Error::Capacity(error) => LinkEnd::Protocol(error.to_string()),
            other => LinkEnd::Broken(other.to_string()),
        }
    }
}

impl From<LinkEnd> for SessionError {
    fn from(end: LinkEnd) -> Self {
        match end {
            LinkEnd::Closed(reason) => SessionError::Peer(reason),
            LinkEnd::Silent(silence) => SessionError::Silent(silence),
            other => SessionError::Broken(other.to_string()),
        }
    }
}

/// The version both speak: the highest.
fn common(ours: (u8, u8), theirs: (u8, u8)) -> Option<u8> {
    let highest = ours.1.min(theirs.1);
    (highest >= ours.0.max(theirs.0)).then_some(highest)
}

fn hello(versions: (u8, u8), session: SessionId, limits: &Limits) -> Hello {
    Hello {
        lowest: versions.0,
        highest: versions.1,
        session,
        received: 0,
        max_message: u32::try_from(MESSAGE_LIMIT).unwrap_or(u32::MAX),
        max_streams: u32::try_from(limits.max_streams).unwrap_or(u32::MAX),
    }
}

/// The agent's end: offers `versions`, takes what the hub chose.
pub(crate) async fn offer<IO>(
    mut ws: WebSocketStream<IO>,
    versions: (u8, u8),
    limits: &Limits,
) -> Result<Link<IO>, LinkEnd>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    send(
        &mut ws,
        &Frame::Hello(hello(versions, SessionId::default(), limits)),
    )
    .await?;
    let theirs = receive(&mut ws).await?;
    let chosen = theirs.lowest;
    if chosen != theirs.highest || common(versions, (chosen, chosen)).is_none() {
        return Err(LinkEnd::versions(versions, theirs));
    }
    Link::new(ws, theirs, limits)
}

/// The hub's end: chooses from what the agent offers and names the session.
pub(crate) async fn choose<IO>(
    mut ws: WebSocketStream<IO>,
    versions: (u8, u8),
    limits: &Limits,
) -> Result<Link<IO>, LinkEnd>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let theirs = receive(&mut ws).await?;
    let Some(chosen) = common(versions, (theirs.lowest, theirs.highest)) else {
        let ours = hello(versions, SessionId::default(), limits);
        send(&mut ws, &Frame::Hello(ours)).await?;
        send(&mut ws, &Frame::Close(CloseReason::Protocol.code())).await?;
        return Err(LinkEnd::versions(versions, theirs));
    };
    let mut session = SessionId::default();
    getrandom::fill(&mut session).map_err(|error| LinkEnd::Broken(error.to_string()))?;
    send(
        &mut ws,
        &Frame::Hello(hello((chosen, chosen), session, limits)),
    )
    .await?;
    Link::new(ws, theirs, limits)
}

async fn send<IO>(ws: &mut WebSocketStream<IO>, frame: &Frame<'_>) -> Result<(), LinkEnd>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    Ok(ws.send(Message::Binary(frame.encode())).await?)
}

/// The peer's HELLO, which must be its first message.
async fn receive<IO>(ws: &mut WebSocketStream<IO>) -> Result<Hello, LinkEnd>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let message = loop {
        match ws.next().await.ok_or(LinkEnd::Eof)?? {
            Message::Ping(_) | Message::Pong(_) => {}
            other => break other,
        }
    };
    let bytes = binary(message)?;
    match frame::decode(&bytes) {
        Ok(Frame::Hello(hello)) if hello.max_message as usize >= LEAST_MESSAGE => Ok(hello),
        Ok(Frame::Close(code)) => Err(LinkEnd::Closed(CloseReason::from_code(code))),
        Ok(_) => Err(LinkEnd::Protocol("no usable HELLO came first".to_owned())),
        Err(error) => Err(LinkEnd::Protocol(error.to_string())),
    }
}

fn binary(message: Message) -> Result<Bytes, LinkEnd> {
    match message {
        Message::Binary(bytes) => Ok(bytes),
        Message::Close(_) => Err(LinkEnd::Eof),
        _ => Err(LinkEnd::Protocol("a message that is not binary".to_owned())),
    }
}

#[cfg(test)]
mod tests;
