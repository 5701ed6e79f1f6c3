//! The agent's end: DNS, TCP, proxy, outer TLS, WebSocket, link, inner TLS, session. One try at a time, every step with
//! a deadline, every failure with its stage; trying again is the caller's.

mod proxy;
mod tcp;
pub(crate) mod upgrade;

use std::{fmt, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use fairlead_api::{Code, HubUrl};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, TlsStream, client};
use tokio_tungstenite::tungstenite::protocol::Role;

pub use self::proxy::ProxyRules;
use crate::{
    link::{self, LinkEnd},
    mux::Side,
    secure::{self, SecureError},
    session::{Limits, Session},
    ws,
};

/// How far a dial got. Displays as dns, tcp, proxy, tls, upgrade, link, identity, protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    Dns,
    Tcp,
    Proxy,
    Tls,
    Upgrade,
    Link,
    Identity,
    Protocol,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Dns => "dns",
            Stage::Tcp => "tcp",
            Stage::Proxy => "proxy",
            Stage::Tls => "tls",
            Stage::Upgrade => "upgrade",
            Stage::Link => "link",
            Stage::Identity => "identity",
            Stage::Protocol => "protocol",
        })
    }
}

/// A dial that failed: where, to which address, with what HTTP status, why. `cause` is one clause without secrets.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{stage}: {cause}")]
pub struct DialError {
    pub stage: Stage,
    pub address: Option<String>,
    pub http_status: Option<u16>,
    pub code: Code,
    pub cause: String,
}

impl DialError {
    pub(crate) fn new(stage: Stage, code: Code, cause: impl fmt::Display) -> Self {
        DialError {
            stage,
            address: None,
            http_status: None,
            code,
            cause: cause.to_string(),
        }
    }

    fn at(mut self, address: impl fmt::Display) -> Self {
        self.address.get_or_insert_with(|| address.to_string());
        self
    }

    pub(crate) fn with_status(mut self, status: http::StatusCode) -> Self {
        self.http_status = Some(status.as_u16());
        self
    }
}

/// A step that waits for a stranger.
pub(crate) async fn step<T>(
    stage: Stage,
    deadline: Duration,
    work: impl Future<Output = Result<T, DialError>>,
) -> Result<T, DialError> {
    timeout(deadline, work).await.unwrap_or_else(|_| {
        let cause = format!("no answer within {} s", deadline.as_secs_f32());
        Err(DialError::new(stage, Code::DialTimeout, cause))
    })
}

/// How to reach hubs.
pub struct Dialer {
    pub outer: Arc<rustls::ClientConfig>,
    pub proxy: ProxyRules,
    pub limits: Limits,
}

/// A session with a hub that has proved itself and has accepted us.
pub struct Dialed {
    pub session: Session,
    /// Where the TCP connection goes: to the hub, or to the proxy.
    pub address: SocketAddr,
    /// The hub's, of the inner TLS.
    pub certificates: Vec<CertificateDer<'static>>,
    /// From the Date header of the 101: the hub's clock minus ours, in seconds.
    pub clock_offset: Option<i64>,
}

impl Dialer {
    /// One try, DNS resolved anew. `inner` proves the hub and, where it has one, the agent's identity. It returns once the
    /// hub has accepted that identity.
    ///
    /// # Errors
    /// Each with its stage and code: `FL-3101` to `FL-3110`, and `FL-3112` where the connection broke half-way.
    pub async fn dial(
        &self,
        hub: &HubUrl,
        inner: Arc<rustls::ClientConfig>,
    ) -> Result<Dialed, DialError> {
        let connected = self.proxy.connect(hub, self.limits.handshake).await?;
        let address = connected.address;
        Box::pin(self.over(connected, hub, inner))
            .await
            .map_err(|error| error.at(address))
    }

    async fn over(
        &self,
        connected: proxy::Connected,
        hub: &HubUrl,
        inner: Arc<rustls::ClientConfig>,
    ) -> Result<Dialed, DialError> {
        let address = connected.address;
        let deadline = self.limits.handshake;
        let tls = step(Stage::Tls, deadline, self.outer_tls(hub, connected.tcp)).await?;
        let upgraded = step(Stage::Upgrade, deadline, upgrade::upgrade(tls, hub)).await?;
        let clock_offset = upgraded.clock_offset;
        let ws = ws::over(upgraded.io, upgraded.read, Role::Client).await;
        let linked = async { Ok(link::offer(ws, link::VERSIONS, &self.limits).await?) };
        let link = step(Stage::Link, deadline, linked).await?;
        let secured = async { Ok(secure::client(link, inner).await?) };
        let tls = step(Stage::Identity, deadline, secured).await?;
        let certificates = certificates(&tls);
        Ok(Dialed {
            session: Session::start(tls, Side::Agent, &self.limits),
            address,
            certificates,
            clock_offset,
        })
    }

    async fn outer_tls(
        &self,
        hub: &HubUrl,
        tcp: TcpStream,
    ) -> Result<client::TlsStream<TcpStream>, DialError> {
        let name = ServerName::try_from(hub.host().to_owned())
            .map_err(|error| DialError::new(Stage::Tls, Code::DialTls, error))?;
        TlsConnector::from(self.outer.clone())
            .connect(name, tcp)
            .await
            .map_err(|error| outer_error(&error))
    }
}

/// The peer's chain, as the handshake has verified it.
pub(crate) fn certificates<IO>(tls: &TlsStream<IO>) -> Vec<CertificateDer<'static>> {
    let (_, state) = tls.get_ref();
    state
        .peer_certificates()
        .map(|chain| chain.iter().map(|der| der.clone().into_owned()).collect())
        .unwrap_or_default()
}

fn outer_error(error: &io::Error) -> DialError {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(wrong @ rustls::Error::InvalidCertificate(_)) => {
            DialError::new(Stage::Tls, Code::DialTls, secure::explain(wrong))
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            let cause = "what answered does not speak TLS";
            DialError::new(Stage::Tls, Code::DialProtocol, cause)
        }
        Some(other) => DialError::new(Stage::Tls, Code::DialProtocol, other),
        None => DialError::new(Stage::Tls, Code::SessionBroke, error),
    }
}

impl From<LinkEnd> for DialError {
    fn from(end: LinkEnd) -> Self {
        let code = match end {
            LinkEnd::Closed(_) | LinkEnd::Eof | LinkEnd::Broken(_) | LinkEnd::Silent(_) => {
                Code::SessionBroke
            }
            LinkEnd::Protocol(_) | LinkEnd::Versions { .. } => Code::DialProtocol,
        };
        DialError::new(Stage::Link, code, end)
    }
}

impl From<SecureError> for DialError {
    fn from(error: SecureError) -> Self {
        let (stage, code) = match &error {
            SecureError::Hub(_) => (Stage::Identity, Code::DialHubIdentity),
            SecureError::Refused(_) => (Stage::Identity, Code::DialIdentity),
            SecureError::Protocol(_) => (Stage::Protocol, Code::DialProtocol),
            SecureError::Link(end) => return DialError::from(end.clone()),
            SecureError::Broken(_) => (Stage::Identity, Code::SessionBroke),
        };
        DialError::new(stage, code, error)
    }
}

#[cfg(test)]
mod tests;
