//! Results of polls: in the documents of sources, so that all hubs show the same.
//!
//! A poll writes only another result, or the answer to a request. At rest nothing is written.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fairlead_api::{Code, SourceId, delivery::Source};
use fairlead_store::model::{BundleSource, SourcePoll};
use time::OffsetDateTime;

use super::{failure::SourceFailure, poll::Processed};

/// Result of one poll.
#[derive(Debug, Clone)]
pub(super) struct PollResult {
    pub(super) at: OffsetDateTime,
    /// Sentence about the failures; `None` after a success.
    pub(super) reason: Option<String>,
    /// Newest request that the poll answers.
    pub(super) requested: i64,
}

impl PollResult {
    /// The source with this result. It equals `before` if there is nothing to write.
    pub(super) fn apply(&self, before: &BundleSource, commit: Option<String>) -> BundleSource {
        let known = before.poll.as_ref();
        let is_same = |it: &SourcePoll| {
            before.commit == commit && is_same(it.reason.as_deref(), self.reason.as_deref())
        };
        let poll = match known.filter(|it| is_same(it)) {
            Some(known) => SourcePoll {
                requested: known.requested.max(self.requested),
                ..known.clone()
            },
            None => SourcePoll {
                since: self.at,
                reason: self.reason.clone(),
                requested: known.map_or(0, |it| it.requested).max(self.requested),
            },
        };
        BundleSource {
            commit,
            poll: Some(poll),
            ..before.clone()
        }
    }
}

/// True for sentences with one meaning. Messages of Helm have local ports, which differ each time.
fn is_same(before: Option<&str>, after: Option<&str>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return before == after;
    };
    let code = Code::ChartUnavailable.to_string();
    let has_ports = before.starts_with(&code) && after.starts_with(&code);
    let letters = |text: &str| text.replace(|it: char| it.is_ascii_digit(), "");
    before == after || has_ports && letters(before) == letters(after)
}

/// One sentence for people: cause and next step of the first failure.
pub(super) fn reason_of(failures: &[SourceFailure]) -> Option<String> {
    let (first, others) = failures.split_first()?;
    let mut reason = first.reason();
    if !others.is_empty() {
        let more = others.len();
        reason.push_str(&format!(" {more} more failures are in the hub's log."));
    }
    Some(reason)
}

/// The source as people read it.
pub(super) fn shown(source: &BundleSource) -> Source {
    let poll = source.poll.as_ref();
    let is_answered = poll.is_some_and(|it| it.requested >= source.requested);
    Source {
        id: source.id.clone(),
        tenant: source.tenant.clone(),
        git: source.git.clone(),
        suspended: source.suspended,
        prune: source.prune,
        commit: source.commit.clone(),
        artifacts: source.artifacts.clone(),
        since: poll.map(|it| it.since),
        syncing: !is_answered && !source.suspended,
        reason: poll.and_then(|it| it.reason.clone()),
    }
}

/// Commits that this hub has read, by source.
#[derive(Default)]
pub(super) struct ProcessedCommits(Mutex<HashMap<SourceId, Processed>>);

impl ProcessedCommits {
    fn lock(&self) -> MutexGuard<'_, HashMap<SourceId, Processed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, source: &SourceId, processed: Processed) {
        self.lock().insert(source.clone(), processed);
    }

    pub(super) fn get(&self, source: &SourceId) -> Option<Processed> {
        self.lock().get(source).cloned()
    }

    pub(super) fn retain(&self, keep: impl Fn(&SourceId) -> bool) {
        self.lock().retain(|id, _| keep(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_failures_that_differ_in_ports_are_the_same() {
        let reason = |code, cause: &str| reason_of(&[SourceFailure::new(code, cause)]);
        let chart = Code::ChartUnavailable;
        for (code, before, after, expected) in [
            (
                chart,
                "10.0.0.1:41000->b:443: reset",
                "10.0.0.1:41234->b:443: reset",
                true,
            ),
            (
                chart,
                "a:41000->b:443: reset",
                "a:41000->b:443: refused",
                false,
            ),
            (Code::SourceUnreachable, "error: 500", "error: 502", false),
        ] {
            let (before, after) = (reason(code, before), reason(code, after));
            assert_eq!(is_same(before.as_deref(), after.as_deref()), expected);
        }
        assert!(!is_same(reason(chart, "reset").as_deref(), None));
        assert!(is_same(None, None));
    }
}
