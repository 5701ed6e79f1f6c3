//! Sizes shared by the layers of a wire.

/// Largest message sent, tag included, in bytes. With the WebSocket's header and mask (8) it is
/// exactly one 16 KiB record of the outer TLS.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16_376;
