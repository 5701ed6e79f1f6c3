//! An HTTP/1.1 client that sends bytes as they are given.
//!
//! For requests that a server must reject, and for hundreds of watches that as processes would need gigabytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use anyhow::{Context, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Deadline of each step: a connection, an answer, an event of a watch.
const STEP_DEADLINE: Duration = Duration::from_secs(20);
/// Largest head or event, in bytes.
const MAX_HEAD_BYTES: usize = 1024 * 1024;
/// Largest body, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// A byte stream to the server, encrypted or not.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> ByteStream for T {}

type Connect = Arc<dyn Fn(SocketAddr) -> io::Result<std::net::TcpStream> + Send + Sync>;

/// An HTTP/1.1 server as its clients reach it.
#[derive(Clone)]
pub struct RawClient {
    address: SocketAddr,
    tls: Option<(ServerName<'static>, Arc<ClientConfig>)>,
    connect: Option<Connect>,
}

impl fmt::Debug for RawClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawClient({})", self.address)
    }
}

impl RawClient {
    /// A server at `url` (`https://127.0.0.1:PORT`) that has a certificate of this CA for its address.
    ///
    /// # Errors
    /// The URL has no socket address, or the PEM no certificate.
    pub fn new(url: &str, ca_pem: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("https://").context("not https")?;
        let address: SocketAddr = address.trim_end_matches('/').parse()?;
        Self::at(address, ServerName::from(address.ip()), ca_pem)
    }

    /// A server at `address` that has a certificate of this CA for `name`.
    ///
    /// # Errors
    /// The PEM holds no certificate.
    pub fn at(
        address: SocketAddr,
        name: ServerName<'static>,
        ca_pem: &str,
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::with_tls(address, name, Arc::new(tls)))
    }

    /// A server at `address` with a TLS configuration of the caller's.
    #[must_use]
    pub fn with_tls(
        address: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<ClientConfig>,
    ) -> Self {
        Self {
            address,
            tls: Some((name, tls)),
            connect: None,
        }
    }

    /// A server without TLS.
    #[must_use]
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            connect: None,
        }
    }

    /// Opens connections by `connect`, for example from another network namespace. It may block.
    #[must_use]
    pub fn connecting_by(
        mut self,
        connect: impl Fn(SocketAddr) -> io::Result<std::net::TcpStream> + Send + Sync + 'static,
    ) -> Self {
        self.connect = Some(Arc::new(connect));
        self
    }

    /// Address that connections go to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a connection, including TLS.
    ///
    /// # Errors
    /// The server does not accept it, or its certificate is wrong.
    pub async fn connect(&self) -> anyhow::Result<Box<dyn ByteStream>> {
        let address = self.address;
        let tcp = match self.connect.clone() {
            None => TcpStream::connect(address).await?,
            Some(connect) => {
                let tcp = spawn_blocking(move || connect(address)).await??;
                tcp.set_nonblocking(true)?;
                TcpStream::from_std(tcp)?
            }
        };
        tcp.set_nodelay(true)?;
        let Some((name, tls)) = &self.tls else {
            return Ok(Box::new(tcp));
        };
        let connector = TlsConnector::from(tls.clone());
        Ok(Box::new(connector.connect(name.clone(), tcp).await?))
    }

    /// Sends `request` on a new connection and reads the head of one answer.
    ///
    /// # Errors
    /// The server does not answer in time, or not with HTTP.
    pub async fn open(&self, request: &[u8]) -> anyhow::Result<RawExchange> {
        let exchange = async {
            let mut io = self.connect().await?;
            // A server may answer and stop reading before it has the whole request.
            let sent = io.write_all(request).await;
            drop(sent.and(io.flush().await));
            let mut exchange = RawExchange {
                status: 0,
                head: String::new(),
                io,
                buffer: Vec::new(),
            };
            exchange.read_head().await?;
            Ok(exchange)
        };
        timeout(STEP_DEADLINE, exchange)
            .await
            .with_context(|| format!("no answer within {STEP_DEADLINE:?}"))?
    }

    /// Sends `request` on a new connection and reads one whole answer.
    ///
    /// # Errors
    /// As [`RawClient::open`], or the body is incomplete.
    pub async fn send(&self, request: impl AsRef<[u8]>) -> anyhow::Result<RawAnswer> {
        let mut exchange = self.open(request.as_ref()).await?;
        exchange.answer().await
    }

    /// Body of the answer to a GET.
    ///
    /// # Errors
    /// As [`RawClient::send`], or the status is not 200.
    pub async fn get(&self, path: &str) -> anyhow::Result<String> {
        let host = self.address;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let answer = self.send(request).await?;
        if answer.status != 200 {
            bail!("{path}: {} {}", answer.head, answer.text());
        }
        Ok(answer.text())
    }
}

/// An answer whose body has not been read yet. Dropping it closes the connection.
pub struct RawExchange {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    io: Box<dyn ByteStream>,
    /// Bytes received beyond the last part that was read.
    buffer: Vec<u8>,
}

impl fmt::Debug for RawExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawExchange({:?})", self.head)
    }
}

impl RawExchange {
    /// Sends the next request on the same connection and reads one whole answer.
    ///
    /// The last answer must have been read.
    ///
    /// # Errors
    /// As [`RawClient::send`].
    pub async fn again(&mut self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        let head = async {
            self.io.write_all(request).await?;
            self.io.flush().await?;
            self.read_head().await
        };
        let head = timeout(STEP_DEADLINE, head).await;
        head.with_context(|| format!("no answer within {STEP_DEADLINE:?}"))??;
        self.body().await
    }

    /// Reads the rest of the answer.
    ///
    /// # Errors
    /// As [`RawExchange::body`].
    pub async fn answer(&mut self) -> anyhow::Result<RawAnswer> {
        let body = self.body().await?;
        Ok(RawAnswer {
            status: self.status,
            head: self.head.clone(),
            body,
        })
    }

    /// Reads the body of the answer, of a declared length or chunked; without either it ends with the connection where
    /// the server closes it, and is empty otherwise. Statuses without a body (RFC 9110, section 6.4.1) have none.
    ///
    /// # Errors
    /// The body is incomplete or too large.
    pub async fn body(&mut self) -> anyhow::Result<Vec<u8>> {
        if matches!(self.status, 100..200 | 204 | 304) {
            return Ok(Vec::new());
        }
        if let Some(length) = header(&self.head, "content-length") {
            let length = length.parse()?;
            return self.take(length).await;
        }
        if header(&self.head, "transfer-encoding").is_some() {
            return self.chunks().await;
        }
        let mut body = Vec::new();
        if header(&self.head, "connection") == Some("close") {
            body = std::mem::take(&mut self.buffer);
            timeout(STEP_DEADLINE, self.io.read_to_end(&mut body)).await??;
        }
        Ok(body)
    }

    async fn chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = timeout(STEP_DEADLINE, self.read_until(b"\r\n")).await??;
            let size = usize::from_str_radix(std::str::from_utf8(&line)?.trim(), 16)?;
            let chunk = self.take(size + 2).await?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
            if body.len() > MAX_BODY_BYTES {
                bail!("a body of more than {MAX_BODY_BYTES} bytes");
            }
        }
    }

    async fn take(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        if length > MAX_BODY_BYTES {
            bail!("a body of {length} bytes");
        }
        let mut chunk = vec![0; READ_BYTES];
        while self.buffer.len() < length {
            let read = timeout(STEP_DEADLINE, self.io.read(&mut chunk)).await??;
            if read == 0 {
                bail!("the body is incomplete");
            }
            self.buffer.extend_from_slice(&chunk[..read]);
        }
        let behind = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, behind))
    }

    /// Reads until `text` has come and discards everything up to there.
    ///
    /// # Errors
    /// The answer ends before it, or it does not come in time.
    pub async fn wait_for(&mut self, text: &str) -> anyhow::Result<()> {
        let found = timeout(STEP_DEADLINE, self.read_until(text.as_bytes())).await;
        found.with_context(|| format!("{text:?} has not come within {STEP_DEADLINE:?}"))??;
        Ok(())
    }

    /// Reads a chunked answer to its end.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn end(mut self) -> anyhow::Result<BodyEnd> {
        let mut tail = std::mem::take(&mut self.buffer);
        let mut chunk = vec![0; READ_BYTES];
        let end = async {
            loop {
                match self.io.read(&mut chunk).await {
                    Ok(read @ 1..) => tail.extend_from_slice(&chunk[..read]),
                    Ok(0) | Err(_) => return BodyEnd::Incomplete,
                }
                if tail.ends_with(b"\r\n0\r\n\r\n") {
                    return BodyEnd::Complete;
                }
                tail.drain(..tail.len().saturating_sub(16));
            }
        };
        let end = timeout(STEP_DEADLINE, end).await;
        end.with_context(|| format!("no end within {STEP_DEADLINE:?}"))
    }

    async fn read_head(&mut self) -> anyhow::Result<()> {
        self.head = String::from_utf8(self.read_until(b"\r\n\r\n").await?)?;
        let status = self.head.split(' ').nth(1).context("no status")?;
        self.status = status.parse()?;
        Ok(())
    }

    /// Reads everything up to and including `end`.
    async fn read_until(&mut self, end: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut chunk = vec![0; READ_BYTES];
        loop {
            let buffer = &self.buffer;
            let at = buffer.windows(end.len()).position(|window| window == end);
            if let Some(at) = at {
                return Ok(self.buffer.drain(..at + end.len()).collect());
            }
            if self.buffer.len() > MAX_HEAD_BYTES {
                bail!("no {:?} in {MAX_HEAD_BYTES} bytes", end.escape_ascii());
            }
            let read = self.io.read(&mut chunk).await?;
            if read == 0 {
                let received = String::from_utf8_lossy(&self.buffer).into_owned();
                bail!("the connection ended: {received:?}");
            }
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }
}

/// How a chunked answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// With its last chunk.
    Complete,
    /// Before its last chunk, so that every client notices.
    Incomplete,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawAnswer {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// Body without its framing.
    pub body: Vec<u8>,
}

impl RawAnswer {
    /// Reads one answer with a declared length, and no byte beyond it.
    ///
    /// # Errors
    /// As [`RawClient::send`].
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = from.read_u8().await;
            head.push(byte.with_context(|| format!("{:?}", String::from_utf8_lossy(&head)))?);
        }
        let head = String::from_utf8(head)?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let length = header(&head, "content-length").unwrap_or("0").parse()?;
        let mut body = vec![0; length];
        from.read_exact(&mut body).await?;
        Ok(Self { status, head, body })
    }

    /// Value of the first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// Fairlead's own code, or `none`.
    #[must_use]
    pub fn code(&self) -> &str {
        self.header("fairlead-code").unwrap_or("none")
    }

    /// Body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}
