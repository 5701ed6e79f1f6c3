//! Frozen waves: the part of a rollout that never changes.

use fairlead_api::{ClusterId, delivery::Wave};
use serde::{Deserialize, Serialize};

use super::{
    index_ranges::IndexRanges,
    membership::{Membership, matches},
    packed_ids,
};
use crate::limits::WaveLimits;

/// A wave and its clusters, in the order of their release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenWave {
    /// Rules of the wave.
    pub rules: Wave,
    /// Clusters; packed as one text in storage.
    #[serde(with = "packed_ids")]
    pub clusters: Vec<ClusterId>,
    /// Number of connected clusters at the start. They stand first.
    pub connected: u32,
}

impl FrozenWave {
    /// Limits at the start, for the preview of a rollout. They grow with clusters that connect later.
    #[must_use]
    pub fn limits(&self) -> WaveLimits {
        WaveLimits::of(&self.rules, self.connected)
    }

    /// Number of clusters.
    #[must_use]
    pub fn size(&self) -> u32 {
        u32::try_from(self.clusters.len()).unwrap_or(u32::MAX)
    }
}

/// The part of a rollout that never changes. Written once, at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrozenRollout {
    /// Generation before.
    pub from: u64,
    /// Released generation.
    pub to: u64,
    /// Time to become ready in milliseconds.
    pub timeout_millis: u64,
    /// Waves. Each cluster is in exactly one.
    pub waves: Vec<FrozenWave>,
    /// Indexes of clusters with another generation before than `from`, by that generation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_before: Vec<(u64, IndexRanges)>,
}

impl FrozenRollout {
    /// Generation before of the cluster at this index of the concatenated waves.
    #[must_use]
    pub fn before(&self, index: u32) -> u64 {
        let other = self.other_before.iter().find(|(_, it)| it.contains(index));
        other.map_or(self.from, |(generation, _)| *generation)
    }

    /// Replaces ids by the hub's copies, so that rollouts share their memory. Other ids than equal ones are ignored.
    pub fn share_ids(&mut self, known: impl Fn(&ClusterId) -> Option<ClusterId>) {
        for id in self.waves.iter_mut().flat_map(|it| &mut it.clusters) {
            if let Some(same) = known(id).filter(|it| it == id) {
                *id = same;
            }
        }
    }

    /// Wave of a cluster that matches only since the start: the first one by selector and groups, or the last one.
    #[must_use]
    pub fn wave_of_new(&self, cluster: &ClusterId, membership: &impl Membership) -> u32 {
        let fits = |wave: &FrozenWave| {
            let rules = &wave.rules;
            rules.count.is_none() && rules.percent.is_none() && matches(rules, cluster, membership)
        };
        let last = self.waves.len().saturating_sub(1);
        let wave = self.waves.iter().position(fits).unwrap_or(last);
        u32::try_from(wave).unwrap_or(u32::MAX)
    }
}
