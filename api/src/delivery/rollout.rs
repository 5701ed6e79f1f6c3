//! Rollouts: release of one generation of a bundle, wave by wave.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{BundleId, RolloutId};

/// State of a [`Rollout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum RolloutState {
    /// Releases clusters as its rules allow.
    Running,
    /// Stopped by a person; releases nothing more.
    Paused,
    /// Stopped by too many failures; releases nothing more.
    Halted,
    /// All waves are done.
    Done,
    /// Ended by a person.
    Aborted,
    /// Replaced by a rollout of a newer generation.
    Superseded,
}

impl RolloutState {
    /// All states.
    pub const ALL: [RolloutState; 6] = [
        RolloutState::Running,
        RolloutState::Paused,
        RolloutState::Halted,
        RolloutState::Done,
        RolloutState::Aborted,
        RolloutState::Superseded,
    ];

    /// Name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RolloutState::Running => "Running",
            RolloutState::Paused => "Paused",
            RolloutState::Halted => "Halted",
            RolloutState::Done => "Done",
            RolloutState::Aborted => "Aborted",
            RolloutState::Superseded => "Superseded",
        }
    }
}

impl FromStr for RolloutState {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let state = RolloutState::ALL.into_iter().find(|it| it.as_str() == text);
        state.ok_or("expected the state of a rollout, like Running or Halted")
    }
}

/// State of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum WaveState {
    /// Waits for the waves before.
    Pending,
    /// Releases its clusters.
    Running,
    /// All connected clusters are ready; the soak time runs.
    Soaking,
    /// Ended.
    Done,
}

/// Release of one generation of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rollout {
    /// Id of the rollout.
    pub id: RolloutId,
    /// The bundle.
    pub bundle: BundleId,
    /// Generation before.
    pub from: u64,
    /// Released generation.
    pub to: u64,
    /// State now.
    pub state: RolloutState,
    /// One sentence: cause and next step of a stopped rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Waves, in order.
    pub waves: Vec<WaveStatus>,
}

/// Progress of a wave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// Name of the wave.
    pub name: String,
    /// State now.
    pub state: WaveState,
    /// Number of clusters.
    pub clusters: u32,
    /// Clusters at the released generation and ready.
    pub ready: u32,
    /// Failed clusters.
    pub failed: u32,
    /// Clusters without a connected agent.
    pub offline: u32,
    /// Released clusters that are neither ready nor failed.
    pub in_progress: u32,
}
