//! Upgrades of agents: one version for many clusters, wave by wave.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{ClusterId, Selector};

/// State of an [`AgentUpgrade`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum AgentUpgradeState {
    /// Upgrades one wave after the other.
    Running,
    /// A person has paused it: no further cluster begins.
    Paused,
    /// Too many clusters failed: the others keep their version.
    Stopped,
    /// A person has cancelled it: no further cluster begins.
    Cancelled,
    /// Each cluster has a result.
    Done,
}

/// State of an upgrade in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ClusterUpgradeState {
    /// Waits for its wave.
    Waiting,
    /// The agent changes its Deployment, and waits for the new pods.
    Upgrading,
    /// The new version serves.
    Done,
    /// The new pods did not become ready: the agent has returned to the former image.
    RolledBack,
    /// The agent may not or cannot change its Deployment.
    Refused,
    /// The agent has not reported in time.
    Failed,
    /// Left out: without a session at the start, or deleted since.
    Skipped,
}

impl ClusterUpgradeState {
    /// True for a state that stays.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(
            self,
            ClusterUpgradeState::Waiting | ClusterUpgradeState::Upgrading
        )
    }

    /// True for a cluster that counts as failed.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            ClusterUpgradeState::RolledBack
                | ClusterUpgradeState::Refused
                | ClusterUpgradeState::Failed
        )
    }
}

impl fmt::Display for AgentUpgradeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for ClusterUpgradeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An upgrade of the agents of many clusters. It shows the clusters that are visible to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentUpgrade {
    /// Id of the upgrade.
    pub id: String,
    /// Version of the agents.
    pub version: String,
    /// Image of the agents.
    pub image: String,
    /// Selector of the clusters at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub selector: Option<Selector>,
    /// State now.
    pub state: AgentUpgradeState,
    /// Reason of a stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds until the new pods of a cluster must be ready.
    pub timeout_seconds: u32,
    /// Number of failed clusters that the upgrade tolerates.
    pub max_failed: u32,
    /// Time of the start.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub created: OffsetDateTime,
    /// Person or program that started it.
    pub created_by: String,
    /// Time of the end.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished: Option<OffsetDateTime>,
    /// Clusters in the order of their waves.
    pub clusters: Vec<ClusterUpgrade>,
}

/// Upgrade of one cluster's agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpgrade {
    /// Cluster of the agents.
    pub cluster: ClusterId,
    /// Number of its wave, from 1; 0 for a cluster that was left out.
    pub wave: u32,
    /// State now.
    pub state: ClusterUpgradeState,
    /// Cause of a failure, or of an omission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Time of its start.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started: Option<OffsetDateTime>,
    /// Time of its result.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished: Option<OffsetDateTime>,
}

/// Request for an [`AgentUpgrade`], of the clusters with these ids or of those that match the selector.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAgentUpgrade {
    /// Version of the agents: that of the hub, or one of the two minor versions before it.
    pub version: String,
    /// Image of the agents. Default: the hub's own image for agents, with the version as its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Selector of clusters by annotations and facts; an empty one matches all visible clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub selector: Option<Selector>,
    /// Ids of clusters, in the order of their waves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterId>,
    /// Seconds until the new pods of a cluster must be ready. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 10, maximum = 3600)]
    pub timeout_seconds: Option<u32>,
    /// Number of failed clusters that the upgrade tolerates. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failed: Option<u32>,
}
