//! Causes in the current wave: of failures, and of clusters in progress.

use std::collections::HashMap;

use super::{
    causes::NO_CAUSE,
    core::RolloutMachine,
    halt::{FailureCause, HaltReason, Listed},
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
            causes: self.frequent_causes(Class::Failed),
        }
    }

    /// Sentence with the causes of released clusters that are not ready yet. None without a cause.
    pub(super) fn causes_in_progress(&self) -> Option<String> {
        let wave = self.frozen_wave(self.wave)?;
        let causes = self.frequent_causes(Class::InProgress);
        let name = &wave.rules.name;
        (!causes.is_empty()).then(|| format!("wave {name} waits{}", Listed(&causes)))
    }

    fn frequent_causes(&self, class: Class) -> Vec<FailureCause> {
        let mut counts: HashMap<(u16, bool), u32> = HashMap::new();
        for slot in &self.slots {
            let has_cause = slot.cause != NO_CAUSE || class == Class::Failed;
            if u32::from(slot.wave) == self.wave && slot.class() == class && has_cause {
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
