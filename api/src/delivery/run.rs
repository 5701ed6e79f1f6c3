//! Runs: one execution of a deployment.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{BundleId, ClusterId, RunId};

/// Work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Applies the spec.
    Sync,
    /// Compares the spec with the cluster; changes nothing.
    Diff,
    /// Removes the objects.
    Remove,
}

/// Cause of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunOrigin {
    /// A new desired state.
    Desired,
    /// A change by others.
    Drift,
    /// A person.
    Command,
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum RunState {
    /// Waits for an agent.
    Queued,
    /// An agent has taken it.
    Leased,
    /// An agent works on it.
    Running,
    /// Ended with success.
    Succeeded,
    /// Ended with a failure.
    Failed,
    /// Ended by a person.
    Cancelled,
    /// Not begun before its deadline.
    Expired,
    /// Replaced by a newer run before its start.
    Superseded,
    /// The outcome cannot be determined.
    Unknown,
}

impl RunState {
    /// All states.
    pub const ALL: [RunState; 9] = [
        RunState::Queued,
        RunState::Leased,
        RunState::Running,
        RunState::Succeeded,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Expired,
        RunState::Superseded,
        RunState::Unknown,
    ];

    /// Name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RunState::Queued => "Queued",
            RunState::Leased => "Leased",
            RunState::Running => "Running",
            RunState::Succeeded => "Succeeded",
            RunState::Failed => "Failed",
            RunState::Cancelled => "Cancelled",
            RunState::Expired => "Expired",
            RunState::Superseded => "Superseded",
            RunState::Unknown => "Unknown",
        }
    }

    /// True if the run has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(
            self,
            RunState::Queued | RunState::Leased | RunState::Running
        )
    }
}

impl FromStr for RunState {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let state = RunState::ALL.into_iter().find(|it| it.as_str() == text);
        state.ok_or("expected the state of a run, like Queued or Failed")
    }
}

/// Way to cancel a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CancelMode {
    /// After the current step.
    Soft,
    /// At once: programs are ended.
    Hard,
}

/// End of an attempt of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum AttemptOutcome {
    /// The work is done.
    Succeeded,
    /// The work failed; a further attempt may succeed.
    Failed,
    /// The work failed, and would fail again.
    Rejected,
    /// The work ended because the run was cancelled.
    Cancelled,
    /// The outcome cannot be determined.
    Unknown,
}

/// One execution of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Id of the run.
    #[schema(value_type = String)]
    pub id: RunId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The bundle.
    pub bundle: BundleId,
    /// Work of the run.
    pub kind: RunKind,
    /// Cause of the run.
    pub origin: RunOrigin,
    /// State now.
    pub state: RunState,
    /// Number of the attempt; later attempts fence earlier ones.
    pub attempt: u32,
    /// Current step, like `apply 12/40`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Name of the person, or `agent`.
    pub created_by: String,
    /// Start of the first attempt.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<OffsetDateTime>,
    /// End of the run.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<OffsetDateTime>,
    /// Length of the log in bytes.
    pub log_bytes: u64,
    /// One sentence: outcome of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}
