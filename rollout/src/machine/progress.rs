//! Events of clusters.

use fairlead_api::ClusterId;

use super::{
    causes::NO_CAUSE,
    core::RolloutMachine,
    effects::RolloutEffects,
    marks::{set_connected, take_report},
    observed::{ClusterReport, NewTarget},
    slot::{Flags, Slot},
};
use crate::clock::UnixMillis;

impl RolloutMachine {
    /// Takes the report of a cluster. Clusters outside of the rollout are ignored.
    pub fn report(
        &mut self,
        now: UnixMillis,
        cluster: &ClusterId,
        report: &ClusterReport<'_>,
    ) -> RolloutEffects {
        self.begin(now);
        if let Some(index) = self.index(cluster) {
            let cause = self.causes.acquire(report.cause);
            let marks = self.marks;
            self.change(index, |slot| {
                take_report(slot, report, marks);
                std::mem::replace(&mut slot.cause, cause)
            })
            .into_iter()
            .for_each(|before| self.causes.release(before));
        }
        self.decide()
    }

    /// Takes the connection status of a cluster.
    pub fn connection(
        &mut self,
        now: UnixMillis,
        cluster: &ClusterId,
        connected: bool,
    ) -> RolloutEffects {
        self.begin(now);
        if let Some(index) = self.index(cluster) {
            self.change(index, |slot| set_connected(slot, connected));
            self.enqueue(index);
        }
        self.decide()
    }

    /// Takes a cluster out of all counts: deleted, or targeted no longer.
    pub fn untarget(&mut self, now: UnixMillis, cluster: &ClusterId) -> RolloutEffects {
        self.begin(now);
        if let Some(index) = self.index(cluster) {
            self.change(index, |slot| slot.flags.set(Flags::GONE, true));
        }
        self.decide()
    }

    /// Takes a cluster that begins to match. It keeps its generation until its wave is done, and is a straggler then.
    /// An untargeted cluster of the frozen waves takes its place again.
    pub fn target(&mut self, now: UnixMillis, target: &NewTarget<'_>) -> RolloutEffects {
        self.begin(now);
        let mut save = false;
        let index = if let Some(index) = self.index(target.cluster) {
            index
        } else {
            save = true;
            self.add_late(target)
        };
        let observed = target.observed;
        let (marks, cause) = (self.marks, observed.report.and_then(|it| it.cause));
        let cause = self.causes.acquire(cause);
        self.change(index, |slot| {
            slot.flags.set(Flags::GONE, false);
            set_connected(slot, observed.connected);
            if let Some(report) = &observed.report {
                take_report(slot, report, marks);
            }
            std::mem::replace(&mut slot.cause, cause)
        })
        .into_iter()
        .for_each(|before| self.causes.release(before));
        self.enqueue(index);
        let mut effects = self.decide();
        effects.save |= save;
        effects
    }

    /// Takes the time.
    pub fn tick(&mut self, now: UnixMillis) -> RolloutEffects {
        self.begin(now);
        self.decide()
    }

    /// Queues a connected and held cluster for its release.
    pub(super) fn enqueue(&mut self, index: u32) {
        let (wave, position, frozen_len) = (self.wave, self.position, self.frozen_len());
        let Some(at) = usize::try_from(index).ok() else {
            return;
        };
        let Some(slot) = self.slots.get_mut(at) else {
            return;
        };
        let done = u32::from(slot.wave) < wave;
        let passed = index < position && index < frozen_len;
        let flags = Flags::GONE.and(Flags::RELEASED).and(Flags::QUEUED);
        if !slot.flags.has(Flags::ONLINE) || slot.flags.has(flags) || !(done || passed) {
            return;
        }
        slot.flags.set(Flags::QUEUED, true);
        let queue = if done {
            &mut self.stragglers
        } else {
            &mut self.returned
        };
        queue.push_back(index);
    }

    pub(super) fn add_late(&mut self, target: &NewTarget<'_>) -> u32 {
        let index = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let place = self.find(target.cluster).unwrap_or_else(|place| place);
        let last = self.frozen.waves.len().saturating_sub(1);
        let last = u16::try_from(last).unwrap_or(u16::MAX);
        let wave = u16::try_from(target.wave).unwrap_or(last).min(last);
        let mut slot = Slot {
            wave,
            cause: NO_CAUSE,
            ..Slot::default()
        };
        let waits = u32::from(wave) >= self.wave;
        slot.flags.set(Flags::APART, waits);
        slot.flags.set(Flags::GONE, true);
        self.ids.push(target.cluster.clone());
        self.by_id.insert(place, index);
        self.late_before.push(target.before);
        self.slots.push(slot);
        index
    }
}
