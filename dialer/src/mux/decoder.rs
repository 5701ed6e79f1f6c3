//! Position in the frames of a peer.

use super::frame::HEADER_BYTES;

/// Position in the input.
pub(super) enum Decoder {
    /// In a header, of which this many bytes have arrived.
    Header([u8; HEADER_BYTES], usize),
    /// In a frame's body.
    Body { stream: u32, left: u32, fin: bool },
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::Header([0; HEADER_BYTES], 0)
    }
}
