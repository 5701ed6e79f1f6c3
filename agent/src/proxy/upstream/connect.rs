//! A new connection to the API server: DNS, TCP, TLS, HTTP/1.1, each with a deadline; and what becomes of it when it is
//! upgraded.

use std::{io, time::Duration};

use fairlead_dialer::{Body, BodyError};
use http::Response;
use hyper::{body::Incoming, client::conn::http1, upgrade};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use super::{Answer, Lease};
use crate::target::Endpoint;

const STEP: Duration = Duration::from_secs(5);
/// A peer that vanished is noticed after this long, watches or not; where bytes are under way to it, TCP's own
/// retransmission notices.
const SILENT: Duration = Duration::from_secs(30);
/// The largest head of an answer, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// How far it got.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("TCP")]
    Tcp(#[source] BodyError),
    #[error("TLS")]
    Tls(#[source] io::Error),
    #[error("HTTP")]
    Http(#[source] hyper::Error),
    #[error("{0}: no answer within {secs} s", secs = STEP.as_secs())]
    Timeout(&'static str),
}

#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
}

impl Connector {
    pub(super) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(SILENT / 2));
        tcp.set_keepalive_interval(Some(SILENT / 6));
        tcp.set_keepalive_retries(Some(3));
        // No TCP_USER_TIMEOUT: Linux counts a window that stays closed as silence, and a program in a container may
        // leave its input unread for as long as it likes.
        Connector { tcp }
    }

    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<Lease, ConnectError> {
        let connecting = timeout(STEP, self.tcp.clone().oneshot(endpoint.uri.clone()));
        let tcp = connecting.await.map_err(|_| ConnectError::Timeout("TCP"))?;
        let tcp = tcp
            .map_err(|error| ConnectError::Tcp(error.into()))?
            .into_inner();
        let Some(tls) = &endpoint.tls else {
            return handshake(tcp).await;
        };
        let connecting = TlsConnector::from(tls.clone()).connect(endpoint.server_name.clone(), tcp);
        let tls = timeout(STEP, connecting)
            .await
            .map_err(|_| ConnectError::Timeout("TLS"))?;
        handshake(tls.map_err(ConnectError::Tls)?).await
    }
}

async fn handshake<IO>(io: IO) -> Result<Lease, ConnectError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_header_size(MAX_HEAD);
    let (sender, connection) = builder
        .handshake::<_, Body>(TokioIo::new(io))
        .await
        .map_err(ConnectError::Http)?;
    // Owned by the lease. Its errors are those of the request on it.
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        drop(connection.with_upgrades().await)
    }));
    Ok(Lease { sender, driver })
}

/// A connection that speaks another protocol from now on.
pub(crate) struct Upgraded {
    on: upgrade::OnUpgrade,
    lease: Lease,
}

impl Upgraded {
    /// The answer that a 101 is.
    pub(super) fn answer(mut response: Response<Incoming>, lease: Lease) -> Answer {
        let on = upgrade::on(&mut response);
        Answer::Upgraded(response.map(drop), Upgraded { on, lease })
    }

    /// The raw bytes, those that came with the head included.
    pub(crate) async fn io(self) -> io::Result<TokioIo<upgrade::Upgraded>> {
        let io = self.on.await.map_err(io::Error::other)?;
        drop(self.lease);
        Ok(TokioIo::new(io))
    }
}
