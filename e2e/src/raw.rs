//! HTTP/1.1 on the hub's front byte by byte, as no well-behaved client sends it: for what must be refused, and for
//! hundreds of watches at once, which as processes would need gigabytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::NetNs;

/// For each step: connecting, an answer, an event of a watch.
const DEADLINE: Duration = Duration::from_secs(20);
/// No head or event that is asked for here is larger, in bytes.
const MAX: usize = 1024 * 1024;

/// The front of a hub, as a client sees it.
#[derive(Debug, Clone)]
pub struct Front {
    address: SocketAddr,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    net: Option<NetNs>,
}

impl Front {
    /// The hub at `url` (`https://127.0.0.1:PORT`), believed by this CA.
    ///
    /// # Errors
    /// The URL has no socket address, or the PEM no certificate.
    pub fn new(url: &str, ca_pem: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("https://").context("not https")?;
        let address: SocketAddr = address.trim_end_matches('/').parse()?;
        Self::at(address, ServerName::from(address.ip()), ca_pem)
    }

    /// The hub that has this name and listens there.
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
        Ok(Self {
            address,
            name,
            tls: Arc::new(tls),
            net: None,
        })
    }

    /// The same for who is in that network namespace.
    #[must_use]
    pub fn in_net(mut self, net: &NetNs) -> Self {
        self.net = Some(net.clone());
        self
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends these bytes on a connection of their own and reads the head of one answer.
    ///
    /// # Errors
    /// The hub says nothing in time, or nothing that is HTTP.
    pub async fn open(&self, request: &[u8]) -> anyhow::Result<Exchange> {
        let exchange = async {
            let mut tls = self.connect().await?;
            // The hub may answer, and stop reading, before all of it is sent.
            let sent = tls.write_all(request).await;
            drop(sent.and(tls.flush().await));
            let mut rest = Vec::new();
            let head = read_until(&mut tls, &mut rest, b"\r\n\r\n").await?;
            let head = String::from_utf8(head)?;
            let status = head.split(' ').nth(1).context("no status")?.parse()?;
            Ok(Exchange {
                status,
                head,
                tls,
                rest,
            })
        };
        timeout(DEADLINE, exchange)
            .await
            .with_context(|| format!("no answer within {DEADLINE:?}"))?
    }

    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let (address, net) = (self.address, self.net.clone());
        let tcp = match net {
            None => TcpStream::connect(address).await?,
            Some(net) => {
                let tcp = spawn_blocking(move || net.connect(address)).await??;
                tcp.set_nonblocking(true)?;
                TcpStream::from_std(tcp)?
            }
        };
        tcp.set_nodelay(true)?;
        let connector = TlsConnector::from(self.tls.clone());
        Ok(connector.connect(self.name.clone(), tcp).await?)
    }

    /// Sends these bytes on a connection of their own and reads one whole answer.
    ///
    /// # Errors
    /// As [`Front::open`], or the body breaks off.
    pub async fn send(&self, request: impl AsRef<[u8]>) -> anyhow::Result<Answer> {
        let mut exchange = self.open(request.as_ref()).await?;
        let body = exchange.body().await?;
        Ok(Answer {
            status: exchange.status,
            head: exchange.head,
            body,
        })
    }
}

/// An answer whose body has not been read; dropping it closes the connection.
#[derive(Debug)]
pub struct Exchange {
    pub status: u16,
    pub head: String,
    tls: TlsStream<TcpStream>,
    rest: Vec<u8>,
}

impl Exchange {
    /// Sends the next request on the same connection, whose last answer has been read, and reads one whole answer.
    ///
    /// # Errors
    /// As [`Front::send`].
    pub async fn again(&mut self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        let head = async {
            self.tls.write_all(request).await?;
            self.tls.flush().await?;
            read_until(&mut self.tls, &mut self.rest, b"\r\n\r\n").await
        };
        let head = timeout(DEADLINE, head).await;
        let head = head.with_context(|| format!("no answer within {DEADLINE:?}"))??;
        self.head = String::from_utf8(head)?;
        let status = self.head.split(' ').nth(1).context("no status")?;
        self.status = status.parse()?;
        self.body().await
    }

    /// The body of an answer that says its length.
    ///
    /// # Errors
    /// It breaks off, or is larger than anything that is asked for here.
    pub async fn body(&mut self) -> anyhow::Result<Vec<u8>> {
        let length: usize = match header(&self.head, "content-length") {
            Some(length) => length.parse()?,
            None => 0,
        };
        if length > MAX {
            bail!("an answer of {length} bytes");
        }
        let mut chunk = vec![0; 4096];
        while self.rest.len() < length {
            let read = timeout(DEADLINE, self.tls.read(&mut chunk)).await??;
            if read == 0 {
                bail!("the answer breaks off");
            }
            self.rest.extend(chunk.iter().take(read));
        }
        let behind = self.rest.split_off(length);
        Ok(std::mem::replace(&mut self.rest, behind))
    }

    /// Reads on until `text` has come; what came before it is forgotten.
    ///
    /// # Errors
    /// The answer ends before, or it has not come in time.
    pub async fn wait_for(&mut self, text: &str) -> anyhow::Result<()> {
        let found = read_until(&mut self.tls, &mut self.rest, text.as_bytes());
        let found = timeout(DEADLINE, found).await;
        found.with_context(|| format!("{text:?} has not come within {DEADLINE:?}"))??;
        Ok(())
    }
}

/// How an answer of unknown length ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With its last chunk: nothing is missing.
    Whole,
    /// Before it, so that everybody sees that something is missing.
    BrokenOff,
}

impl Exchange {
    /// Reads a chunked answer to its end.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn end(mut self) -> anyhow::Result<End> {
        let mut tail = std::mem::take(&mut self.rest);
        let mut chunk = vec![0; 16 * 1024];
        let end = async {
            loop {
                match self.tls.read(&mut chunk).await {
                    Ok(read @ 1..) => tail.extend(chunk.iter().take(read)),
                    Ok(0) | Err(_) => return End::BrokenOff,
                }
                if tail.ends_with(b"\r\n0\r\n\r\n") {
                    return End::Whole;
                }
                tail.drain(..tail.len().saturating_sub(16));
            }
        };
        let end = timeout(DEADLINE, end).await;
        end.with_context(|| format!("no end within {DEADLINE:?}"))
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The hub's own code, if it has one to tell.
    #[must_use]
    pub fn code(&self) -> &str {
        self.header("fairlead-code").unwrap_or("none")
    }

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

/// Everything up to and with `end`; what came after it stays in `rest`.
async fn read_until(
    from: &mut TlsStream<TcpStream>,
    rest: &mut Vec<u8>,
    end: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let at = rest.windows(end.len()).position(|window| window == end);
        if let Some(at) = at {
            return Ok(rest.drain(..at + end.len()).collect());
        }
        if rest.len() > MAX {
            bail!("more than {MAX} bytes, and no {:?}", end.escape_ascii());
        }
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            let said = String::from_utf8_lossy(rest).into_owned();
            bail!("the connection ended: {said:?}");
        }
        rest.extend(chunk.iter().take(read));
    }
}
