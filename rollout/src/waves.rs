//! Waves: lists of clusters, frozen at the start of a rollout.
//!
//! Waves take clusters in the order of the rules, each from those that no wave before has taken:
//!
//! - `selector` and `groups`: clusters that match either; without both, all.
//! - `count` and `percent`: so many of them at most. A percentage is one of all clusters of the bundle, rounded up.
//! - Clusters that match no wave form a last one, `rest`. No cluster is left out.
//!
//! One order holds for the choice and inside of waves. Connected clusters come first; among those, on a rollback,
//! clusters with the bad generation; among those the order is by a hash of bundle and cluster. Names and regions are
//! thereby mixed, and the order of a bundle is the same each time.

mod frozen;
mod index_ranges;
mod membership;
mod packed_ids;
mod plan;

pub use self::{
    frozen::{FrozenRollout, FrozenWave},
    index_ranges::{IndexRanges, IndexRangesError},
    membership::Membership,
    plan::{DEFAULT_READY_TIMEOUT, RolloutCluster, RolloutPlan, default_waves},
};

#[cfg(test)]
mod tests;
