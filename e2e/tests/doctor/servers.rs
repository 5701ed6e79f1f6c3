//! Small servers with one fault each, in the place of a hub or of a proxy.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use fairlead_testkit::tls::{TestCa, TestLeaf};
use rustls::{ServerConfig, pki_types::ServerName};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Names of the servers' certificates.
pub(crate) const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// A server with a fault. It ends when this is dropped.
pub(crate) struct FaultyServer {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
    _socket: Option<TcpSocket>,
}

/// Change of a head on its way, of a request or of an answer.
pub(crate) type EditHead = fn(String) -> String;

impl FaultyServer {
    /// A port that nobody listens on, and that nobody else can take.
    pub(crate) fn refusing() -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind("127.0.0.1:0".parse()?)?;
        Ok(FaultyServer {
            address: socket.local_addr()?,
            _tasks: JoinSet::new(),
            _socket: Some(socket),
        })
    }

    /// Accepts connections, and never sends a byte.
    pub(crate) async fn silent() -> anyhow::Result<Self> {
        Self::serve(|mut tcp| async move {
            let mut bytes = [0; 1024];
            while let Ok(1..) = tcp.read(&mut bytes).await {}
        })
        .await
    }

    /// Answers each request in plain HTTP, as a proxy.
    pub(crate) async fn plain(answer: &'static str) -> anyhow::Result<Self> {
        Self::serve(move |tcp| respond(tcp, answer)).await
    }

    /// Answers each request over TLS, at the present time.
    pub(crate) async fn tls(leaf: &TestLeaf, answer: &str) -> anyhow::Result<Self> {
        let answer = answer.replacen("\r\n", &format!("\r\nDate: {}\r\n", date(0)), 1);
        let tls = TlsAcceptor::from(leaf.server()?);
        Self::serve(move |tcp| {
            let (tls, answer) = (tls.clone(), answer.clone());
            async move {
                if let Ok(tls) = tls.accept(tcp).await {
                    respond(tls, &answer).await;
                }
            }
        })
        .await
    }

    /// Ends TLS in front of a hub, and changes the heads of requests and answers.
    pub(crate) async fn before(
        hub: &fairlead_e2e::Hub,
        tls: Arc<ServerConfig>,
        (request, answer): (EditHead, EditHead),
    ) -> anyhow::Result<Self> {
        let (to, connector) = way_to(hub)?;
        let acceptor = TlsAcceptor::from(tls);
        Self::serve(move |tcp| {
            let (acceptor, connector) = (acceptor.clone(), connector.clone());
            async move {
                // A client that gives up is no failure of this server.
                let _ = relay(tcp, to, (acceptor, connector), (request, answer)).await;
            }
        })
        .await
    }

    /// Ends TLS in front of a hub, and ends each link in the place of its HELLO, as a hub does that needs the place.
    pub(crate) async fn evicting(
        hub: &fairlead_e2e::Hub,
        tls: Arc<ServerConfig>,
    ) -> anyhow::Result<Self> {
        let (to, connector) = way_to(hub)?;
        let acceptor = TlsAcceptor::from(tls);
        Self::serve(move |tcp| {
            let (acceptor, connector) = (acceptor.clone(), connector.clone());
            async move {
                // A client that gives up is no failure of this server.
                let _ = evict(tcp, to, (acceptor, connector)).await;
            }
        })
        .await
    }

    pub(crate) async fn serve<F>(
        handle: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> anyhow::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                connections.spawn(handle(tcp));
            }
        });
        Ok(FaultyServer {
            address,
            _tasks: tasks,
            _socket: None,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn proxy_url(&self) -> String {
        format!("http://user:pr0xy-secret@{}", self.address)
    }
}

/// A CA of this name, its PEM and a leaf for [`NAMES`].
pub(crate) fn ca(name: &str) -> anyhow::Result<(TestCa, TestLeaf)> {
    let ca = TestCa::new(name)?;
    let leaf = ca.leaf(&NAMES)?;
    Ok((ca, leaf))
}

async fn respond<IO: AsyncRead + AsyncWrite + Unpin>(mut io: IO, answer: &str) {
    if read_head(&mut io).await.is_ok() {
        // The client may have gone.
        let _ = io.write_all(answer.as_bytes()).await;
        let _ = io.shutdown().await;
    }
}

/// Serves one CONNECT with this `Proxy-Authorization`, to an address that does not depend on the request.
pub(crate) async fn tunnel<IO: AsyncRead + AsyncWrite + Unpin>(
    mut io: IO,
    to: SocketAddr,
    authorization: &str,
) -> anyhow::Result<()> {
    let head = read_head(&mut io).await?;
    let line = format!("proxy-authorization: {authorization}\r\n");
    if !head.contains(&line) {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n";
        io.write_all(refusal).await?;
        io.shutdown().await?;
        return Ok(());
    }
    let mut there = TcpStream::connect(to).await?;
    io.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await?;
    copy_bidirectional(&mut io, &mut there).await?;
    Ok(())
}

async fn relay(
    tcp: TcpStream,
    to: SocketAddr,
    (acceptor, connector): (TlsAcceptor, TlsConnector),
    (request, answer): (EditHead, EditHead),
) -> anyhow::Result<()> {
    let mut here = acceptor.accept(tcp).await?;
    let name = ServerName::IpAddress(to.ip().into());
    let mut there = connector
        .connect(name, TcpStream::connect(to).await?)
        .await?;
    let head = request(read_head(&mut here).await?);
    there.write_all(head.as_bytes()).await?;
    let head = answer(read_head(&mut there).await?);
    here.write_all(head.as_bytes()).await?;
    copy_bidirectional(&mut here, &mut there).await?;
    Ok(())
}

async fn evict(
    tcp: TcpStream,
    to: SocketAddr,
    (acceptor, connector): (TlsAcceptor, TlsConnector),
) -> anyhow::Result<()> {
    // CLOSE of a link with the reason 9, in a WebSocket frame.
    const BUSY: [u8; 5] = [0x82, 3, 5, 0, 9];
    let mut here = acceptor.accept(tcp).await?;
    let name = ServerName::IpAddress(to.ip().into());
    let mut there = connector
        .connect(name, TcpStream::connect(to).await?)
        .await?;
    let head = read_head(&mut here).await?;
    there.write_all(head.as_bytes()).await?;
    let head = read_head(&mut there).await?;
    here.write_all(head.as_bytes()).await?;
    here.write_all(&BUSY).await?;
    here.shutdown().await?;
    Ok(())
}

/// Reads a head with its empty line.
async fn read_head<IO: AsyncRead + Unpin>(io: &mut IO) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await?);
    }
    String::from_utf8(head).context("a head is text")
}

/// The head without this header.
pub(crate) fn without(head: &str, name: &str) -> String {
    let lines = head.split_inclusive("\r\n");
    let prefix = format!("{name}:");
    lines
        .filter(|line| !line.to_ascii_lowercase().starts_with(&prefix))
        .collect()
}

/// The head with this value of a header.
pub(crate) fn with(head: &str, name: &str, value: &str) -> String {
    let rest = without(head, name);
    let end = rest.trim_end_matches("\r\n");
    format!("{end}\r\n{name}: {value}\r\n\r\n")
}

/// Value of a Date header, this many seconds from now (RFC 9110, section 5.6.7).
pub(crate) fn date(offset_seconds: i64) -> String {
    let at = OffsetDateTime::now_utc() + time::Duration::seconds(offset_seconds);
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    let short = |name: &str| name.chars().take(3).collect::<String>();
    format!(
        "{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
        short(&weekday),
        at.day(),
        short(&month),
        at.year(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// Address of a hub, and the client that trusts it.
fn way_to(hub: &fairlead_e2e::Hub) -> anyhow::Result<(SocketAddr, TlsConnector)> {
    let client = fairlead_testkit::tls::client(&hub.ready().ca_file)?;
    let to = hub.ready().url.trim_start_matches("https://").parse()?;
    Ok((to, TlsConnector::from(client)))
}
