//! Messages of a WebSocket with channels (`v4.channel.k8s.io`, `v5.channel.k8s.io`), from pieces of its bytes.

use std::io;

/// Direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToClient,
    ToServer,
}

/// Bit of the last frame of a message.
const FIN_BIT: u8 = 0x80;
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
    /// A message in several frames is an error.
    is_whole_only: bool,
    /// Channel of the message, once its first byte has come.
    channel: Option<u8>,
}

impl ChannelFrames {
    /// Reader of a client's frames. Kubernetes' server takes each frame for a message with a channel of its own, and other
    /// servers do not: a message in several frames could pass as another channel.
    pub(crate) fn of_client() -> Self {
        ChannelFrames {
            is_whole_only: true,
            ..ChannelFrames::default()
        }
    }

    /// Calls `each` with channel and data of each part of a message.
    ///
    /// # Errors
    /// A message of a client has several frames.
    pub(crate) fn follow(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(u8, &[u8]),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.left == 0 {
                let Some((&byte, rest)) = bytes.split_first() else {
                    break;
                };
                self.head.push(byte);
                bytes = rest;
                self.read_head()?;
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
        Ok(())
    }

    /// Begins the payload once the head is complete.
    fn read_head(&mut self) -> io::Result<()> {
        let &[first, second, ref rest @ ..] = self.head.as_slice() else {
            return Ok(());
        };
        let (extended, is_masked) = (second & 0x7f, second & 0x80 != 0);
        let size = match extended {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask_bytes = if is_masked { 4 } else { 0 };
        if rest.len() < size + mask_bytes && self.head.len() < MAX_HEAD_BYTES {
            return Ok(());
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
        let is_fragment = !self.is_control && (opcode == 0 || first & FIN_BIT == 0);
        self.head.clear();
        match is_fragment && self.is_whole_only {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message of the client has several frames",
            )),
            false => Ok(()),
        }
    }
}

pub(super) fn invalid(cause: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_of_a_client_cannot_pass_as_another_channel() {
        // A resize without FIN, then input as its continuation.
        let sent = [&[0x02, 2, 4, b'{', 0x80, 4, 0][..], b"id\n"].concat();
        for size in 1..sent.len() {
            let (mut client, mut server) = (ChannelFrames::of_client(), ChannelFrames::default());
            let mut pieces = sent.chunks(size);
            assert!(
                pieces.any(|it| client.follow(it, |_, _| {}).is_err()),
                "{size}"
            );
            let mut pieces = sent.chunks(size);
            assert!(
                pieces.all(|it| server.follow(it, |_, _| {}).is_ok()),
                "{size}"
            );
        }
        let mut found = Vec::new();
        let whole = [&[0x82, 4, 0][..], b"id\n", &[0x89, 0], &[0x88, 0]].concat();
        let followed = ChannelFrames::of_client().follow(&whole, |channel, data| {
            found.push((channel, data.to_vec()));
        });
        assert!(followed.is_ok());
        assert_eq!(found, [(0, b"id\n".to_vec())]);
    }
}
