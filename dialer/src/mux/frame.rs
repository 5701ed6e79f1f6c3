//! Frame header of yamux: twelve bytes, big-endian (version, type, flags, stream id, length).
//! Invalid headers are refused here; their meaning for a stream is handled elsewhere.

use super::violation::Violation;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 12;
/// Plaintext of one message, in bytes. With the overhead of the layers below it is one TLS record
/// of 16 KiB.
pub(super) const MESSAGE_BYTES: usize = 16_320;
/// Largest body of a frame: it fills a message.
pub(super) const FULL_BODY: usize = MESSAGE_BYTES - HEADER_BYTES;

pub(super) const SYN_FLAG: u16 = 1;
pub(super) const ACK_FLAG: u16 = 2;
pub(super) const FIN_FLAG: u16 = 4;
pub(super) const RST_FLAG: u16 = 8;
const KNOWN_FLAGS: u16 = SYN_FLAG | ACK_FLAG | FIN_FLAG | RST_FLAG;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameType {
    /// `length` bytes follow.
    Data,
    /// `length` is added to the window.
    Update,
    /// `length` is echoed by the response.
    Ping,
    /// `length` is the reason.
    GoAway,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: FrameType,
    pub(super) flags: u16,
    pub(super) stream: u32,
    pub(super) length: u32,
}

impl Header {
    pub(super) const fn data(stream: u32, flags: u16, length: u32) -> Self {
        Header {
            kind: FrameType::Data,
            flags,
            stream,
            length,
        }
    }

    pub(super) const fn update(stream: u32, flags: u16, length: u32) -> Self {
        Header {
            kind: FrameType::Update,
            flags,
            stream,
            length,
        }
    }

    pub(super) const fn pong(opaque: u32) -> Self {
        Header {
            kind: FrameType::Ping,
            flags: ACK_FLAG,
            stream: 0,
            length: opaque,
        }
    }

    pub(super) const fn go_away(code: u32) -> Self {
        Header {
            kind: FrameType::GoAway,
            flags: 0,
            stream: 0,
            length: code,
        }
    }

    /// True if the flag is set.
    pub(super) const fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn decode(
        &[version, kind, f1, f0, s3, s2, s1, s0, l3, l2, l1, l0]: &[u8; HEADER_BYTES],
    ) -> Result<Self, Violation> {
        if version != 0 {
            return Err(Violation::Version(version));
        }
        let kind = match kind {
            0 => FrameType::Data,
            1 => FrameType::Update,
            2 => FrameType::Ping,
            3 => FrameType::GoAway,
            other => return Err(Violation::Kind(other)),
        };
        let flags = u16::from_be_bytes([f1, f0]);
        let stream = u32::from_be_bytes([s3, s2, s1, s0]);
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Violation::Flags(flags));
        }
        // A frame concerns one stream, or the session, which has number 0.
        if matches!(kind, FrameType::Data | FrameType::Update) == (stream == 0) {
            return Err(Violation::Stream(stream));
        }
        Ok(Header {
            kind,
            flags,
            stream,
            length: u32::from_be_bytes([l3, l2, l1, l0]),
        })
    }

    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            FrameType::Data => 0,
            FrameType::Update => 1,
            FrameType::Ping => 2,
            FrameType::GoAway => 3,
        };
        let [f1, f0] = self.flags.to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        let [l3, l2, l1, l0] = self.length.to_be_bytes();
        [0, kind, f1, f0, s3, s2, s1, s0, l3, l2, l1, l0]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoded_header_is_the_canonical_encoding(bytes: [u8; HEADER_BYTES]) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }

        /// Random bytes are nearly always refused; these headers are valid.
        #[test]
        fn headers_are_read_back(kind in 0..4_u8, flags in 0..16_u16, stream: u32, length: u32) {
            let kind = [FrameType::Data, FrameType::Update, FrameType::Ping, FrameType::GoAway][usize::from(kind)];
            let stream = match kind {
                FrameType::Data | FrameType::Update => stream.max(1),
                FrameType::Ping | FrameType::GoAway => 0,
            };
            let header = Header { kind, flags, stream, length };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn invalid_header_has_a_specific_error() {
        let good = Header::data(1, SYN_FLAG, 5).encode();
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            Header::decode(&bytes)
        };
        assert_eq!(with(0, 1), Err(Violation::Version(1)));
        assert_eq!(with(1, 4), Err(Violation::Kind(4)));
        assert_eq!(with(3, 0x10), Err(Violation::Flags(0x10)));
        assert_eq!(with(2, 1), Err(Violation::Flags(0x101)));
        assert_eq!(with(7, 0), Err(Violation::Stream(0)));
        assert_eq!(with(1, 2), Err(Violation::Stream(1)));
        assert_eq!(with(1, 3), Err(Violation::Stream(1)));
    }
}
