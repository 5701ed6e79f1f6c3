//! HTTP server of the roles `upstream` and `proxy`: two ports on loopback, a ready file, optional TLS,
//! HTTP/1.1 with upgrades.

use fairlead_runtime::atomic_file;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::tls::ThrowAway;

const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a failed accept. Without it, running out of file descriptors spins a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const LISTEN_BACKLOG: u32 = 4096;

/// Ready file of upstream and proxy. It appears complete, once connections are accepted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) url: String,
    pub(crate) ca_file: PathBuf,
    /// The same server without TLS.
    pub(crate) plain_url: String,
}

pub(crate) struct Server {
    secure: Listener,
    plain: Listener,
}

struct Listener {
    socket: TcpListener,
    /// `None` without TLS.
    acceptor: Option<TlsAcceptor>,
}

impl Server {
    /// Listens on two free ports of 127.0.0.1 and writes `NAME.ca.pem` and `NAME.ready.json` into `dir`.
    pub(crate) fn start(name: &str, dir: &Path) -> anyhow::Result<Self> {
        let tls = ThrowAway::new(name)?;
        let (secure, plain) = (listen(0)?, listen(0)?);
        let ca_file = dir.join(format!("{name}.ca.pem"));
        write(&ca_file, tls.ca_pem.as_bytes())?;
        let ready = Ready {
            url: format!("https://{}", secure.local_addr()?),
            ca_file,
            plain_url: format!("http://{}", plain.local_addr()?),
        };
        write(&ready_file(name, dir), &serde_json::to_vec(&ready)?)?;
        Ok(Self {
            secure: Listener {
                socket: secure,
                acceptor: Some(TlsAcceptor::from(tls.server)),
            },
            plain: Listener {
                socket: plain,
                acceptor: None,
            },
        })
    }

    /// Serves until the process ends: `secure` answers requests with TLS, `plain` those without.
    pub(crate) async fn serve<F, G, R, S, B>(self, secure: F, plain: G) -> anyhow::Result<()>
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
        G: Fn(Request<Incoming>) -> S + Clone + Send + 'static,
        R: Future<Output = io::Result<Response<B>>> + Send,
        S: Future<Output = io::Result<Response<B>>> + Send,
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        tokio::join!(self.secure.accept(secure), self.plain.accept(plain));
        Ok(())
    }
}

impl Listener {
    async fn accept<F, R, B>(self, answer: F)
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
        R: Future<Output = io::Result<Response<B>>> + Send,
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        loop {
            match self.socket.accept().await {
                // The task owns its connection and ends with it. All tasks end with the process.
                Ok((socket, peer)) => drop(tokio::spawn({
                    let (acceptor, answer) = (self.acceptor.clone(), answer.clone());
                    async move {
                        if let Err(error) = connection(socket, acceptor, answer).await {
                            eprintln!("connection of {peer}: {error:#}");
                        }
                    }
                })),
                Err(error) => {
                    eprintln!("accept: {error}");
                    time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Listens on 127.0.0.1 with a backlog for thousands of connections; port 0 is any free port.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.listen(LISTEN_BACKLOG)
}

async fn connection<F, R, B>(
    socket: TcpStream,
    acceptor: Option<TlsAcceptor>,
    answer: F,
) -> anyhow::Result<()>
where
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = io::Result<Response<B>>>,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    socket.set_nodelay(true)?;
    let Some(acceptor) = acceptor else {
        return serve(socket, answer).await;
    };
    let stream = time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(socket))
        .await
        .context("TLS handshake")?
        .context("TLS handshake")?;
    serve(stream, answer).await
}

async fn serve<I, F, R, B>(stream: I, answer: F) -> anyhow::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = io::Result<Response<B>>>,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .with_upgrades()
        .await?;
    Ok(())
}

pub(crate) fn ready_file(name: &str, dir: &Path) -> PathBuf {
    dir.join(format!("{name}.ready.json"))
}

/// Writes a file atomically.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    atomic_file::replace(path, content, 0o644)
        .with_context(|| format!("writing {}", path.display()))
}
