//! RFC 6455 framing for both roles on buffers, without I/O. Only binary messages are supported; a
//! text message is an error, as is everything the RFC forbids. A peer can make it hold at most one
//! message of [`MESSAGE_LIMIT`].

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Largest message accepted from a peer, in bytes: four times the largest one sent.
pub const MESSAGE_LIMIT: usize = 64 * 1024;
/// Largest body of a ping, a pong or a close, in bytes (RFC 6455, 5.5).
pub const CONTROL_LIMIT: usize = 125;

const FIN_BIT: u8 = 0x80;
const RESERVED_BITS: u8 = 0x70;
const MASK_BIT: u8 = 0x80;

/// End of the connection. The agent is the client of RFC 6455: it masks its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketRole {
    /// The client, which masks its frames.
    Agent,
    /// The server.
    Hub,
}

/// Opcodes of encoded frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// A binary message.
    Binary = 2,
    /// A close.
    Close = 8,
    /// A ping.
    Ping = 9,
    /// A pong.
    Pong = 10,
}

/// Violation of RFC 6455, or of our use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WsError {
    /// Reserved bits are set.
    #[error("reserved bits of a WebSocket frame are set")]
    Reserved,
    /// Unknown opcode.
    #[error("a WebSocket frame with opcode {0}")]
    Opcode(u8),
    /// A text message.
    #[error("a text message")]
    Text,
    /// Wrong masking for the sender's role.
    #[error("a WebSocket frame that is masked by the hub or unmasked by the agent")]
    Mask,
    /// A length not encoded minimally.
    #[error("a WebSocket frame with a length not encoded minimally")]
    Length,
    /// A fragmented or oversized control frame.
    #[error("a control frame that is fragmented or too long")]
    Control,
    /// A message above [`MESSAGE_LIMIT`].
    #[error("a message over the limit")]
    TooLarge,
    /// Fragments out of order.
    #[error("fragments out of order")]
    Fragments,
    /// A truncated close frame.
    #[error("a truncated close frame")]
    Close,
}

/// Kind of a decoded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message in one frame: the frame's body.
    Whole,
    /// The last of several fragments: the message is [`Decoder::assembled`].
    Assembled,
    /// A fragment; more follow.
    Part,
    /// A ping: the frame's body is to be returned.
    Ping,
    /// A pong.
    Pong,
    /// A close, with its status code if it has one.
    Close(Option<u16>),
}

/// One frame at the beginning of the decoded bytes. `head..end` is its unmasked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Length of the frame's head.
    pub head: usize,
    /// Length of head and body.
    pub end: usize,
    /// Kind of the frame.
    pub event: Event,
}

/// Decodes frames. Between two calls it holds the fragments of an unfinished message.
#[derive(Debug)]
pub struct Decoder {
    role: SocketRole,
    fragments: Option<Vec<u8>>,
}

impl Decoder {
    /// Decoder of the end with `role`, for the frames of the other end.
    #[must_use]
    pub fn new(role: SocketRole) -> Self {
        Decoder {
            role,
            fragments: None,
        }
    }

    /// The message that the last frame has completed.
    pub fn assembled(&mut self) -> Vec<u8> {
        self.fragments.take().unwrap_or_default()
    }

    /// Decodes the frame at the beginning of `bytes`, if it is complete, and unmasks it in place.
    /// Pass each byte until a frame has ended after it, and not again.
    ///
    /// # Errors
    ///
    /// At the first invalid byte, even of an incomplete frame.
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

    /// Decodes and validates the frame's head, if it is complete.
    fn head(&self, bytes: &[u8]) -> Result<Option<Head>, WsError> {
        let &[first, ref rest @ ..] = bytes else {
            return Ok(None);
        };
        let (fin, opcode) = (first & FIN_BIT != 0, first & 0x0f);
        if first & RESERVED_BITS != 0 {
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
        let masked = second & MASK_BIT != 0;
        if masked != (self.role == SocketRole::Hub) {
            return Err(WsError::Mask);
        }
        let short = second & !MASK_BIT;
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

/// Length of the body, and the number of extra bytes that encode it, which must be minimal.
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

/// Masks or unmasks.
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

/// Encodes frames, head and body in one buffer. The agent's frames are masked with unpredictable
/// keys.
#[derive(Debug)]
pub struct Encoder {
    keys: Option<MaskingKeys>,
}

impl Encoder {
    /// Encoder of the end with `role`.
    #[must_use]
    pub fn new(role: SocketRole) -> Self {
        Encoder {
            keys: (role == SocketRole::Agent).then(MaskingKeys::default),
        }
    }

    /// Encodes one unfragmented frame. `fill` appends the body, of about `expected` and at most 64
    /// KiB.
    ///
    /// # Errors
    ///
    /// For an oversized body, and if the system has no random bytes.
    pub fn frame(
        &mut self,
        opcode: Opcode,
        expected: usize,
        fill: impl FnOnce(&mut BytesMut),
    ) -> Result<Bytes, EncodeError> {
        let key = self.keys.as_mut().map(MaskingKeys::next).transpose()?;
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
        let bit = if key.is_some() { MASK_BIT } else { 0 };
        let first = FIN_BIT | opcode as u8;
        // The head directly precedes the body: a short one begins two bytes later.
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

/// Failure to encode a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The body is too large.
    #[error("a message of {0} bytes exceeds the limit")]
    TooLarge(usize),
    /// The system has no random bytes.
    #[error("the system has no random bytes: {0}")]
    Random(getrandom::Error),
}

/// Masking keys, drawn in batches: one system call per key would cost as much as sealing a small
/// message.
#[derive(Debug)]
struct MaskingKeys {
    pool: [u8; 128],
    used: usize,
}

impl Default for MaskingKeys {
    fn default() -> Self {
        MaskingKeys {
            pool: [0; 128],
            used: 128,
        }
    }
}

impl MaskingKeys {
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
