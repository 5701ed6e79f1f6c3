//! Time in a queue: lost leases and deadlines.

use fairlead_api::delivery::RunState;

use super::{
    end::RunEnd,
    list::RunQueue,
    policy::{TAKEOVER_DELAY, retry_backoff},
    run::QueuedRun,
};
use crate::clock::UnixMillis;

impl RunQueue {
    /// Takes the time: lost leases lapse, and deadlines pass.
    pub fn tick(&mut self, now: UnixMillis) {
        for run in &mut self.runs {
            if run.lapse(now) || run.expire(now) {
                self.changed.push(run.id.clone());
            }
        }
    }

    /// Time of the next [`RunQueue::tick`]; also the time at which a run becomes claimable.
    #[must_use]
    pub fn wake(&self, now: UnixMillis) -> Option<UnixMillis> {
        let times = self.runs.iter().flat_map(|run| {
            let queued = run.state == RunState::Queued;
            let lapse = run.lease_until.map(|until| until + TAKEOVER_DELAY);
            let deadline = run.deadline.filter(|_| queued);
            let next_try = run.next_try.filter(|at| now < *at);
            [lapse, deadline, next_try]
        });
        times.flatten().min()
    }
}

impl QueuedRun {
    /// Ends a lost lease after the delay of a takeover. True if it did.
    fn lapse(&mut self, now: UnixMillis) -> bool {
        let Some(until) = self.lease_until else {
            return false;
        };
        let lapses = until + TAKEOVER_DELAY;
        if now < lapses {
            return false;
        }
        match (self.cancel, self.state) {
            (Some(_), RunState::Leased) => {
                self.finish(now, RunState::Cancelled, RunEnd::Cancelled);
            }
            (Some(_), _) => self.finish(now, RunState::Unknown, RunEnd::LostWhileCancelling),
            (None, _) => {
                let attempts = self.attempt;
                let next_try = lapses.max(until + retry_backoff(attempts));
                self.requeue(now, next_try, RunEnd::LeaseLost { attempts });
            }
        }
        true
    }

    /// Ends a queued run at its deadline. True if it did.
    fn expire(&mut self, now: UnixMillis) -> bool {
        let due = self.deadline.is_some_and(|deadline| deadline <= now);
        let expires = due && self.state == RunState::Queued;
        if expires {
            self.finish(now, RunState::Expired, RunEnd::DeadlinePassed);
        }
        expires
    }
}
