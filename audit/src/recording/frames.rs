//! Messages of a WebSocket with channels (`v4.channel.k8s.io`, `v5.channel.k8s.io`), from pieces of its bytes.

/// Direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToClient,
    ToServer,
}

/// Longest head of a frame: two bytes, a length of eight, a mask of four.
const MAX_HEAD_BYTES: usize = 14;

/// Reader of one direction; frames may be cut anywhere.
#[derive(Default)]
pub(crate) struct ChannelFrames {
    head: Vec<u8>,
    /// Bytes of the payload that are still to come.
    left: u64,
    mask: Option<[u8; 4]>,
    /// Bytes of the payload that were taken.
    taken: u64,
    is_control: bool,
    /// Channel of the message, once its first byte has come.
    channel: Option<u8>,
}

impl ChannelFrames {
    /// Calls `each` with channel and data of each part of a message.
    pub(crate) fn follow(&mut self, mut bytes: &[u8], mut each: impl FnMut(u8, &[u8])) {
        while !bytes.is_empty() {
            if self.left == 0 {
                let Some((&byte, rest)) = bytes.split_first() else {
                    break;
                };
                self.head.push(byte);
                bytes = rest;
                self.read_head();
                continue;
            }
            let length = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let (payload, rest) = bytes.split_at(length);
            bytes = rest;
            let mut payload = payload.to_vec();
            if let Some(mask) = self.mask {
                let begin = usize::try_from(self.taken % 4).unwrap_or(0);
                let key = mask.iter().cycle().skip(begin);
                for (byte, key) in payload.iter_mut().zip(key) {
                    *byte ^= key;
                }
            }
            self.left -= length as u64;
            self.taken += length as u64;
            if self.is_control {
                continue;
            }
            let mut data = payload.as_slice();
            if self.channel.is_none()
                && let Some((&channel, behind)) = data.split_first()
            {
                self.channel = Some(channel);
                data = behind;
            }
            if let Some(channel) = self.channel.filter(|_| !data.is_empty()) {
                each(channel, data);
            }
        }
    }

    /// Begins the payload once the head is complete.
    fn read_head(&mut self) {
        let &[first, second, ref rest @ ..] = self.head.as_slice() else {
            return;
        };
        let (extended, is_masked) = (second & 0x7f, second & 0x80 != 0);
        let size = match extended {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask_bytes = if is_masked { 4 } else { 0 };
        if rest.len() < size + mask_bytes && self.head.len() < MAX_HEAD_BYTES {
            return;
        }
        let (length, mask) = rest.split_at(size.min(rest.len()));
        self.left = match size {
            0 => u64::from(extended),
            _ => length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        };
        self.mask = mask.try_into().ok();
        self.taken = 0;
        let opcode = first & 0x0f;
        self.is_control = opcode >= 8;
        // A continuation (0) belongs to the message before it.
        if matches!(opcode, 1 | 2) {
            self.channel = None;
        }
        self.head.clear();
    }
}
