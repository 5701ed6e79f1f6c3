//! Last bytes of an upgraded connection that the hub ends: a `Status` on the error channel of an exec, the reason on the
//! error channels of a port-forward, or the close of a WebSocket.

use fairlead_api::{Failure, resources::RequestKind, status};
use http::{HeaderMap, HeaderValue, header};

use crate::{
    forwards::{ForwardStreams, Tunnel},
    spdy,
};

/// Subprotocols with channels, whose first byte is the number of the channel.
const CHANNELS_V4: &[u8] = b"v4.channel.k8s.io";
const CHANNELS_V5: &[u8] = b"v5.channel.k8s.io";
/// Subprotocol of a port-forward in a WebSocket (KEP-4006), and that of one over SPDY.
const TUNNELLED_FORWARD: &[u8] = b"SPDY/3.1+portforward.k8s.io";
const SPDY_FORWARD: &[u8] = b"portforward.k8s.io";
/// Error channel of an exec in [`CHANNELS_V4`] and [`CHANNELS_V5`].
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
/// Maximum number of ports whose error channels get the reason. Each port has two channels of 256.
const MAX_PORTS: usize = 128;

/// Form of the last bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// A `Status` on the error channel, then a normal close.
    Channels,
    /// The reason on the error channel of each port, then a close with the reason.
    ForwardChannels {
        /// Number of ports.
        ports: u8,
    },
    /// The reason on open error streams of a port-forward, then the end of the carrier.
    ForwardStreams(Tunnel),
    /// A close with the reason.
    Close,
    /// A close whose reason begins with the code.
    Tcp,
    /// A `Status` on the error stream, which ends.
    SpdyErrorStream,
    /// None: the connection is reset.
    Reset,
}

/// Last bytes for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct LastBytes {
    /// Message with the reason.
    pub message: Vec<u8>,
    /// Bytes that follow once the client has had time to act on the message; `None` if the connection ends at once.
    pub close: Option<Vec<u8>>,
}

impl LastBytes {
    fn at_once(message: Vec<u8>) -> Self {
        LastBytes {
            message,
            close: None,
        }
    }

    /// Close frame of a TCP connection with this status code. The reason of a failure begins with its code, so that a
    /// client finds it in a text of any length.
    #[must_use]
    pub fn of_tcp(code: u16, failure: Option<&Failure>) -> Self {
        let reason = failure.map_or_else(String::new, ToString::to_string);
        LastBytes::at_once(close_frame(code, &reason))
    }
}

impl Farewell {
    /// The form for an upgraded request of this kind, by its query and the head of its answer.
    #[must_use]
    pub fn of(
        kind: RequestKind,
        query: Option<&str>,
        protocol: &HeaderValue,
        answer: &HeaderMap,
    ) -> Self {
        use RequestKind::{Attach, Exec, PortForward, Tcp};
        let value = |name: &str| answer.get(name).map_or(&[][..], HeaderValue::as_bytes);
        if protocol.as_bytes().eq_ignore_ascii_case(b"websocket") {
            return match (kind, value(header::SEC_WEBSOCKET_PROTOCOL.as_str())) {
                (Exec | Attach, CHANNELS_V4 | CHANNELS_V5) => Farewell::Channels,
                (PortForward, CHANNELS_V4) => Farewell::ForwardChannels {
                    ports: ports(query.unwrap_or_default()),
                },
                (PortForward, TUNNELLED_FORWARD) => Farewell::ForwardStreams(Tunnel::WebSocket),
                (Tcp, _) => Farewell::Tcp,
                _ => Farewell::Close,
            };
        }
        match (kind, value("x-stream-protocol-version")) {
            (Exec | Attach, CHANNELS_V4) => Farewell::SpdyErrorStream,
            (PortForward, SPDY_FORWARD) => Farewell::ForwardStreams(Tunnel::Direct),
            _ => Farewell::Reset,
        }
    }

    /// Follower of the streams that [`Farewell::bytes`] needs.
    #[must_use]
    pub fn streams(self) -> Option<ForwardStreams> {
        match self {
            Farewell::ForwardStreams(tunnel) => Some(ForwardStreams::new(tunnel)),
            _ => None,
        }
    }

    /// The last bytes for the client.
    #[must_use]
    pub fn bytes(self, failure: &Failure, streams: Option<&ForwardStreams>) -> Option<LastBytes> {
        let sentence = status::sentence(failure);
        let close = || close_frame(POLICY_VIOLATION, &sentence);
        match self {
            Farewell::Channels => {
                let mut payload = vec![ERROR_CHANNEL];
                payload.extend(status::status_json(failure));
                let mut bytes = websocket_frame(BINARY_FRAME, &payload);
                bytes.extend(close_frame(NORMAL_CLOSURE, ""));
                Some(LastBytes::at_once(bytes))
            }
            Farewell::ForwardChannels { ports } => {
                let mut bytes = Vec::new();
                for port in 0..ports {
                    let mut payload = vec![2 * port + 1];
                    payload.extend(sentence.as_bytes());
                    bytes.extend(websocket_frame(BINARY_FRAME, &payload));
                }
                bytes.extend(close());
                Some(LastBytes::at_once(bytes))
            }
            Farewell::ForwardStreams(tunnel) => {
                let frames = streams.and_then(|it| it.last_frames(&sentence));
                match (tunnel, frames) {
                    (Tunnel::WebSocket, Some(frames)) => Some(LastBytes {
                        message: websocket_frame(BINARY_FRAME, &frames),
                        close: Some(close()),
                    }),
                    (Tunnel::WebSocket, None) => Some(LastBytes::at_once(close())),
                    (Tunnel::Direct, Some(message)) => Some(LastBytes {
                        message,
                        close: Some(Vec::new()),
                    }),
                    (Tunnel::Direct, None) => None,
                }
            }
            Farewell::Close => Some(LastBytes::at_once(close())),
            Farewell::Tcp => Some(LastBytes::of_tcp(POLICY_VIOLATION, Some(failure))),
            Farewell::SpdyErrorStream => {
                spdy::last_data(SPDY_ERROR_STREAM, &status::status_json(failure))
                    .map(LastBytes::at_once)
            }
            Farewell::Reset => None,
        }
    }
}

/// Number of ports in the query of a port-forward (`ports=80,81`, also repeated).
fn ports(query: &str) -> u8 {
    let values = query.split('&').filter_map(|it| it.strip_prefix("ports="));
    let count = values
        .map(|it| {
            1 + it.matches(',').count() + it.matches("%2C").count() + it.matches("%2c").count()
        })
        .sum::<usize>();
    u8::try_from(count.min(MAX_PORTS)).unwrap_or_default()
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
