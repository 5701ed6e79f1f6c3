//! Plans: effect of a change of a bundle on clusters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::spec::PlanHash;
use crate::ClusterId;

/// Effect of a change: answer to `POST /v1/bundles/{id}/plan`. Lists are ordered by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Targets in their order; one with 0 clusters matches nothing.
    pub targets: Vec<PlannedTarget>,
    /// Clusters that get the bundle for the first time.
    pub added: Vec<ClusterId>,
    /// Clusters with other content or options than before.
    pub changed: Vec<ClusterId>,
    /// Clusters that lose the bundle.
    pub removed: Vec<ClusterId>,
    /// Targeted clusters without a spec; they are neither added nor changed.
    pub blocked: Vec<BlockedCluster>,
    /// Number of clusters without a change.
    pub unchanged: u32,
    /// Name of the removals, to be repeated with the change; missing without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<PlanHash>,
}

/// A target in a [`Plan`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedTarget {
    /// Name of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True: these clusters do not get the bundle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// Number of clusters with this target as their first match.
    pub clusters: u32,
}

/// A cluster in a [`Plan`] that cannot get the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockedCluster {
    /// The cluster.
    pub cluster: ClusterId,
    /// One sentence for each cause, like a variable without value.
    pub reasons: Vec<String>,
}
