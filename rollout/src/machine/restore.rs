//! Start of a rollout, its durable state, and its restoration.

use std::collections::{BTreeMap, VecDeque};

use fairlead_api::ClusterId;

use super::{
    causes::Causes,
    core::RolloutMachine,
    effects::RolloutEffects,
    marks::{Marks, set_connected, take_report},
    observed::{NewTarget, RolloutObservation},
    slot::{Class, Counters, Flags, Slot},
    step::{RolloutStep, StepTarget},
};
use crate::{clock::UnixMillis, waves::FrozenRollout};

impl RolloutMachine {
    /// Starts a rollout. The effects have the first releases.
    #[must_use]
    pub fn start<'a>(
        frozen: FrozenRollout,
        observe: impl Fn(&ClusterId) -> Option<RolloutObservation<'a>>,
        now: UnixMillis,
    ) -> (Self, RolloutEffects) {
        let (machine, mut effects) =
            Self::restore(frozen, RolloutStep::default(), observe, now, None);
        effects.save = true;
        (machine, effects)
    }

    /// Restores a rollout after a restart of the hub.
    ///
    /// `observe` returns the last known status of a cluster, `None` for one that is targeted no longer. Nothing is
    /// released, halted or finished before `quiet_until`: pass the end of the time in which agents reconnect, because a
    /// wave without connected clusters is done at once.
    #[must_use]
    pub fn restore<'a>(
        frozen: FrozenRollout,
        step: RolloutStep,
        observe: impl Fn(&ClusterId) -> Option<RolloutObservation<'a>>,
        now: UnixMillis,
        quiet_until: Option<UnixMillis>,
    ) -> (Self, RolloutEffects) {
        let mut machine = RolloutMachine::empty(frozen, &step, now, quiet_until);
        machine.place_late(&step);
        machine.index_ids();
        for index in 0..machine.len() {
            let observed = machine.cluster(index).and_then(&observe);
            machine.observe(index, observed);
        }
        machine.recount();
        for index in 0..machine.len() {
            machine.enqueue(index);
        }
        let effects = machine.decide();
        (machine, effects)
    }

    /// The durable state.
    #[must_use]
    pub fn step(&self) -> RolloutStep {
        let is_held = |index: &u32| {
            let slot = self.slot(*index);
            slot.is_some_and(|it| !it.flags.has(Flags::RELEASED))
        };
        let late_ids = self.ids.iter().skip(index_of(self.frozen_len()));
        let late_slots = self.slots.iter().skip(index_of(self.frozen_len()));
        let late = late_ids.zip(late_slots).zip(&self.late_before);
        RolloutStep {
            state: self.state,
            halt: self.halt.clone(),
            wave: self.wave,
            position: self.position,
            held: (0..self.position).filter(is_held).collect(),
            promoted: self.promoted,
            forgiven_before: self.marks.forgiven_before,
            retried_before: self.marks.retried_before,
            late: late
                .map(|((cluster, slot), before)| StepTarget {
                    cluster: cluster.clone(),
                    wave: u32::from(slot.wave),
                    before: *before,
                    released: slot.flags.has(Flags::RELEASED),
                })
                .collect(),
        }
    }

    /// Generation before.
    #[must_use]
    pub fn from(&self) -> u64 {
        self.frozen.from
    }

    /// Generation that the rollout releases.
    #[must_use]
    pub fn to(&self) -> u64 {
        self.frozen.to
    }

    fn empty(
        frozen: FrozenRollout,
        step: &RolloutStep,
        now: UnixMillis,
        quiet_until: Option<UnixMillis>,
    ) -> Self {
        let mut machine = RolloutMachine {
            state: step.state,
            halt: step.halt.clone(),
            wave: step.wave,
            position: step.position,
            promoted: step.promoted,
            marks: Marks {
                to: frozen.to,
                forgiven_before: step.forgiven_before,
                retried_before: step.retried_before,
            },
            settled_since: None,
            quiet_until,
            now,
            timeout: std::time::Duration::from_millis(frozen.timeout_millis),
            ids: Vec::new(),
            by_id: Vec::new(),
            wave_ends: Vec::with_capacity(frozen.waves.len()),
            slots: Vec::new(),
            counters: vec![Counters::default(); frozen.waves.len()],
            causes: Causes::default(),
            late_before: Vec::new(),
            returned: VecDeque::new(),
            stragglers: VecDeque::new(),
            starts: BTreeMap::new(),
            deadlines: VecDeque::new(),
            frozen,
        };
        machine.place_frozen(step);
        machine
    }

    fn place_frozen(&mut self, step: &RolloutStep) {
        // A hub has many rollouts: no memory for clusters that never come.
        let clusters = self.frozen.waves.iter().map(|it| it.clusters.len()).sum();
        self.ids.reserve_exact(clusters);
        self.slots.reserve_exact(clusters);
        for (wave, frozen) in (0..).zip(&mut self.frozen.waves) {
            let clusters = std::mem::take(&mut frozen.clusters);
            for (place, id) in (0..).zip(clusters) {
                let index = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
                let mut slot = Slot {
                    wave,
                    ..Slot::default()
                };
                let released = index < step.position && !step.held.contains(index);
                slot.flags.set(Flags::RELEASED, released);
                // Clusters that were connected at the start stand first in their wave.
                slot.flags.set(Flags::SEEN, place < frozen.connected);
                self.ids.push(id);
                self.slots.push(slot);
            }
            let end = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
            self.wave_ends.push(end);
        }
        self.position = self.position.min(self.frozen_len());
    }

    fn place_late(&mut self, step: &RolloutStep) {
        for late in &step.late {
            let index = self.add_late(&NewTarget {
                cluster: &late.cluster,
                wave: late.wave,
                before: late.before,
                observed: RolloutObservation {
                    connected: false,
                    report: None,
                },
            });
            if let Some(slot) = self.slots.get_mut(index_of(index)) {
                slot.flags.set(Flags::RELEASED, late.released);
            }
        }
    }

    fn index_ids(&mut self) {
        let ids = &self.ids;
        self.by_id = (0..self.len()).collect();
        self.by_id
            .sort_unstable_by_key(|index| ids.get(index_of(*index)));
    }

    fn observe(&mut self, index: u32, observed: Option<RolloutObservation<'_>>) {
        let (marks, now) = (self.marks, self.now);
        let report = observed.and_then(|it| it.report);
        let cause = self.causes.acquire(report.and_then(|it| it.cause));
        let Some(slot) = self.slots.get_mut(index_of(index)) else {
            return;
        };
        slot.cause = cause;
        slot.flags.set(Flags::GONE, observed.is_none());
        let Some(observed) = observed else { return };
        set_connected(slot, observed.connected);
        let mut start = now;
        if let Some(report) = report {
            take_report(slot, &report, marks);
            if report.is_about(marks.to) {
                let retried = marks.retried_before.unwrap_or_default();
                start = report.since.max(retried).min(now);
            }
        }
        if slot.class() == Class::InProgress {
            self.starts.insert(index, start);
        }
    }

    /// Makes counters and deadlines of the clusters.
    fn recount(&mut self) {
        let starts = self.starts.iter();
        let mut deadlines: Vec<_> = starts.map(|(index, start)| (*start, *index)).collect();
        for slot in &self.slots {
            let counters = self.counters.get_mut(usize::from(slot.wave));
            if let Some(counters) = counters.filter(|_| !slot.flags.has(Flags::APART)) {
                counters.add(slot);
            }
        }
        deadlines.sort_unstable();
        self.deadlines = deadlines.into();
    }

    fn len(&self) -> u32 {
        u32::try_from(self.ids.len()).unwrap_or(u32::MAX)
    }
}

fn index_of(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
