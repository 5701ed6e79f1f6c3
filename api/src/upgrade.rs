//! Upgrades of agents: the desired upgrade in an agent's configuration, and the agent's reports,
//! `POST /agent/v1/upgrade`. The agent changes its own Deployment, and returns to the former image if the new
//! pods do not become ready in time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::resources::ClusterUpgradeState;

/// Path for the [`UpgradeReport`].
pub const UPGRADE_PATH: &str = "/agent/v1/upgrade";
/// Limit of a report, in bytes of JSON.
pub const MAX_UPGRADE_REPORT_BYTES: usize = 8 * 1024;
/// Limit of a cause, in characters.
pub const MAX_UPGRADE_CAUSE_CHARS: usize = 500;
/// Time for the new pods of an agent to become ready.
pub const UPGRADE_TIMEOUT: Duration = Duration::from_secs(300);

/// Desired upgrade of one cluster's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DesiredUpgrade {
    /// Id of the upgrade. An agent tries each id once.
    pub id: String,
    /// Version of the agent in the image.
    pub version: String,
    /// Image of the new pods.
    pub image: String,
    /// Seconds until the new pods must be ready.
    pub timeout_seconds: u32,
}

/// Body of `POST /agent/v1/upgrade`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeReport {
    /// Id of the upgrade.
    pub id: String,
    /// State of the upgrade in the cluster.
    pub state: ClusterUpgradeState,
    /// Cause of a refusal or a return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Answer to an [`UpgradeReport`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct UpgradeReceipt {}
