//! Refusals of calls about runs, and their codes.

use fairlead_api::{Code, Failure, RunId, delivery::RunState};
use fairlead_rollout::{AppendRefusal, ResultRefusal, StopReason};
use fairlead_store::StoreError;

/// Refusal of an agent's call about a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunRefusal {
    /// The hub has no such run of the agent's cluster.
    #[error("the hub has no run {0} of this cluster")]
    Gone(RunId),
    /// The attempt counts no longer.
    #[error("{run}: {reason}")]
    Stop {
        /// The run.
        run: RunId,
        /// Reason.
        reason: StopReason,
    },
    /// Another result of the attempt was accepted.
    #[error("{run}: attempt {attempt} has reported another result before")]
    OtherResult {
        /// The run.
        run: RunId,
        /// Number of the attempt.
        attempt: u32,
    },
    /// The log has to be sent first.
    #[error("{run}: the log has {stored} of {expected} bytes")]
    LogIncomplete {
        /// The run.
        run: RunId,
        /// Stored length.
        stored: u64,
        /// Length by the result.
        expected: u64,
    },
    /// A repeated byte differs from the stored one.
    #[error("{run}: the byte at offset {at} differs from the stored one")]
    OtherLog {
        /// The run.
        run: RunId,
        /// Its offset.
        at: u64,
    },
    /// The rows failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RunRefusal {
    pub(super) fn of_stop(run: &RunId, reason: StopReason) -> Self {
        match reason {
            StopReason::NoSuchRun => RunRefusal::Gone(run.clone()),
            reason => RunRefusal::Stop {
                run: run.clone(),
                reason,
            },
        }
    }

    pub(super) fn of_result(run: &RunId, refusal: ResultRefusal) -> Self {
        let run = run.clone();
        match refusal {
            ResultRefusal::Stop(reason) => RunRefusal::of_stop(&run, reason),
            ResultRefusal::Conflict { attempt } => RunRefusal::OtherResult { run, attempt },
            ResultRefusal::LogIncomplete { stored, expected } => RunRefusal::LogIncomplete {
                run,
                stored,
                expected,
            },
        }
    }
}

impl From<RunRefusal> for Failure {
    fn from(refusal: RunRefusal) -> Self {
        let code = match &refusal {
            RunRefusal::Gone(_) => Code::RunGone,
            RunRefusal::Stop { .. } => Code::RunStopped,
            RunRefusal::OtherResult { .. } => Code::OtherResult,
            RunRefusal::LogIncomplete { .. } => Code::LogIncomplete,
            RunRefusal::OtherLog { .. } => Code::OtherLog,
            RunRefusal::Store(_) => Code::Internal,
        };
        match refusal {
            RunRefusal::Store(error) => error.into(),
            refusal => Failure::with_cause(code, refusal.to_string()),
        }
    }
}

/// Failure of a person's request for a run that is missing or hidden.
pub(crate) fn no_such_run(id: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no run {id:?} is visible"))
        .next("List the visible runs with `fairlead run list`.")
}

/// Failure of a person's request to change an ended run.
pub(super) fn has_ended(id: &RunId, state: RunState) -> Failure {
    Failure::with_cause(
        Code::RunEnded,
        format!("{id} has ended as {}", state.as_str()),
    )
}

/// Result of a piece of a log.
pub(super) enum PieceRefusal {
    /// Bytes before the piece are missing.
    Gap {
        /// Offset to send from.
        wanted: u64,
    },
    /// Any other refusal.
    Other(RunRefusal),
}

impl PieceRefusal {
    pub(super) fn of_append(run: &RunId, refusal: AppendRefusal) -> Self {
        match refusal {
            AppendRefusal::Gap(gap) => PieceRefusal::Gap { wanted: gap.wanted },
            AppendRefusal::Different { at } => {
                let run = run.clone();
                PieceRefusal::Other(RunRefusal::OtherLog { run, at })
            }
        }
    }
}

impl<E: Into<RunRefusal>> From<E> for PieceRefusal {
    fn from(error: E) -> Self {
        PieceRefusal::Other(error.into())
    }
}
