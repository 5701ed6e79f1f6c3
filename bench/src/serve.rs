//! HTTP server of the roles `upstream` and `proxy`: two ports on loopback, with TLS and without, and a ready file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use fairlead_runtime::atomic_file;
use fairlead_testkit::server::{Answer, AnswerBody, Connections, listen, serve};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::tls::BenchServerTls;

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
        let connections = Arc::<Connections>::default();
        tokio::join!(
            serve(
                self.secure,
                Some(self.acceptor),
                secure,
                connections.clone()
            ),
            serve(self.plain, None, plain, connections),
        );
        Ok(())
    }
}

pub(crate) fn ready_file(name: &str, dir: &Path) -> PathBuf {
    dir.join(format!("{name}.ready.json"))
}

/// Writes a file atomically.
pub(crate) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    atomic_file::replace(path, content, 0o644)
        .with_context(|| format!("writing {}", path.display()))
}
