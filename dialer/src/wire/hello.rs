//! Start of a link: both sides send HELLO and agree on a version and on a session.

use std::{future::poll_fn, task::Poll};

use bytes::BufMut;
use tracing::debug;

use super::{size::MAX_MESSAGE_BYTES, socket::Socket};
use crate::{
    close::CloseReason,
    limits::Limits,
    link::{
        LinkEnd,
        frame::{self, Frame, LinkHello, SessionId},
    },
    websocket::MESSAGE_LIMIT,
};

/// Lowest and highest version of the link protocol that this program speaks.
pub(crate) const VERSIONS: (u8, u8) = (1, 1);
/// Session name of a hub that keeps no sessions.
const UNNAMED: SessionId = [0; 16];
/// Smallest accepted message limit of a peer, in bytes. Less could make us send byte by byte.
const MIN_MESSAGE_BYTES: usize = 1024;

/// Result of the two HELLOs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) version: u8,
    pub(crate) session: SessionId,
    /// Largest body of a DATA message to the peer.
    pub(crate) body: usize,
    /// Stream limit of the peer.
    pub(crate) peer_streams: usize,
}

impl Agreed {
    /// True if the hub resumes the session of this name.
    pub(crate) fn resumes(&self, session: SessionId) -> bool {
        self.session == session
    }

    /// True if the hub does not keep the session after its link.
    pub(crate) fn ends_with_link(&self) -> bool {
        self.session == UNNAMED
    }

    fn new(version: u8, session: SessionId, theirs: &LinkHello) -> Result<Self, LinkEnd> {
        if theirs.received != 0 {
            let what = "a HELLO with a received count";
            return Err(LinkEnd::Protocol(what.to_owned()));
        }
        debug!(version, "link version agreed");
        Ok(Agreed {
            version,
            session,
            body: MAX_MESSAGE_BYTES.min(theirs.max_message as usize) - 1,
            peer_streams: theirs.max_streams as usize,
        })
    }
}

/// Highest common version.
fn common(ours: (u8, u8), theirs: (u8, u8)) -> Option<u8> {
    let highest = ours.1.min(theirs.1);
    (highest >= ours.0.max(theirs.0)).then_some(highest)
}

fn hello(versions: (u8, u8), session: SessionId, limits: &Limits) -> LinkHello {
    LinkHello {
        lowest: versions.0,
        highest: versions.1,
        session,
        received: 0,
        max_message: u32::try_from(MESSAGE_LIMIT).unwrap_or(u32::MAX),
        max_streams: u32::try_from(limits.max_streams).unwrap_or(u32::MAX),
    }
}

/// The agent's end: offers `versions` and the session to resume, if any, and accepts the hub's
/// choice.
pub(crate) async fn offer(
    socket: &mut Socket,
    versions: (u8, u8),
    limits: &Limits,
    session: Option<SessionId>,
) -> Result<Agreed, LinkEnd> {
    let ours = hello(versions, session.unwrap_or(UNNAMED), limits);
    send_frame(socket, &Frame::Hello(ours)).await?;
    let theirs = receive(socket).await?;
    let chosen = theirs.lowest;
    if chosen != theirs.highest || common(versions, (chosen, chosen)).is_none() {
        return Err(LinkEnd::versions(versions, theirs));
    }
    Agreed::new(chosen, theirs.session, &theirs)
}

/// The hub's end: chooses the highest common version and names the session. A `known` session is
/// resumed; with `None` the hub keeps no sessions.
pub(crate) async fn choose(
    socket: &mut Socket,
    versions: (u8, u8),
    limits: &Limits,
    known: Option<impl Fn(&SessionId) -> bool>,
) -> Result<Agreed, LinkEnd> {
    let theirs = receive(socket).await?;
    let Some(chosen) = common(versions, (theirs.lowest, theirs.highest)) else {
        let ours = hello(versions, UNNAMED, limits);
        send_frame(socket, &Frame::Hello(ours)).await?;
        send_frame(socket, &Frame::Close(CloseReason::Protocol.code())).await?;
        return Err(LinkEnd::versions(versions, theirs));
    };
    let mut session = theirs.session;
    match known {
        None => session = UNNAMED,
        Some(known) if known(&session) => {}
        Some(_) => {
            getrandom::fill(&mut session).map_err(|error| LinkEnd::Broken(error.to_string()))?;
        }
    }
    let ours = hello((chosen, chosen), session, limits);
    send_frame(socket, &Frame::Hello(ours)).await?;
    Agreed::new(chosen, session, &theirs)
}

/// Declines the named session, on either end. The peer need not wait for it.
pub(crate) async fn decline(socket: &mut Socket, reason: CloseReason) -> Result<(), LinkEnd> {
    send_frame(socket, &Frame::Close(reason.code())).await
}

/// Sends the peer the reason why its handshake ends, as far as that takes no time.
pub(crate) async fn refuse(socket: &mut Socket, reason: CloseReason) {
    let message = Frame::Close(reason.code()).encode();
    let queued = socket
        .send(message.len(), |out| out.put_slice(&message))
        .and_then(|_| socket.close());
    if queued.is_ok() {
        poll_fn(|cx| Poll::Ready(socket.poll_write(cx).is_ready())).await;
    }
}

/// Sends one message at once.
pub(crate) async fn send_frame(socket: &mut Socket, frame: &Frame<'_>) -> Result<(), LinkEnd> {
    let message = frame.encode();
    socket.send(message.len(), |out| out.put_slice(&message))?;
    socket.flush().await
}

/// The peer's HELLO, which must be its first message.
async fn receive(socket: &mut Socket) -> Result<LinkHello, LinkEnd> {
    match frame::decode(socket.receive().await?) {
        Ok(Frame::Hello(hello)) if hello.max_message as usize >= MIN_MESSAGE_BYTES => Ok(hello),
        Ok(Frame::Close(code)) => Err(LinkEnd::Closed(CloseReason::from_code(code))),
        Ok(_) => Err(LinkEnd::Protocol(
            "the first message must be a valid HELLO".to_owned(),
        )),
        Err(error) => Err(LinkEnd::Protocol(error.to_string())),
    }
}
