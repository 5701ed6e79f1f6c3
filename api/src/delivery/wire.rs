//! Requests of agents for delivery: paths below `/agent/v1/`, each over the session of its own cluster.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{
    deployment::DeploymentReport,
    run::{AttemptOutcome, CancelMode, RunDiff, RunKind, RunOrigin},
    spec::SpecId,
};
use crate::{BundleId, RunId};

/// Header of the hub's probes: ETag of the cluster's [`DesiredState`](super::DesiredState).
pub const DESIRED_DELIVERY_HEADER: &str = "fairlead-delivery-wanted";
/// Path of the cluster's [`DesiredState`](super::DesiredState).
pub const DELIVERY_PATH: &str = "/agent/v1/delivery";
/// Prefix of specs; the id of a [`Spec`](super::Spec) follows.
pub const SPECS_PATH: &str = "/agent/v1/specs/";
/// Prefix of artifacts; the [`ArtifactId`](super::ArtifactId) follows.
pub const ARTIFACTS_PATH: &str = "/agent/v1/artifacts/";
/// Path to which an agent posts [`DeploymentReports`].
pub const REPORTS_PATH: &str = "/agent/v1/deployments";
/// Limit of a desired state, in bytes of JSON.
pub const MAX_DESIRED_STATE_BYTES: usize = 1024 * 1024;
/// Limit of a spec, in bytes of JSON.
pub const MAX_SPEC_BYTES: usize = 4 * 1024 * 1024;
/// Limit of [`DeploymentReports`], in bytes of JSON.
pub const MAX_REPORTS_BYTES: usize = 512 * 1024;

/// Path at which an agent claims a command: [`ClaimedRun`], or 204 without one.
pub const CLAIM_PATH: &str = "/agent/v1/claim";
/// Prefix of the runs of a cluster; see [`run_path`].
pub const RUNS_PATH: &str = "/agent/v1/runs/";
/// Header of a piece of a log: number of the attempt.
pub const ATTEMPT_HEADER: &str = "fairlead-attempt";
/// Header of the hub's answer to a piece of a log, also with 416: offset of the next byte.
pub const LOG_OFFSET_HEADER: &str = "fairlead-log-offset";
/// Limit of a piece of a log in bytes.
pub const MAX_LOG_PIECE_BYTES: usize = 64 * 1024;
/// Limit of a [`RunOutcome`], in bytes of JSON.
pub const MAX_OUTCOME_BYTES: usize = 512 * 1024;

/// Path of a run at the hub: below it are `heartbeat`, `log` and `result`.
///
/// The path alone registers a run of the agent's own ([`AgentRun`]).
#[must_use]
pub fn run_path(run: &RunId) -> String {
    format!("{RUNS_PATH}{run}")
}

/// States of bundles in a cluster, on the base of the last accepted reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentReports {
    /// ETag of the last receipt. Missing: these are the states of all bundles, and others are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Changed states.
    #[serde(default)]
    pub reports: Vec<DeploymentReport>,
    /// Bundles with no object and no journal in the cluster any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<BundleId>,
}

/// Answer to [`DeploymentReports`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentReceipt {
    /// ETag of all states of the cluster. Missing: the hub has another base, and the agent reports all states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// A command leased to an agent: answer to [`CLAIM_PATH`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedRun {
    /// Id of the run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// The bundle.
    pub bundle: BundleId,
    /// Work of the run.
    pub kind: RunKind,
    /// Number of the attempt: part of each call about it.
    pub attempt: u32,
    /// Time until the lease ends without a call.
    pub lease_seconds: u32,
    /// Newest generation of the bundle when the run was created; 0 for a `diff` of a bundle that does not exist.
    pub generation: u64,
    /// Content of a `diff`. Missing: the agent takes that of its desired state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<SpecId>,
    /// True: a person has confirmed the step that was blocked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
    /// Name of the person.
    pub created_by: String,
    /// Length of the stored log: the log of this attempt goes on from there.
    #[serde(default)]
    pub log_offset: u64,
}

/// Sign of life of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunHeartbeat {
    /// Number of the attempt.
    pub attempt: u32,
    /// Current step, like `apply 12/40`; the first one starts the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Answer to a [`RunHeartbeat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLeaseStatus {
    /// Time until the lease ends without a further call.
    pub lease_seconds: u32,
    /// Requested cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelMode>,
}

/// Result of an attempt, sent after its whole log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOutcome {
    /// Number of the attempt.
    pub attempt: u32,
    /// End of the attempt.
    pub outcome: AttemptOutcome,
    /// One sentence: cause, object, next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// Code of a failure, like `FL-6201`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Length of the log in bytes: those of all attempts, also those that the hub has cut.
    pub log_bytes: u64,
    /// Differences, of a run of kind `diff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<RunDiff>,
}

/// Run that an agent has begun by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRun {
    /// The bundle.
    pub bundle: BundleId,
    /// Work of the run.
    pub kind: RunKind,
    /// Cause of the run: `desired` or `drift`.
    pub origin: RunOrigin,
    /// Generation of the work.
    pub generation: u64,
    /// Number of the attempt.
    pub attempt: u32,
    /// Start of the first attempt.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub started_at: OffsetDateTime,
}

/// Answer to an [`AgentRun`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRunReceipt {
    /// Length of the stored log: the log of this attempt goes on from there.
    pub log_offset: u64,
}

#[cfg(test)]
mod tests;
