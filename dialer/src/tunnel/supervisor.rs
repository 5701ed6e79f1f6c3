//! The agent's session over its whole life: dialled, resumed after a break, dialled anew after its end.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_api::HubUrl;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::time::{Instant, sleep};
use tower_service::Service;
use tracing::{info, warn};

use super::{BoxError, stream_server::StreamServer};
use crate::{
    dial::{DialError, Dialed, Dialer, Redialed},
    session::Session,
    wire::LinkState,
};

/// Largest first delay after a failure. It doubles with each failure in a row.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// Limit of all delays.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Lifetime from which a session or a link resets the back-off.
const STABLE_AFTER: Duration = Duration::from_secs(2);

/// Keeps one session with a hub: dials, serves, resumes it after a broken connection, and dials anew.
///
/// Delays between two dials are random, up to 250 ms at first and up to 5 s after five failures, so that agents of one
/// hub spread. Failures are logged as warnings with code and next step, and never end it: a hub may return, and a clock
/// or a certificate may be repaired.
pub struct SessionSupervisor {
    dialer: Dialer,
    hub: HubUrl,
    inner: Arc<ClientConfig>,
}

impl SessionSupervisor {
    /// Supervisor of a session with `hub`; `inner` is the inner TLS with the agent's identity.
    #[must_use]
    pub fn new(dialer: Dialer, hub: HubUrl, inner: Arc<ClientConfig>) -> Self {
        SessionSupervisor { dialer, hub, inner }
    }

    /// Serves the hub's streams until the returned future is dropped, which closes the session.
    pub async fn run<S, B>(&self, server: StreamServer<S>) -> Infallible
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut backoff = Backoff::default();
        let mut next = None;
        loop {
            let dialed = match next.take() {
                Some(dialed) => dialed,
                None => Box::pin(self.dial(&mut backoff)).await,
            };
            let Dialed {
                session, address, ..
            } = dialed;
            info!(hub = %self.hub, %address, "session opened");
            let opened = Instant::now();
            next = tokio::select! {
                () = server.serve(session.clone()) => {
                    let reason = session.closed().await;
                    warn!(hub = %self.hub, %reason, "session ended");
                    None
                }
                replaced = Box::pin(self.reconnect(&session, &mut backoff)) => Some(replaced),
            };
            backoff.note_lifetime(opened.elapsed());
        }
    }

    /// Dials until there is a session.
    async fn dial(&self, backoff: &mut Backoff) -> Dialed {
        loop {
            sleep(backoff.next_delay()).await;
            match self.dialer.dial(&self.hub, self.inner.clone()).await {
                Ok(dialed) => return dialed,
                Err(error) => self.log(&error),
            }
        }
    }

    /// Resumes the session after each break. Completes with the new session of a hub that has lost this one.
    async fn reconnect(&self, session: &Session, backoff: &mut Backoff) -> Dialed {
        let mut link = session.link();
        let mut up_since = Instant::now();
        loop {
            let is_down = |link: &LinkState| *link != LinkState::Up;
            if link.wait_for(is_down).await.is_err() {
                // The session has ended, which its server notices.
                std::future::pending::<()>().await;
            }
            warn!(hub = %self.hub, "link lost");
            backoff.note_lifetime(up_since.elapsed());
            loop {
                sleep(backoff.next_delay()).await;
                let redialed = self.dialer.redial(&self.hub, self.inner.clone(), session);
                match redialed.await {
                    Ok(Redialed::Resumed { address }) => {
                        info!(hub = %self.hub, %address, "session resumed");
                        break;
                    }
                    Ok(Redialed::New(dialed)) => return dialed,
                    // Only a dial without `inner` ends like this.
                    Ok(Redialed::Unknown { .. }) => {}
                    Err(error) => self.log(&error),
                }
            }
            // The link counted as up before the dial was over.
            up_since = Instant::now();
        }
    }

    fn log(&self, error: &DialError) {
        let next = error.next_step();
        warn!(hub = %self.hub, stage = %error.stage, code = %error.code, cause = error.cause, next, "dial failed");
    }
}

/// Exponential delays with full jitter.
#[derive(Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn next_delay(&mut self) -> Duration {
        let window = match self.failures {
            0 => Duration::ZERO,
            failures => BACKOFF_MIN
                .saturating_mul(1 << (failures - 1).min(16))
                .min(BACKOFF_MAX),
        };
        self.failures = self.failures.saturating_add(1);
        // Without a source of randomness, half of the window.
        let chance = getrandom::u32().map_or(0.5, |it| f64::from(it) / f64::from(u32::MAX));
        window.mul_f64(chance)
    }

    /// A session or a link that lived for a while is no failure.
    fn note_lifetime(&mut self, lived: Duration) {
        if lived >= STABLE_AFTER {
            self.failures = 1;
        }
    }
}
