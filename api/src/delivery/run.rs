//! Runs: one execution of a deployment.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{bundle::BundleFields, spec::ArtifactId};
use crate::{BundleId, ClusterId, RunId, TenantId};

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
    /// Code of the outcome, like `FL-6201`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Generation of the work.
    #[serde(default)]
    pub generation: u64,
    /// True: a person has confirmed the step that was blocked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
    /// Time of the next attempt while `Queued`.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_try: Option<OffsetDateTime>,
    /// Requested cancellation, until the agent has ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelMode>,
    /// Differences, of a run of kind `diff`; only of a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<RunDiff>,
}

/// Differences between a spec and the objects of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDiff {
    /// Objects that a `sync` would change, in the order of its work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectDiff>,
    /// Number of objects that a `sync` would not change.
    #[serde(default)]
    pub unchanged: u32,
    /// Number of further changed objects, left out for the limit of an answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u32,
}

impl RunDiff {
    /// True if a `sync` would change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.omitted == 0
    }
}

/// Change of one object by a `sync`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectDiff {
    /// Kind, namespace and name, like `Deployment shop/web`.
    pub object: String,
    /// Kind of the change.
    pub change: ObjectChange,
    /// Changed fields of an `update`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDiff>,
    /// Reason why a `sync` would fail at this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Kind of the change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectChange {
    /// The object is missing.
    Create,
    /// Fields differ.
    Update,
    /// The object belongs to the bundle no longer.
    Delete,
}

/// Change of one field. Values of a `Secret` are never sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldDiff {
    /// Path, like `.spec.replicas`.
    pub path: String,
    /// Value in the cluster; missing for a new field and for a `Secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub from: Option<Value>,
    /// Value of the spec; missing for a removed field and for a `Secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub to: Option<Value>,
}

/// True for the default, for serde.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// New run, made by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRun {
    /// The cluster.
    pub cluster: ClusterId,
    /// The bundle.
    pub bundle: BundleId,
    /// Work of the run.
    pub kind: RunKind,
}

/// Request for a comparison of a bundle with clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffRequest {
    /// The clusters.
    pub clusters: Vec<ClusterId>,
    /// Tenant of a bundle that does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Content instead of the bundle's newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
    /// Options instead of the bundle's newest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<BundleFields>,
}
