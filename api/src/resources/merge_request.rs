//! Open merge requests in the repositories of a tenant.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An open merge request (pull request) in a repository of a tenant or of its clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MergeRequest)]
pub struct MergeRequestDocument {
    /// Owner of the repository and number, like `c-edge!12`.
    pub id: String,
    /// Clone URL of the repository.
    pub repository: String,
    /// Title.
    pub title: String,
    /// Address of its web page.
    pub url: String,
    /// Login of its author.
    pub author: String,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// Branch that it merges.
    pub branch: String,
    /// Last commit of that branch.
    pub head: String,
    /// True while its author marks it as not ready.
    pub draft: bool,
    /// Result of its CI.
    pub ci: CiState,
    /// Answer of the server about conflicts.
    pub merge: MergeState,
}

/// Result of the CI for the last commit of a merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CiState {
    /// No CI has reported.
    None,
    /// A job has not ended.
    Pending,
    /// All jobs have succeeded.
    Passed,
    /// A job has failed.
    Failed,
}

impl CiState {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CiState::None => "none",
            CiState::Pending => "pending",
            CiState::Passed => "passed",
            CiState::Failed => "failed",
        }
    }
}

/// Possibility of a merge, without regard to the CI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MergeState {
    /// The server can merge it.
    Clean,
    /// It has conflicts, or a rule of the server forbids the merge.
    Blocked,
    /// The server has not checked it yet.
    Unknown,
}

impl MergeState {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            MergeState::Clean => "clean",
            MergeState::Blocked => "blocked",
            MergeState::Unknown => "unknown",
        }
    }
}

/// Response to `GET /v1/tenants/{id}/merge-requests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeRequestList {
    /// By repository and number.
    pub items: Vec<MergeRequestDocument>,
    /// Repositories whose merge requests are not in the list.
    pub failures: Vec<RepositoryFailure>,
}

/// A repository whose server gave no list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepositoryFailure {
    /// Id of the tenant or cluster.
    pub owner: String,
    /// Reason with the name of the server.
    pub reason: String,
}

/// Body of `POST /v1/tenants/{id}/merge-requests/{request}/merge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeOrder {
    /// Commit that the caller has seen; with a newer one the merge is refused. The last one if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}
