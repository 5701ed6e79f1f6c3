//! Link to one other hub: some sessions, each opened again when it ends.
//!
//! A session ends with its connection, so that a hub that dies is left at once: its requests fail or move then.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairlead_api::{HubUrl, error_chain, hop};
use fairlead_certs::outer_client_between_hubs;
use fairlead_dialer::{CloseReason, DialTrace, Dialer, Limits, ProxyRules};
use fairlead_exchange::{Answer, Exchanges};
use fairlead_runtime::{backoff::ExponentialDelay, gauges::GaugeGuard};
use fairlead_seam::RemoteHub;
use http::{Request, StatusCode, header};
use rustls::ClientConfig;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, info, warn};

use crate::{http::body, hub::Hub};

/// Sessions to each other hub: a session has one task, so several use several cores.
const SESSIONS_PER_HUB: usize = 4;
/// Running requests on a session before the next one is used: those of one session share its reads and writes.
const SHARED_REQUESTS: usize = 32;
/// First delay before the next dial; it doubles with each failure.
const REDIAL_DELAY_MIN: Duration = Duration::from_millis(100);
/// A hub that is back is in use after at most this time.
const REDIAL_DELAY_MAX: Duration = Duration::from_secs(2);
/// Deadline of each step of a dial.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Deadline for the answer to the hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
const NO_LINK_YET: &str = "not connected yet";

/// Link to another hub. Dropping it closes all its sessions.
pub(crate) struct HubLink {
    hub: Arc<RemoteHub>,
    state: Arc<LinkState>,
    _dialing: DropGuard,
}

/// A session that this hub has opened at another one.
pub(crate) struct HubSession {
    exchanges: Exchanges,
    /// Number of leases.
    running: AtomicUsize,
    _open: GaugeGuard,
}

/// A session to another hub for one request, which counts until this is dropped.
pub(crate) struct SessionLease(Arc<HubSession>);

impl SessionLease {
    fn of(session: &Arc<HubSession>) -> Self {
        session.running.fetch_add(1, Ordering::Relaxed);
        SessionLease(Arc::clone(session))
    }

    pub(crate) fn exchanges(&self) -> &Exchanges {
        &self.0.exchanges
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

struct LinkState {
    inner: Mutex<LinkInner>,
}

struct LinkInner {
    sessions: Vec<Arc<HubSession>>,
    /// Time since when there is no session.
    down_since: Instant,
    last_error: String,
}

impl LinkState {
    fn inner(&self) -> MutexGuard<'_, LinkInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, session: &Arc<HubSession>, cause: &str) {
        let mut inner = self.inner();
        inner.sessions.retain(|it| !Arc::ptr_eq(it, session));
        cause.clone_into(&mut inner.last_error);
        if inner.sessions.is_empty() {
            inner.down_since = Instant::now();
        }
    }
}

impl Drop for HubLink {
    fn drop(&mut self) {
        for session in &self.state.inner().sessions {
            // Requests keep the session, and have to end with their hub.
            session.exchanges.session().close(CloseReason::Done);
        }
    }
}

impl HubLink {
    /// Dials the hub until the link is dropped, or this hub has drained.
    pub(super) fn open(hub: &Arc<Hub>, remote: RemoteHub) -> Arc<Self> {
        let end = CancellationToken::new();
        let state = Arc::new(LinkState {
            inner: Mutex::new(LinkInner {
                sessions: Vec::new(),
                down_since: Instant::now(),
                last_error: NO_LINK_YET.to_owned(),
            }),
        });
        for _ in 0..SESSIONS_PER_HUB {
            let keeper = SessionKeeper {
                hub: Arc::clone(hub),
                remote: remote.clone(),
                state: Arc::clone(&state),
            };
            let end = end.clone();
            hub.process.spawn_spread(async move {
                let links = Arc::clone(&keeper.hub);
                tokio::select! {
                    () = keeper.run() => {}
                    () = end.cancelled() => {}
                    () = links.links.unused(&links) => {}
                }
            });
        }
        Arc::new(HubLink {
            hub: Arc::new(remote),
            state,
            _dialing: end.drop_guard(),
        })
    }

    pub(super) fn hub(&self) -> &Arc<RemoteHub> {
        &self.hub
    }

    /// The first session with few running requests, or the one with the fewest.
    pub(super) fn session(&self) -> Option<SessionLease> {
        let inner = self.state.inner();
        let running = |it: &&Arc<HubSession>| it.running.load(Ordering::Relaxed);
        let mut sessions = inner.sessions.iter();
        let first = sessions.find(|it| running(it) < SHARED_REQUESTS);
        let least = || inner.sessions.iter().min_by_key(running);
        first.or_else(least).map(SessionLease::of)
    }

    /// Start and cause of the time without a session, if there is none.
    pub(super) fn down(&self) -> Option<(Instant, String)> {
        let inner = self.state.inner();
        let is_down = inner.sessions.is_empty();
        is_down.then(|| (inner.down_since, inner.last_error.clone()))
    }
}

/// Keeps one session to another hub open.
struct SessionKeeper {
    hub: Arc<Hub>,
    remote: RemoteHub,
    state: Arc<LinkState>,
}

impl SessionKeeper {
    async fn run(&self) {
        let mut delay = ExponentialDelay::new(REDIAL_DELAY_MIN, REDIAL_DELAY_MAX);
        let mut tls = self.hub.hub_tls.clone();
        loop {
            let inner_tls = Arc::clone(&tls.borrow_and_update());
            match self.open(inner_tls).await {
                Ok(session) => {
                    delay.reset();
                    let (id, address) = (&self.remote.id, &self.remote.address);
                    info!(hub = %id, %address, "session to another hub opened");
                    self.state.inner().sessions.push(Arc::clone(&session));
                    let cause = tokio::select! {
                        cause = session.exchanges.session().closed() => cause.to_string(),
                        // Requests of the old session keep it until they end.
                        Ok(()) = tls.changed() => "the hub's certificate was renewed".to_owned(),
                    };
                    self.state.remove(&session, &cause);
                    info!(hub = %id, %address, cause, "session to another hub ended");
                }
                Err(cause) => {
                    let (id, address) = (&self.remote.id, &self.remote.address);
                    match delay.is_reset() {
                        true => warn!(hub = %id, %address, cause, "no session to another hub"),
                        false => debug!(hub = %id, %address, cause, "no session to another hub"),
                    }
                    self.state.inner().last_error = cause;
                }
            }
            sleep(delay.next_delay()).await;
        }
    }

    async fn open(&self, inner: Arc<ClientConfig>) -> Result<Arc<HubSession>, String> {
        let outer = outer_client_between_hubs().map_err(|error| error_chain(&error))?;
        let dialer = Dialer {
            outer,
            any_time: None,
            proxy: ProxyRules::default(),
            trace: DialTrace::default(),
            limits: Limits {
                handshake: HANDSHAKE_TIMEOUT,
                resume_window: Duration::ZERO,
                memory: self.hub.reserve.clone(),
                ..Limits::default()
            },
        };
        let address: &HubUrl = &self.remote.address;
        let dialed = Box::pin(dialer.dial(address, inner)).await;
        let dialed = dialed.map_err(|error| format!("{}: {error}", error.code))?;
        let exchanges = Exchanges::new(dialed.session);
        let named = timeout(HELLO_TIMEOUT, self.greet(&exchanges)).await;
        let named = named.map_err(|_| "it did not answer the hello in time".to_owned())??;
        if named != *self.remote.id {
            exchanges.session().close(CloseReason::Done);
            return Err(format!("its --hub-address leads to the hub {named}"));
        }
        Ok(Arc::new(HubSession {
            exchanges,
            running: AtomicUsize::new(0),
            _open: GaugeGuard::of(&self.hub.metrics.hubs.sessions),
        }))
    }

    /// Introduces this hub; returns the name of the other one.
    async fn greet(&self, exchanges: &Exchanges) -> Result<String, String> {
        let hello = hop::HubHello {
            hub: self.hub.own_name.as_ref().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let json = serde_json::to_vec(&hello).map_err(|error| error.to_string())?;
        let request = Request::post(hop::HELLO_PATH)
            .header(header::HOST, "hub")
            .body(body::full(json))
            .map_err(|error| error.to_string())?;
        let answer = exchanges.send(request).await;
        let answer = answer.map_err(|error| error_chain(&error))?;
        let Answer::Response(response) = answer else {
            return Err("it upgraded the hello".to_owned());
        };
        if response.status() != StatusCode::OK {
            return Err(format!("it answered the hello with {}", response.status()));
        }
        let text = body::read(response.into_body(), hop::MAX_HELLO_BYTES).await;
        let text = text.ok_or("its hello is incomplete")?;
        let named: hop::HubHello =
            serde_json::from_slice(&text).map_err(|_| "its hello is invalid")?;
        Ok(named.hub)
    }
}
