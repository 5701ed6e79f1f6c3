//! What upstream and proxy share: listen on loopback, say where in a ready file, accept TLS, serve HTTP/1.1 on each connection.

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
use tokio::{net::TcpListener, net::TcpSocket, net::TcpStream, time};
use tokio_rustls::TlsAcceptor;

use crate::tls::ThrowAway;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Rest after a failed accept: without it, running out of file descriptors spins a core.
const REST: Duration = Duration::from_millis(50);
const BACKLOG: u32 = 4096;

/// The ready file of upstream and proxy: it appears, whole, once connections are taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) url: String,
    pub(crate) ca_file: PathBuf,
}

pub(crate) struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Server {
    /// Listens on a free port of 127.0.0.1 and writes `NAME.ca.pem` and `NAME.ready.json` into `dir`.
    pub(crate) fn start(name: &str, dir: &Path) -> anyhow::Result<Self> {
        let tls = ThrowAway::new(name)?;
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let listener = socket.listen(BACKLOG)?;

        let ca_file = dir.join(format!("{name}.ca.pem"));
        write(&ca_file, tls.ca_pem.as_bytes())?;
        let ready = Ready {
            url: format!("https://{}", listener.local_addr()?),
            ca_file,
        };
        write(&ready_file(name, dir), &serde_json::to_vec(&ready)?)?;
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(tls.server),
        })
    }

    /// Serves for as long as the process lives.
    pub(crate) async fn serve<F, R, B>(self, answer: F) -> anyhow::Result<()>
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
        R: Future<Output = io::Result<Response<B>>> + Send,
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        loop {
            match self.listener.accept().await {
                // The task owns its connection and ends with it; the process ends all of them at once.
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
                    time::sleep(REST).await;
                }
            }
        }
    }
}

async fn connection<F, R, B>(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    answer: F,
) -> anyhow::Result<()>
where
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = io::Result<Response<B>>>,
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
{
    socket.set_nodelay(true)?;
    let stream = time::timeout(HANDSHAKE, acceptor.accept(socket))
        .await
        .context("TLS handshake")?
        .context("TLS handshake")?;
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await?;
    Ok(())
}

pub(crate) fn ready_file(name: &str, dir: &Path) -> PathBuf {
    dir.join(format!("{name}.ready.json"))
}

/// Whole or not at all: a reader never sees half a file.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, content)
        .and_then(|()| std::fs::rename(&draft, path))
        .with_context(|| format!("writing {}", path.display()))
}
