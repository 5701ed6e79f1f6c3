//! Input from the peer: frames from pieces of any size, and their effect on streams. Anything
//! invalid is a [`Violation`], except frames that may be a race, such as those for a stream just
//! closed here.

use std::task::Waker;

use bytes::{Buf, Bytes};

use super::{
    decoder::InputPosition,
    frame::{ACK_FLAG, FIN_FLAG, FrameType, HEADER_BYTES, Header, RST_FLAG, SYN_FLAG},
    side::Side,
    state::{MuxState, Ours, Theirs},
    violation::{Stop, Violation},
    window::MAX_FAR_WINDOW,
};
use crate::{close::CloseReason, limits::INITIAL_WINDOW};

/// Limit of queued pongs. A peer that exceeds it sends pings much faster than it reads.
const MAX_QUEUED_PONGS: usize = 16;

impl MuxState {
    pub(super) fn receive(&mut self, mut data: Bytes, wakes: &mut Vec<Waker>) -> Result<(), Stop> {
        while data.has_remaining() {
            match &mut self.decoder {
                InputPosition::Header(bytes, have) => {
                    let rest = bytes.get_mut(*have..).unwrap_or_default();
                    let part = rest.len().min(data.len());
                    data.copy_to_slice(rest.get_mut(..part).unwrap_or_default());
                    *have += part;
                    if *have == HEADER_BYTES {
                        let header = Header::decode(bytes)?;
                        self.decoder = self.frame(header, wakes)?;
                    }
                }
                InputPosition::Body { stream, left, fin } => {
                    let part = (*left as usize).min(data.len());
                    // Not above `left`, which has 32 bits.
                    *left -= u32::try_from(part).unwrap_or(*left);
                    let (stream, done, fin) = (*stream, *left == 0, *fin);
                    self.body(stream, data.split_to(part), wakes);
                    if done {
                        self.decoder = InputPosition::default();
                        if fin {
                            self.finished_by_peer(stream, wakes);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles a whole header; returns the next position.
    fn frame(&mut self, header: Header, wakes: &mut Vec<Waker>) -> Result<InputPosition, Stop> {
        match header.kind {
            FrameType::Ping => self.ping(header)?,
            FrameType::GoAway => return Err(Stop::GoAway(reason(header.length))),
            FrameType::Update => {
                if self.concerns(header, wakes)? && !header.has(SYN_FLAG) {
                    self.credited(header)?;
                }
                if header.has(FIN_FLAG) {
                    self.finished_by_peer(header.stream, wakes);
                }
            }
            FrameType::Data => {
                let stream = header.stream;
                let known = self.concerns(header, wakes)?;
                self.bounded(header, known)?;
                if header.length > 0 {
                    return Ok(InputPosition::Body {
                        stream,
                        left: header.length,
                        fin: header.has(FIN_FLAG),
                    });
                }
                if header.has(FIN_FLAG) {
                    self.finished_by_peer(stream, wakes);
                }
            }
        }
        Ok(InputPosition::default())
    }

    fn ping(&mut self, header: Header) -> Result<(), Violation> {
        // We send no pings, so a pong has no effect.
        if header.has(ACK_FLAG) {
            return Ok(());
        }
        if self.pongs >= MAX_QUEUED_PONGS {
            return Err(Violation::Pings);
        }
        self.pongs += 1;
        self.queue_control(Header::pong(header.length));
        Ok(())
    }

    /// Handles opens and resets; false if the rest of the frame has no stream.
    fn concerns(&mut self, header: Header, wakes: &mut Vec<Waker>) -> Result<bool, Violation> {
        let stream = header.stream;
        if header.has(SYN_FLAG) {
            self.number(stream)?;
            if !header.has(RST_FLAG) {
                let more = match header.kind {
                    FrameType::Update => header.length,
                    _ => 0,
                };
                let credit = INITIAL_WINDOW
                    .checked_add(more)
                    .ok_or(Violation::Credit(stream))?;
                self.admit(stream, credit, wakes);
            }
        } else if header.has(RST_FLAG) {
            // Also for a stream that never began: opened and dropped before it had data.
            self.reset_by_peer(stream, wakes);
        } else if !self.existed(stream) {
            return Err(Violation::NeverOpened(stream));
        }
        Ok(!header.has(RST_FLAG) && self.streams.contains_key(&stream))
    }

    /// Registers the number of a new stream of the peer.
    fn number(&mut self, stream: u32) -> Result<(), Violation> {
        if self.ours(stream) {
            return Err(Violation::Parity(stream));
        }
        if stream <= self.highest {
            let late = self.skipped.remove(stream);
            return late.then_some(()).ok_or(Violation::OpenedTwice(stream));
        }
        let next = match (self.highest, self.side) {
            (0, Side::Hub) => 1,
            (highest, _) => highest.saturating_add(2),
        };
        self.skipped.pass_over(next, stream);
        self.highest = stream;
        Ok(())
    }

    /// True if this side assigns the number.
    fn ours(&self, stream: u32) -> bool {
        (stream % 2 == 1) == matches!(self.side, Side::Agent)
    }

    fn existed(&self, stream: u32) -> bool {
        if self.ours(stream) {
            self.next.is_none_or(|next| stream < next)
        } else {
            stream <= self.highest && !self.skipped.contains(stream)
        }
    }

    /// Checks a frame's data against the stream's window.
    fn bounded(&mut self, header: Header, known: bool) -> Result<(), Violation> {
        let (stream, length) = (header.stream, header.length);
        let left = match self.streams.get_mut(&stream) {
            Some(entry) if known && !entry.reset => {
                if length > 0 && entry.theirs == Theirs::Finished {
                    return Err(Violation::BehindEnd(stream));
                }
                entry.window.arrived(length).err()
            }
            // Sent before the peer knew that the stream was closed or refused here.
            _ => (length > MAX_FAR_WINDOW).then_some(0),
        };
        left.map_or(Ok(()), |left| {
            Err(Violation::Window {
                stream,
                length,
                left,
            })
        })
    }

    fn body(&mut self, stream: u32, part: Bytes, wakes: &mut Vec<Waker>) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        // A stream is over only with its session, which takes no more input.
        if entry.orphan || entry.over {
            return;
        }
        entry.answered(part.len());
        self.unread.add(part.len());
        entry.inbox.push(part);
        wakes.extend(entry.reader.take());
    }

    fn finished_by_peer(&mut self, stream: u32, wakes: &mut Vec<Waker>) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        if entry.reset {
            return;
        }
        entry.theirs = Theirs::Finished;
        wakes.extend(entry.reader.take());
        self.settle(stream);
    }

    fn credited(&mut self, header: Header) -> Result<(), Violation> {
        let Some(entry) = self.streams.get_mut(&header.stream) else {
            return Ok(());
        };
        entry.credit = entry
            .credit
            .checked_add(header.length)
            .ok_or(Violation::Credit(header.stream))?;
        if entry.ours != Ours::Finished {
            self.schedule(header.stream);
        }
        Ok(())
    }
}

/// Offset of our own reasons in GO_AWAY, above the codes of yamux.
const OWN_REASONS_OFFSET: u32 = 0x100;

/// Code of a reason in GO_AWAY; yamux defines 0 normal end, 1 protocol error, 2 internal error.
pub(super) fn code(reason: CloseReason) -> u32 {
    match reason {
        CloseReason::Done => 0,
        CloseReason::Protocol => 1,
        other => OWN_REASONS_OFFSET + u32::from(other.code()),
    }
}

fn reason(code: u32) -> CloseReason {
    match (code, code.checked_sub(OWN_REASONS_OFFSET)) {
        (1, _) => CloseReason::Protocol,
        (_, Some(own)) => CloseReason::from_code(u16::try_from(own).unwrap_or(0)),
        _ => CloseReason::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive_a_go_away() {
        use CloseReason::{Cloned, Deleted, Done, Draining, Expired, Protocol, Replaced};
        for given in [Draining, Replaced, Deleted, Expired, Protocol, Done, Cloned] {
            assert_eq!(reason(code(given)), given);
        }
        assert_eq!((code(Done), code(Protocol)), (0, 1));
        assert_eq!(reason(2), Done);
        assert_eq!(reason(u32::MAX), Done);
    }
}
