//! Data of a rollout, and access to its clusters.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use fairlead_api::{ClusterId, delivery::RolloutState};

use super::{
    causes::Causes,
    halt::HaltReason,
    marks::Marks,
    slot::{Class, Counters, Flags, Slot},
};
use crate::{
    clock::UnixMillis,
    waves::{FrozenRollout, Membership},
};

/// State of one rollout, and the progress of its clusters.
#[derive(Debug, Clone)]
pub struct RolloutMachine {
    /// Rules and generations; the clusters stand in `ids`.
    pub(super) frozen: FrozenRollout,
    pub(super) state: RolloutState,
    pub(super) halt: Option<HaltReason>,
    /// Current wave; the number of waves after the last one.
    pub(super) wave: u32,
    /// Index of the next cluster to release.
    pub(super) position: u32,
    /// True: no limits and no soak time in the current wave.
    pub(super) promoted: bool,
    pub(super) marks: Marks,
    /// Since when the current wave satisfies its end.
    pub(super) settled_since: Option<UnixMillis>,
    /// No decision before this time.
    pub(super) quiet_until: Option<UnixMillis>,
    pub(super) now: UnixMillis,
    pub(super) timeout: Duration,
    pub(super) ids: Vec<ClusterId>,
    /// Indexes of clusters, ordered by id.
    pub(super) by_id: Vec<u32>,
    /// First index after each wave.
    pub(super) wave_ends: Vec<u32>,
    pub(super) slots: Vec<Slot>,
    pub(super) counters: Vec<Counters>,
    pub(super) causes: Causes,
    /// Generation before of clusters that began to match after the start, in order of their index.
    pub(super) late_before: Vec<u64>,
    /// Held clusters of the current wave that are connected again.
    pub(super) returned: VecDeque<u32>,
    /// Held clusters of done waves that are connected again.
    pub(super) stragglers: VecDeque<u32>,
    /// Begin of the time to become ready of each cluster in progress. Slots have none, because few clusters need one.
    pub(super) starts: BTreeMap<u32, UnixMillis>,
    /// Begin of the time to become ready, and the cluster; ascending. Entries that `starts` lacks are void.
    pub(super) deadlines: VecDeque<(UnixMillis, u32)>,
}

impl RolloutMachine {
    /// Id of a cluster in [`RolloutEffects`](super::effects::RolloutEffects).
    #[must_use]
    pub fn cluster(&self, index: u32) -> Option<&ClusterId> {
        self.ids.get(usize::try_from(index).ok()?)
    }

    /// Released generation of a cluster, 0 for none; `None` for clusters outside of the rollout.
    #[must_use]
    pub fn released(&self, cluster: &ClusterId) -> Option<u64> {
        self.released_at(self.index(cluster)?)
    }

    /// Released generation of each cluster that is still targeted; input of the next rollout.
    pub fn all_released(&self) -> impl Iterator<Item = (&ClusterId, u64)> {
        (0..)
            .zip(&self.ids)
            .filter_map(|(index, id)| Some((id, self.released_at(index)?)))
    }

    /// Wave of a cluster that begins to match; see [`FrozenRollout::wave_of_new`].
    #[must_use]
    pub fn wave_of_new(&self, cluster: &ClusterId, membership: &impl Membership) -> u32 {
        self.frozen.wave_of_new(cluster, membership)
    }

    pub(super) fn released_at(&self, index: u32) -> Option<u64> {
        let slot = self.slot(index)?;
        if slot.flags.has(Flags::GONE) {
            return None;
        }
        if slot.flags.has(Flags::RELEASED) {
            return Some(self.frozen.to);
        }
        let late = index.checked_sub(self.frozen_len());
        match late.and_then(|it| usize::try_from(it).ok()) {
            Some(late) => self.late_before.get(late).copied(),
            None => Some(self.frozen.before(index)),
        }
    }

    pub(super) fn begin(&mut self, now: UnixMillis) {
        // The hub's clock may step back; the order of deadlines must hold.
        self.now = self.now.max(now);
    }

    pub(super) fn index(&self, cluster: &ClusterId) -> Option<u32> {
        let at = self.find(cluster).ok()?;
        self.by_id.get(at).copied()
    }

    /// Place of the cluster in `by_id`.
    pub(super) fn find(&self, cluster: &ClusterId) -> Result<usize, usize> {
        self.by_id
            .binary_search_by(|index| self.cluster(*index).cmp(&Some(cluster)))
    }

    pub(super) fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(usize::try_from(index).ok()?)
    }

    /// First index behind the frozen waves.
    pub(super) fn frozen_len(&self) -> u32 {
        self.wave_ends.last().copied().unwrap_or(0)
    }

    pub(super) fn counters(&self, wave: u32) -> Counters {
        let wave = usize::try_from(wave).ok();
        let counters = wave.and_then(|it| self.counters.get(it));
        counters.copied().unwrap_or_default()
    }

    /// Changes a cluster and the counters of its wave. Begins the time to become ready if the cluster enters it.
    pub(super) fn change<T>(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Slot) -> T,
    ) -> Option<T> {
        let slot = self.slots.get_mut(usize::try_from(index).ok()?)?;
        let counters = self.counters.get_mut(usize::from(slot.wave))?;
        let before = *slot;
        let output = change(slot);
        if !before.flags.has(Flags::APART) {
            counters.subtract(&before);
        }
        match (before.class(), slot.class()) {
            (Class::InProgress, Class::InProgress) => {}
            (_, Class::InProgress) => {
                self.starts.insert(index, self.now);
                self.deadlines.push_back((self.now, index));
            }
            (Class::InProgress, _) => drop(self.starts.remove(&index)),
            _ => {}
        }
        if !slot.flags.has(Flags::APART) {
            counters.add(slot);
        }
        Some(output)
    }
}
