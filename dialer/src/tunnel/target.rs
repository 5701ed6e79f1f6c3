//! TCP through a session: CONNECT on a stream of its own (RFC 9110, section 9.3.6), then raw bytes with half-close.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use fairlead_api::error_chain;
use http::{Method, Request, StatusCode, header, uri::Authority};
use http_body_util::Empty;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    dial::upgrade::{NotSwitched, Switched, switch},
    error::OpenError,
    mux::Stream,
    reset_socket::ResetSocket,
    session::Session,
};

/// Time for the agent's answer. The agent itself gives a target 10 s; the rest is for a link that is being resumed.
const CONNECT_DEADLINE: Duration = Duration::from_secs(30);
/// Size of the copy buffer of each direction, in bytes.
const COPY_BYTES: usize = 16 * 1024;
/// Time for received bytes to reach the TCP connection after the stream was reset.
const LEFTOVER_DEADLINE: Duration = Duration::from_secs(5);

/// TCP connection of the agent to a target, at the hub's end.
///
/// Shutting it down ends this direction only. A broken session, or an agent that loses its target, is an error of the
/// next read or write, never an end. Dropped before both directions have ended, it resets the target's connection.
pub struct TargetStream {
    stream: Stream,
    /// Bytes that arrived with the answer.
    received: Bytes,
}

/// Failure to connect to a target through an agent.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The target is not `host:port`. Nothing was sent.
    #[error("the target {0:?} is not host:port")]
    Name(String),
    /// The session has no stream for it. Nothing was sent.
    #[error("no stream was opened")]
    Open(#[source] OpenError),
    /// The agent's answer: 403 for a target that its rule does not allow, 502 for one that it cannot reach, 504 for one
    /// without an answer.
    #[error("the agent answered {status}: {cause}")]
    Refused {
        /// Status of the answer.
        status: StatusCode,
        /// First line of the answer's body, up to 200 characters, or empty.
        cause: String,
    },
    /// The stream broke before the answer.
    #[error("the stream broke before an answer: {0}")]
    Broken(String),
    /// No answer within this time.
    #[error("the agent did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// One of the two connections broke after the answer.
    #[error("the connection broke: {0}")]
    Copy(#[source] io::Error),
}

impl TargetStream {
    /// Connects to `target`, a `host:port` that the agent resolves and allows. An IPv6 address has brackets.
    ///
    /// # Errors
    ///
    /// [`TargetError`]; after 30 s without an answer, [`TargetError::Silent`].
    pub async fn connect(session: &Session, target: &str) -> Result<Self, TargetError> {
        let invalid = || TargetError::Name(target.to_owned());
        let authority: Authority = target.parse().map_err(|_| invalid())?;
        if authority.port_u16().is_none() || authority.as_str().contains('@') {
            return Err(invalid());
        }
        let request = Request::builder()
            .method(Method::CONNECT)
            .uri(authority.as_str())
            .header(header::HOST, authority.as_str())
            .body(Empty::<Bytes>::new())
            .map_err(|_| invalid())?;
        let stream = session.open().await.map_err(TargetError::Open)?;
        let switched = timeout(CONNECT_DEADLINE, switch(stream, request, StatusCode::OK)).await;
        let Switched { io, read, .. } = match switched {
            Ok(switched) => switched.map_err(TargetError::from)?,
            Err(_) => return Err(TargetError::Silent(CONNECT_DEADLINE)),
        };
        Ok(Self::new(io, read))
    }

    /// `received` holds bytes that precede those of the stream.
    pub(super) fn new(stream: Stream, received: Bytes) -> Self {
        TargetStream { stream, received }
    }

    /// Copies both ways until both directions have ended, each one separately, and returns the bytes sent to the target
    /// and those received from it.
    ///
    /// # Errors
    ///
    /// Either side broke. `tcp` is then reset, so that its program never takes a broken tunnel for an end. Dropping the
    /// future does the same.
    pub async fn forward(self, tcp: TcpStream) -> io::Result<(u64, u64)> {
        self.copy(ResetSocket::new(tcp)).await
    }

    async fn copy(mut self, mut tcp: ResetSocket) -> io::Result<(u64, u64)> {
        tcp.set_nodelay()?;
        let gone = self.stream.gone();
        let copying = copy_bidirectional_with_sizes(&mut tcp, &mut self, COPY_BYTES, COPY_BYTES);
        tokio::select! {
            biased;
            copied = copying => copied,
            () = async { gone.await; sleep(LEFTOVER_DEADLINE).await } => {
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }
}

/// Connects to `target` through an agent, and copies both ways between it and `tcp`, as a port forward does.
///
/// Returns the bytes sent to the target and those received from it.
///
/// # Errors
///
/// As for [`TargetStream::connect`], and [`TargetError::Copy`]. `tcp` is then reset; dropping the future does the same.
pub async fn forward(
    session: Session,
    target: String,
    tcp: TcpStream,
) -> Result<(u64, u64), TargetError> {
    let tcp = ResetSocket::new(tcp);
    let stream = TargetStream::connect(&session, &target).await?;
    stream.copy(tcp).await.map_err(TargetError::Copy)
}

impl From<NotSwitched> for TargetError {
    fn from(why: NotSwitched) -> Self {
        match why {
            NotSwitched::Refused { status, cause, .. } => TargetError::Refused { status, cause },
            NotSwitched::Broken(error) => TargetError::Broken(error_chain(&error)),
        }
    }
}

impl AsyncRead for TargetStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let part = self.received.len().min(buf.remaining());
        buf.put_slice(self.received.get(..part).unwrap_or_default());
        self.received.advance(part);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TargetStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
