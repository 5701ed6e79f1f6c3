//! TCP connections into clusters: a WebSocket to the hub for each.

use std::{io, time::Duration};

use bytes::Bytes;
use fairlead_api::{
    ClusterId, Code, Failure,
    tcp::{TCP_PROTOCOL, TcpTarget},
};
use fairlead_dialer::{
    byte_socket::{ByteSocket, ByteSocketError},
    websocket::SocketRole,
    websocket_accept, websocket_key,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Upgraded;
use tokio::time::timeout;

use super::{HubClient, HubError, streams::Opening};

/// Limit for the hub's answer: it waits for a cluster without a session, and the agent for the target.
const OPEN_DEADLINE: Duration = Duration::from_secs(45);

/// One TCP connection into a cluster. The end of each direction is that of the connection there; read
/// [`TcpTunnel::closed`](ByteSocket::closed) after both, for the hub's confirmation.
pub type TcpTunnel = ByteSocket<Upgraded>;

impl HubClient {
    /// Connects to a target in a cluster.
    ///
    /// # Errors
    /// Failures of hub and agent; `FL-5133` if the path to the hub passes no WebSocket.
    pub async fn open_tcp(
        &self,
        cluster: &ClusterId,
        target: &TcpTarget,
    ) -> Result<TcpTunnel, HubError> {
        let key = websocket_key();
        let opening = Opening {
            method: Method::GET,
            path: &target.path(cluster),
            headers: upgrade_headers(&key)?,
            body: Bytes::new(),
            deadline: OPEN_DEADLINE,
        };
        let response = self.respond(opening).await?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let response = self.accepted(response).await?;
            let detail = format_args!("the answer has the status {}", response.status());
            return Err(Failure::because(Code::NoWebSocket, detail).into());
        }
        let given = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        if given.is_none_or(|it| it.as_bytes() != websocket_accept(&key).as_bytes()) {
            let detail = "the answer belongs to another request";
            return Err(Failure::because(Code::NoWebSocket, detail).into());
        }
        let upgraded = timeout(OPEN_DEADLINE, response.upgrade()).await;
        let upgraded = upgraded
            .map_err(|error| Failure::because(Code::TcpClientBroke, error))?
            .map_err(|error| Failure::because(Code::TcpClientBroke, error))?;
        Ok(ByteSocket::new(upgraded, SocketRole::Agent, &[]))
    }
}

fn upgrade_headers(key: &str) -> Result<HeaderMap, Failure> {
    let key =
        HeaderValue::from_str(key).map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(HeaderMap::from_iter([
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        ),
        (header::SEC_WEBSOCKET_KEY, key),
        (
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(TCP_PROTOCOL),
        ),
    ]))
}

/// The failure in an error of a [`TcpTunnel`]: that of the hub in its close frame, else `FL-5132`.
#[must_use]
pub fn tunnel_failure(error: &io::Error) -> Failure {
    if let Some(ByteSocketError::Closed { reason, .. }) = ByteSocketError::of(error)
        && let Some((code, cause)) = reason.split_once(": ")
        && let Ok(code) = code.parse::<Code>()
    {
        return Failure::with_cause(code, cause);
    }
    Failure::because(Code::TcpClientBroke, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_of_the_hub_is_read_from_its_close_frame() {
        let closed = |reason: &str| {
            let reason = reason.to_owned();
            tunnel_failure(
                &ByteSocketError::Closed {
                    code: Some(1011),
                    reason,
                }
                .into(),
            )
        };
        let failure = closed("FL-1205: the access has ended: its token was deleted");
        assert_eq!(failure.code, Code::AccessEnded);
        assert_eq!(failure.cause, "the access has ended: its token was deleted");
        for other in ["", "FL-1205", "gone: FL-1205", "FL-9999: x"] {
            assert_eq!(closed(other).code, Code::TcpClientBroke, "{other}");
        }
        assert_eq!(
            tunnel_failure(&ByteSocketError::Cut.into()).code,
            Code::TcpClientBroke
        );
    }
}
