//! Verbs of people on a rollout.

use std::fmt;

use fairlead_api::delivery::RolloutState;

/// A verb of a person on a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RolloutVerb {
    /// Releases nothing more until a resume. Running work goes on.
    Pause,
    /// Goes on after a pause or a halt. Limits stay. After a halt failures so far count no longer, but the failed
    /// clusters stay unavailable, so that they use up `maxUnavailable` until they are ready.
    Resume,
    /// Ends the rollout. Released clusters keep their generation, the others theirs.
    Abort,
    /// Lifts limits and soak time of the current wave. It still waits until each cluster is ready or failed.
    Promote,
    /// Counts the failed clusters as not failed, and lets them try again. A halted rollout goes on.
    Retry,
}

impl RolloutVerb {
    /// The verb as in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RolloutVerb::Pause => "pause",
            RolloutVerb::Resume => "resume",
            RolloutVerb::Abort => "abort",
            RolloutVerb::Promote => "promote",
            RolloutVerb::Retry => "retry",
        }
    }
}

impl fmt::Display for RolloutVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Refusal of a verb in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rollout in state {state:?} does not take `{verb}`")]
pub struct VerbRefused {
    /// The verb.
    pub verb: RolloutVerb,
    /// State of the rollout.
    pub state: RolloutState,
}
