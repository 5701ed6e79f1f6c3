//! Arguments of `fairlead maintenance`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairlead_api::{TenantId, resources::CiState};

use super::common::OutputArgs;

const LIST_EXAMPLES: &str = "\
Examples:
  fairlead maintenance list --tenant t-acme
  fairlead maintenance list --tenant t-acme --ci failed
  fairlead maintenance list --tenant t-acme --label security -o json";

const MERGE_EXAMPLES: &str = "\
Examples:
  fairlead maintenance merge c-edge!12 --tenant t-acme
  fairlead maintenance merge --all --tenant t-acme --dry-run
  fairlead maintenance merge --all --tenant t-acme --label patch --yes";

#[derive(Subcommand)]
pub enum MaintenanceArgs {
    /// List open merge requests in the repositories of a tenant and its clusters, by default those of Renovate
    #[command(visible_alias = "ls", after_help = LIST_EXAMPLES)]
    List(MergeRequestList),
    /// Merge merge requests that are ready, one by one
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(MergeArgs),
}

#[derive(Args)]
pub(crate) struct MergeRequestFilters {
    /// Tenant with the repositories [default: t-default]
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<TenantId>,
    /// Only merge requests with this label, of any author
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// Only merge requests of this author
    #[arg(long, value_name = "LOGIN")]
    pub(crate) author: Option<String>,
}

#[derive(Parser)]
pub struct MergeRequestList {
    #[command(flatten)]
    pub(crate) filters: MergeRequestFilters,
    /// Only merge requests with this result of the CI
    #[arg(long, value_enum)]
    pub(crate) ci: Option<CiFilter>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Result of a CI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiFilter {
    /// All jobs have succeeded
    Passed,
    /// A job has failed
    Failed,
    /// A job has not ended
    Pending,
    /// No CI has reported
    None,
}

impl From<CiFilter> for CiState {
    fn from(it: CiFilter) -> Self {
        match it {
            CiFilter::Passed => CiState::Passed,
            CiFilter::Failed => CiState::Failed,
            CiFilter::Pending => CiState::Pending,
            CiFilter::None => CiState::None,
        }
    }
}

/// Result of a CI with which several may be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MergeableCi {
    /// All jobs have succeeded
    Passed,
    /// No CI has reported
    None,
}

impl From<MergeableCi> for CiState {
    fn from(it: MergeableCi) -> Self {
        match it {
            MergeableCi::Passed => CiState::Passed,
            MergeableCi::None => CiState::None,
        }
    }
}

#[derive(Parser)]
pub struct MergeArgs {
    /// Ids of the list, like c-edge!12
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with_all = ["all", "label", "author", "ci"]
    )]
    pub(crate) ids: Vec<String>,
    /// Merge all listed ones that are ready: this result of the CI, no conflicts, no draft
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filters: MergeRequestFilters,
    /// Result of the CI of those to merge
    #[arg(long, value_enum, default_value = "passed")]
    pub(crate) ci: MergeableCi,
    /// Show those that would be merged, and merge none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
}
