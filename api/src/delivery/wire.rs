//! Requests of agents for delivery: paths below `/agent/v1/`, each over the session of its own cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::deployment::DeploymentReport;

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
    pub gone: Vec<crate::BundleId>,
}

/// Answer to [`DeploymentReports`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentReceipt {
    /// ETag of all states of the cluster. Missing: the hub has another base, and the agent reports all states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}
