//! State machine of one rollout.
//!
//! Rules:
//!
//! - Waves run one after the other. A cluster is released if it stands before the position in the concatenated waves,
//!   except for clusters that were offline (or untargeted) when the position passed them. Those are *held*.
//! - An offline cluster counts for nothing: not as unavailable, not as failed, not for the end of its wave. On return a
//!   held cluster of the current wave is released before the next new one. A held cluster of a done wave is a
//!   *straggler*: it is released while fewer clusters of all done waves are unavailable than the last wave's
//!   `maxUnavailable`, also after the end of the rollout.
//! - A released cluster that goes offline counts for nothing either. A rollout goes on without its only canary if that
//!   loses its connection, so a generation that may cut connections needs several canaries.
//! - Unavailable: connected, released and not `Ready`. Failed: of those, retries exhausted, or not `Ready` in time. The
//!   time begins with the release, and again with a reconnect or with the loss of `Ready`.
//! - Percentages are of the participants of a wave: clusters connected at least once since the start.
//! - More failures in the current wave than `maxFailures` halt the rollout. Nothing resumes it but a person.
//! - A wave is done once each connected cluster is `Ready`, or failed within the limit, for the soak time. A wave without
//!   connected clusters is done at once. After a restart the soak time begins anew.
//!
//! Decisions change the position before they release: store [`RolloutMachine::step`] whenever
//! [`RolloutEffects::save`] is set, and only then serve the new generation. If the write fails, restore the machine.

mod causes;
mod core;
mod effects;
mod failures;
mod halt;
mod marks;
mod observed;
mod progress;
mod release;
mod restore;
mod slot;
mod status;
mod step;
mod verb;
mod verbs;

pub use self::{
    core::RolloutMachine,
    effects::RolloutEffects,
    halt::{FailureCause, HaltReason},
    observed::{ClusterReport, NewTarget, RolloutObservation},
    step::{RolloutStep, StepTarget},
    verb::{RolloutVerb, VerbRefused},
};

#[cfg(test)]
mod tests;
