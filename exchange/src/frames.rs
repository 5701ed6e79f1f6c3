//! Frame boundaries and pings of an upgraded connection: WebSocket (RFC 6455, 5.2) and SPDY/3.1
//! (2.2). Nothing is validated; that is up to the two ends.
//!
//! The gateway's pings of idle upgrades and the agent's answers to kubectl's pings (see `agent/proxy/pongs`) need it.

use http::HeaderValue;

/// Protocol of an upgraded connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// WebSocket, RFC 6455.
    WebSocket,
    /// SPDY/3.1.
    Spdy,
}

impl Protocol {
    /// Protocol named by an `Upgrade` header.
    #[must_use]
    pub fn of(upgrade: &HeaderValue) -> Option<Self> {
        let is = |name: &str| upgrade.as_bytes().eq_ignore_ascii_case(name.as_bytes());
        if is("websocket") {
            Some(Protocol::WebSocket)
        } else if is("SPDY/3.1") {
            Some(Protocol::Spdy)
        } else {
            None
        }
    }

    /// First bytes of a ping: FIN and opcode 9; control, version 3, type 6.
    const fn ping(self) -> &'static [u8] {
        match self {
            Protocol::WebSocket => &[0x89],
            Protocol::Spdy => &[0x80, 0x03, 0x00, 0x06],
        }
    }

    /// True if a frame that begins with `bytes` may be a ping.
    #[must_use]
    pub fn may_be_ping(self, bytes: &[u8]) -> bool {
        let ping = self.ping();
        let known = ping.len().min(bytes.len());
        bytes.get(..known) == ping.get(..known)
    }

    /// Answer of a server to a client's frame that begins with `bytes`, if that is a ping.
    #[must_use]
    pub fn pong(self, bytes: &[u8]) -> Pong {
        if !self.may_be_ping(bytes) {
            return Pong::None;
        }
        match (self, bytes) {
            // FIN and opcode, mask bit and length, mask (5.3), masked body.
            (Protocol::WebSocket, [_, length, rest @ ..]) => {
                let body = usize::from(length & 0x7f);
                if length & 0x80 == 0 || body > 125 {
                    return Pong::None;
                }
                match rest.split_first_chunk::<4>() {
                    Some((mask, masked)) if masked.len() == body => {
                        let bare = masked.iter().zip(mask.iter().cycle());
                        let head = [0x8a, length & 0x7f];
                        Pong::Whole(head.into_iter().chain(bare.map(|(b, m)| b ^ m)).collect())
                    }
                    _ => Pong::Unknown,
                }
            }
            // Flags, length of the id, id. The frame is returned unchanged (2.6.5).
            (Protocol::Spdy, [_, _, _, _, 0, 0, 0, 4, _, _, _, _]) => Pong::Whole(bytes.to_vec()),
            (Protocol::Spdy, _) if bytes.len() >= 12 => Pong::None,
            _ => Pong::Unknown,
        }
    }
}

/// Answer to a frame that may be a ping.
#[derive(Debug, PartialEq, Eq)]
pub enum Pong {
    /// The frame is a ping, and this is its answer.
    Whole(Vec<u8>),
    /// More bytes are needed.
    Unknown,
    /// The frame is not a ping.
    None,
}

/// Position in the frames of one direction.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    protocol: Protocol,
    /// Received bytes of a frame's head.
    head: [u8; 14],
    known: usize,
    /// Remaining bytes of the frame's body.
    body: u64,
    closed: bool,
}

impl Frames {
    /// Position before the first frame.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Frames {
            protocol,
            head: [0; 14],
            known: 0,
            body: 0,
            closed: false,
        }
    }

    /// Protocol of the frames.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// True at a frame boundary, unless the WebSocket was closed.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        self.known == 0 && self.body == 0 && !self.closed
    }

    /// Treats the direction as closed: no frame may begin.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Number of following bytes known to belong to the current frame; 1 while its head is
    /// incomplete.
    #[must_use]
    pub fn rest(&self) -> usize {
        usize::try_from(self.body).unwrap_or(usize::MAX).max(1)
    }

    /// Advances by `bytes`.
    pub fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.step(bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
        }
    }

    /// Number of `bytes` before the first possible ping.
    #[must_use]
    pub fn before_ping(mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if self.may_begin() && self.protocol.may_be_ping(rest) {
                break;
            }
            at += self.step(rest);
        }
        at
    }

    /// Consumes one byte of a head, or all available bytes of a body. `bytes` must not be empty.
    fn step(&mut self, bytes: &[u8]) -> usize {
        if self.body > 0 {
            let now = bytes.len().min(self.rest());
            self.body -= now as u64;
            return now;
        }
        if let (Some(place), Some(&byte)) = (self.head.get_mut(self.known), bytes.first()) {
            *place = byte;
            self.known += 1;
            self.end_of_head();
        }
        1
    }

    /// Switches to the body once the head is complete.
    fn end_of_head(&mut self) {
        let head = self.head.get(..self.known).unwrap_or_default();
        let body = match self.protocol {
            Protocol::WebSocket => websocket(head),
            Protocol::Spdy => spdy(head),
        };
        if let Some(body) = body {
            let close = matches!(head, [first, ..] if first & 0x0f == CLOSE_OPCODE);
            self.closed |= self.protocol == Protocol::WebSocket && close;
            self.body = body;
            self.known = 0;
        }
    }
}

const CLOSE_OPCODE: u8 = 8;

/// Length of the body, if the head is complete.
fn websocket(head: &[u8]) -> Option<u64> {
    let &[_, second, ref rest @ ..] = head else {
        return None;
    };
    let key = if second & 0x80 == 0 { 0 } else { 4 };
    let (length, size) = match second & 0x7f {
        126 => (u16::from_be_bytes(*rest.first_chunk()?).into(), 2),
        127 => (u64::from_be_bytes(*rest.first_chunk()?), 8),
        short => (short.into(), 0),
    };
    (rest.len() == size + key).then_some(length)
}

/// Length of the body, if the head is complete: 24 bits, in control and data frames alike.
fn spdy(head: &[u8]) -> Option<u64> {
    let &[_, _, _, _, _, a, b, c] = head else {
        return None;
    };
    Some(u32::from_be_bytes([0, a, b, c]).into())
}

#[cfg(test)]
mod tests;
