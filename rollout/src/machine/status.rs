//! Display of a rollout.

use fairlead_api::{
    BundleId, RolloutId,
    delivery::{Rollout, RolloutState, WaveState, WaveStatus},
};

use super::core::RolloutMachine;

impl RolloutMachine {
    /// The rollout as people read it.
    #[must_use]
    pub fn view(&self, id: RolloutId, bundle: BundleId) -> Rollout {
        Rollout {
            id,
            bundle,
            from: self.from(),
            to: self.to(),
            state: self.state(),
            reason: self.reason(),
            waves: self.waves(),
        }
    }

    /// State of the rollout.
    #[must_use]
    pub fn state(&self) -> RolloutState {
        self.state
    }

    /// One sentence: cause and next step of a rollout that does not go on by itself, or what a running one waits for.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self.state {
            RolloutState::Halted => self.halt.as_ref().map(ToString::to_string),
            RolloutState::Running => self
                .blocked()
                .or_else(|| self.stragglers_blocked())
                .or_else(|| self.causes_in_progress()),
            RolloutState::Done => self.stragglers_blocked(),
            _ => None,
        }
    }

    /// Progress of the waves, in order.
    #[must_use]
    pub fn waves(&self) -> Vec<WaveStatus> {
        let waves = (0..).zip(&self.frozen.waves);
        waves
            .map(|(wave, frozen)| {
                let counters = self.counters(wave);
                WaveStatus {
                    name: frozen.rules.name.clone(),
                    state: self.wave_state(wave),
                    clusters: counters.all(),
                    ready: counters.ready,
                    failed: counters.failed + counters.forgiven,
                    offline: counters.offline,
                    in_progress: counters.in_progress,
                }
            })
            .collect()
    }

    fn wave_state(&self, wave: u32) -> WaveState {
        if wave < self.wave {
            WaveState::Done
        } else if wave > self.wave {
            WaveState::Pending
        } else if self.settled_since.is_some() {
            WaveState::Soaking
        } else {
            WaveState::Running
        }
    }

    /// Sentence if failed clusters within the limit use up `maxUnavailable`.
    fn blocked(&self) -> Option<String> {
        let limits = self.limits(self.wave)?;
        let counters = self.counters(self.wave);
        let failed = counters.unavailable();
        let limit = limits.max_unavailable;
        if self.promoted || counters.unreleased == 0 || counters.in_progress > 0 || failed < limit {
            return None;
        }
        let wave = &self.frozen_wave(self.wave)?.rules.name;
        Some(format!(
            "wave {wave} waits: its failed clusters ({failed}) use up maxUnavailable ({limit}); repair them, retry, or promote the wave"
        ))
    }

    /// Sentence if failed clusters of done waves keep returned ones from their release.
    fn stragglers_blocked(&self) -> Option<String> {
        let in_progress: u32 = (0..self.wave).map(|it| self.counters(it).in_progress).sum();
        let waiting = self.stragglers.len();
        (waiting > 0 && in_progress == 0).then(|| {
            format!(
                "clusters that returned ({waiting}) wait: failed clusters use up maxUnavailable of the last wave; repair them, or retry"
            )
        })
    }
}
