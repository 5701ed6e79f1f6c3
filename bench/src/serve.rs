//! HTTP server of the roles `upstream` and `proxy`: two ports on loopback, with TLS and without, and a ready file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use fairlead_runtime::atomic_file;
use fairlead_testkit::server::{Answer, AnswerBody, Connections, listen, serve};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::tls::{BenchServerTls, HTTP2};

const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a failed accept. Without it, running out of file descriptors spins a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Ready file of upstream and proxy. It appears complete, once connections are accepted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) url: String,
    pub(crate) ca_file: PathBuf,
    /// The same server without TLS.
    pub(crate) plain_url: String,
}

pub(crate) struct Server {
    secure: TcpListener,
    acceptor: TlsAcceptor,
    plain: TcpListener,
}

impl Server {
    /// Listens on two free ports of 127.0.0.1 and writes `NAME.ca.pem` and `NAME.ready.json` into `dir`.
    pub(crate) fn start(name: &str, dir: &Path) -> anyhow::Result<Self> {
        let tls = BenchServerTls::new(name)?;
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
            secure,
            acceptor: TlsAcceptor::from(Arc::new(tls.config)),
            plain,
        })
    }

    /// Serves until the process ends: `secure` answers requests with TLS, `plain` those without.
    pub(crate) async fn serve<B: AnswerBody, C: AnswerBody>(
        self,
        secure: impl Answer<B>,
        plain: impl Answer<C>,
    ) -> anyhow::Result<()> {
        tokio::join!(
            serve_secure(self.secure, self.acceptor, secure),
            serve(self.plain, None, plain, Arc::<Connections>::default()),
        );
        Ok(())
    }
}

/// Serves HTTP/2 or HTTP/1.1 as the client wants it.
async fn serve_secure<B: AnswerBody>(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    service: impl Answer<B>,
) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => drop(tokio::spawn({
                let (acceptor, service) = (acceptor.clone(), service.clone());
                async move {
                    if let Err(error) = secure_connection(socket, acceptor, service).await {
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

async fn secure_connection<B: AnswerBody>(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    service: impl Answer<B>,
) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    let stream = time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(socket)).await;
    let stream = stream.context("TLS handshake")?.context("TLS handshake")?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
    let stream = TokioIo::new(stream);
    if is_http2 {
        let builder = http2::Builder::new(TokioExecutor::new());
        builder.serve_connection(stream, service).await?;
    } else {
        let builder = http1::Builder::new();
        let serving = builder.serve_connection(stream, service);
        serving.with_upgrades().await?;
    }
    Ok(())
}

pub(crate) fn ready_file(name: &str, dir: &Path) -> PathBuf {
    dir.join(format!("{name}.ready.json"))
}

/// Writes a file atomically.
pub(crate) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    atomic_file::replace(path, content, 0o644)
        .with_context(|| format!("writing {}", path.display()))
}
