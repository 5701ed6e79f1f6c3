//! One live WebSocket of a session: DATA, ack probes and the end. The counts are in the retransmit
//! buffer of the session, which outlives the link.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use bytes::{BufMut, BytesMut};
use tokio::time::Instant;

use super::{
    congestion::{CongestionControl, Due},
    retransmit::RetransmitBuffer,
    size::MAX_MESSAGE_BYTES,
    socket::Socket,
};
use crate::{
    close::CloseReason,
    limits::SILENCE_TIMEOUT,
    link::{
        LinkEnd,
        frame::{self, Frame},
    },
    websocket::SocketRole,
};

/// Capacity of the socket's queue, in bytes. Nothing is sealed while it is full.
const MAX_QUEUED_BYTES: usize = 128 * 1024;
/// As [`MAX_QUEUED_BYTES`], for bulk while small messages would have to wait behind it.
const MAX_QUEUED_BYTES_INTERACTIVE: usize = 2 * MAX_MESSAGE_BYTES;

pub(crate) struct WireLink {
    socket: Socket,
    pub(crate) congestion: CongestionControl,
    /// The peer's probe to acknowledge. A newer probe replaces it, because one acknowledgement
    /// covers both.
    answer: Option<u64>,
    /// Write error. Data that the peer has sent before is read first.
    broken: Option<LinkEnd>,
    /// Time of the last read, and whether it found no data since the last flush.
    read: Instant,
    looked: bool,
    closing: bool,
}

impl WireLink {
    pub(crate) fn new(
        socket: Socket,
        retransmit: &RetransmitBuffer,
        most: u64,
        role: SocketRole,
    ) -> Self {
        WireLink {
            socket,
            congestion: CongestionControl::new(retransmit.sent(), most, role),
            answer: None,
            broken: None,
            read: Instant::now(),
            looked: false,
            closing: false,
        }
    }

    /// Bytes that may be queued: zero, or at least one message.
    pub(crate) fn room(&self) -> usize {
        let room = MAX_QUEUED_BYTES.saturating_sub(self.socket.unsent());
        if room >= MAX_MESSAGE_BYTES { room } else { 0 }
    }

    /// Bytes of bulk that may be queued.
    pub(crate) fn bulk_room(&self, retransmit: &RetransmitBuffer) -> usize {
        if self.congestion.is_interactive() && self.socket.unsent() > MAX_QUEUED_BYTES_INTERACTIVE {
            return 0;
        }
        self.congestion.bulk_room(retransmit.flight())
    }

    /// Reads available data, unless [`WireLink::advance`] may have a message left.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), LinkEnd>> {
        let outcome = self.socket.poll_read(cx);
        self.read = now;
        if outcome.is_pending() {
            self.looked = true;
            if let Some(end) = self.broken.take() {
                return Poll::Ready(Err(end));
            }
        }
        outcome
    }

    /// See [`Socket::has_more`]. An error of an earlier write waits for the end of the data.
    pub(crate) fn has_more(&self) -> bool {
        self.socket.has_more() || self.broken.is_some()
    }

    /// True if the peer's probe is not acknowledged yet.
    pub(crate) fn owes_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// Processes messages up to the next one with DATA: [`WireLink::data_mut`]. False if no message is
    /// left.
    pub(crate) fn advance(&mut self, retransmit: &mut RetransmitBuffer) -> Result<bool, LinkEnd> {
        while self.socket.advance()? {
            match frame::decode(self.socket.message()) {
                Ok(Frame::Data(data)) => {
                    retransmit.add_received(data.len());
                    return Ok(true);
                }
                Ok(Frame::Probe(count)) if count == retransmit.received() => {
                    self.answer = Some(count)
                }
                Ok(Frame::Probe(_)) => {
                    return wrong("a probe that does not match the bytes received");
                }
                Ok(Frame::ProbeAck(count)) => self.acknowledged(count, retransmit)?,
                Ok(Frame::Close(code)) => {
                    return Err(LinkEnd::Closed(CloseReason::from_code(code)));
                }
                Ok(Frame::Hello(_)) => return wrong("a second HELLO"),
                Ok(Frame::Challenge(_) | Frame::Proof { .. } | Frame::Resumed { .. }) => {
                    return wrong("an unrequested proof");
                }
                Err(error) => return Err(LinkEnd::Protocol(error.to_string())),
            }
        }
        if self.socket.take_activity() {
            self.congestion.heard(self.read);
        }
        // No complete message is left: an empty block is returned.
        self.socket.rest();
        Ok(false)
    }

    fn acknowledged(
        &mut self,
        count: u64,
        retransmit: &mut RetransmitBuffer,
    ) -> Result<(), LinkEnd> {
        if self.congestion.answered(count).is_err() {
            return wrong("an acknowledgement without a probe");
        }
        self.socket.limit_kernel(self.congestion.max_unsent());
        retransmit.acknowledge(count).map_err(LinkEnd::InvalidCount)
    }

    /// DATA found by `advance`.
    pub(crate) fn data_mut(&mut self) -> &mut [u8] {
        self.socket.message_mut().get_mut(1..).unwrap_or_default()
    }

    /// Queues one DATA message of about `expected` bytes, and a probe if one is due.
    pub(crate) fn send_data(
        &mut self,
        retransmit: &mut RetransmitBuffer,
        expected: usize,
        now: Instant,
        fill: impl FnOnce(&mut BytesMut),
    ) -> Result<(), LinkEnd> {
        let mut size = 0;
        let frame = self.socket.send(1 + expected, |out| {
            out.put_u8(frame::DATA_TAG);
            let before = out.len();
            fill(out);
            size = out.len() - before;
        })?;
        retransmit.add_sent(size, &frame);
        self.send_probe(retransmit, now)
    }

    /// Queues the unacknowledged frames of an earlier link.
    pub(crate) fn repeat(&mut self, retransmit: &RetransmitBuffer) {
        for frame in retransmit.unacknowledged() {
            self.socket.repeat(frame);
        }
    }

    pub(crate) fn queue_frame(&mut self, frame: &Frame<'_>) -> Result<(), LinkEnd> {
        let message = frame.encode();
        self.socket
            .send(message.len(), |out| out.put_slice(&message))
            .map(drop)
    }

    fn send_probe(&mut self, retransmit: &RetransmitBuffer, now: Instant) -> Result<(), LinkEnd> {
        let (sent, flight) = (retransmit.sent(), retransmit.flight());
        match self.congestion.due(sent, flight, now) {
            Due::Nothing => return Ok(()),
            Due::Probe => {}
            Due::IdleProbe => self.socket.ping()?,
        }
        self.queue_frame(&Frame::Probe(sent))?;
        self.congestion.sent(sent, flight);
        Ok(())
    }

    /// Runs the timers and writes queued data. An error ends the link.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        retransmit: &RetransmitBuffer,
        now: Instant,
    ) -> Poll<Result<(), LinkEnd>> {
        if !self.closing {
            self.send_probe(retransmit, now)?;
        }
        let silent = |silence: Duration| LinkEnd::Silent(silence);
        // A session that does not read, because it cannot write, counts as dead by then.
        let looked = self.looked || now.saturating_duration_since(self.read) >= SILENCE_TIMEOUT;
        self.congestion.poll(cx, looked, now).map_err(silent)?;
        self.looked = false;
        if self.socket.takes_urgent()
            && let Some(count) = self.answer.take()
        {
            self.socket.send_urgent(&Frame::ProbeAck(count).encode())?;
        }
        if self.broken.is_some() {
            return Poll::Pending;
        }
        let written = self.socket.poll_write(cx);
        if let Poll::Ready(Err(end)) = written {
            // A peer that closed has sent its reason before, which is more precise.
            self.broken = Some(end);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        written
    }

    /// Sends CLOSE after all queued data, without waiting for the peer's.
    pub(crate) fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        reason: CloseReason,
    ) -> Poll<Result<(), LinkEnd>> {
        if !self.closing {
            self.closing = true;
            self.queue_frame(&Frame::Close(reason.code()))?;
            self.socket.close()?;
        }
        match self.socket.poll_write(cx) {
            Poll::Ready(Ok(())) => self.socket.poll_shutdown(cx),
            other => other,
        }
    }
}

fn wrong<T>(what: &str) -> Result<T, LinkEnd> {
    Err(LinkEnd::Protocol(what.to_owned()))
}
