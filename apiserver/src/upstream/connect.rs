//! New connection to the API server: DNS, TCP, TLS, each with a deadline.

use std::{io, time::Duration};

use fairlead_dialer::ClientTls;
use fairlead_exchange::{BodyError, SocketTransport};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::{net::TcpStream, time::timeout};
use tokio_util::either::Either;
use tower::ServiceExt;

use crate::credentials::endpoint::Endpoint;

const CONNECT_STEP_DEADLINE: Duration = Duration::from_secs(5);
/// Time until a vanished peer is noticed on an idle connection. With data in flight, TCP's retransmission
/// notices it.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Plain TCP, if a kubeconfig says so, or TLS.
pub(super) type ApiServerConnection = SocketTransport<Either<TcpStream, Box<ClientTls<TcpStream>>>>;

/// Failed step of a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// DNS or TCP.
    #[error("TCP")]
    Tcp(#[source] BodyError),
    /// The TLS handshake.
    #[error("TLS")]
    Tls(#[source] io::Error),
    /// A step took too long.
    #[error("{0}: no answer within {secs} s", secs = CONNECT_STEP_DEADLINE.as_secs())]
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
        tcp.set_keepalive(Some(KEEPALIVE_TIMEOUT / 2));
        tcp.set_keepalive_interval(Some(KEEPALIVE_TIMEOUT / 6));
        tcp.set_keepalive_retries(Some(3));
        // No TCP_USER_TIMEOUT: Linux counts a closed window as silence, and a program in a container may leave
        // its input unread for any time.
        Connector { tcp }
    }

    pub(super) async fn connect(
        &self,
        endpoint: &Endpoint,
    ) -> Result<ApiServerConnection, ConnectError> {
        let connecting = timeout(
            CONNECT_STEP_DEADLINE,
            self.tcp.clone().oneshot(endpoint.uri.clone()),
        );
        let tcp = connecting.await.map_err(|_| ConnectError::Timeout("TCP"))?;
        let tcp = tcp
            .map_err(|error| ConnectError::Tcp(error.into()))?
            .into_inner();
        let Some(tls) = &endpoint.tls else {
            return Ok(SocketTransport::new(Either::Left(tcp)));
        };
        let connecting = ClientTls::connect(tcp, tls.clone(), endpoint.server_name.clone());
        let tls = timeout(CONNECT_STEP_DEADLINE, connecting)
            .await
            .map_err(|_| ConnectError::Timeout("TLS"))?;
        let tls = tls.map_err(ConnectError::Tls)?;
        Ok(SocketTransport::new(Either::Right(Box::new(tls))))
    }
}
