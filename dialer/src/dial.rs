//! The agent's end: DNS, TCP, proxy, outer TLS, WebSocket, link, inner TLS, session. One attempt
//! per call, with a deadline and a stage for each step. The caller retries.

mod clock;
pub(crate) mod error;
mod out_of_date;
mod outer;
mod path_stream;
mod proxy;
mod tcp;
mod trace;
pub(crate) mod upgrade;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fairlead_api::{Code, HubUrl};
use rustls::pki_types::CertificateDer;

pub use self::{
    error::{DialError, DialStage},
    outer::outer_error,
    proxy::{HttpProxy, ProxyRules, Tunnel},
    trace::{DialTrace, PassedStage, RefusalEvidence},
};
use self::{
    error::{OutOfDate, step},
    outer::outer_tls,
};
use crate::{
    close::CloseReason,
    limits::Limits,
    link_io::LinkIo,
    mux::Side,
    secure::{self, SecureError},
    session::Session,
    websocket::SocketRole,
    wire::{self, Agreed, SessionHandle, Socket},
};

/// Settings for dialling hubs.
pub struct Dialer {
    /// Configuration of the outer TLS.
    pub outer: Arc<rustls::ClientConfig>,
    /// As `outer`, but ignores validity periods. Used to read the hub's clock when `outer` finds an
    /// expired certificate.
    pub any_time: Option<Arc<rustls::ClientConfig>>,
    /// Proxy rules.
    pub proxy: ProxyRules,
    /// Limits of the sessions.
    pub limits: Limits,
    /// Record of the stages of the next dial.
    pub trace: DialTrace,
}

/// Session with a hub whose identity is proved and that has accepted the agent.
pub struct Dialed {
    /// The session.
    pub session: Session,
    /// Remote address of the TCP connection: the hub's or the proxy's.
    pub address: SocketAddr,
    /// The hub's certificates of the inner TLS.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Hub clock minus local clock in seconds, from the Date header of the 101.
    pub clock_offset: Option<i64>,
}

/// Outcome of dialling again for a session.
pub enum Redialed {
    /// The session continues over the new link.
    Resumed {
        /// Remote address of the TCP connection: the hub's or the proxy's.
        address: SocketAddr,
    },
    /// The hub cannot resume the session; this is a new one.
    New(Dialed),
    /// The hub does not know the session; no new one was requested.
    Unknown {
        /// Remote address of the TCP connection: the hub's or the proxy's.
        address: SocketAddr,
    },
}

/// A link with a new session.
struct Linked {
    socket: Socket,
    agreed: Agreed,
    clock_offset: Option<i64>,
}

impl Dialer {
    /// Settings without a proxy, with the default limits. Change the fields for others.
    #[must_use]
    pub fn new(outer: Arc<rustls::ClientConfig>) -> Self {
        Dialer {
            outer,
            any_time: None,
            proxy: ProxyRules::default(),
            limits: Limits::default(),
            trace: DialTrace::default(),
        }
    }

    /// One attempt, with a fresh DNS lookup. `inner` proves the hub and, if it has one, the agent's
    /// identity. Returns when the hub has accepted that identity.
    ///
    /// # Errors
    ///
    /// With stage and code: `FL-3101` to `FL-3110`, and `FL-3112` if the connection broke.
    pub async fn dial(
        &self,
        hub: &HubUrl,
        inner: Arc<rustls::ClientConfig>,
    ) -> Result<Dialed, DialError> {
        match self.connect(hub, Some(inner), None).await? {
            Redialed::New(dialed) => Ok(dialed),
            Redialed::Resumed { address } | Redialed::Unknown { address } => {
                let cause = "the hub resumed a session that was not requested";
                Err(DialError::new(DialStage::Link, Code::DialProtocol, cause).at(address))
            }
        }
    }

    /// Dials again for a session whose link is down ([`Session::link`]) and asks the hub to resume
    /// it. The session is unchanged if this fails, or if the hub gives a new one.
    ///
    /// # Errors
    ///
    /// As for [`Dialer::dial`].
    pub async fn redial(
        &self,
        hub: &HubUrl,
        inner: Arc<rustls::ClientConfig>,
        session: &Session,
    ) -> Result<Redialed, DialError> {
        self.connect(hub, Some(inner), session.resume_handle())
            .await
    }

    /// Dials again for that session only. If the hub does not know it, the handshake of a new
    /// session is spared.
    ///
    /// # Errors
    ///
    /// As for [`Dialer::dial`].
    pub async fn resume(&self, hub: &HubUrl, session: &Session) -> Result<Redialed, DialError> {
        self.connect(hub, None, session.resume_handle()).await
    }

    /// Without `inner` no new session is made.
    async fn connect(
        &self,
        hub: &HubUrl,
        inner: Option<Arc<rustls::ClientConfig>>,
        handle: Option<&SessionHandle>,
    ) -> Result<Redialed, DialError> {
        let connected = {
            let context = proxy::PathContext {
                proxy_tls: Some(&self.outer),
                trace: &self.trace,
            };
            let path = self.proxy.connect_with(hub, self.limits.handshake, context);
            path.await?
        };
        let address = connected.address;
        Box::pin(self.over(connected, hub, inner, handle))
            .await
            .map_err(|error| error.at(address))
    }

    async fn over(
        &self,
        connected: proxy::Connected,
        hub: &HubUrl,
        inner: Option<Arc<rustls::ClientConfig>>,
        handle: Option<&SessionHandle>,
    ) -> Result<Redialed, DialError> {
        let address = connected.address;
        let deadline = self.limits.handshake;
        // Boxed, because TLS makes it large.
        let link = Box::pin(self.link(connected, hub, handle));
        let Some(linked) = link.await? else {
            return Ok(Redialed::Resumed { address });
        };
        let Linked {
            mut socket,
            agreed,
            clock_offset,
        } = linked;
        let Some(inner) = inner else {
            let declined = async { Ok(wire::decline(&mut socket, CloseReason::Done).await?) };
            step(DialStage::Link, deadline, declined).await?;
            return Ok(Redialed::Unknown { address });
        };
        let secured = async {
            let wire = secure::client(socket, agreed, inner, &self.limits).await;
            wire.map_err(|error| unproved(error, clock_offset))
        };
        let wire = step(DialStage::Identity, deadline, secured).await?;
        self.trace.pass(DialStage::Identity, "");
        Ok(Redialed::New(Dialed {
            certificates: wire.certificates(),
            session: Session::start(wire, Side::Agent, &self.limits),
            address,
            clock_offset,
        }))
    }

    /// `None` if the requested session was resumed.
    async fn link(
        &self,
        connected: proxy::Connected,
        hub: &HubUrl,
        handle: Option<&SessionHandle>,
    ) -> Result<Option<Linked>, DialError> {
        let deadline = self.limits.handshake;
        let tls = outer_tls(&self.outer, hub, connected.stream);
        let tls = match step(DialStage::Tls, deadline, tls).await {
            Ok(tls) => tls,
            Err(error) => return Err(self.compare_clocks(hub, error).await),
        };
        self.trace.pass(DialStage::Tls, "");
        let upgraded = step(DialStage::Upgrade, deadline, upgrade::upgrade(tls, hub)).await?;
        let via = upgraded.via.map(|via| format!("via {via}"));
        self.trace.pass(DialStage::Upgrade, via.unwrap_or_default());
        let io = LinkIo::over_tcp(upgraded.io, |gate| gate.get_ref().get_ref().tcp());
        let mut socket = Socket::new(io, &upgraded.read, SocketRole::Agent);
        let agreed = async {
            let wanted = handle.map(SessionHandle::id);
            Ok(wire::offer(&mut socket, wire::VERSIONS, &self.limits, wanted).await?)
        };
        let agreed = step(DialStage::Link, deadline, agreed).await?;
        self.trace.pass(DialStage::Link, "");
        if let Some(handle) = handle.filter(|handle| agreed.resumes(handle.id())) {
            let resumed = async { Ok(handle.resume(socket, &agreed).await?) };
            step(DialStage::Link, deadline, resumed).await?;
            return Ok(None);
        }
        Ok(Some(Linked {
            socket,
            agreed,
            clock_offset: upgraded.clock_offset,
        }))
    }

    /// Adds the hub's clock to an error about an expired certificate.
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

/// Starts an agent's session over `io`, a connection after the 101. The counterpart of
/// `accept` at the hub.
///
/// # Errors
///
/// With stage link or identity; each step has the handshake deadline of the limits.
pub async fn start_session(
    io: impl Into<LinkIo>,
    inner: Arc<rustls::ClientConfig>,
    limits: &Limits,
) -> Result<Session, DialError> {
    let mut socket = Socket::new(io, &[], SocketRole::Agent);
    let agreed = async { Ok(wire::offer(&mut socket, wire::VERSIONS, limits, None).await?) };
    let agreed = step(DialStage::Link, limits.handshake, agreed).await?;
    let secured = async { Ok(secure::client(socket, agreed, inner, limits).await?) };
    let wire = step(DialStage::Identity, limits.handshake, secured).await?;
    Ok(Session::start(wire, Side::Agent, limits))
}

/// Adds the hub's clock to an outer TLS error about an expired certificate. `any_time` trusts the
/// same authorities and ignores validity periods. Takes at most `deadline`.
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

/// Error of the inner TLS; `offset` is the hub's clock minus the local one.
fn unproved(error: SecureError, offset: Option<i64>) -> DialError {
    if let SecureError::Hub(wrong) = &error
        && let Some(out_of_date) = OutOfDate::of(wrong)
    {
        let judged = out_of_date.with_offset(DialStage::Identity, offset);
        if judged.code == Code::DialClock {
            return judged;
        }
    }
    let about_identity = matches!(error, SecureError::Hub(_) | SecureError::Refused(_));
    let mut error = DialError::from(error);
    if let Some(difference) = offset
        .filter(|_| about_identity)
        .and_then(out_of_date::difference)
    {
        error.cause = format!("{}; {difference}", error.cause);
    }
    error
}

#[cfg(test)]
mod tests;
