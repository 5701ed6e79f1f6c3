//! RFC 6455 framing, both roles, on buffers: no I/O and no opinion about what a message says. Only binary messages are
//! spoken; a text message breaks the protocol, as does everything the RFC forbids. Nothing a peer says makes us hold
//! more than one message of [`MESSAGE_LIMIT`].

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The largest message that is taken from a peer, in bytes: four times what any version of this program sends.
pub const MESSAGE_LIMIT: usize = 64 * 1024;
/// The largest body of a ping, a pong or a close, in bytes (RFC 6455, 5.5).
pub const CONTROL_LIMIT: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Which end this is. The agent is the client of RFC 6455: it masks what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Agent,
    Hub,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// How a peer breaks RFC 6455, or our use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WsError {
    #[error("reserved bits of a WebSocket frame are set")]
    Reserved,
    #[error("a WebSocket frame with opcode {0}")]
    Opcode(u8),
    #[error("a text message")]
    Text,
    #[error("a WebSocket frame that is masked by the hub or unmasked by the agent")]
    Mask,
    #[error("a WebSocket frame whose length is written in too many bytes")]
    Length,
    #[error("a control frame that is fragmented or too long")]
    Control,
    #[error("a message over the limit")]
    TooLarge,
    #[error("fragments out of order")]
    Fragments,
    #[error("a close frame that is cut short")]
    Close,
}

/// What one frame was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message in one frame: it is the frame's body.
    Whole,
    /// The last of several fragments: the message is [`Decoder::assembled`].
    Assembled,
    /// A fragment; more follow.
    Part,
    Ping,
    Pong,
    /// With its status code, where it has one.
    Close(Option<u16>),
}

/// One frame at the beginning of the bytes that were looked at. Its body, by now unmasked, is `head..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    pub head: usize,
    pub end: usize,
    pub event: Event,
}

/// Reads frames. What it holds between two calls are the fragments of an unfinished message.
#[derive(Debug)]
pub struct Decoder {
    role: Role,
    fragments: Option<Vec<u8>>,
}

impl Decoder {
    /// For the end that plays `role`: it reads what the other one sends.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Decoder {
            role,
            fragments: None,
        }
    }

    /// The message that the last frame has completed.
    pub fn assembled(&mut self) -> Vec<u8> {
        self.fragments.take().unwrap_or_default()
    }

    /// Reads the frame that begins `bytes`, if all of it is there, and unmasks it in place. Each byte is to be shown
    /// until a frame has ended behind it, and not again.
    ///
    /// # Errors
    /// At the first byte that is wrong, however much is missing.
    pub fn decode(&mut self, bytes: &mut [u8]) -> Result<Option<Decoded>, WsError> {
        let Some(head) = self.head(bytes)? else {
            return Ok(None);
        };
        let end = head.size + head.body;
        let Some(body) = bytes.get_mut(head.size..end) else {
            return Ok(None);
        };
        if let Some(key) = head.key {
            mask(body, key);
        }
        let event = match head.opcode {
            9 => Event::Ping,
            10 => Event::Pong,
            8 => Event::Close(close_code(body)?),
            _ => self.data(head.fin, body),
        };
        Ok(Some(Decoded {
            head: head.size,
            end,
            event,
        }))
    }

    fn data(&mut self, fin: bool, body: &[u8]) -> Event {
        match (&mut self.fragments, fin) {
            (None, true) => Event::Whole,
            (fragments, _) => {
                fragments.get_or_insert_default().extend_from_slice(body);
                if fin { Event::Assembled } else { Event::Part }
            }
        }
    }

    /// The frame's head, checked, if its bytes are all there.
    fn head(&self, bytes: &[u8]) -> Result<Option<Head>, WsError> {
        let &[first, ref rest @ ..] = bytes else {
            return Ok(None);
        };
        let (fin, opcode) = (first & FIN != 0, first & 0x0f);
        if first & RESERVED != 0 {
            return Err(WsError::Reserved);
        }
        match (opcode, &self.fragments) {
            (0, None) | (2, Some(_)) => return Err(WsError::Fragments),
            (8..=10, _) if !fin => return Err(WsError::Control),
            (0 | 2 | 8..=10, _) => {}
            (1, _) => return Err(WsError::Text),
            _ => return Err(WsError::Opcode(opcode)),
        }
        let &[second, ref rest @ ..] = rest else {
            return Ok(None);
        };
        let masked = second & MASKED != 0;
        if masked != (self.role == Role::Hub) {
            return Err(WsError::Mask);
        }
        let short = second & !MASKED;
        if opcode >= 8 && usize::from(short) > CONTROL_LIMIT {
            return Err(WsError::Control);
        }
        let Some((body, size)) = length(short, rest)? else {
            return Ok(None);
        };
        let held = self.fragments.as_ref().map_or(0, Vec::len);
        let body = usize::try_from(body)
            .ok()
            .filter(|&body| body <= MESSAGE_LIMIT - held.min(MESSAGE_LIMIT))
            .ok_or(WsError::TooLarge)?;
        let key = match rest.get(size..).and_then(|rest| rest.first_chunk()) {
            _ if !masked => None,
            Some(&key) => Some(key),
            None => return Ok(None),
        };
        Ok(Some(Head {
            fin,
            opcode,
            key,
            size: 2 + size + if masked { 4 } else { 0 },
            body,
        }))
    }
}

struct Head {
    fin: bool,
    opcode: u8,
    key: Option<[u8; 4]>,
    size: usize,
    body: usize,
}

/// A body's length, and in how many bytes behind the second it stands. It must stand in as few as possible.
fn length(short: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, WsError> {
    let (length, size, least) = match short {
        126 => match rest.first_chunk() {
            Some(&bytes) => (u64::from(u16::from_be_bytes(bytes)), 2, 126),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(&bytes) => (u64::from_be_bytes(bytes), 8, 0x1_0000),
            None => return Ok(None),
        },
        short => (u64::from(short), 0, 0),
    };
    if length < least {
        return Err(WsError::Length);
    }
    Ok(Some((length, size)))
}

fn close_code(body: &[u8]) -> Result<Option<u16>, WsError> {
    match *body {
        [] => Ok(None),
        [_] => Err(WsError::Close),
        [high, low, ..] => Ok(Some(u16::from_be_bytes([high, low]))),
    }
}

/// Both masks and unmasks.
fn mask(bytes: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip([a, b, c, d, a, b, c]) {
        *byte ^= key;
    }
}

/// Builds frames, head and body in one buffer; the agent's are masked with keys that nobody can foretell.
#[derive(Debug)]
pub struct Encoder {
    keys: Option<Keys>,
}

impl Encoder {
    #[must_use]
    pub fn new(role: Role) -> Self {
        Encoder {
            keys: (role == Role::Agent).then(Keys::default),
        }
    }

    /// One frame, unfragmented. `fill` appends the body, of about `expected` bytes and not above 64 KiB.
    ///
    /// # Errors
    /// For a body over the limit, and where the system has no random bytes.
    pub fn frame(
        &mut self,
        opcode: Opcode,
        expected: usize,
        fill: impl FnOnce(&mut BytesMut),
    ) -> Result<Bytes, EncodeError> {
        let key = self.keys.as_mut().map(Keys::next).transpose()?;
        let room = 4 + key.map_or(0, |key| key.len());
        let mut frame = BytesMut::with_capacity(room + expected);
        frame.put_bytes(0, room);
        fill(&mut frame);
        let body = frame.len() - room;
        let limit = if opcode == Opcode::Binary {
            usize::from(u16::MAX)
        } else {
            CONTROL_LIMIT
        };
        let length = u16::try_from(body)
            .ok()
            .filter(|_| body <= limit)
            .ok_or(EncodeError::TooLarge(body))?;
        if let (Some(key), Some(body)) = (key, frame.get_mut(room..)) {
            mask(body, key);
        }
        let [high, low] = length.to_be_bytes();
        let bit = if key.is_some() { MASKED } else { 0 };
        let first = FIN | opcode as u8;
        // The head stands directly before the body: a short one begins two bytes later.
        let unused = if length < 126 { 2 } else { 0 };
        frame.advance(unused);
        let head: &[u8] = if unused == 0 {
            &[first, bit | 126, high, low]
        } else {
            &[first, bit | low]
        };
        for (at, byte) in frame
            .iter_mut()
            .zip(head.iter().chain(key.iter().flatten()))
        {
            *at = *byte;
        }
        Ok(frame.freeze())
    }
}

/// Why a frame was not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("a message of {0} bytes is none that can be sent")]
    TooLarge(usize),
    #[error("the system has no random bytes: {0}")]
    Random(getrandom::Error),
}

/// Masking keys, drawn some at a time: one system call each would cost as much as the sealing of a small message.
#[derive(Debug)]
struct Keys {
    pool: [u8; 128],
    used: usize,
}

impl Default for Keys {
    fn default() -> Self {
        Keys {
            pool: [0; 128],
            used: 128,
        }
    }
}

impl Keys {
    fn next(&mut self) -> Result<[u8; 4], EncodeError> {
        loop {
            let unused = self.pool.get(self.used..).unwrap_or_default();
            if let Some(&key) = unused.first_chunk() {
                self.used += key.len();
                return Ok(key);
            }
            getrandom::fill(&mut self.pool).map_err(EncodeError::Random)?;
            self.used = 0;
        }
    }
}

#[cfg(test)]
mod tests;
