//! Runs of a deployment: entry and claim.

use std::cmp::Reverse;

use fairlead_api::{
    RunId,
    delivery::{RunKind, RunState},
};

use super::{
    end::RunEnd,
    messages::{RunLease, StopReason},
    policy::LEASE_DURATION,
    run::{NewRun, QueuedRun},
};
use crate::clock::UnixMillis;

/// Runs of one deployment.
#[derive(Debug, Clone, Default)]
pub struct RunQueue {
    /// In the order of their entry.
    pub(super) runs: Vec<QueuedRun>,
    pub(super) changed: Vec<RunId>,
}

impl RunQueue {
    /// Restores a queue of its stored runs, in any order.
    #[must_use]
    pub fn restore(mut runs: Vec<QueuedRun>) -> Self {
        runs.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        RunQueue {
            runs,
            changed: Vec::new(),
        }
    }

    /// Adds a run, and supersedes queued ones. An id that is known already changes nothing.
    pub fn push(&mut self, now: UnixMillis, new: NewRun) {
        if self.run(&new.id).is_some() {
            return;
        }
        let priority = new.priority.clamp(-10, 10);
        let replaced = |run: &&mut QueuedRun| {
            run.state == RunState::Queued
                && run.priority <= priority
                && is_replaced_by(run.kind, new.kind)
        };
        for run in self.runs.iter_mut().filter(replaced) {
            let by = new.id.clone();
            run.finish(now, RunState::Superseded, RunEnd::SupersededBy { run: by });
            self.changed.push(run.id.clone());
        }
        self.changed.push(new.id.clone());
        self.runs.push(QueuedRun {
            id: new.id,
            kind: new.kind,
            priority,
            created_at: now,
            deadline: new.deadline,
            state: RunState::Queued,
            attempt: 0,
            lease_until: None,
            next_try: None,
            cancel: None,
            accepted: None,
            started_at: None,
            finished_at: None,
            end: None,
        });
    }

    /// Leases the next run to an agent; `None` if there is none, or if a lease is live.
    pub fn claim(&mut self, now: UnixMillis) -> Option<RunLease> {
        self.tick(now);
        let at = self.next_claim(now)?;
        let run = self.runs.get_mut(at)?;
        run.state = RunState::Leased;
        run.attempt += 1;
        run.next_try = None;
        run.lease_until = Some(now + LEASE_DURATION);
        run.started_at.get_or_insert(now);
        self.changed.push(run.id.clone());
        Some(RunLease {
            run: run.id.clone(),
            kind: run.kind,
            attempt: run.attempt,
            until: now + LEASE_DURATION,
        })
    }

    /// True if a run can be claimed.
    #[must_use]
    pub fn has_claimable(&self, now: UnixMillis) -> bool {
        self.next_claim(now).is_some()
    }

    /// A run of the queue.
    #[must_use]
    pub fn run(&self, id: &RunId) -> Option<&QueuedRun> {
        self.runs.iter().find(|it| it.id == *id)
    }

    /// All runs, in the order of their entry.
    #[must_use]
    pub fn runs(&self) -> &[QueuedRun] {
        &self.runs
    }

    /// Runs that changed since the last call. Store them before an answer is sent.
    pub fn take_changed(&mut self) -> Vec<QueuedRun> {
        let mut ids = std::mem::take(&mut self.changed);
        ids.sort();
        ids.dedup();
        ids.iter().filter_map(|id| self.run(id).cloned()).collect()
    }

    /// Drops ended runs. Keep them while an agent may repeat its result, or load them again from the store.
    pub fn forget_ended(&mut self) {
        self.runs.retain(|it| !it.state.is_final());
    }

    /// Place of the run to claim: the highest priority, then the oldest.
    fn next_claim(&self, now: UnixMillis) -> Option<usize> {
        if self.runs.iter().any(|it| it.lease_until.is_some()) {
            return None;
        }
        let claimable = |run: &QueuedRun| {
            run.state == RunState::Queued
                && run.next_try.is_none_or(|at| at <= now)
                && run.deadline.is_none_or(|at| now < at)
        };
        let runs = self.runs.iter().enumerate();
        let runs = runs.filter(|(_, run)| claimable(run));
        let next = runs.max_by_key(|(at, run)| (run.priority, Reverse(*at)));
        next.map(|(at, _)| at)
    }

    pub(super) fn run_mut(&mut self, id: &RunId) -> Result<&mut QueuedRun, StopReason> {
        let run = self.runs.iter_mut().find(|it| it.id == *id);
        run.ok_or(StopReason::NoSuchRun)
    }
}

/// A diff changes nothing, and is replaced by a diff only.
fn is_replaced_by(old: RunKind, new: RunKind) -> bool {
    (old == RunKind::Diff) == (new == RunKind::Diff)
}
