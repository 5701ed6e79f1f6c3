//! Observed state of sources, in the memory of the hub that polls them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fairlead_api::{SourceId, delivery::Source};
use fairlead_store::model::BundleSource;
use time::OffsetDateTime;

use super::{failure::SourceFailure, poll::Processed};

/// Result of the last polls of a source.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceState {
    /// Last successful poll.
    pub(super) last_seen: Option<OffsetDateTime>,
    /// Failures of the last poll, the first one for people.
    pub(super) failures: Vec<SourceFailure>,
    /// Next poll.
    pub(super) next_poll: Option<OffsetDateTime>,
    /// Last commit that was read.
    pub(super) processed: Option<Processed>,
}

impl SourceState {
    /// One sentence for people: cause, next step, next poll.
    fn reason(&self) -> Option<String> {
        let first = self.failures.first()?;
        let mut reason = first.reason();
        let more = self.failures.len() - 1;
        if more > 0 {
            reason.push_str(&format!(" {more} more failures are in the hub's log."));
        }
        let next = self.next_poll.and_then(|it| {
            let format = &time::format_description::well_known::Rfc3339;
            it.replace_nanosecond(0).ok()?.format(format).ok()
        });
        if let Some(next) = next {
            reason.push_str(&format!(" The next poll is at {next}."));
        }
        Some(reason)
    }
}

/// States by source.
#[derive(Default)]
pub(super) struct SourceStates(Mutex<HashMap<SourceId, SourceState>>);

impl SourceStates {
    fn lock(&self) -> MutexGuard<'_, HashMap<SourceId, SourceState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, source: &SourceId, change: impl FnOnce(&mut SourceState)) {
        change(self.lock().entry(source.clone()).or_default());
    }

    pub(super) fn processed(&self, source: &SourceId) -> Option<Processed> {
        self.lock().get(source)?.processed.clone()
    }

    pub(super) fn retain(&self, keep: impl Fn(&SourceId) -> bool) {
        self.lock().retain(|id, _| keep(id));
    }

    /// The source as people read it.
    pub(super) fn shown(&self, source: &BundleSource) -> Source {
        let states = self.lock();
        let state = states.get(&source.id);
        Source {
            id: source.id.clone(),
            tenant: source.tenant.clone(),
            git: source.git.clone(),
            suspended: source.suspended,
            prune: source.prune,
            commit: source.commit.clone(),
            artifacts: source.artifacts.clone(),
            last_seen: state.and_then(|it| it.last_seen),
            reason: state.and_then(SourceState::reason),
        }
    }
}
