//! What the load client asks, and of whom: one request, over and over, on connections that are kept.

use std::{
    convert::Infallible,
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
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, time};
use tokio_rustls::TlsConnector;

use super::Run;

const CONNECT: Duration = Duration::from_secs(10);
/// How much of an upload is handed over at once.
const PIECE: usize = 64 * 1024;
/// How much of an answer that is not 200 is worth quoting.
const QUOTED: usize = 300;

pub(super) type Connection = SendRequest<Either<Empty<Bytes>, Upload>>;

pub(crate) struct Wanted<'a> {
    pub(crate) url: &'a Uri,
    pub(crate) path: &'a str,
    pub(crate) upload: Option<usize>,
    pub(crate) expect: Option<usize>,
    pub(crate) server_name: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) token: Option<&'a str>,
    pub(crate) tls: Arc<ClientConfig>,
}

pub(crate) struct Target {
    address: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    uri: Uri,
    headers: HeaderMap,
    upload: Option<Bytes>,
    expect: Option<usize>,
}

impl Target {
    pub(crate) fn new(wanted: Wanted<'_>) -> anyhow::Result<Self> {
        let authority = wanted
            .url
            .authority()
            .with_context(|| format!("{} is not https://HOST:PORT", wanted.url))?;
        ensure!(
            wanted.url.scheme_str() == Some("https"),
            "{} is not https",
            wanted.url
        );
        let mut headers = HeaderMap::new();
        headers.insert(
            HOST,
            HeaderValue::from_str(wanted.host.unwrap_or(authority.as_str()))?,
        );
        if let Some(token) = wanted.token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))
                .context("the token cannot stand in a header")?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(Self {
            address: format!(
                "{}:{}",
                authority.host(),
                authority.port_u16().unwrap_or(443)
            ),
            name: ServerName::try_from(wanted.server_name.unwrap_or(authority.host()).to_owned())?,
            tls: TlsConnector::from(wanted.tls),
            uri: format!("{}{}", wanted.url.path().trim_end_matches('/'), wanted.path).parse()?,
            headers,
            upload: wanted.upload.map(|size| Bytes::from(vec![b'f'; size])),
            expect: wanted.expect,
        })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        let dial = async {
            let socket = TcpStream::connect(&self.address).await?;
            socket.set_nodelay(true)?;
            let stream = self.tls.connect(self.name.clone(), socket).await?;
            anyhow::Ok(http1::handshake(TokioIo::new(stream)).await?)
        };
        let dialed = time::timeout(CONNECT, dial)
            .await
            .context("no connection in time")?;
        let (connection, driver) =
            dialed.with_context(|| format!("connecting to {}", self.address))?;
        // Ends with the connection; what goes wrong on it is the failure of the request under way.
        drop(tokio::spawn(driver));
        Ok(connection)
    }

    /// One request and its whole answer.
    pub(super) async fn exchange(
        &self,
        connection: &mut Connection,
        run: &Arc<Run>,
    ) -> anyhow::Result<()> {
        connection.ready().await?;
        let answer = connection.send_request(self.request(run)).await?;
        let status = answer.status();
        if status != StatusCode::OK {
            let body = answer.into_body().collect().await?.to_bytes();
            let quoted = body.get(..QUOTED).unwrap_or(&body);
            anyhow::bail!("{status}: {}", String::from_utf8_lossy(quoted));
        }
        match &self.upload {
            None => {
                let bytes = download(answer.into_body(), run).await?;
                let expected = self.expect.unwrap_or(bytes);
                ensure!(
                    bytes == expected,
                    "{bytes} bytes came instead of {expected}"
                );
            }
            Some(sent) => {
                let received = answer.into_body().collect().await?.to_bytes();
                let received = String::from_utf8_lossy(&received);
                ensure!(
                    received == sent.len().to_string(),
                    "{received} bytes arrived of {}",
                    sent.len()
                );
            }
        }
        Ok(())
    }

    fn request(&self, run: &Arc<Run>) -> Request<Either<Empty<Bytes>, Upload>> {
        let (method, body) = match &self.upload {
            None => (Method::GET, Either::Left(Empty::new())),
            Some(bytes) => (
                Method::POST,
                Either::Right(Upload {
                    left: bytes.clone(),
                    run: run.clone(),
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

async fn download(mut body: Incoming, run: &Run) -> anyhow::Result<usize> {
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let bytes = frame?.data_ref().map_or(0, Bytes::len);
        run.count(bytes);
        total += bytes;
    }
    Ok(total)
}

/// A request body that counts its bytes as the connection takes them.
pub(super) struct Upload {
    left: Bytes,
    run: Arc<Run>,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.left.len().min(PIECE);
        let piece = self.left.split_to(size);
        self.run.count(size);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
