//! Durable state of a rollout.

use fairlead_api::{ClusterId, delivery::RolloutState};
use serde::{Deserialize, Serialize};

use super::halt::HaltReason;
use crate::{clock::UnixMillis, waves::IndexRanges};

/// The part of a rollout that changes: one position for all waves, and its exceptions.
///
/// Clusters before the position are released, except for the held ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    /// State of the rollout.
    pub state: RolloutState,
    /// Reason of a halted rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt: Option<HaltReason>,
    /// Current wave; the number of waves after the last one.
    pub wave: u32,
    /// Index of the next cluster to release.
    pub position: u32,
    /// Indexes before the position that are not released.
    #[serde(default, skip_serializing_if = "IndexRanges::is_empty")]
    pub held: IndexRanges,
    /// True: no limits and no soak time in the current wave.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub promoted: bool,
    /// Failures up to this time do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgiven_before: Option<UnixMillis>,
    /// Failures up to this time are void: their clusters try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_before: Option<UnixMillis>,
    /// Clusters that began to match after the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<StepTarget>,
}

/// A cluster that began to match after the start of its rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTarget {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its wave.
    pub wave: u32,
    /// Generation before.
    pub before: u64,
    /// True if the new generation is released.
    pub released: bool,
}

impl Default for RolloutStep {
    /// The step before the first release.
    fn default() -> Self {
        RolloutStep {
            state: RolloutState::Running,
            halt: None,
            wave: 0,
            position: 0,
            held: IndexRanges::default(),
            promoted: false,
            forgiven_before: None,
            retried_before: None,
            late: Vec::new(),
        }
    }
}
