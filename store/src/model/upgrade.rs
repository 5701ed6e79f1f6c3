//! Upgrades of agents: one version for many clusters, and its part in each cluster.

use std::collections::BTreeMap;

use fairlead_api::{
    ClusterId, Selector,
    resources::{AgentUpgradeState, ClusterUpgradeState},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// An upgrade of the agents of many clusters, wave by wave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetUpgrade {
    /// Random id.
    pub id: String,
    /// Version of the agents.
    pub version: String,
    /// Image of the agents.
    pub image: String,
    /// Selector of the clusters at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// State of the whole.
    pub state: AgentUpgradeState,
    /// Reason of a stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds until the new pods of a cluster must be ready.
    pub timeout_seconds: u32,
    /// Tolerated number of failed clusters.
    pub max_failed: u32,
    /// Time of the start.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Name of the creator.
    pub created_by: String,
    /// Time of the end.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub finished: Option<OffsetDateTime>,
    /// Clusters by wave. The first wave is the canary.
    pub waves: Vec<Vec<ClusterId>>,
    /// State of each cluster, of skipped ones too.
    pub clusters: BTreeMap<ClusterId, UpgradeProgress>,
}

/// State of an upgrade in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeProgress {
    /// State.
    pub state: ClusterUpgradeState,
    /// Cause of a failure, or of an omission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Time of the start.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub started: Option<OffsetDateTime>,
    /// Time of the result.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub finished: Option<OffsetDateTime>,
}

impl UpgradeProgress {
    /// A state without times.
    #[must_use]
    pub fn new(state: ClusterUpgradeState, cause: Option<String>) -> Self {
        UpgradeProgress {
            state,
            cause,
            started: None,
            finished: None,
        }
    }
}

/// Last upgrade of a cluster's agents, in the record of the cluster: its agent's configuration is made from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpgradeOrder {
    /// Id of the [`FleetUpgrade`].
    pub id: String,
    /// Version of the agents.
    pub version: String,
    /// Image of the agents.
    pub image: String,
    /// Seconds until the new pods must be ready.
    pub timeout_seconds: u32,
    /// State that the agent has reported, or the hub has decided.
    pub state: ClusterUpgradeState,
    /// Cause of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl FleetUpgrade {
    /// True while it may begin further clusters.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(
            self.state,
            AgentUpgradeState::Running | AgentUpgradeState::Paused
        )
    }

    /// True while a result of a cluster is open.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.is_open() || self.has(ClusterUpgradeState::Upgrading)
    }

    /// True if a cluster is in this state.
    #[must_use]
    pub fn has(&self, state: ClusterUpgradeState) -> bool {
        self.clusters.values().any(|it| it.state == state)
    }

    /// True while this cluster is in it without a result, and may still begin.
    #[must_use]
    pub fn occupies(&self, cluster: &ClusterId) -> bool {
        let state = self.clusters.get(cluster).map(|it| it.state);
        match state {
            Some(ClusterUpgradeState::Upgrading) => true,
            Some(ClusterUpgradeState::Waiting) => self.is_open(),
            _ => false,
        }
    }

    /// Order for the record of a cluster whose wave begins.
    #[must_use]
    pub fn order(&self) -> ClusterUpgradeOrder {
        ClusterUpgradeOrder {
            id: self.id.clone(),
            version: self.version.clone(),
            image: self.image.clone(),
            timeout_seconds: self.timeout_seconds,
            state: ClusterUpgradeState::Upgrading,
            cause: None,
        }
    }
}
