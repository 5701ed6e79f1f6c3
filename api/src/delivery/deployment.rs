//! Deployments: a bundle in a cluster.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::bundle::BundleKind;
use crate::{BundleId, ClusterId, RunId};

/// State of a [`Deployment`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub enum DeploymentState {
    /// Waits for its wave.
    Pending,
    /// Released; waits for a cluster, a dependency, a lock or a Secret.
    Waiting,
    /// A run changes the cluster.
    Applying,
    /// Applied and healthy.
    Ready,
    /// Applied and not healthy.
    NotReady,
    /// Others changed objects of the bundle.
    Drifted,
    /// The last run failed.
    Failed,
    /// Waits for a decision of a person.
    Blocked,
    /// Kept in the cluster, and targeted no longer.
    Orphaned,
    /// A run removes the objects.
    Removing,
}

impl DeploymentState {
    /// All states.
    pub const ALL: [DeploymentState; 10] = [
        DeploymentState::Pending,
        DeploymentState::Waiting,
        DeploymentState::Applying,
        DeploymentState::Ready,
        DeploymentState::NotReady,
        DeploymentState::Drifted,
        DeploymentState::Failed,
        DeploymentState::Blocked,
        DeploymentState::Orphaned,
        DeploymentState::Removing,
    ];

    /// Name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DeploymentState::Pending => "Pending",
            DeploymentState::Waiting => "Waiting",
            DeploymentState::Applying => "Applying",
            DeploymentState::Ready => "Ready",
            DeploymentState::NotReady => "NotReady",
            DeploymentState::Drifted => "Drifted",
            DeploymentState::Failed => "Failed",
            DeploymentState::Blocked => "Blocked",
            DeploymentState::Orphaned => "Orphaned",
            DeploymentState::Removing => "Removing",
        }
    }
}

impl FromStr for DeploymentState {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let state = DeploymentState::ALL
            .into_iter()
            .find(|it| it.as_str() == text);
        state.ok_or("expected the state of a deployment, like Ready or Failed")
    }
}

/// A bundle in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// The cluster.
    pub cluster: ClusterId,
    /// The bundle.
    pub bundle: BundleId,
    /// Way of delivery.
    pub kind: BundleKind,
    /// State now.
    pub state: DeploymentState,
    /// One sentence: cause, object, next step. Missing if ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Code of the reason, like `FL-6201`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Start of the state.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub since: OffsetDateTime,
    /// True while no agent of the cluster is connected: the state is the last reported one.
    pub offline: bool,
    /// True if the bundle or this deployment is suspended: neither retried nor corrected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// Generations.
    pub generation: Generations,
    /// Number of the current attempt.
    pub attempt: u32,
    /// Time of the next attempt.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_try: Option<OffsetDateTime>,
    /// Objects.
    pub objects: ObjectCounts,
    /// Objects changed by others, at most 20.
    #[serde(default)]
    pub drift: Vec<DriftedObject>,
    /// Fields that others set beside those of the bundle, at most 10 objects. They are no drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<DriftedObject>,
    /// Last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run: Option<RunId>,
}

/// Report of an agent about a bundle in its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentReport {
    /// The bundle.
    pub bundle: BundleId,
    /// State now.
    pub state: DeploymentState,
    /// One sentence: cause, object, next step. Missing if ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Code of the reason, like `FL-6201`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Newest generation that the agent has accepted; the state is about it.
    pub generation: u64,
    /// Generation of the objects in the cluster; 0 before the first.
    pub applied: u64,
    /// Number of the current attempt.
    pub attempt: u32,
    /// Time of the next attempt.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_try: Option<OffsetDateTime>,
    /// True if the agent retries no more by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retries_exhausted: bool,
    /// Objects.
    #[serde(default)]
    pub objects: ObjectCounts,
    /// Objects changed by others, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<DriftedObject>,
    /// Fields that others set beside those of the bundle, at most 10 objects. They are no drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<DriftedObject>,
    /// Last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run: Option<RunId>,
}

/// Response to `GET /v1/deployments/status`: changes since the previous response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentStatusUpdate {
    /// Cursor to continue from.
    pub cursor: String,
    /// True if the response has all visible deployments and replaces all earlier responses.
    pub snapshot: bool,
    /// Changed deployments.
    pub items: Vec<Deployment>,
    /// Deployments of which nothing is left.
    pub removed: Vec<DeploymentKey>,
}

impl DeploymentStatusUpdate {
    /// True if nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.snapshot && self.items.is_empty() && self.removed.is_empty()
    }
}

/// Names a deployment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct DeploymentKey {
    /// The cluster.
    pub cluster: ClusterId,
    /// The bundle.
    pub bundle: BundleId,
}

/// Generations of a bundle in a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Generations {
    /// Newest generation for the cluster.
    pub wanted: u64,
    /// Newest generation whose wave has started.
    pub released: u64,
    /// Generation of the objects in the cluster; 0 before the first.
    pub applied: u64,
}

/// Number of objects of a deployment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectCounts {
    /// All objects.
    pub total: u32,
    /// Healthy objects.
    pub ready: u32,
}

/// An object with fields of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftedObject {
    /// Kind, namespace and name, like `Deployment shop/web`.
    pub object: String,
    /// Its fields, like `.spec.replicas`.
    pub fields: Vec<String>,
    /// Field manager of the change; missing for a removed field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn report_of_an_agent_is_short() {
        let value = json!({
            "bundle": "b-shop",
            "state": "Failed",
            "reason": "image pull failed",
            "generation": 8,
            "applied": 7,
            "attempt": 6,
            "retriesExhausted": true,
            "objects": {"total": 4, "ready": 3},
        });
        let report: DeploymentReport = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(report.state, DeploymentState::Failed);
        assert_eq!(serde_json::to_value(report).unwrap(), value);
    }
}
