//! The wire of one session: plaintext both ways over the inner TLS, a link and a WebSocket. It spawns nothing; the
//! session's task polls it.
//!
//! If the hub keeps its sessions, a broken link does not end the session: unacknowledged data is kept, and a new link
//! replaces the old one after its peer has proved itself.
//!
//! ```text
//! channel     records of the inner TLS, to and from plaintext     exporter        secret shared by both ends
//! retransmit  byte counts of all links, retransmit buffer
//! link        DATA and ack probes on one WebSocket                congestion      congestion control
//! socket      buffers of one WebSocket
//! hello       start of a link                                     handle, resume  resumption over another link
//! start       start of a session, before its driver
//! ```

mod channel;
mod congestion;
mod exporter;
mod handle;
mod hello;
mod link;
mod resume;
mod retransmit;
mod size;
mod socket;
mod start;

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, Sleep, sleep};

pub use self::handle::{LinkState, Resumable};
pub(crate) use self::{
    channel::{Channel, MAX_PLAIN_BYTES},
    handle::SessionHandle,
    hello::{Agreed, VERSIONS, choose, decline, offer, refuse},
    socket::Socket,
};
use self::{link::WireLink, retransmit::RetransmitBuffer};
use crate::{
    close::CloseReason,
    limits::Limits,
    link::{LinkEnd, frame::Frame},
    tls::records::RECORD_OVERHEAD,
    websocket::SocketRole,
};

/// Expected size of a handshake message of the inner TLS, in bytes.
const HANDSHAKE_BYTES: usize = 2048;
/// Size of a TLS key update, which may precede a record, in bytes.
const KEY_UPDATE_BYTES: usize = 27;

thread_local! {
    /// Plaintext buffer shared by all sessions of a thread.
    static PLAIN: RefCell<BytesMut> = RefCell::default();
}

pub(crate) struct Wire {
    role: SocketRole,
    channel: Channel,
    retransmit: RetransmitBuffer,
    state: WireState,
    agreed: Agreed,
    limits: Limits,
    rtt: Option<Duration>,
    /// Round trip that windows are sized by.
    distance: Option<Duration>,
    /// `None`: the session ends with its link.
    resumption: Option<Resumption>,
    /// The last input was left over by the handshake, so the socket was not read.
    has_left_over: bool,
    /// Reason for the session's end.
    end: Option<LinkEnd>,
}

enum WireState {
    Up(Box<WireLink>),
    /// Until the resume window closes.
    Down(LinkEnd, Pin<Box<Sleep>>),
}

struct Resumption {
    handle: Arc<SessionHandle>,
}

impl Drop for Resumption {
    fn drop(&mut self) {
        self.handle.mark_gone();
    }
}

impl Wire {
    pub(crate) fn new(
        socket: Socket,
        agreed: Agreed,
        channel: Channel,
        role: SocketRole,
        limits: &Limits,
    ) -> Self {
        let retransmit = RetransmitBuffer::new(limits.unacknowledged, &limits.memory);
        let link = WireLink::new(socket, &retransmit, limits.unacknowledged as u64, role);
        Wire {
            role,
            channel,
            retransmit,
            state: WireState::Up(Box::new(link)),
            agreed,
            limits: limits.clone(),
            rtt: None,
            distance: None,
            resumption: None,
            has_left_over: false,
            end: None,
        }
    }

    /// DATA bytes received and sent.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.retransmit.received(), self.retransmit.sent())
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    pub(crate) fn distance(&self) -> Option<Duration> {
        self.distance
    }

    /// Stream limit of the peer.
    pub(crate) fn peer_streams(&self) -> usize {
        self.agreed.peer_streams
    }

    pub(crate) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.channel.certificates()
    }

    /// Handle for watching the link and resuming the session.
    pub(crate) fn handle(&self) -> Option<Arc<SessionHandle>> {
        self.resumption.as_ref().map(|it| Arc::clone(&it.handle))
    }

    /// Reads once from the socket. When ready, call [`Wire::next`] until it returns `None`, then
    /// call again. An error ends the session. `now` is the time of the current round: the clock is read once in each.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), LinkEnd>> {
        loop {
            self.register_driver(cx, now)?;
            self.has_left_over = self.channel.has_piece();
            if self.has_left_over {
                return Poll::Ready(Ok(()));
            }
            let WireState::Up(link) = &mut self.state else {
                return Poll::Pending;
            };
            match link.poll_read(cx, now) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(end)) => self.link_lost(end),
                Poll::Pending => {
                    self.channel.rest();
                    return Poll::Pending;
                }
            }
        }
    }

    /// True if the last read did not find the end of the available data. Otherwise the polling task is
    /// woken by the next data, without another read.
    pub(crate) fn has_more(&mut self) -> bool {
        let more = match &self.state {
            WireState::Up(link) => self.has_left_over || link.has_more(),
            WireState::Down(..) => true,
        };
        if !more {
            self.channel.rest();
        }
        more
    }

    /// True if the peer's probe waits for its acknowledgement, which leaves with the next flush.
    pub(crate) fn owes_answer(&self) -> bool {
        matches!(&self.state, WireState::Up(link) if link.owes_answer())
    }

    /// Takes over a new link, or ends the session when the resume window has closed.
    fn register_driver(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<(), LinkEnd> {
        if self.end.is_none() {
            self.take_over(cx, now);
        }
        if let WireState::Down(last, window) = &mut self.state
            && window.as_mut().poll(cx).is_ready()
        {
            self.end.get_or_insert(last.clone());
        }
        self.end.clone().map_or(Ok(()), Err)
    }

    /// Next piece of the session's plaintext. An error ends the session.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, LinkEnd> {
        loop {
            if let Some(piece) = self.channel.piece() {
                return Ok(Some(piece));
            }
            if !self.step()? {
                return Ok(None);
            }
        }
    }

    /// Processes one DATA message; false if there is none.
    fn step(&mut self) -> Result<bool, LinkEnd> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let WireState::Up(link) = &mut self.state else {
            return Ok(false);
        };
        let found = match link.advance(&mut self.retransmit) {
            Ok(true) => self
                .channel
                .take_in(link.data_mut())
                .map_err(LinkEnd::Secure),
            Ok(false) => {
                self.rtt = link.congestion.rtt().or(self.rtt);
                self.distance = link.congestion.distance().or(self.distance);
                return Ok(false);
            }
            Err(end) => {
                self.link_lost(end);
                return self.end.clone().map_or(Ok(false), Err);
            }
        };
        if let Err(end) = found {
            self.end = Some(end);
        }
        // A response of the inner TLS, or its alert.
        if self.channel.has_records() {
            self.queue_records(HANDSHAKE_BYTES, Instant::now());
        }
        self.end.clone().map_or(Ok(true), Err)
    }

    /// Bytes of plaintext that may be sealed now: zero, or at least one message. The polling task
    /// is woken when there is capacity again.
    pub(crate) fn room(&self) -> usize {
        match &self.state {
            WireState::Up(link) if self.end.is_none() => link.room().min(self.retransmit.room()),
            _ => 0,
        }
    }

    /// Bytes of bulk among them. A part of the retransmit buffer is kept for urgent messages: a
    /// peer must receive window updates before its acknowledgements can be read.
    pub(crate) fn bulk_room(&self) -> usize {
        match &self.state {
            WireState::Up(link) if self.retransmit.room_for_bulk() => {
                self.room().min(link.bulk_room(&self.retransmit))
            }
            _ => 0,
        }
    }

    /// Sets whether small messages are in flight, which bulk must not delay.
    pub(crate) fn interactive(&mut self, busy: bool) {
        if let WireState::Up(link) = &mut self.state {
            link.congestion.interactive(busy);
        }
    }

    /// Seals one message: the bytes that `fill` appends, up to [`MAX_PLAIN_BYTES`]. Only call it with
    /// capacity.
    pub(crate) fn seal(&mut self, now: Instant, fill: &mut dyn FnMut(&mut BytesMut)) {
        let mut plain = PLAIN.take();
        plain.clear();
        plain.reserve(MAX_PLAIN_BYTES);
        fill(&mut plain);
        if !plain.is_empty()
            && let Err(end) = self.seal_plain(&plain, now)
        {
            self.end.get_or_insert(end);
        }
        PLAIN.set(plain);
    }

    fn seal_plain(&mut self, plain: &[u8], now: Instant) -> Result<(), LinkEnd> {
        let size = plain.len() + RECORD_OVERHEAD;
        let (channel, body) = (&mut self.channel, self.agreed.body);
        match &mut self.state {
            // Sealed in place; the message fits the limit of all peers.
            WireState::Up(link) if size + KEY_UPDATE_BYTES <= body && !channel.has_records() => {
                let mut sealed = Ok(());
                let sent = link.send_data(&mut self.retransmit, size, now, |out| {
                    sealed = channel.seal(plain, out);
                });
                sealed.map_err(LinkEnd::Secure).and(sent)
            }
            _ => {
                channel.seal_aside(plain).map_err(LinkEnd::Secure)?;
                self.queue_records(size, now);
                Ok(())
            }
        }
    }

    /// Queues pending records. Without a link they wait in the channel.
    fn queue_records(&mut self, expected: usize, now: Instant) {
        let WireState::Up(link) = &mut self.state else {
            return;
        };
        let (channel, body) = (&mut self.channel, self.agreed.body);
        while channel.has_records() {
            let sent = link.send_data(&mut self.retransmit, expected.min(body), now, |out| {
                channel.pull(out, body);
            });
            if let Err(end) = sent {
                self.end.get_or_insert(end);
                return;
            }
        }
        if self.retransmit.is_over_limit() {
            let what = "the peer acknowledges nothing";
            self.end.get_or_insert(LinkEnd::Protocol(what.to_owned()));
        }
    }

    /// Runs the timers and writes queued data. Pending while the socket is full; an error ends the
    /// session.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), LinkEnd>> {
        let full = self.room() == 0;
        self.register_driver(cx, now)?;
        let WireState::Up(link) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let outcome = match link.poll_flush(cx, &self.retransmit, now) {
            Poll::Ready(Err(end)) => {
                self.link_lost(end);
                // Starts the timer of the resume window, or reports the end.
                self.register_driver(cx, now)?;
                Poll::Pending
            }
            outcome => outcome,
        };
        if full && self.room() > 0 {
            cx.waker().wake_by_ref();
        }
        outcome
    }

    /// Sends the reason for the end and closes the link.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>, reason: CloseReason) -> Poll<()> {
        match &mut self.state {
            WireState::Up(link) => link.poll_close(cx, reason).map(drop),
            WireState::Down(..) => Poll::Ready(()),
        }
    }

    /// Handles the loss of the link. The session ends, unless it can be resumed.
    fn link_lost(&mut self, end: LinkEnd) {
        let Some(resumption) = self.resumption.as_ref().filter(|_| end.is_resumable()) else {
            self.end.get_or_insert(end);
            return;
        };
        let heard = match &self.state {
            WireState::Up(link) => link.congestion.last_heard(),
            WireState::Down(..) => Instant::now(),
        };
        let window = Box::pin(sleep(self.limits.resume_window));
        self.state = WireState::Down(end.clone(), window);
        resumption
            .handle
            .down(self.retransmit.received(), heard, end.to_string());
    }

    /// Continues with a new link, if there is one.
    fn take_over(&mut self, cx: &mut Context<'_>, now: Instant) {
        let Some(Resumption { handle }) = &self.resumption else {
            return;
        };
        while let Some(new) = handle.takeover(cx.waker()) {
            let up = matches!(self.state, WireState::Up(_));
            let outcome = if new.body < self.agreed.body {
                Err(LinkEnd::Protocol(
                    "the peer accepts only smaller messages now".to_owned(),
                ))
            } else if up && self.role == SocketRole::Agent {
                // The count that it sent to the hub is outdated.
                Err(LinkEnd::Protocol("the link is not down".to_owned()))
            } else {
                self.retransmit
                    .acknowledge(new.received)
                    .map_err(LinkEnd::InvalidCount)
            };
            if let Err(end) = outcome {
                let _ = new.outcome.send(Err(end));
                continue;
            }
            let most = self.limits.unacknowledged as u64;
            let mut link = WireLink::new(new.socket, &self.retransmit, most, self.role);
            let mut said = Ok(());
            if let Some(exchange) = new.answer {
                let received = self.retransmit.received();
                let mac = exchange.prove(handle.secret(), SocketRole::Hub, received);
                said = link.queue_frame(&Frame::Resumed { received, mac });
            }
            link.repeat(&self.retransmit);
            // Unread data of the old link is dropped: the peer sends it again.
            self.state = WireState::Up(Box::new(link));
            handle.up(self.retransmit.flight());
            let _ = new.outcome.send(said);
        }
        if self.channel.has_records() {
            self.queue_records(HANDSHAKE_BYTES, now);
        }
    }
}

#[cfg(test)]
mod tests;
