//! Names and headers of the WebSocket upgrade, shared by both ends.

use http::{HeaderMap, HeaderName};

/// Path of the WebSocket on the hub.
pub const CONNECT_PATH: &str = "/connect";
/// Subprotocol of the WebSocket.
pub const SUBPROTOCOL: &str = "fairlead.v1";

/// True if a comma-separated list contains the token, regardless of case.
pub(crate) fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|entry| entry.trim().eq_ignore_ascii_case(token))
}
