//! Names and headers of the WebSocket upgrade, shared by both ends.

use http::{HeaderMap, HeaderName};
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

/// Path of the WebSocket on the hub.
pub const CONNECT_PATH: &str = "/connect";
/// Subprotocol of the WebSocket.
pub const SUBPROTOCOL: &str = "fairlead.v1";

/// A new value of `Sec-WebSocket-Key`.
#[must_use]
pub fn websocket_key() -> String {
    generate_key()
}

/// The `Sec-WebSocket-Accept` that answers a key.
#[must_use]
pub fn websocket_accept(key: &str) -> String {
    derive_accept_key(key.as_bytes())
}

/// True if a comma-separated list contains the token, regardless of case.
pub(crate) fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|entry| entry.trim().eq_ignore_ascii_case(token))
}
