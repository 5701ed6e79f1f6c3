//! A TCP connection into a cluster: the WebSocket of its client, and the `CONNECT` that its agent gets in the place of the
//! client's request. All steps between are those of any request to a cluster.

use std::io;

use fairlead_api::{
    Code, Failure,
    tcp::{TCP_PROTOCOL, TcpTarget, split_tcp_path},
};
use fairlead_dialer::{
    accept::{websocket_connect_response, websocket_response},
    byte_socket::{ByteSocket, ByteSocketError},
    websocket::SocketRole,
};
use fairlead_exchange::{OnUpgrade, Spliced, Upgraded, splice::SpliceEnd, splice_watched};
use fairlead_protocols::LastBytes;
use http::{
    HeaderMap, Method, Request, Response, StatusCode, Uri, Version, request, uri::Authority,
};
use http_body::Body as HttpBody;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
};

use crate::{
    front::{headers, upgrade::Joined},
    http::error::RequestError,
};

/// Status codes of a close (RFC 6455, section 7.4.1).
const NORMAL_CLOSURE: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const INTERNAL_ERROR: u16 = 1011;

/// A client's request for a TCP connection.
pub(crate) struct TcpRequest {
    authority: Authority,
    /// Head of the answer once the connection is there.
    answer: Response<()>,
    client: TcpClient,
}

/// The client's end of a TCP connection.
enum TcpClient {
    /// The WebSocket of a request.
    WebSocket,
    /// A connection of plain bytes, taken once.
    Plain(Option<OnUpgrade>),
    /// The hub itself, which sends requests over the connection; taken once.
    Exchange(Option<oneshot::Sender<Upgraded>>),
}

/// The end of an upgraded request that is joined with the agent's.
pub(crate) enum UpgradeUser {
    /// A client.
    Client(OnUpgrade),
    /// The hub itself.
    Exchange(oneshot::Sender<Upgraded>),
}

impl TcpRequest {
    /// Checks the target in the path and the headers of the WebSocket.
    ///
    /// # Errors
    /// `FL-1420`, `FL-1421`, `FL-1202`.
    pub(crate) fn of<B: HttpBody>(request: &Request<B>) -> Result<Self, RequestError> {
        let uri = request.uri();
        let (_, target) = split_tcp_path(uri.path()).ok_or(RequestError::NoSuchCluster)?;
        let target = TcpTarget::of_segment(target)?;
        if uri.query().is_some() {
            return Err(RequestError::TcpUpgrade("the path takes no query"));
        }
        let is_over_http2 = match request.version() {
            Version::HTTP_11 => false,
            Version::HTTP_2 => true,
            _ => {
                return Err(RequestError::TcpUpgrade(
                    "the request came over another version of HTTP",
                ));
            }
        };
        if !request.body().is_end_stream() {
            return Err(RequestError::TcpUpgrade("the request has a body"));
        }
        if headers::impersonated(request.headers())?.is_some() {
            return Err(RequestError::NoImpersonation);
        }
        let answer = match is_over_http2 {
            true => connect_answer(request)?,
            false => upgrade_answer(request)?,
        };
        let authority = Authority::try_from(target.to_string()).map_err(RequestError::path)?;
        Ok(TcpRequest {
            authority,
            answer,
            client: TcpClient::WebSocket,
        })
    }

    /// The connection of a client of a named service.
    ///
    /// # Errors
    /// `FL-1303` for a target that no authority can have.
    pub(crate) fn of_service(target: &TcpTarget, client: OnUpgrade) -> Result<Self, RequestError> {
        Self::without_request(target, TcpClient::Plain(Some(client)))
    }

    fn without_request(target: &TcpTarget, client: TcpClient) -> Result<Self, RequestError> {
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        Ok(TcpRequest {
            authority: Authority::try_from(target.to_string()).map_err(RequestError::path)?,
            answer,
            client,
        })
    }

    /// A connection for requests of the hub itself; completes once the target is connected.
    ///
    /// # Errors
    /// `FL-1303` for a target that no authority can have.
    pub(crate) fn of_exchange(
        target: &TcpTarget,
    ) -> Result<(Self, oneshot::Receiver<Upgraded>), RequestError> {
        let (send, connected) = oneshot::channel();
        let request = Self::without_request(target, TcpClient::Exchange(Some(send)))?;
        Ok((request, connected))
    }

    /// The end that is joined with the agent's; `None` for a WebSocket.
    pub(crate) fn take_user(&mut self) -> Option<UpgradeUser> {
        match &mut self.client {
            TcpClient::WebSocket => None,
            TcpClient::Plain(client) => client.take().map(UpgradeUser::Client),
            TcpClient::Exchange(send) => send.take().map(UpgradeUser::Exchange),
        }
    }

    /// Form in which the client's end is joined with the agent's.
    pub(crate) const fn joined(&self) -> Joined {
        match self.client {
            TcpClient::WebSocket => Joined::Tcp,
            TcpClient::Plain(_) | TcpClient::Exchange(_) => Joined::Plain,
        }
    }

    /// The head that the agent gets.
    pub(crate) fn set_connect(&self, head: &mut request::Parts) {
        head.method = Method::CONNECT;
        head.headers = HeaderMap::new();
        head.uri = Uri::from(self.authority.clone());
    }

    /// Head of the answer to the client.
    pub(crate) fn into_answer(self) -> Response<()> {
        self.answer
    }
}

/// Answer to a WebSocket over HTTP/1.1 (RFC 6455, section 4.2.2).
fn upgrade_answer<B>(request: &Request<B>) -> Result<Response<()>, RequestError> {
    if request.method() != Method::GET {
        return Err(RequestError::TcpUpgrade("the request is not a GET"));
    }
    if headers::requested_upgrade(request).is_none() {
        return Err(RequestError::TcpUpgrade(
            "the request wants no upgrade to one protocol",
        ));
    }
    websocket_response(request, TCP_PROTOCOL).map_err(|_| {
        RequestError::TcpUpgrade(
            "the request needs version 13, a key, and the subprotocol v1.tcp.fairlead.io",
        )
    })
}

/// Answer to a WebSocket over HTTP/2 (RFC 8441, section 5), which has no key.
fn connect_answer<B>(request: &Request<B>) -> Result<Response<()>, RequestError> {
    if !headers::is_websocket_connect(request) {
        return Err(RequestError::TcpUpgrade(
            "over HTTP/2 the request must be a CONNECT with the protocol websocket",
        ));
    }
    websocket_connect_response(request, TCP_PROTOCOL).map_err(|_| {
        RequestError::TcpUpgrade(
            "the request needs version 13 and the subprotocol v1.tcp.fairlead.io",
        )
    })
}

/// Copies both directions of a connection between the client's WebSocket and the agent's stream.
///
/// A client that has ended its direction still gets pings, and its close is noticed.
pub(crate) async fn splice_tcp<IO>(client: IO, agent: Upgraded) -> Spliced
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let socket = ByteSocket::new(client, SocketRole::Hub, &[]);
    splice_watched(socket, agent, ByteSocket::poll_closed).await
}

/// Close frame that reports the end to the client; `None` if the client closed or left.
pub(crate) fn last_bytes(end: &SpliceEnd) -> Option<LastBytes> {
    let failed = |status, code, error: &io::Error| {
        LastBytes::of_tcp(status, Some(&Failure::because(code, error)))
    };
    match end {
        SpliceEnd::Clean => Some(LastBytes::of_tcp(NORMAL_CLOSURE, None)),
        SpliceEnd::B(error) => Some(failed(INTERNAL_ERROR, Code::TcpBroke, error)),
        SpliceEnd::A(error) => match ByteSocketError::of(error)? {
            ByteSocketError::Invalid(_) | ByteSocketError::AfterEnd => {
                Some(failed(PROTOCOL_ERROR, Code::TcpFrames, error))
            }
            ByteSocketError::Closed { .. } | ByteSocketError::Cut => None,
        },
    }
}

/// Refuses the answer of an agent that neither connects nor reports a failure.
pub(crate) fn unexpected_answer(response: &Response<impl Sized>) -> Failure {
    let status = response.status().as_u16();
    let detail = format_args!("the agent answered a CONNECT with status {status}");
    Failure::because(Code::TunnelBroke, detail)
}

#[cfg(test)]
mod tests;
