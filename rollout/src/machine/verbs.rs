//! Effects of verbs.

use fairlead_api::delivery::RolloutState;

use super::{
    core::RolloutMachine,
    effects::RolloutEffects,
    slot::Flags,
    verb::{RolloutVerb, VerbRefused},
};
use crate::clock::UnixMillis;

impl RolloutMachine {
    /// Takes a verb. A repeated one changes nothing.
    ///
    /// # Errors
    /// [`VerbRefused`] if the verb has no meaning in the state of the rollout.
    pub fn verb(
        &mut self,
        now: UnixMillis,
        verb: RolloutVerb,
    ) -> Result<RolloutEffects, VerbRefused> {
        use RolloutState::{Aborted, Done, Halted, Paused, Running};
        self.begin(now);
        let state = self.state;
        let mut effects = RolloutEffects::default();
        match (verb, state) {
            (RolloutVerb::Pause, Running) => self.set_state(Paused, &mut effects),
            (RolloutVerb::Resume, Paused) => self.set_state(Running, &mut effects),
            (RolloutVerb::Resume, Halted) => {
                self.forgive();
                self.run_on(&mut effects);
            }
            (RolloutVerb::Abort, Running | Paused | Halted) => {
                self.halt = None;
                self.set_state(Aborted, &mut effects);
            }
            (RolloutVerb::Promote, Running | Halted) => {
                self.promoted = true;
                effects.save = true;
                self.run_on(&mut effects);
            }
            (RolloutVerb::Retry, Running | Paused | Halted | Done) => {
                self.retry(&mut effects);
                if state == Halted {
                    self.run_on(&mut effects);
                }
            }
            (RolloutVerb::Pause, Paused)
            | (RolloutVerb::Resume, Running)
            | (RolloutVerb::Abort, Aborted) => {}
            _ => return Err(VerbRefused { verb, state }),
        }
        let decided = self.decide();
        Ok(RolloutEffects {
            save: effects.save | decided.save,
            retried: effects.retried,
            state: decided.state.or(effects.state),
            ..decided
        })
    }

    /// Ends the rollout in favour of a newer one. Take [`RolloutMachine::all_released`] as input of that.
    pub fn supersede(&mut self, now: UnixMillis) -> RolloutEffects {
        self.begin(now);
        let mut effects = RolloutEffects::default();
        if !matches!(self.state, RolloutState::Done | RolloutState::Aborted) {
            self.halt = None;
            self.set_state(RolloutState::Superseded, &mut effects);
        }
        effects
    }

    fn run_on(&mut self, effects: &mut RolloutEffects) {
        self.halt = None;
        self.set_state(RolloutState::Running, effects);
    }

    fn forgive(&mut self) {
        self.marks.forgiven_before = Some(self.now);
        for index in self.failed() {
            self.change(index, |slot| slot.flags.set(Flags::FORGIVEN, true));
        }
    }

    fn retry(&mut self, effects: &mut RolloutEffects) {
        self.marks.retried_before = Some(self.now);
        effects.save = true;
        for index in self.failed() {
            self.change(index, |slot| slot.flags.set(Flags::FAILURE, false));
            effects.retried.push(index);
        }
    }

    /// Clusters that failed: forgiven and offline ones too.
    fn failed(&self) -> Vec<u32> {
        let failed = (0..).zip(&self.slots);
        failed
            .filter(|(_, slot)| slot.flags.has(Flags::FAILED) && !slot.flags.has(Flags::GONE))
            .map(|(index, _)| index)
            .collect()
    }
}
