//! Decisions: timeouts, releases, ends of waves.

use std::{collections::VecDeque, time::Duration};

use fairlead_api::delivery::RolloutState;

use super::{
    core::RolloutMachine,
    effects::RolloutEffects,
    slot::{Class, Flags, Slot},
};
use crate::{clock::UnixMillis, limits::WaveLimits, waves::FrozenWave};

impl RolloutMachine {
    /// Brings the rollout up to date with its inputs.
    pub(super) fn decide(&mut self) -> RolloutEffects {
        let mut effects = RolloutEffects::default();
        if self.quiet_until.is_some_and(|until| self.now < until) {
            effects.wake = self.quiet_until;
            return effects;
        }
        self.quiet_until = None;
        self.expire();
        while self.state == RolloutState::Running && self.advance(&mut effects) {}
        if matches!(self.state, RolloutState::Running | RolloutState::Done) {
            self.release_stragglers(&mut effects);
        }
        effects.save |= !effects.released.is_empty();
        effects.wake = self.wake();
        effects
    }

    /// Limits of a wave with its participants so far.
    pub(super) fn limits(&self, wave: u32) -> Option<WaveLimits> {
        let rules = &self.frozen_wave(wave)?.rules;
        Some(WaveLimits::of(rules, self.counters(wave).participants))
    }

    pub(super) fn frozen_wave(&self, wave: u32) -> Option<&FrozenWave> {
        self.frozen.waves.get(usize::try_from(wave).ok()?)
    }

    /// Soak time of a wave.
    pub(super) fn soak(&self, wave: u32) -> Duration {
        let rules = self.frozen_wave(wave).map(|it| &it.rules);
        rules
            .and_then(|it| it.soak)
            .map_or(Duration::ZERO, |it| it.0)
    }

    pub(super) fn set_state(&mut self, state: RolloutState, effects: &mut RolloutEffects) {
        if self.state != state {
            self.state = state;
            self.settled_since = None;
            effects.state = Some(state);
            effects.save = true;
        }
    }

    /// Works on the current wave. True if it is done, and the next one may begin.
    fn advance(&mut self, effects: &mut RolloutEffects) -> bool {
        let wave = self.wave;
        let Some(limits) = self.limits(wave) else {
            self.set_state(RolloutState::Done, effects);
            return false;
        };
        if !self.promoted && self.counters(wave).failed > limits.max_failures {
            self.halt = Some(self.halt_reason(limits));
            self.set_state(RolloutState::Halted, effects);
            return false;
        }
        let limit = match self.promoted {
            true => u32::MAX,
            false => limits.max_unavailable,
        };
        self.release_returned(limit, effects);
        self.release_next(limit, effects);
        if !self.is_done() {
            return false;
        }
        effects.waves_done.push(wave);
        effects.save = true;
        self.finish_wave();
        true
    }

    /// Releases clusters at the position up to the limit. Offline, untargeted and ready ones are passed at no cost.
    fn release_next(&mut self, limit: u32, effects: &mut RolloutEffects) {
        let end = self.wave_end();
        while self.position < end {
            let index = self.position;
            match self.slot(index).map(Slot::class) {
                Some(Class::Unreleased) => {
                    let unavailable = self.counters(self.wave).unavailable();
                    if unavailable >= limit || !self.returned.is_empty() {
                        break;
                    }
                    self.release(index, effects);
                }
                Some(Class::Offline | Class::Gone) | None => {}
                Some(_) => self.release(index, effects),
            }
            self.position += 1;
            effects.save = true;
        }
    }

    fn release_returned(&mut self, limit: u32, effects: &mut RolloutEffects) {
        while let Some(&index) = self.returned.front() {
            let unavailable = self.counters(self.wave).unavailable();
            if self.class(index) == Some(Class::Unreleased) && unavailable >= limit {
                break;
            }
            self.returned.pop_front();
            self.release_queued(index, effects);
        }
    }

    fn release_stragglers(&mut self, effects: &mut RolloutEffects) {
        if self.stragglers.is_empty() {
            return;
        }
        let last = u32::try_from(self.frozen.waves.len()).unwrap_or(u32::MAX);
        let limit = last.checked_sub(1).and_then(|it| self.limits(it));
        let limit = limit.map_or(1, |it| it.max_unavailable);
        while let Some(&index) = self.stragglers.front() {
            let unavailable: u32 = (0..self.wave)
                .map(|it| self.counters(it).unavailable())
                .sum();
            if self.class(index) == Some(Class::Unreleased) && unavailable >= limit {
                break;
            }
            self.stragglers.pop_front();
            self.release_queued(index, effects);
        }
    }

    /// Releases a cluster of a queue, unless it went away since.
    fn release_queued(&mut self, index: u32, effects: &mut RolloutEffects) {
        self.change(index, |slot| slot.flags.set(Flags::QUEUED, false));
        if let Some(Class::Unreleased | Class::Ready) = self.class(index) {
            self.release(index, effects);
        }
    }

    fn release(&mut self, index: u32, effects: &mut RolloutEffects) {
        self.change(index, |slot| slot.flags.set(Flags::RELEASED, true));
        effects.released.push(index);
    }

    /// True once the current wave may end. Begins and resets the soak time.
    fn is_done(&mut self) -> bool {
        let counters = self.counters(self.wave);
        if !counters.is_settled() || self.position < self.wave_end() {
            self.settled_since = None;
            return false;
        }
        if counters.online() == 0 || self.promoted {
            return true;
        }
        let since = *self.settled_since.get_or_insert(self.now);
        self.now.since(since) >= self.soak(self.wave)
    }

    fn finish_wave(&mut self) {
        let done = self.wave;
        self.wave += 1;
        self.promoted = false;
        self.settled_since = None;
        for index in self.frozen_len().. {
            let Some(slot) = self.slot(index) else { break };
            if u32::from(slot.wave) == done {
                self.change(index, |slot| slot.flags.set(Flags::APART, false));
                self.enqueue(index);
            }
        }
    }

    /// Fails clusters that are not ready in time.
    fn expire(&mut self) {
        while let Some(&(start, index)) = self.deadlines.front() {
            let due = start + self.timeout;
            let waits = self.is_waiting(start, index);
            if waits && self.now < due {
                break;
            }
            self.deadlines.pop_front();
            if waits {
                let forgiven = self.marks.forgives(due);
                self.change(index, |slot| {
                    slot.flags.set(Flags::FAILED.and(Flags::TIMED_OUT), true);
                    slot.flags.set(Flags::FORGIVEN, forgiven);
                });
            }
        }
        if self.deadlines.is_empty() {
            self.deadlines = VecDeque::new();
        }
    }

    /// True if the entry of the deadlines is still current.
    fn is_waiting(&self, start: UnixMillis, index: u32) -> bool {
        self.starts.get(&index) == Some(&start)
    }

    fn wake(&self) -> Option<UnixMillis> {
        if matches!(self.state, RolloutState::Aborted | RolloutState::Superseded) {
            return None;
        }
        let deadline = self.deadlines.front();
        let deadline = deadline.map(|(start, _)| *start + self.timeout);
        let soaked = self
            .settled_since
            .filter(|_| self.state == RolloutState::Running)
            .map(|since| since + self.soak(self.wave));
        [deadline, soaked].into_iter().flatten().min()
    }

    fn class(&self, index: u32) -> Option<Class> {
        self.slot(index).map(Slot::class)
    }

    fn wave_end(&self) -> u32 {
        let wave = usize::try_from(self.wave).ok();
        let end = wave.and_then(|it| self.wave_ends.get(it));
        end.copied().unwrap_or_else(|| self.frozen_len())
    }
}
