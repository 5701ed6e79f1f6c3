//! Schedule of the requests to Vault: one at a time for each auth method, retries with back-off and
//! jitter. Pure except for the clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairlead_api::ClusterId;
use tokio::time::Instant;

use crate::reconciling::delays::{jittered, retry_delay, throttled_delay};

/// Longest interval of checks for drift: people change Vault, too.
const DRIFT_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Removals come before the access of a later cluster with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// Removal of an access, by the id of its record.
    Retire(String),
    /// Access of a cluster.
    Ensure(ClusterId),
}

/// Work that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DueWork {
    pub(super) work: Work,
    /// Its auth method, busy until the work is completed.
    pub(super) mount: String,
    /// Distinguishes it from an earlier desired state.
    pub(super) of: String,
}

/// Result of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkOutcome {
    /// As desired; checked again for drift.
    Done,
    /// Failed; retried with back-off, or after the time that Vault asks for.
    Failed(Option<Duration>),
}

struct Planned {
    mount: String,
    of: String,
    due: Instant,
    misses: u32,
}

#[derive(Default)]
pub(super) struct Schedule {
    planned: BTreeMap<Work, Planned>,
    queue: BTreeSet<(Instant, Work)>,
    busy: BTreeSet<String>,
}

impl Schedule {
    /// Plans work: at once, or at the next check if it is `done`. Known work with this hash stays.
    pub(super) fn plan(&mut self, work: Work, mount: &str, of: &str, done: bool) {
        let known = self.planned.get(&work);
        if known.is_some_and(|it| it.of == of && it.mount == mount) {
            return;
        }
        let delay = match done {
            true => jittered(DRIFT_CHECK_INTERVAL),
            false => Duration::ZERO,
        };
        self.forget(&work);
        let due = Instant::now() + delay;
        self.queue.insert((due, work.clone()));
        let planned = Planned {
            mount: mount.to_owned(),
            of: of.to_owned(),
            due,
            misses: 0,
        };
        self.planned.insert(work, planned);
    }

    pub(super) fn forget(&mut self, work: &Work) {
        if let Some(planned) = self.planned.remove(work) {
            self.queue.remove(&(planned.due, work.clone()));
        }
    }

    /// Drops all other work.
    pub(super) fn retain(&mut self, exists: impl Fn(&Work) -> bool) {
        let gone = self.planned.keys().filter(|work| !exists(work));
        for work in gone.cloned().collect::<Vec<_>>() {
            self.forget(&work);
        }
    }

    /// Time of the next work whose auth method is free.
    pub(super) fn next(&self) -> Option<Instant> {
        let mut free = self.queue.iter().filter(|(_, work)| self.is_free(work));
        free.next().map(|(due, _)| *due)
    }

    fn is_free(&self, work: &Work) -> bool {
        let mount = self.planned.get(work).map(|it| &it.mount);
        mount.is_some_and(|mount| !self.busy.contains(mount))
    }

    /// Takes one piece of work that is due.
    pub(super) fn take_due(&mut self) -> Option<DueWork> {
        let now = Instant::now();
        let mut due = self.queue.iter().take_while(|(due, _)| *due <= now);
        let (due, work) = due.find(|(_, work)| self.is_free(work))?.clone();
        let planned = self.planned.get(&work)?;
        let taken = DueWork {
            mount: planned.mount.clone(),
            of: planned.of.clone(),
            work: work.clone(),
        };
        self.queue.remove(&(due, work));
        self.busy.insert(taken.mount.clone());
        Some(taken)
    }

    /// Completes work. If its desired state changed meanwhile, the new one is due already.
    pub(super) fn complete(&mut self, taken: &DueWork, outcome: WorkOutcome) {
        self.busy.remove(&taken.mount);
        let Some(planned) = self.planned.get_mut(&taken.work) else {
            return;
        };
        if planned.of != taken.of || planned.mount != taken.mount {
            return;
        }
        planned.misses = match outcome {
            WorkOutcome::Done => 0,
            WorkOutcome::Failed(_) => planned.misses + 1,
        };
        let delay = match outcome {
            WorkOutcome::Done => jittered(DRIFT_CHECK_INTERVAL),
            WorkOutcome::Failed(Some(wait)) => throttled_delay(wait),
            WorkOutcome::Failed(None) => retry_delay(planned.misses),
        };
        planned.due = Instant::now() + delay;
        self.queue.insert((planned.due, taken.work.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconciling::delays::THROTTLE_SPREAD;

    fn ensure() -> Work {
        Work::Ensure("c-one".parse().unwrap())
    }

    fn retire() -> Work {
        Work::Retire("c-one.7".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_removal_waits_for_a_request_to_the_same_auth_method() {
        let mut schedule = Schedule::default();
        schedule.plan(ensure(), "one", "a", false);
        let taken = schedule.take_due().unwrap();
        schedule.plan(retire(), "one", "", false);
        assert_eq!(schedule.take_due(), None);
        assert_eq!(schedule.next(), None, "there is nothing to wake up for");
        schedule.complete(&taken, WorkOutcome::Done);
        assert_eq!(schedule.take_due().unwrap().work, retire());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_during_a_request_is_due_after_it() {
        let mut schedule = Schedule::default();
        schedule.plan(ensure(), "one", "a", false);
        let taken = schedule.take_due().unwrap();
        schedule.plan(ensure(), "one", "b", false);
        assert_eq!(schedule.take_due(), None);
        schedule.complete(&taken, WorkOutcome::Done);
        assert_eq!(schedule.take_due().unwrap().of, "b");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_checks_come_again() {
        let mut schedule = Schedule::default();
        schedule.plan(ensure(), "one", "a", false);
        let mut last = Duration::ZERO;
        for _ in 0..4 {
            let taken = schedule.take_due().unwrap();
            schedule.complete(&taken, WorkOutcome::Failed(None));
            let delay = schedule.next().unwrap() - Instant::now();
            assert!(delay >= last, "{delay:?} after {last:?}");
            last = delay;
            tokio::time::advance(delay).await;
        }
        let taken = schedule.take_due().unwrap();
        let wait = Duration::from_secs(1800);
        schedule.complete(&taken, WorkOutcome::Failed(Some(wait)));
        let delay = schedule.next().unwrap() - Instant::now();
        assert!(
            delay >= wait && delay <= wait + THROTTLE_SPREAD,
            "{delay:?}"
        );
        tokio::time::advance(delay).await;
        let taken = schedule.take_due().unwrap();
        schedule.complete(&taken, WorkOutcome::Done);
        let delay = schedule.next().unwrap() - Instant::now();
        assert!(delay >= DRIFT_CHECK_INTERVAL / 2, "{delay:?}");
    }
}
