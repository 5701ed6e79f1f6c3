//! Bytes of SPDY within the messages of a WebSocket (RFC 6455, section 5.2), or as they are.

use super::Tunnel;

/// Longest head of a frame: two bytes, a length of eight, a mask of four.
const MAX_HEAD_BYTES: usize = 14;
/// Lowest opcode of a control frame.
const CONTROL_OPCODE: u8 = 8;

/// Position in the carrier of one direction.
pub(super) struct Carrier(Option<WebSocketPosition>);

#[derive(Default)]
struct WebSocketPosition {
    head: Vec<u8>,
    /// Bytes of the payload that are still to come.
    left: u64,
    is_control: bool,
    key: Key,
}

/// Mask of a client's payload, turned to the next byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Key([u8; 4]);

impl Key {
    /// Bytes without the mask.
    pub(super) fn open(&mut self, bytes: &[u8]) -> Vec<u8> {
        let keys = self.0.into_iter().cycle();
        let open = bytes.iter().zip(keys).map(|(byte, key)| byte ^ key);
        let open = open.collect();
        self.skip(bytes.len());
        open
    }

    pub(super) fn skip(&mut self, length: usize) {
        self.0.rotate_left(length % 4);
    }
}

impl Carrier {
    pub(super) fn new(tunnel: Tunnel) -> Self {
        Carrier(match tunnel {
            Tunnel::Direct => None,
            Tunnel::WebSocket => Some(WebSocketPosition::default()),
        })
    }

    /// Calls `each` with each piece of a payload, and its mask.
    pub(super) fn follow(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8], Key)) {
        let Some(position) = &mut self.0 else {
            return each(bytes, Key::default());
        };
        while let Some((&byte, rest)) = bytes.split_first() {
            if position.left == 0 {
                position.head.push(byte);
                position.read_head();
                bytes = rest;
                continue;
            }
            let left = usize::try_from(position.left).unwrap_or(usize::MAX);
            let (payload, rest) = bytes.split_at(left.min(bytes.len()));
            bytes = rest;
            position.left -= payload.len() as u64;
            if !position.is_control {
                each(payload, position.key);
            }
            position.key.skip(payload.len());
        }
    }
}

impl WebSocketPosition {
    /// Begins the payload once the head is complete.
    fn read_head(&mut self) {
        let &[first, second, ref rest @ ..] = self.head.as_slice() else {
            return;
        };
        let size = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let key_bytes = if second & 0x80 == 0 { 0 } else { 4 };
        if rest.len() < size + key_bytes && self.head.len() < MAX_HEAD_BYTES {
            return;
        }
        let (length, key) = rest.split_at(size.min(rest.len()));
        self.left = match size {
            0 => u64::from(second & 0x7f),
            _ => length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        };
        self.key = Key(key.try_into().unwrap_or_default());
        self.is_control = first & 0x0f >= CONTROL_OPCODE;
        self.head.clear();
    }
}
