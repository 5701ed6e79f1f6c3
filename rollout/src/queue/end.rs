//! Causes of the end of a run.

use std::fmt;

use fairlead_api::RunId;
use serde::{Deserialize, Serialize};

/// Cause of the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "cause")]
pub enum RunEnd {
    /// The agent reported a result.
    Reported,
    /// All attempts failed.
    AttemptsExhausted {
        /// Number of attempts.
        attempts: u32,
    },
    /// The agent was lost during the last possible attempt.
    LeaseLost {
        /// Number of attempts.
        attempts: u32,
    },
    /// No further attempt fits before the deadline.
    NoTimeLeft,
    /// No agent claimed the run before its deadline.
    DeadlinePassed,
    /// A person cancelled the run.
    Cancelled,
    /// The bundle of the queued run was deleted.
    BundleDeleted,
    /// The agent was lost while it cancelled the run.
    LostWhileCancelling,
    /// A newer run took its place.
    SupersededBy {
        /// The newer run.
        run: RunId,
    },
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunEnd::Reported => f.write_str("the agent reported a result"),
            RunEnd::AttemptsExhausted { attempts } => {
                write!(f, "all {attempts} attempts failed; repair the cause and create a new run")
            }
            RunEnd::LeaseLost { attempts } => write!(
                f,
                "the agent was lost in attempt {attempts}, the last one; check the agent and create a new run"
            ),
            RunEnd::NoTimeLeft => {
                f.write_str("the last attempt failed, and no further one fits before the deadline")
            }
            RunEnd::DeadlinePassed => {
                f.write_str("no agent claimed the run before its deadline; check the cluster's connection")
            }
            RunEnd::Cancelled => f.write_str("a person cancelled the run"),
            RunEnd::BundleDeleted => f.write_str("its bundle was deleted"),
            RunEnd::LostWhileCancelling => f.write_str(
                "the agent was lost while it cancelled the run; check the cluster and confirm the deployment",
            ),
            RunEnd::SupersededBy { run } => write!(f, "replaced by {run}"),
        }
    }
}
