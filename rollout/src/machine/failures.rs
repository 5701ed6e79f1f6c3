//! Failures of the current wave, by cause.

use std::collections::HashMap;

use super::{
    core::RolloutMachine,
    halt::{FailureCause, HaltReason},
    slot::{Class, Flags},
};
use crate::limits::WaveLimits;

/// Maximum number of causes in a reason.
const MAX_SHOWN_CAUSES: usize = 3;

impl RolloutMachine {
    pub(super) fn halt_reason(&self, limits: WaveLimits) -> HaltReason {
        let wave = self.frozen_wave(self.wave);
        let counters = self.counters(self.wave);
        HaltReason {
            wave: wave.map(|it| it.rules.name.clone()).unwrap_or_default(),
            failed: counters.failed,
            participants: counters.participants,
            max_failures: limits.max_failures,
            causes: self.frequent_causes(),
        }
    }

    fn frequent_causes(&self) -> Vec<FailureCause> {
        let mut counts: HashMap<(u16, bool), u32> = HashMap::new();
        for slot in &self.slots {
            if u32::from(slot.wave) == self.wave && slot.class() == Class::Failed {
                let timed_out = slot.flags.has(Flags::TIMED_OUT);
                *counts.entry((slot.cause, timed_out)).or_default() += 1;
            }
        }
        let mut texts: HashMap<String, u32> = HashMap::new();
        for ((cause, timed_out), clusters) in counts {
            let text = self.causes.text(cause).map(str::to_owned);
            let text = text.unwrap_or_else(|| match timed_out {
                true => format!("not ready within {} s", self.timeout.as_secs()),
                false => "failed without a reason".to_owned(),
            });
            *texts.entry(text).or_default() += clusters;
        }
        let causes = texts.into_iter();
        let mut causes: Vec<_> = causes
            .map(|(text, clusters)| FailureCause { text, clusters })
            .collect();
        causes.sort_by(|a, b| (b.clusters, &a.text).cmp(&(a.clusters, &b.text)));
        causes.truncate(MAX_SHOWN_CAUSES);
        causes
    }
}
