//! One run: its durable form, and the end of its attempts.

use fairlead_api::{
    RunId,
    delivery::{AttemptOutcome, CancelMode, RunKind, RunState},
};
use serde::{Deserialize, Serialize};

use super::{
    end::RunEnd,
    messages::StopReason,
    policy::{MAX_ATTEMPTS, retry_backoff},
};
use crate::clock::UnixMillis;

/// A run to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Id of the run.
    pub id: RunId,
    /// Work of the run.
    pub kind: RunKind,
    /// Priority, -10 to 10. Higher ones are claimed first.
    pub priority: i8,
    /// The run expires if no agent has claimed it by then.
    pub deadline: Option<UnixMillis>,
}

/// A run in its queue; the durable form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedRun {
    /// Id of the run.
    pub id: RunId,
    /// Work of the run.
    pub kind: RunKind,
    /// Priority.
    pub priority: i8,
    /// Time of entry.
    pub created_at: UnixMillis,
    /// Time of expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<UnixMillis>,
    /// State now.
    pub state: RunState,
    /// Number of the current or last attempt; 0 before the first.
    pub attempt: u32,
    /// End of the lease while `Leased` or `Running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<UnixMillis>,
    /// Earliest time of the next attempt while `Queued`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<UnixMillis>,
    /// Requested cancellation of a claimed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelMode>,
    /// Accepted result of the last attempt that reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptedResult>,
    /// Start of the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<UnixMillis>,
    /// End of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<UnixMillis>,
    /// Cause of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
}

/// Mark of an accepted result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedResult {
    /// Number of the attempt.
    pub attempt: u32,
    /// Digest of the result's content.
    pub digest: String,
}

impl QueuedRun {
    pub(super) fn finish(&mut self, now: UnixMillis, state: RunState, end: RunEnd) {
        self.state = state;
        self.lease_until = None;
        self.next_try = None;
        self.finished_at = Some(now);
        self.end = Some(end);
    }

    pub(super) fn check_attempt(&self, sent: u32) -> Result<(), StopReason> {
        if self.state.is_final() {
            return Err(StopReason::Ended(self.state));
        }
        if sent != self.attempt || sent == 0 {
            return Err(StopReason::StaleAttempt {
                sent,
                current: self.attempt,
            });
        }
        Ok(())
    }

    pub(super) fn end_attempt(&mut self, now: UnixMillis, outcome: AttemptOutcome) {
        match outcome {
            AttemptOutcome::Succeeded => self.finish(now, RunState::Succeeded, RunEnd::Reported),
            AttemptOutcome::Rejected => self.finish(now, RunState::Failed, RunEnd::Reported),
            AttemptOutcome::Cancelled => self.finish(now, RunState::Cancelled, RunEnd::Cancelled),
            AttemptOutcome::Unknown => self.finish(now, RunState::Unknown, RunEnd::Reported),
            AttemptOutcome::Failed if self.cancel.is_some() => {
                self.finish(now, RunState::Failed, RunEnd::Reported);
            }
            AttemptOutcome::Failed => {
                let attempts = self.attempt;
                let exhausted = RunEnd::AttemptsExhausted { attempts };
                self.requeue(now, now + retry_backoff(attempts), exhausted);
            }
        }
    }

    /// Queues the run again, or ends it without attempts or time left.
    pub(super) fn requeue(&mut self, now: UnixMillis, next_try: UnixMillis, exhausted: RunEnd) {
        if self.attempt >= MAX_ATTEMPTS {
            self.finish(now, RunState::Failed, exhausted);
        } else if self.deadline.is_some_and(|deadline| deadline <= next_try) {
            self.finish(now, RunState::Failed, RunEnd::NoTimeLeft);
        } else {
            self.state = RunState::Queued;
            self.lease_until = None;
            self.next_try = Some(next_try);
        }
    }
}
