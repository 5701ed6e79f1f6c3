//! Last bytes of an upgraded connection that the hub ends: a `Status` on the error channel of an exec, or the close of a
//! WebSocket.

use fairlead_api::{Failure, resources::RequestKind, status};
use http::{HeaderMap, HeaderValue, header};

/// Error channel of `v4.channel.k8s.io` and `v5.channel.k8s.io`.
const ERROR_CHANNEL: u8 = 3;
/// FIN and binary; FIN and close (RFC 6455, section 5.2).
const BINARY_FRAME: u8 = 0x82;
const CLOSE_FRAME: u8 = 0x88;
/// Status codes of a close (RFC 6455, section 7.4.1). Clients take any but a normal one for a broken connection.
const NORMAL_CLOSURE: u16 = 1000;
const POLICY_VIOLATION: u16 = 1008;
/// Maximum length of the reason of a close, in bytes.
const MAX_REASON_BYTES: usize = 123;
/// The stream that client-go opens first.
const SPDY_ERROR_STREAM: u32 = 1;
const SPDY_FIN: u32 = 0x0100_0000;

/// Form of the last bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// A `Status` on the error channel, then a normal close.
    Channels,
    /// A close with the reason.
    Close,
    /// A `Status` on the error stream, which ends.
    SpdyErrorStream,
    /// None: the connection is reset.
    Reset,
}

impl Farewell {
    /// The form for an upgraded request of this kind, by the head of its answer.
    pub(crate) fn of(kind: RequestKind, protocol: &HeaderValue, answer: &HeaderMap) -> Self {
        let is_exec = matches!(kind, RequestKind::Exec | RequestKind::Attach);
        let value = |name: &str| answer.get(name).map(HeaderValue::as_bytes);
        if protocol.as_bytes().eq_ignore_ascii_case(b"websocket") {
            return match value(header::SEC_WEBSOCKET_PROTOCOL.as_str()) {
                Some(b"v5.channel.k8s.io" | b"v4.channel.k8s.io") if is_exec => Farewell::Channels,
                _ => Farewell::Close,
            };
        }
        match value("x-stream-protocol-version") {
            Some(b"v4.channel.k8s.io") if is_exec => Farewell::SpdyErrorStream,
            _ => Farewell::Reset,
        }
    }

    /// The last bytes for the client.
    pub(crate) fn bytes(self, failure: &Failure) -> Option<Vec<u8>> {
        match self {
            Farewell::Channels => {
                let mut payload = vec![ERROR_CHANNEL];
                payload.extend(status::status_json(failure));
                let mut bytes = websocket_frame(BINARY_FRAME, &payload);
                bytes.extend(close_frame(NORMAL_CLOSURE, ""));
                Some(bytes)
            }
            Farewell::Close => Some(close_frame(POLICY_VIOLATION, &status::sentence(failure))),
            Farewell::SpdyErrorStream => {
                let body = status::status_json(failure);
                let length = u32::try_from(body.len()).ok()?;
                let mut bytes = SPDY_ERROR_STREAM.to_be_bytes().to_vec();
                bytes.extend((SPDY_FIN | length).to_be_bytes());
                bytes.extend(body);
                Some(bytes)
            }
            Farewell::Reset => None,
        }
    }
}

fn close_frame(code: u16, reason: &str) -> Vec<u8> {
    let mut payload = code.to_be_bytes().to_vec();
    payload.extend(
        reason
            .as_bytes()
            .get(..reason.floor_char_boundary(MAX_REASON_BYTES))
            .unwrap_or_default(),
    );
    websocket_frame(CLOSE_FRAME, &payload)
}

/// A whole frame of a server, which is not masked.
fn websocket_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

#[cfg(test)]
mod tests;
