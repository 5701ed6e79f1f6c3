//! The WebSocket's settings, both ends the same, as measured best: small buffers, each message written at once, and a
//! bound on everything a peer can make us hold.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};

const KIB: usize = 1024;

/// The largest message that is taken from a peer, in bytes.
pub(crate) const MESSAGE_LIMIT: usize = 1024 * KIB;

/// A WebSocket over `io`, whose upgrade is done. `read` are bytes that came behind its head.
pub(crate) async fn over<IO>(io: IO, read: Bytes, role: Role) -> WebSocketStream<IO>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(4 * KIB)
        .write_buffer_size(0)
        .max_write_buffer_size(256 * KIB)
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT));
    if read.is_empty() {
        WebSocketStream::from_raw_socket(io, role, Some(config)).await
    } else {
        WebSocketStream::from_partially_read(io, read.to_vec(), role, Some(config)).await
    }
}
