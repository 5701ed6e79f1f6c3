//! Queue of the runs of one deployment: commands that an agent claims, executes and reports.
//!
//! - One lease is live at a time, by the hub's clock, for [`LEASE_DURATION`]. Each call of the agent about the run renews
//!   it. A lost lease lapses after a further [`TAKEOVER_DELAY`]; nothing is claimed before.
//! - The number of the attempt fences: calls with another number are refused, and the agent stops.
//! - A failed attempt is repeated after a back-off, at most [`MAX_ATTEMPTS`] times. One result of an attempt is accepted.
//! - A newer run supersedes queued ones of its kind, unless they have a higher priority. `sync` and `remove` replace each
//!   other. A running one is never replaced.
//! - A run that no agent has claimed at its deadline expires. A run whose cluster is offline waits at no cost.
//!
//! The queue is durable as its runs: store each run of [`RunQueue::take_changed`] before an answer is sent.

mod calls;
mod end;
mod lapse;
mod list;
mod messages;
mod policy;
mod run;

pub use self::{
    end::RunEnd,
    list::RunQueue,
    messages::{AttemptResult, LeaseRenewal, ResultReceipt, ResultRefusal, RunLease, StopReason},
    policy::{
        COMMAND_PRIORITY, DRIFT_PRIORITY, LEASE_DURATION, MAX_ATTEMPTS, RETRY_BACKOFF_MAX,
        RETRY_BACKOFF_MIN, TAKEOVER_DELAY,
    },
    run::{AcceptedResult, NewRun, QueuedRun},
};

#[cfg(test)]
mod tests;
