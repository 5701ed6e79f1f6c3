//! Task of one attempt: registers it, sends log and heartbeats, and its result until the hub accepts it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_api::{
    RunId,
    delivery::{
        ATTEMPT_HEADER, AgentRun, AgentRunReceipt, AttemptOutcome, CancelMode, LOG_OFFSET_HEADER,
        MAX_LOG_PIECE_BYTES, RunHeartbeat, RunLeaseStatus, RunOutcome, run_path,
    },
};
use http::{Method, Request, Response, StatusCode, header};
use serde::Serialize;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

use crate::{engine::RunLog, hub::HubConnection};

/// Interval of log uploads.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_BACKOFF_MIN: Duration = Duration::from_secs(1);
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Deadline of a request, with the wait for a session.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Maker of a run.
pub(super) enum Origin {
    Agent(AgentRun),
    Claimed { lease_seconds: u32, log_offset: u64 },
}

pub(super) struct UploadTask {
    pub(super) hub: Arc<dyn HubConnection>,
    pub(super) run: RunId,
    pub(super) attempt: u32,
    pub(super) origin: Origin,
    pub(super) log: RunLog,
    pub(super) outcomes: watch::Receiver<Option<RunOutcome>>,
    pub(super) cancel: watch::Sender<Option<CancelMode>>,
}

/// Reason to end an upload, or to repeat a request later.
enum Problem {
    /// The hub is away or overloaded.
    Later(String),
    /// The hub has ended the attempt, or knows another result.
    Over(StatusCode),
}

/// Bytes that were taken from the log, and the offset of the next one to send.
#[derive(Default)]
struct Sent {
    /// Offset of the first byte at the hub.
    base: u64,
    /// All bytes of this attempt, for a hub that lost some.
    bytes: Vec<u8>,
    /// Number of accepted bytes.
    accepted: usize,
}

impl UploadTask {
    pub(super) async fn run(mut self) {
        let mut sent = Sent::default();
        let lease = match &self.origin {
            Origin::Agent(_) => None,
            Origin::Claimed {
                lease_seconds,
                log_offset,
            } => {
                sent.base = *log_offset;
                Some(Duration::from_secs(u64::from(*lease_seconds)))
            }
        };
        let mut backoff = RETRY_BACKOFF_MIN;
        let mut is_registered = lease.is_some();
        let mut heartbeat_at = Instant::now();
        loop {
            let heartbeat = lease.filter(|_| heartbeat_at <= Instant::now());
            match self
                .advance(&mut sent, &mut is_registered, heartbeat.is_some())
                .await
            {
                Ok(true) => return,
                Ok(false) => {
                    backoff = RETRY_BACKOFF_MIN;
                    if let Some(lease) = heartbeat {
                        heartbeat_at = Instant::now() + lease / 3;
                    }
                    self.pause(LOG_INTERVAL).await;
                }
                Err(Problem::Later(cause)) => {
                    debug!(run = %self.run, cause, "run not reported; retrying");
                    sleep(backoff).await;
                    // A hub that returns must get a call before the lease ends.
                    let longest = lease.map_or(RETRY_BACKOFF_MAX, |lease| lease / 12);
                    backoff = (backoff * 2).min(longest);
                }
                Err(Problem::Over(status)) => {
                    warn!(run = %self.run, %status, "hub has ended the attempt");
                    // The lease is lost: another attempt may begin, so that this one ends at once.
                    if lease.is_some() {
                        self.cancel.send_replace(Some(CancelMode::Hard));
                    }
                    return;
                }
            }
        }
    }

    /// Waits for the end of the run, at most for an interval.
    async fn pause(&mut self, interval: Duration) {
        let is_ended = |outcome: &Option<RunOutcome>| outcome.is_some();
        if !is_ended(&self.outcomes.borrow()) {
            let _ = timeout(interval, self.outcomes.wait_for(is_ended)).await;
        }
    }

    /// Sends everything that can be sent. True if the hub has accepted the result.
    async fn advance(
        &mut self,
        sent: &mut Sent,
        is_registered: &mut bool,
        is_heartbeat_due: bool,
    ) -> Result<bool, Problem> {
        if !*is_registered && let Origin::Agent(registration) = &self.origin {
            let answer = self.put(&run_path(&self.run), registration).await?;
            let receipt: AgentRunReceipt = parse(&answer)?;
            sent.base = receipt.log_offset;
            *is_registered = true;
        }
        if is_heartbeat_due {
            self.heartbeat().await?;
        }
        let outcome = self.outcome();
        self.send_log(sent).await?;
        let Some(outcome) = outcome else {
            return Ok(false);
        };
        let length = u64::try_from(sent.bytes.len()).unwrap_or(u64::MAX);
        let outcome = RunOutcome {
            log_bytes: sent.base + length,
            ..outcome
        };
        let path = format!("{}/result", run_path(&self.run));
        match self.put(&path, &outcome).await {
            Ok(_) => Ok(true),
            Err(Problem::Over(StatusCode::PRECONDITION_FAILED)) => {
                sent.accepted = 0;
                Err(Problem::Later("the log is not whole".to_owned()))
            }
            Err(problem) => Err(problem),
        }
    }

    /// The result; unknown if the worker has ended without one.
    fn outcome(&self) -> Option<RunOutcome> {
        let outcome = self.outcomes.borrow().clone();
        if outcome.is_some() || self.outcomes.has_changed().is_ok() {
            return outcome;
        }
        self.log.finish();
        Some(RunOutcome {
            attempt: self.attempt,
            outcome: AttemptOutcome::Unknown,
            sentence: Some("the agent ended before the run".to_owned()),
            code: Some(fairlead_api::Code::OutcomeUnknown.to_string()),
            log_bytes: 0,
            diff: None,
        })
    }

    async fn heartbeat(&self) -> Result<(), Problem> {
        let heartbeat = RunHeartbeat {
            attempt: self.attempt,
            step: self.log.step(),
        };
        let path = format!("{}/heartbeat", run_path(&self.run));
        let answer = self
            .send(Method::POST, &path, json(&heartbeat), None)
            .await?;
        let status: RunLeaseStatus = parse(&accepted(answer)?)?;
        if status.cancel.is_some() {
            self.cancel.send_if_modified(|mode| {
                let is_new = *mode < status.cancel;
                if is_new {
                    *mode = status.cancel;
                }
                is_new
            });
        }
        Ok(())
    }

    async fn send_log(&self, sent: &mut Sent) -> Result<(), Problem> {
        loop {
            // The bound of all logs counts the bytes that have not been taken.
            if sent.accepted == sent.bytes.len() {
                let (_, taken) = self.log.take(MAX_LOG_PIECE_BYTES);
                sent.bytes.extend(taken);
            }
            let rest = sent.bytes.get(sent.accepted..).unwrap_or_default();
            let piece = rest
                .get(..rest.len().min(MAX_LOG_PIECE_BYTES))
                .unwrap_or_default();
            if piece.is_empty() {
                return Ok(());
            }
            let first = sent.base + u64::try_from(sent.accepted).unwrap_or(u64::MAX);
            let last = first + u64::try_from(piece.len()).unwrap_or(u64::MAX) - 1;
            let length = piece.len();
            let path = format!("{}/log", run_path(&self.run));
            let piece = Bytes::copy_from_slice(piece);
            let answer = self
                .send(Method::PUT, &path, piece, Some((first, last)))
                .await?;
            if answer.status() == StatusCode::RANGE_NOT_SATISFIABLE {
                let stored = answer.headers().get(LOG_OFFSET_HEADER);
                let stored = stored.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
                let stored = stored.and_then(|it| usize::try_from(it.checked_sub(sent.base)?).ok());
                match stored.filter(|stored| *stored <= sent.bytes.len()) {
                    Some(stored) if stored != sent.accepted => sent.accepted = stored,
                    _ => return Err(Problem::Later("the hub has another log".to_owned())),
                }
                continue;
            }
            accepted(answer)?;
            sent.accepted += length;
        }
    }

    async fn put(&self, path: &str, body: &impl Serialize) -> Result<Bytes, Problem> {
        accepted(self.send(Method::PUT, path, json(body), None).await?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        range: Option<(u64, u64)>,
    ) -> Result<Response<Bytes>, Problem> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(ATTEMPT_HEADER, self.attempt);
        request = match range {
            None => request.header(header::CONTENT_TYPE, "application/json"),
            Some((first, last)) => {
                let range = format!("bytes {first}-{last}/*");
                let request = request.header(header::CONTENT_RANGE, range);
                request.header(header::CONTENT_TYPE, "application/octet-stream")
            }
        };
        let request = request.body(body);
        let request = request.map_err(|error| Problem::Later(error.to_string()))?;
        let sent = timeout(REQUEST_DEADLINE, self.hub.send(request, MAX_ANSWER_BYTES)).await;
        let sent = sent.map_err(|_| Problem::Later("the hub did not answer".to_owned()))?;
        sent.map_err(|error| Problem::Later(error.0))
    }
}

fn json(body: &impl Serialize) -> Bytes {
    // The types of the wire have text keys only.
    serde_json::to_vec(body).unwrap_or_default().into()
}

fn parse<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::Later(error.to_string()))
}

fn accepted(answer: Response<Bytes>) -> Result<Bytes, Problem> {
    match answer.status() {
        status if status.is_success() => Ok(answer.into_body()),
        status
            if status.is_server_error()
                || matches!(
                    status,
                    StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
                ) =>
        {
            Err(Problem::Later(format!("the hub answers {status}")))
        }
        status => Err(Problem::Over(status)),
    }
}
