//! Formation of waves.

use std::time::Duration;

use fairlead_api::{
    BundleId, ClusterId, TimeSpan,
    delivery::{RolloutRules, Share, Wave},
};

use super::{
    frozen::{FrozenRollout, FrozenWave},
    index_ranges::IndexRanges,
    membership::{Membership, matches},
};
use crate::limits::percent_rounded_up;

/// Time to become ready of a bundle without one.
pub const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(600);

/// Name of the last wave, for clusters that match no other.
const UNMATCHED_WAVE: &str = "rest";

/// A cluster of a bundle at the start of a rollout.
#[derive(Debug, Clone)]
pub struct RolloutCluster {
    /// Id of the cluster.
    pub id: ClusterId,
    /// True if an agent is connected.
    pub connected: bool,
    /// Generation released to it before; 0 for none.
    pub before: u64,
}

/// Input of a rollout, before its waves are frozen.
#[derive(Debug, Clone)]
pub struct RolloutPlan<'a> {
    /// The bundle.
    pub bundle: &'a BundleId,
    /// Generation before.
    pub from: u64,
    /// Released generation.
    pub to: u64,
    /// Generation that a rollback replaces. Clusters with it come first.
    pub bad: Option<u64>,
    /// Rules; without waves the default ones hold.
    pub rules: &'a RolloutRules,
    /// Time to become ready; default [`DEFAULT_READY_TIMEOUT`].
    pub timeout: Option<TimeSpan>,
}

impl RolloutPlan<'_> {
    /// Forms the waves. Of a repeated cluster the first one counts.
    #[must_use]
    pub fn freeze(
        &self,
        clusters: impl IntoIterator<Item = RolloutCluster>,
        membership: &impl Membership,
    ) -> FrozenRollout {
        let mut rest = self.ordered(clusters);
        let all = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let default_waves = default_waves();
        let rules = match self.rules.waves.as_slice() {
            [] => &default_waves,
            waves => waves,
        };
        let mut waves: Vec<(Wave, Vec<RolloutCluster>)> = Vec::with_capacity(rules.len() + 1);
        for wave in rules {
            let size = wave_size(wave, all);
            let mut taken = Vec::new();
            rest.retain(|it| {
                let takes = taken.len() < size && matches(wave, &it.id, membership);
                if takes {
                    taken.push(it.clone());
                }
                !takes
            });
            waves.push((wave.clone(), taken));
        }
        if !rest.is_empty() {
            waves.push((unmatched_wave(rules), rest));
        }
        FrozenRollout {
            from: self.from,
            to: self.to,
            timeout_millis: self.timeout_millis(),
            other_before: self.other_before(waves.iter().flat_map(|(_, it)| it)),
            waves: waves.into_iter().map(frozen_wave).collect(),
        }
    }

    fn ordered(&self, clusters: impl IntoIterator<Item = RolloutCluster>) -> Vec<RolloutCluster> {
        let mut clusters: Vec<_> = clusters.into_iter().collect();
        clusters.sort_by(|a, b| a.id.cmp(&b.id));
        clusters.dedup_by(|later, first| later.id == first.id);
        clusters.sort_by_cached_key(|it| {
            let is_bad = self.bad == Some(it.before);
            let hash = spread_hash(self.bundle, &it.id);
            (!it.connected, !is_bad, hash)
        });
        clusters
    }

    fn timeout_millis(&self) -> u64 {
        let timeout = self.timeout.map_or(DEFAULT_READY_TIMEOUT, |it| it.0);
        u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
    }

    fn other_before<'c>(
        &self,
        clusters: impl Iterator<Item = &'c RolloutCluster>,
    ) -> Vec<(u64, IndexRanges)> {
        let mut others: Vec<(u64, IndexRanges)> = Vec::new();
        for (index, cluster) in (0_u32..).zip(clusters) {
            if cluster.before == self.from {
                continue;
            }
            match others.iter_mut().find(|(it, _)| *it == cluster.before) {
                Some((_, indexes)) => indexes.push(index),
                None => others.push((cluster.before, [index].into_iter().collect())),
            }
        }
        others
    }
}

/// Default rules: one canary that tolerates no failure, then all others.
#[must_use]
pub fn default_waves() -> Vec<Wave> {
    let canary = Wave {
        name: "canary".to_owned(),
        count: Some(1),
        max_failures: Some(Share::Count(0)),
        ..Wave::default()
    };
    let rest = Wave {
        name: UNMATCHED_WAVE.to_owned(),
        ..Wave::default()
    };
    vec![canary, rest]
}

fn unmatched_wave(rules: &[Wave]) -> Wave {
    let mut name = UNMATCHED_WAVE.to_owned();
    while rules.iter().any(|it| it.name == name) {
        name = format!("unmatched-{name}");
    }
    Wave {
        name,
        ..Wave::default()
    }
}

fn frozen_wave((rules, clusters): (Wave, Vec<RolloutCluster>)) -> FrozenWave {
    let connected = clusters.iter().filter(|it| it.connected).count();
    FrozenWave {
        rules,
        connected: u32::try_from(connected).unwrap_or(u32::MAX),
        clusters: clusters.into_iter().map(|it| it.id).collect(),
    }
}

fn wave_size(wave: &Wave, all: u32) -> usize {
    let percent = wave.percent.map(|it| percent_rounded_up(it, all));
    let size = [wave.count, percent].into_iter().flatten().min();
    size.and_then(|it| usize::try_from(it).ok())
        .unwrap_or(usize::MAX)
}

/// FNV-1a with the finalizer of SplitMix64. Stored orders do not depend on it: waves are frozen as lists.
fn spread_hash(bundle: &BundleId, cluster: &ClusterId) -> u64 {
    let bytes = bundle.as_str().bytes().chain(cluster.as_str().bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
