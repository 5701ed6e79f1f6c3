//! Frames of SPDY/3.1 (section 2.2) and their compressed headers.

mod headers;

use std::io;

pub use headers::{Header, HeaderReader, ZLIB_HEAD};

/// Length of the head of each frame in bytes.
pub const HEAD_BYTES: usize = 8;
/// Limit of one frame with headers in bytes, compressed; those of kubectl have about 100.
pub const MAX_HEADER_FRAME_BYTES: usize = 16 << 10;
/// Version of the frames of SPDY/3.1.
pub const SPDY_VERSION: u16 = 3;
/// Name of the header with the type of a stream, in Kubernetes.
pub const STREAM_TYPE: &[u8] = b"streamtype";

/// Type of the control frame that opens a stream.
pub const SYN_STREAM: u16 = 1;
/// Type of the control frame that answers `SYN_STREAM`.
pub const SYN_REPLY: u16 = 2;
/// Type of the control frame that resets a stream.
pub const RST_STREAM: u16 = 3;
/// Type of the control frame with further headers.
pub const HEADERS_FRAME: u16 = 8;

/// Bit of the last frame of a stream in one direction, in the second word of a head.
const FIN_BIT: u32 = 0x0100_0000;
/// Status of a reset stream: not needed any more.
const CANCEL_STATUS: u32 = 5;

/// Last data of a stream in one direction. `None` if it is too long for a frame.
#[must_use]
pub fn last_data(stream: u32, data: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(data.len()).ok()?;
    let mut frame = stream.to_be_bytes().to_vec();
    frame.extend((FIN_BIT | length).to_be_bytes());
    frame.extend(data);
    (length < FIN_BIT).then_some(frame)
}

/// Reset of a stream.
#[must_use]
pub fn reset(stream: u32) -> Vec<u8> {
    let head = 1 << 31 | u32::from(SPDY_VERSION) << 16 | u32::from(RST_STREAM);
    [head, 8, stream, CANCEL_STATUS]
        .map(u32::to_be_bytes)
        .concat()
}

/// Head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Kind of the frame.
    pub kind: HeadKind,
    /// The last frame of its stream in this direction.
    pub is_last: bool,
    /// Length of the payload in bytes.
    pub length: usize,
}

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// Data of a stream.
    Data {
        /// Number of the stream.
        stream: u32,
    },
    /// Control frame.
    Control {
        /// Version of the protocol.
        version: u16,
        /// Type of the frame.
        number: u16,
    },
}

impl Head {
    /// Reads a head.
    #[must_use]
    pub fn of(bytes: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, d, flags, high, middle, low] = bytes;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let word = u32::from_be_bytes([a, b, c, d]);
        Head {
            kind: match word >> 31 {
                0 => HeadKind::Data { stream: word },
                _ => HeadKind::Control {
                    version: u16::from_be_bytes([a & 0x7f, b]),
                    number: u16::from_be_bytes([c, d]),
                },
            },
            is_last: flags & 1 != 0,
            length: usize::try_from(length).unwrap_or(usize::MAX),
        }
    }
}

fn invalid(cause: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}
