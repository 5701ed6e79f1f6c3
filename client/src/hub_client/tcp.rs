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
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Empty;
use hyper::ext::Protocol;
use reqwest::{Body, Response, Upgraded};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use super::{
    HubClient, HubError,
    http2::{Requests, SharedConnections, SocketUse},
    streams::Opening,
};

/// Limit for the hub's answer: it waits for a cluster without a session, and the agent for the target.
const OPEN_DEADLINE: Duration = Duration::from_secs(45);

/// Bytes of a TCP connection into a cluster. The end of each direction is that of the connection there; read
/// [`closed`](ByteSocket::closed) after both, for the hub's confirmation.
pub type TcpSocket = ByteSocket<Upgraded>;

/// One TCP connection into a cluster.
pub struct TcpTunnel {
    /// Its bytes.
    pub socket: TcpSocket,
    _use: Option<SocketUse>,
}

impl HubClient {
    /// Connects to a target in a cluster, on a connection of its own.
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
        Ok(TcpTunnel {
            socket: upgraded(response).await?,
            _use: None,
        })
    }

    /// Connects to a target in a cluster, on a stream of a shared connection after several brief ones.
    ///
    /// # Errors
    /// As for [`HubClient::open_tcp`].
    pub async fn open_tcp_shared(
        &self,
        cluster: &ClusterId,
        target: &TcpTarget,
        shared: &SharedConnections,
    ) -> Result<TcpTunnel, HubError> {
        let (socket_use, requests) = shared.begin();
        let response = match requests {
            Some(requests) => self.open_stream(cluster, target, requests).await?,
            None => None,
        };
        let socket = match response {
            Some(response) => upgraded(response).await?,
            None => self.open_tcp(cluster, target).await?.socket,
        };
        Ok(TcpTunnel {
            socket,
            _use: Some(socket_use),
        })
    }

    /// Opens a stream of a shared connection; `None` if that breaks or ends before an answer.
    async fn open_stream(
        &self,
        cluster: &ClusterId,
        target: &TcpTarget,
        mut requests: Requests,
    ) -> Result<Option<Response>, HubError> {
        let request = self.connect_request(&target.path(cluster)).await?;
        match timeout(OPEN_DEADLINE, requests.send_request(request)).await {
            Ok(Ok(response)) => {
                let response = Response::from(response.map(Body::wrap));
                Ok(Some(self.accepted(response).await?))
            }
            Ok(Err(_)) => Ok(None),
            Err(_) => Err(self.silent(OPEN_DEADLINE)),
        }
    }

    /// Request for a WebSocket over HTTP/2 (RFC 8441, section 5).
    async fn connect_request(&self, path: &str) -> Result<Request<Empty<Bytes>>, HubError> {
        let token = self.token().await?;
        let mut request = Request::connect(format!("https://{}{path}", self.url().authority()))
            .extension(Protocol::from_static("websocket"))
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_PROTOCOL, TCP_PROTOCOL);
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
            let mut value = value.map_err(|error| Failure::because(Code::Internal, error))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(Empty::new());
        Ok(request.map_err(|error| Failure::because(Code::Internal, error))?)
    }
}

async fn upgraded(response: Response) -> Result<TcpSocket, HubError> {
    let upgraded = timeout(OPEN_DEADLINE, response.upgrade()).await;
    let upgraded = upgraded
        .map_err(|error| Failure::because(Code::TcpClientBroke, error))?
        .map_err(|error| Failure::because(Code::TcpClientBroke, error))?;
    Ok(ByteSocket::new(upgraded, SocketRole::Agent, &[]))
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

/// The failure in an error of a [`TcpSocket`]: that of the hub in its close frame, else `FL-5132`.
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
