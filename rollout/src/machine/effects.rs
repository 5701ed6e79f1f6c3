//! Outputs of a rollout.

use fairlead_api::delivery::RolloutState;

use crate::clock::UnixMillis;

/// Outcome of an event. Apply it in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutEffects {
    /// True if [`RolloutMachine::step`](super::RolloutMachine::step) must be stored before the rest is applied.
    pub save: bool,
    /// Clusters whose released generation is the new one from now on; see [`RolloutMachine::cluster`](super::RolloutMachine::cluster).
    pub released: Vec<u32>,
    /// Clusters that must try again; offline ones on their return.
    pub retried: Vec<u32>,
    /// Waves that are done now.
    pub waves_done: Vec<u32>,
    /// New state of the rollout.
    pub state: Option<RolloutState>,
    /// Time of the next [`RolloutMachine::tick`](super::RolloutMachine::tick); earlier and later ones are harmless.
    pub wake: Option<UnixMillis>,
}
