//! The hub's port: TCP, outer TLS, upgrade to a WebSocket, handshake and authentication of each agent.

use std::{
    convert::Infallible,
    future::{Future, pending, ready},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Empty;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::service_fn,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, error, info, warn};

use super::{BoxError, tls_files::HubTls};
use crate::{
    accept::{Accepted, Arrival, CONNECT_PATH, accept_resumable, upgrade_response},
    close::CloseReason,
    input_gate::InputGate,
    limits::{Limits, OUTER_TLS_BUFFER_BYTES},
    link_io::{LinkIo, set_link_options},
    session::Session,
    sync::lock,
    tls::ServerTls,
    wire::Resumable,
};

/// Limit of connections whose agent is not authenticated yet. Later ones wait in the kernel.
const MAX_HANDSHAKES: usize = 1024;
/// Pause after a failed accept, as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Proof of an agent's identity, for the closure that authenticates it.
#[derive(Debug, Clone)]
pub struct AgentCredentials {
    /// Its certificates, the leaf first. The inner TLS has verified them as its configuration says, and that the agent
    /// has the key. Empty only if that configuration accepts agents without a certificate.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Remote address of the connection: the agent's, or a load balancer's.
    pub address: SocketAddr,
}

/// Agent with a new session.
pub struct AcceptedAgent<T> {
    /// Answer of the closure that authenticated it.
    pub agent: T,
    /// Its session. Dropping the last clone closes it.
    pub session: Session,
    /// Remote address of the connection that opened it.
    pub address: SocketAddr,
}

/// Port of a hub. It accepts agents, authenticates them by a closure, and lets them resume their sessions.
///
/// The closure gets [`AgentCredentials`] and returns any value for the agent, such as its name, or the reason to close
/// the session. It is not called when an agent resumes: to end the access of an agent, close its session.
///
/// Each step of a handshake has the deadline [`Limits::handshake`], and 1,024 handshakes run at the same time.
/// Nothing is accepted while nobody awaits [`AgentListener::accept`]: await it in a loop, and give each session a task.
/// Resumptions are accepted there, too.
pub struct AgentListener<A, T> {
    tcp: TcpListener,
    front: Arc<Front<A>>,
    handshakes: JoinSet<Option<AcceptedAgent<T>>>,
}

/// Parts that all handshakes share.
struct Front<A> {
    tls: HubTls,
    limits: Limits,
    resumable: Resumable,
    authenticate: A,
}

impl<A, F, T> AgentListener<A, T>
where
    A: Fn(AgentCredentials) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, CloseReason>> + Send + 'static,
    T: Send + 'static,
{
    /// Listens on `address`. Port 0 is any free port ([`AgentListener::local_addr`]).
    ///
    /// # Errors
    ///
    /// Those of the operating system, such as an address in use.
    pub async fn bind(
        address: impl ToSocketAddrs,
        tls: HubTls,
        limits: Limits,
        authenticate: A,
    ) -> io::Result<Self> {
        Ok(AgentListener {
            tcp: TcpListener::bind(address).await?,
            front: Arc::new(Front {
                tls,
                limits,
                resumable: Resumable::default(),
                authenticate,
            }),
            handshakes: JoinSet::new(),
        })
    }

    /// Address of the port.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Next authenticated agent with a new session. Failed handshakes are logged. Dropping the future loses nothing.
    pub async fn accept(&mut self) -> AcceptedAgent<T> {
        loop {
            tokio::select! {
                Some(admitted) = self.handshakes.join_next() => match admitted {
                    Ok(Some(agent)) => return agent,
                    Ok(None) => {}
                    Err(error) => error!(%error, "authentication of an agent panicked"),
                },
                connected = self.tcp.accept(), if self.handshakes.len() < MAX_HANDSHAKES => {
                    match connected {
                        Ok((tcp, address)) => {
                            let admitting = self.front.clone().admit(tcp, address);
                            self.handshakes.spawn(admitting);
                        }
                        Err(error) => {
                            warn!(%error, "accept failed");
                            sleep(ACCEPT_PAUSE).await;
                        }
                    }
                }
            }
        }
    }
}

impl<A, F, T> Front<A>
where
    A: Fn(AgentCredentials) -> F + Send + Sync,
    F: Future<Output = Result<T, CloseReason>> + Send + 'static,
{
    /// `None` without a new session.
    async fn admit(
        self: Arc<Self>,
        tcp: TcpStream,
        address: SocketAddr,
    ) -> Option<AcceptedAgent<T>> {
        match Box::pin(self.handshake(tcp, address)).await {
            Ok(Arrival::New(accepted)) => self.authenticate(accepted, address).await,
            Ok(Arrival::Resumed) => {
                info!(peer.ip = %address.ip(), "agent session resumed");
                None
            }
            Ok(Arrival::Declined) => {
                debug!(peer.ip = %address.ip(), "agent resumes a session that is unknown here");
                None
            }
            Err(cause) => {
                info!(peer.ip = %address.ip(), %cause, "agent handshake failed");
                None
            }
        }
    }

    async fn handshake(&self, tcp: TcpStream, address: SocketAddr) -> Result<Arrival, BoxError> {
        debug!(peer.ip = %address.ip(), "connection accepted");
        tcp.set_nodelay(true)?;
        set_link_options(&tcp);
        match &self.tls.outer {
            None => {
                let io = upgraded(tcp, self.limits.handshake).await?;
                self.arrive(LinkIo::over_tcp(io, |tcp| tcp)).await
            }
            Some(outer) => {
                let accepting = ServerTls::accept(tcp, outer.clone());
                let mut tls = timeout(self.limits.handshake, accepting).await??;
                tls.set_output_limit(OUTER_TLS_BUFFER_BYTES);
                let io = upgraded(InputGate::new(tls), self.limits.handshake).await?;
                let io = LinkIo::over_tcp(io, |gate| gate.get_ref().get_ref());
                self.arrive(io).await
            }
        }
    }

    async fn arrive(&self, io: LinkIo) -> Result<Arrival, BoxError> {
        let (tls, limits) = (self.tls.inner.clone(), self.limits.clone());
        Ok(accept_resumable(io, tls, limits, &self.resumable, pending()).await?)
    }

    async fn authenticate(
        &self,
        accepted: Accepted,
        address: SocketAddr,
    ) -> Option<AcceptedAgent<T>> {
        let Accepted {
            session,
            certificates,
        } = accepted;
        let credentials = AgentCredentials {
            certificates,
            address,
        };
        let deciding = (self.authenticate)(credentials);
        let decision = timeout(self.limits.handshake, deciding).await;
        match decision.unwrap_or(Err(CloseReason::Busy)) {
            Ok(agent) => Some(AcceptedAgent {
                agent,
                session,
                address,
            }),
            Err(reason) => {
                info!(peer.ip = %address.ip(), ?reason, "agent not admitted");
                session.close(reason);
                None
            }
        }
    }
}

/// The connection below HTTP after an agent's upgrade; each step has the deadline.
async fn upgraded<IO>(io: IO, deadline: Duration) -> Result<IO, BoxError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let upgrade = Arc::new(Mutex::new(None));
    let service = service_fn({
        let upgrade = Arc::clone(&upgrade);
        move |request| ready(Ok::<_, Infallible>(answer(request, &upgrade)))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadline)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    timeout(deadline, connection).await??;
    let upgrade = lock(&upgrade).take().ok_or("it is no agent")?;
    let upgraded = timeout(deadline, upgrade).await??;
    let parts =
        Upgraded::downcast::<TokioIo<IO>>(upgraded).map_err(|_| "another connection came back")?;
    // The agent waits for the answer (RFC 6455, section 4.1).
    match parts.read_buf.is_empty() {
        true => Ok(parts.io.into_inner()),
        false => Err("it did not wait for the answer".into()),
    }
}

fn answer(
    mut request: Request<Incoming>,
    upgrade: &Mutex<Option<OnUpgrade>>,
) -> Response<Empty<Bytes>> {
    let head = match request.uri().path() {
        CONNECT_PATH => upgrade_response(&request),
        _ => Err(StatusCode::NOT_FOUND),
    };
    match head {
        Ok(head) => {
            *lock(upgrade) = Some(hyper::upgrade::on(&mut request));
            head.map(|()| Empty::new())
        }
        Err(status) => {
            let mut response = Response::new(Empty::new());
            *response.status_mut() = status;
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            response
        }
    }
}
