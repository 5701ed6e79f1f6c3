//! Decisions of delivery as pure state machines: waves and releases of a bundle, queues of runs, logs of runs.
//!
//! Nothing here does I/O or reads a clock. The hub passes events and times in, and carries the returned effects out.

mod clock;
mod limits;
mod log;
mod machine;
mod queue;
mod waves;

pub use clock::UnixMillis;
pub use limits::{DEFAULT_MAX_FAILURES, DEFAULT_MAX_UNAVAILABLE, WaveLimits};
pub use log::{
    AppendRefusal, LOG_HEAD_BYTES, LOG_TAIL_BYTES, LogAge, LogAppend, LogBuffer, LogExtent, LogGap,
    LogLimits, LogPart, MAX_LOG_BYTES, expired_logs, run_created_at,
};
pub use machine::{
    ClusterReport, FailureCause, HaltReason, NewTarget, RolloutEffects, RolloutMachine,
    RolloutObservation, RolloutStep, RolloutVerb, StepTarget, VerbRefused,
};
pub use queue::{
    AcceptedResult, AttemptResult, COMMAND_PRIORITY, DRIFT_PRIORITY, LEASE_DURATION, LeaseRenewal,
    MAX_ATTEMPTS, NewRun, QueuedRun, RETRY_BACKOFF_MAX, RETRY_BACKOFF_MIN, ResultReceipt,
    ResultRefusal, RunEnd, RunLease, RunQueue, StopReason, TAKEOVER_DELAY,
};
pub use waves::{
    DEFAULT_READY_TIMEOUT, FrozenRollout, FrozenWave, IndexRanges, IndexRangesError, Membership,
    RolloutCluster, RolloutPlan, default_waves,
};
