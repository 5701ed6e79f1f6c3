//! Position in the frames of a peer.

use super::frame::HEADER_BYTES;

/// Position in the input.
pub(super) enum InputPosition {
    /// In a header, of which this many bytes have arrived.
    Header([u8; HEADER_BYTES], usize),
    /// In a frame's body.
    Body { stream: u32, left: u32, fin: bool },
}

impl Default for InputPosition {
    fn default() -> Self {
        InputPosition::Header([0; HEADER_BYTES], 0)
    }
}
