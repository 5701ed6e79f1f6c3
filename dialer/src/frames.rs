//! The framing of an upgraded connection as far as somebody between its two ends must know it: where a frame begins, and
//! which ones are pings. WebSocket (RFC 6455, 5.2) and SPDY/3.1 (2.2). It checks nothing: that is for the two ends.

use http::HeaderValue;

/// What an upgraded connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    /// By the value of `Upgrade`.
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

    /// What a ping begins with: FIN and opcode 9; control, version 3, type 6.
    const fn ping(self) -> &'static [u8] {
        match self {
            Protocol::WebSocket => &[0x89],
            Protocol::Spdy => &[0x80, 0x03, 0x00, 0x06],
        }
    }

    /// Whether `bytes`, which begin a frame, may be a ping's.
    #[must_use]
    pub fn may_be_ping(self, bytes: &[u8]) -> bool {
        let ping = self.ping();
        let known = ping.len().min(bytes.len());
        bytes.get(..known) == ping.get(..known)
    }

    /// What a client's frame is that begins with `bytes`, and what a server would answer it if it is a ping.
    #[must_use]
    pub fn pong(self, bytes: &[u8]) -> Pong {
        if !self.may_be_ping(bytes) {
            return Pong::None;
        }
        match (self, bytes) {
            // Behind FIN, the opcode, the mask's bit and the length comes the mask (5.3), then what it lies over.
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
            // Flags, the length of an id, the id: it goes back as it came (2.6.5).
            (Protocol::Spdy, [_, _, _, _, 0, 0, 0, 4, _, _, _, _]) => Pong::Whole(bytes.to_vec()),
            (Protocol::Spdy, _) if bytes.len() >= 12 => Pong::None,
            _ => Pong::Unknown,
        }
    }
}

/// The answer to a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Pong {
    /// It is a ping, and this answers it.
    Whole(Vec<u8>),
    /// So far it may be one.
    Unknown,
    /// It is none.
    None,
}

/// Where in the framing the next byte stands.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    protocol: Protocol,
    /// The head of a frame, as far as it has come.
    head: [u8; 14],
    known: usize,
    /// What of a frame's body is still to come.
    body: u64,
    closed: bool,
}

impl Frames {
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

    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether a frame may begin here. After a WebSocket's close there is nothing more to say.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        self.known == 0 && self.body == 0 && !self.closed
    }

    /// Nothing more is to begin.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// How many bytes from here surely belong to the frame that has begun: one where its head is not whole.
    #[must_use]
    pub fn rest(&self) -> usize {
        usize::try_from(self.body).unwrap_or(usize::MAX).max(1)
    }

    pub fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.step(bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
        }
    }

    /// How many of `bytes` come before the first that may begin a ping.
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

    /// Takes one byte of a head, or what is there of a body; `bytes` are not empty.
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

    /// Goes over to the body, if the head is whole.
    fn end_of_head(&mut self) {
        let head = self.head.get(..self.known).unwrap_or_default();
        let body = match self.protocol {
            Protocol::WebSocket => websocket(head),
            Protocol::Spdy => spdy(head),
        };
        if let Some(body) = body {
            let close = matches!(head, [first, ..] if first & 0x0f == CLOSE);
            self.closed |= self.protocol == Protocol::WebSocket && close;
            self.body = body;
            self.known = 0;
        }
    }
}

const CLOSE: u8 = 8;

/// The length of the body, if the head is whole.
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

/// The same; control frames and data have their length, 24 bits, in one place.
fn spdy(head: &[u8]) -> Option<u64> {
    let &[_, _, _, _, _, a, b, c] = head else {
        return None;
    };
    Some(u32::from_be_bytes([0, a, b, c]).into())
}

#[cfg(test)]
mod tests;
