//! Attempts at one request. A read without an answer moves to another session of its cluster. Any other request is sent
//! once, because it may have been carried out.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use fairlead_api::{ClusterId, Code, Failure};
use fairlead_dialer::{LinkState, OpenError};
use fairlead_exchange::{Answer, ExchangeError, PreparedRequest};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    agents::{
        entry::{Running, SessionEntry},
        silence::{ANSWER_GRACE, POSSIBLY_DONE},
        wait_budget::{self, RETRY_INTERVAL},
    },
    front::{record::RequestRecord, transfer::UploadProgress},
    hub::Hub,
    metrics::HTTP_VIOLATION,
};

/// Limit of sessions that a read is sent over.
const MAX_ATTEMPTS: usize = 3;
/// Interval of looks for another session while an answer is doubtful.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Record of a request that uses a session.
pub(crate) trait SessionUser: Send + Sync {
    /// Id of the request.
    fn id(&self) -> &str;

    /// Notes the agent's session, by the address of its entry.
    fn set_session(&self, session: usize);

    /// Keeps the request's place on the session until it has ended.
    fn keep_running(&self, running: Running);
}

impl SessionUser for RequestRecord {
    fn id(&self) -> &str {
        RequestRecord::id(self)
    }

    fn set_session(&self, session: usize) {
        RequestRecord::set_session(self, session);
    }

    fn keep_running(&self, running: Running) {
        RequestRecord::keep_running(self, running);
    }
}

/// A request on its way to the head of its answer.
pub(crate) struct Attempts<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) cluster: &'a ClusterId,
    pub(crate) record: &'a dyn SessionUser,
    pub(crate) progress: &'a UploadProgress,
    pub(crate) read_only: bool,
    /// Time of a read's answer while its session is in doubt.
    pub(crate) deadline: Instant,
}

/// Another session for a read.
type OtherSession = (Arc<SessionEntry>, Running);

impl Attempts<'_> {
    /// Sends the request, and waits for the head of its answer.
    ///
    /// # Errors
    /// `FL-1402` for a read without a session that answers, `FL-1404` or `FL-1405` for any other request, and those of
    /// [`wait_budget::acquire_here`].
    pub(crate) async fn answer(
        &self,
        mut session: Arc<SessionEntry>,
        mut running: Running,
        mut request: PreparedRequest,
    ) -> Result<Answer, Failure> {
        let mut attempt = 1;
        loop {
            self.record.set_session(Arc::as_ptr(&session).addr());
            let again = match self.read_only && attempt < MAX_ATTEMPTS {
                true => request.repeatable(),
                false => None,
            };
            let movable = again.is_some();
            let other = tokio::select! {
                sent = self.send(&session, request) => match sent {
                    Ok(answer) => {
                        // A draining session ends only after this guard is dropped.
                        self.record.keep_running(running);
                        return Ok(answer);
                    }
                    // Boxed, because it happens seldom.
                    Err(error) => Box::pin(self.after_error(&session, &error, movable)).await,
                },
                doubt = self.doubt(&session, movable) => doubt,
            };
            let (other, guard) = other?;
            request = again.ok_or(Code::Internal)?.into();
            self.hub.metrics.reads_moved.inc();
            (session, running) = (other, guard);
            attempt += 1;
        }
    }

    /// The deadline of the head restarts while the upload moves: the API server may answer only after the last byte.
    ///
    /// There is no timer: [`sweep`](crate::agents::head_deadlines::sweep) wakes the request through [`Attempts::doubt`].
    async fn send(
        &self,
        session: &SessionEntry,
        request: PreparedRequest,
    ) -> Result<Answer, ExchangeError> {
        let head_timeout = self.hub.head_timeout;
        let mut sending = std::pin::pin!(session.exchanges().send_prepared(request));
        let mut deadline = Instant::now() + head_timeout;
        let mut seen = self.progress.frames();
        poll_fn(|cx| {
            if let Poll::Ready(answered) = sending.as_mut().poll(cx) {
                return Poll::Ready(answered);
            }
            let now = Instant::now();
            if now < deadline {
                return Poll::Pending;
            }
            let before = std::mem::replace(&mut seen, self.progress.frames());
            if before == seen {
                return Poll::Ready(Err(ExchangeError::Timeout(head_timeout)));
            }
            deadline = now + head_timeout;
            Poll::Pending
        })
        .await
    }

    /// Another session, if this one has ended under a read.
    async fn after_error(
        &self,
        session: &SessionEntry,
        error: &ExchangeError,
        movable: bool,
    ) -> Result<OtherSession, Failure> {
        if error.is_violation() {
            self.hub.metrics.violation(HTTP_VIOLATION);
        }
        let failure = self.failure_of(error);
        let ends = self.hub.process.is_draining() && self.hub.links.is_empty();
        if !movable || failure.code != Code::TunnelBroke || ends {
            return Err(failure);
        }
        // A single stream ends for reasons of its own.
        let ended = session.session().closed();
        let cause = timeout(RETRY_INTERVAL, ended).await.map_err(|_| failure)?;
        tracing::debug!(request = self.record.id(), %cause, "read moves to another session");
        // The ended session stays in the table until its own task has run.
        sleep(RETRY_INTERVAL).await;
        // The caller looks at the other hubs.
        let left = match self.hub.links.is_empty() {
            true => self.deadline.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        };
        wait_budget::acquire_here(self.hub, self.cluster, left).await
    }

    /// Completes when an answer over this session is no longer expected.
    async fn doubt(
        &self,
        session: &Arc<SessionEntry>,
        movable: bool,
    ) -> Result<OtherSession, Failure> {
        loop {
            session.doubtful().await;
            let mut pause = ANSWER_GRACE;
            while timeout(pause, session.trusted()).await.is_err() {
                if movable && let Some(other) = self.hub.sessions.acquire_other(session) {
                    return Ok(other);
                }
                if let Some(failure) = self.given_up(session) {
                    return Err(failure);
                }
                let left = self.deadline.saturating_duration_since(Instant::now());
                pause = match left {
                    Duration::ZERO => POLL_INTERVAL,
                    left => left.min(POLL_INTERVAL),
                };
            }
        }
    }

    /// The failure of a request that nothing is expected for; `None`: it keeps waiting.
    fn given_up(&self, session: &SessionEntry) -> Option<Failure> {
        if let Some(silence) = session.silence() {
            return silence.failure_for(self.read_only);
        }
        let late = self.read_only && Instant::now() >= self.deadline;
        late.then(|| match &*session.session().link().borrow() {
            LinkState::Down { last_error, .. } => Failure::because(
                Code::Lost,
                format_args!("last error {}: {last_error}", Code::SessionBroke),
            ),
            LinkState::Up => Failure::because(Code::Lost, "the last probe had no answer"),
        })
    }

    fn failure_of(&self, error: &ExchangeError) -> Failure {
        let sent = match error {
            ExchangeError::Open(OpenError::Full) => return Code::AgentFull.into(),
            ExchangeError::Open(OpenError::Closed(cause)) => {
                return Failure::because(Code::TunnelBroke, cause);
            }
            ExchangeError::Request(cause) => {
                let detail = format_args!("its body broke off: {cause}");
                return Failure::because(Code::BadRequest, detail);
            }
            ExchangeError::Broken(cause) => Failure::because(Code::TunnelBroke, cause),
            ExchangeError::Timeout(time) => {
                let detail = format_args!("nothing within {} s", time.as_secs());
                Failure::because(Code::Timeout, detail)
            }
        };
        match self.read_only {
            true => sent,
            false => sent.next(POSSIBLY_DONE),
        }
    }
}
