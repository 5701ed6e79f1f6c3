//! The agent's end: DNS, TCP, proxy, outer TLS, WebSocket, link, inner TLS, session. One try at a time, every step with
//! a deadline, every failure with its stage; trying again is the caller's.

mod clock;
mod proxy;
mod tcp;
pub(crate) mod upgrade;

use std::{borrow::Cow, fmt, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, HubUrl};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client};

use self::clock::OutOfDate;
pub use self::proxy::ProxyRules;
use crate::{
    Ahead,
    link::LinkEnd,
    mux::Side,
    secure::{self, SecureError},
    session::{CloseReason, Limits, Session},
    wire::{self, Agreed, Line, Socket, ws::Role},
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

impl Stage {
    /// In a word, for messages and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Dns => "dns",
            Stage::Tcp => "tcp",
            Stage::Proxy => "proxy",
            Stage::Tls => "tls",
            Stage::Upgrade => "upgrade",
            Stage::Link => "link",
            Stage::Identity => "identity",
            Stage::Protocol => "protocol",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
    /// Next step of this case; the code's own where it is `None`.
    pub next: Option<Cow<'static, str>>,
    /// The hub's certificate is out of date by this machine's clock.
    pub(crate) out_of_date: Option<OutOfDate>,
}

impl DialError {
    pub(crate) fn new(stage: Stage, code: Code, cause: impl fmt::Display) -> Self {
        DialError {
            stage,
            address: None,
            http_status: None,
            code,
            cause: cause.to_string(),
            next: None,
            out_of_date: None,
        }
    }

    /// A dial that failed before it left this machine.
    #[must_use]
    pub fn here(failure: Failure) -> Self {
        DialError {
            next: failure.next,
            ..DialError::new(Stage::Tls, failure.code, failure.cause)
        }
    }

    /// Replaces the code's next step.
    pub(crate) fn next(self, step: impl Into<Cow<'static, str>>) -> Self {
        DialError {
            next: Some(step.into()),
            ..self
        }
    }

    /// One sentence: the next step of this case.
    #[must_use]
    pub fn next_step(&self) -> &str {
        self.next
            .as_deref()
            .unwrap_or_else(|| self.code.next_step())
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

impl From<DialError> for Failure {
    fn from(error: DialError) -> Self {
        Failure {
            next: error.next,
            ..Failure::with_cause(error.code, error.cause)
        }
    }
}

/// How to reach hubs.
pub struct Dialer {
    pub outer: Arc<rustls::ClientConfig>,
    /// As `outer`, but trusts certificates at any time: to ask a hub for its clock where `outer` finds one out of date.
    pub any_time: Option<Arc<rustls::ClientConfig>>,
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

/// What became of a session whose agent has dialled again.
pub enum Redialed {
    /// It goes on, as if nothing had happened.
    Resumed {
        /// Where the TCP connection goes: to the hub, or to the proxy.
        address: SocketAddr,
    },
    /// The hub knows it no more, or never could go on with it: here is another one.
    New(Dialed),
    /// The hub does not know it, and was asked for nothing else.
    Unknown { address: SocketAddr },
}

/// A link for which the hub has named a new session.
struct Linked {
    socket: Socket,
    agreed: Agreed,
    clock_offset: Option<i64>,
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
        match self.connect(hub, Some(inner), None).await? {
            Redialed::New(dialed) => Ok(dialed),
            Redialed::Resumed { address } | Redialed::Unknown { address } => {
                let cause = "the hub goes on with a session that nobody asked for";
                Err(DialError::new(Stage::Link, Code::DialProtocol, cause).at(address))
            }
        }
    }

    /// The same for a session whose link is down ([`Session::link`]): the hub is asked to go on with it. The session is
    /// left as it is where this fails, and where the hub gives a new one.
    ///
    /// # Errors
    /// As for [`Dialer::dial`].
    pub async fn redial(
        &self,
        hub: &HubUrl,
        inner: Arc<rustls::ClientConfig>,
        session: &Session,
    ) -> Result<Redialed, DialError> {
        self.connect(hub, Some(inner), session.line()).await
    }

    /// The same for that session and no other: where the hub does not know it, no handshake of a new one is paid for.
    ///
    /// # Errors
    /// As for [`Dialer::dial`].
    pub async fn resume(&self, hub: &HubUrl, session: &Session) -> Result<Redialed, DialError> {
        self.connect(hub, None, session.line()).await
    }

    /// Without `inner` nothing new begins.
    async fn connect(
        &self,
        hub: &HubUrl,
        inner: Option<Arc<rustls::ClientConfig>>,
        line: Option<&Line>,
    ) -> Result<Redialed, DialError> {
        let connected = self.proxy.connect(hub, self.limits.handshake).await?;
        let address = connected.address;
        Box::pin(self.over(connected, hub, inner, line))
            .await
            .map_err(|error| error.at(address))
    }

    async fn over(
        &self,
        connected: proxy::Connected,
        hub: &HubUrl,
        inner: Option<Arc<rustls::ClientConfig>>,
        line: Option<&Line>,
    ) -> Result<Redialed, DialError> {
        let address = connected.address;
        let deadline = self.limits.handshake;
        let Some(linked) = self.link(connected, hub, line).await? else {
            return Ok(Redialed::Resumed { address });
        };
        let Linked {
            mut socket,
            agreed,
            clock_offset,
        } = linked;
        let Some(inner) = inner else {
            let declined = async { Ok(wire::decline(&mut socket, CloseReason::Done).await?) };
            step(Stage::Link, deadline, declined).await?;
            return Ok(Redialed::Unknown { address });
        };
        let secured = async {
            let wire = secure::client(socket, agreed, inner, &self.limits).await;
            wire.map_err(|error| unproved(error, clock_offset))
        };
        let wire = step(Stage::Identity, deadline, secured).await?;
        Ok(Redialed::New(Dialed {
            certificates: wire.certificates(),
            session: Session::start(wire, Side::Agent, &self.limits),
            address,
            clock_offset,
        }))
    }

    /// None where the session that was asked for goes on.
    async fn link(
        &self,
        connected: proxy::Connected,
        hub: &HubUrl,
        line: Option<&Line>,
    ) -> Result<Option<Linked>, DialError> {
        let deadline = self.limits.handshake;
        let tls = outer_tls(&self.outer, hub, connected.tcp);
        let tls = match step(Stage::Tls, deadline, tls).await {
            Ok(tls) => tls,
            Err(error) => return Err(self.compare_clocks(hub, error).await),
        };
        let upgraded = step(Stage::Upgrade, deadline, upgrade::upgrade(tls, hub)).await?;
        let mut socket = Socket::new(Box::new(upgraded.io), &upgraded.read, Role::Agent);
        let agreed = async {
            let wanted = line.map(Line::id);
            Ok(wire::offer(&mut socket, wire::VERSIONS, &self.limits, wanted).await?)
        };
        let agreed = step(Stage::Link, deadline, agreed).await?;
        if let Some(line) = line.filter(|line| agreed.resumes(line.id())) {
            let resumed = async { Ok(line.resume(socket, &agreed).await?) };
            step(Stage::Link, deadline, resumed).await?;
            return Ok(None);
        }
        Ok(Some(Linked {
            socket,
            agreed,
            clock_offset: upgraded.clock_offset,
        }))
    }

    /// The error, with the hub's clock in it where its certificate is out of date.
    async fn compare_clocks(&self, hub: &HubUrl, error: DialError) -> DialError {
        match &self.any_time {
            None => error,
            Some(any_time) => {
                let deadline = self.limits.handshake;
                Box::pin(compare_clocks(error, &self.proxy, hub, any_time, deadline)).await
            }
        }
    }
}

async fn outer_tls(
    config: &Arc<rustls::ClientConfig>,
    hub: &HubUrl,
    tcp: TcpStream,
) -> Result<client::TlsStream<Ahead<TcpStream>>, DialError> {
    let name = ServerName::try_from(hub.host().to_owned())
        .map_err(|error| DialError::new(Stage::Tls, Code::DialTls, error))?;
    TlsConnector::from(config.clone())
        .connect(name, Ahead::new(tcp))
        .await
        .map_err(|error| outer_error(&error))
}

/// The error of an outer TLS, with the hub's clock in it where its certificate is out of date. `any_time` trusts as always,
/// at any time. Takes no longer than `deadline`.
pub async fn compare_clocks(
    error: DialError,
    proxy: &ProxyRules,
    hub: &HubUrl,
    any_time: &Arc<rustls::ClientConfig>,
    deadline: Duration,
) -> DialError {
    let Some(out_of_date) = error.out_of_date else {
        return error;
    };
    let offset = clock::offset(proxy, hub, any_time, deadline).await;
    DialError {
        address: error.address,
        ..out_of_date.with_offset(error.stage, offset)
    }
}

/// Why there is no secure channel; `offset` is the hub's clock minus this machine's.
fn unproved(error: SecureError, offset: Option<i64>) -> DialError {
    if let SecureError::Hub(wrong) = &error
        && let Some(out_of_date) = OutOfDate::of(wrong)
    {
        let judged = out_of_date.with_offset(Stage::Identity, offset);
        if judged.code == Code::DialClock {
            return judged;
        }
    }
    let about_identity = matches!(error, SecureError::Hub(_) | SecureError::Refused(_));
    let mut error = DialError::from(error);
    if let Some(difference) = offset
        .filter(|_| about_identity)
        .and_then(clock::difference)
    {
        error.cause = format!("{}; {difference}", error.cause);
    }
    error
}

/// What an outer TLS that did not come about says of the hub.
#[must_use]
pub fn outer_error(error: &io::Error) -> DialError {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(wrong @ rustls::Error::InvalidCertificate(_)) => match OutOfDate::of(wrong) {
            Some(out_of_date) => out_of_date.error(Stage::Tls),
            None => DialError::new(Stage::Tls, Code::DialTls, secure::explain(wrong)),
        },
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
            LinkEnd::Garbled(_)
            | LinkEnd::Protocol(_)
            | LinkEnd::Unproved
            | LinkEnd::Impossible(_)
            | LinkEnd::Secure(_)
            | LinkEnd::Versions { .. } => Code::DialProtocol,
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
        };
        DialError::new(stage, code, error)
    }
}

#[cfg(test)]
mod tests;
