//! Answers to an agent about its attempt.

use fairlead_api::{
    RunId,
    delivery::{AttemptOutcome, CancelMode, RunKind, RunState},
};

use crate::clock::UnixMillis;

/// A leased run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLease {
    /// Id of the run.
    pub run: RunId,
    /// Work of the run.
    pub kind: RunKind,
    /// Number of the attempt: part of each call about it.
    pub attempt: u32,
    /// End of the lease by the hub's clock.
    pub until: UnixMillis,
}

/// A renewed lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRenewal {
    /// End of the lease by the hub's clock.
    pub until: UnixMillis,
    /// Requested cancellation.
    pub cancel: Option<CancelMode>,
}

/// Order to stop an attempt: nothing that it sends is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The queue has no such run.
    #[error("no such run")]
    NoSuchRun,
    /// The run has ended.
    #[error("the run has ended as {0:?}")]
    Ended(RunState),
    /// Another attempt is the current one.
    #[error("attempt {sent} is not the current one, {current}")]
    StaleAttempt {
        /// Number in the call.
        sent: u32,
        /// Number of the current attempt.
        current: u32,
    },
    /// The lease was lost. The result of the attempt is still accepted until the next attempt begins.
    #[error("the lease of the attempt was lost")]
    LeaseLost,
}

/// Result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptResult {
    /// End of the attempt.
    pub outcome: AttemptOutcome,
    /// Digest of the whole content of the result.
    pub digest: String,
    /// Length of the log.
    pub log_bytes: u64,
}

/// Answer to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultReceipt {
    /// The result is accepted.
    Accepted,
    /// The same result was accepted before.
    AlreadyAccepted,
}

/// Refusal of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResultRefusal {
    /// The attempt counts no longer.
    #[error(transparent)]
    Stop(#[from] StopReason),
    /// Another result of this attempt was accepted.
    #[error("attempt {attempt} has reported another result before")]
    Conflict {
        /// Number of the attempt.
        attempt: u32,
    },
    /// The log has to be sent first.
    #[error("the log has {stored} of {expected} bytes; send the rest first")]
    LogIncomplete {
        /// Stored length.
        stored: u64,
        /// Length by the result.
        expected: u64,
    },
}
