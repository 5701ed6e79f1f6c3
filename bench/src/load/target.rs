//! Target of the load client: one request, repeated on kept connections.

use std::{
    convert::Infallible,
    ops::RangeInclusive,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Empty};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::{Body, Frame, Incoming, SizeHint},
    header::{ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, HOST, HeaderValue, UPGRADE},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time,
};

use super::{
    LoadRoute,
    sender::{HttpSender, RequestBody, SharedConnection},
    window::LoadWindow,
};
use crate::{dial::Dial, upstream::ECHO};

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// Size of the pieces in which an upload is handed over.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of an error's body that are quoted.
const MAX_QUOTED_BYTES: usize = 300;

/// Message that is sent over an upgraded connection and echoed.
const ECHO_MESSAGE: [u8; 64] = [b'e'; 64];

pub(super) enum Connection {
    Http(HttpSender),
    /// Upgraded once, when the connection was opened.
    Echo(TokioIo<Upgraded>),
}

pub(crate) struct Wanted<'a> {
    pub(crate) url: &'a Uri,
    pub(crate) path: &'a str,
    pub(crate) body: Sent,
    /// Allowed sizes of an answer to GET, in bytes.
    pub(crate) expect: RangeInclusive<usize>,
    pub(crate) server_name: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) token: Option<&'a str>,
    /// Required where `url` is https.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Unix socket that accepts CONNECT_DEADLINE to `url`.
    pub(crate) via: Option<PathBuf>,
    /// Upgrade each connection and have 64 bytes echoed, instead of requests.
    pub(crate) echo: bool,
}

/// Body of a request: GET without a body, POST with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Nothing,
    Bytes(usize),
    Endless,
}

pub(crate) struct Target {
    dial: Dial,
    uri: Uri,
    headers: HeaderMap,
    body: Sent,
    /// The whole body, or one piece of an endless one.
    bytes: Bytes,
    expect: RangeInclusive<usize>,
    echo: bool,
    /// Set for HTTP/2.
    shared: Option<SharedConnection>,
}

impl Target {
    pub(crate) fn new(wanted: Wanted<'_>) -> anyhow::Result<Self> {
        let authority = wanted
            .url
            .authority()
            .with_context(|| format!("{} is not https://HOST:PORT", wanted.url))?;
        let tls = match wanted.url.scheme_str() {
            Some("https") => Some(wanted.tls.context("https needs an authority to trust")?),
            Some("http") => None,
            _ => anyhow::bail!("{} is neither https nor http", wanted.url),
        };
        let mut headers = HeaderMap::new();
        headers.insert(
            HOST,
            HeaderValue::from_str(wanted.host.unwrap_or(authority.as_str()))?,
        );
        // Go's client requests gzip by default, which would change the measured work.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(token) = wanted.token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))
                .context("the token cannot stand in a header")?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(Self {
            dial: Dial::new(
                authority,
                wanted.server_name.unwrap_or(authority.host()),
                tls,
                wanted.via,
            )?,
            uri: format!("{}{}", wanted.url.path().trim_end_matches('/'), wanted.path).parse()?,
            headers,
            body: wanted.body,
            bytes: Bytes::from(match wanted.body {
                Sent::Nothing => Vec::new(),
                Sent::Bytes(size) => vec![b'f'; size],
                Sent::Endless => vec![b'f'; PIECE_BYTES],
            }),
            expect: wanted.expect,
            echo: wanted.echo,
            shared: None,
        })
    }

    /// Sends requests as streams of one HTTP/2 connection. The TLS configuration must have `h2` by ALPN.
    ///
    /// # Errors
    /// `url` has no authority.
    pub(crate) fn over_http2(mut self, url: &Uri) -> anyhow::Result<Self> {
        // HTTP/2 has scheme and authority in the request line's place, and no Host header.
        let mut parts = std::mem::take(&mut self.uri).into_parts();
        parts.scheme = url.scheme().cloned();
        parts.authority = url.authority().cloned();
        self.uri = Uri::from_parts(parts)?;
        self.headers.remove(HOST);
        self.shared = Some(SharedConnection::default());
        Ok(self)
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        let dial = async {
            let sender = match &self.shared {
                Some(shared) => shared.sender(&self.dial).await?,
                None => HttpSender::http1(self.dial.open().await?).await?,
            };
            if self.echo {
                self.upgrade(sender).await
            } else {
                Ok(Connection::Http(sender))
            }
        };
        time::timeout(CONNECT_DEADLINE, dial)
            .await
            .context("no connection in time")?
            .with_context(|| format!("connecting to {}", self.uri))
    }

    async fn upgrade(&self, mut sender: HttpSender) -> anyhow::Result<Connection> {
        let mut request = Request::new(Either::Left(Empty::new()));
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(ECHO));
        let answer = sender.send_request(request).await?;
        ensure!(
            answer.status() == StatusCode::SWITCHING_PROTOCOLS,
            "{} instead of an upgrade",
            answer.status()
        );
        let upgraded = hyper::upgrade::on(answer).await?;
        Ok(Connection::Echo(TokioIo::new(upgraded)))
    }

    /// One request and its whole answer, or one message and its echo.
    pub(super) async fn exchange(
        &self,
        connection: &mut Connection,
        window: &Arc<LoadWindow>,
    ) -> anyhow::Result<()> {
        match connection {
            Connection::Http(sender) => self.request_once(sender, window).await,
            Connection::Echo(stream) => {
                stream.write_all(&ECHO_MESSAGE).await?;
                stream.flush().await?;
                let mut back = [0; ECHO_MESSAGE.len()];
                stream.read_exact(&mut back).await?;
                ensure!(
                    back == ECHO_MESSAGE,
                    "the echo differs from the sent message"
                );
                window.count(back.len());
                Ok(())
            }
        }
    }

    /// One GET on a new connection. A failed status is an error.
    pub(crate) async fn once(&self) -> anyhow::Result<Bytes> {
        Ok(self.open().await?.collect().await?.to_bytes())
    }

    /// Opens the body of an answer and reads nothing of it.
    pub(crate) async fn open(&self) -> anyhow::Result<Incoming> {
        let Connection::Http(mut sender) = self.connect().await? else {
            anyhow::bail!("an echo has no answer");
        };
        let mut request = Request::new(Either::Left(Empty::new()));
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let answer = sender.send_request(request).await?;
        ensure!(answer.status() == StatusCode::OK, "{}", answer.status());
        Ok(answer.into_body())
    }

    async fn request_once(
        &self,
        connection: &mut HttpSender,
        window: &Arc<LoadWindow>,
    ) -> anyhow::Result<()> {
        connection.ready().await?;
        let answer = connection.send_request(self.request(window)).await?;
        let status = answer.status();
        if status != StatusCode::OK {
            let body = answer.into_body().collect().await?.to_bytes();
            let quoted = body.get(..MAX_QUOTED_BYTES).unwrap_or(&body);
            anyhow::bail!("{status}: {}", String::from_utf8_lossy(quoted));
        }
        match self.body {
            Sent::Nothing => {
                let bytes = download(answer.into_body(), window).await?;
                // A body that this client aborted has any length.
                ensure!(
                    (window.cut && window.ended()) || self.expect.contains(&bytes),
                    "{bytes} bytes came instead of {}",
                    self.expect.start()
                );
            }
            Sent::Bytes(sent) => {
                let received = answer.into_body().collect().await?.to_bytes();
                let received = String::from_utf8_lossy(&received);
                ensure!(
                    received == sent.to_string(),
                    "{received} bytes arrived of {sent}"
                );
            }
            Sent::Endless => anyhow::bail!("an answer before the end"),
        }
        Ok(())
    }

    fn request(&self, window: &Arc<LoadWindow>) -> Request<RequestBody> {
        let (method, body) = match self.body {
            Sent::Nothing => (Method::GET, Either::Left(Empty::new())),
            Sent::Bytes(_) | Sent::Endless => (
                Method::POST,
                Either::Right(Upload {
                    left: self.bytes.clone(),
                    again: (self.body == Sent::Endless).then(|| self.bytes.clone()),
                    window: window.clone(),
                }),
            ),
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl LoadRoute for Target {
    type Connection = Connection;

    async fn connect(&self) -> anyhow::Result<Connection> {
        Self::connect(self).await
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        window: &Arc<LoadWindow>,
    ) -> anyhow::Result<()> {
        Self::exchange(self, connection, window).await
    }
}

async fn download(mut body: Incoming, window: &LoadWindow) -> anyhow::Result<usize> {
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let bytes = frame?.data_ref().map_or(0, Bytes::len);
        window.count(bytes);
        total += bytes;
        if window.cut && window.ended() {
            break;
        }
    }
    Ok(total)
}

/// A request body that counts its bytes as the connection takes them.
pub(super) struct Upload {
    left: Bytes,
    /// Piece to repeat when nothing is left.
    again: Option<Bytes>,
    window: Arc<LoadWindow>,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            match &self.again {
                Some(bytes) => self.left = bytes.clone(),
                None => return Poll::Ready(None),
            }
        }
        let size = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(size);
        self.window.count(size);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.again.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.again {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.left.len() as u64),
        }
    }
}
