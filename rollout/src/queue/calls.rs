//! Calls of the agent about its attempt: heartbeat, log, result. Cancellation by people.

use fairlead_api::{
    RunId,
    delivery::{CancelMode, RunState},
};

use super::{
    end::RunEnd,
    list::RunQueue,
    messages::{AttemptResult, LeaseRenewal, ResultReceipt, ResultRefusal, StopReason},
    policy::{LEASE_DURATION, RENEWAL_STEP},
    run::AcceptedResult,
};
use crate::clock::UnixMillis;

impl RunQueue {
    /// Renews the lease, for a heartbeat, a log, or a report of a step. The first report of a step starts the run.
    ///
    /// # Errors
    /// [`StopReason`] if the attempt counts no longer.
    pub fn renew(
        &mut self,
        now: UnixMillis,
        run: &RunId,
        attempt: u32,
        started: bool,
    ) -> Result<LeaseRenewal, StopReason> {
        self.tick(now);
        let run = self.run_mut(run)?;
        run.check_attempt(attempt)?;
        let lease = run.lease_until.as_mut().ok_or(StopReason::LeaseLost)?;
        let until = now + LEASE_DURATION;
        let begins = started && run.state == RunState::Leased;
        let extends = until.since(*lease) >= RENEWAL_STEP;
        if extends {
            *lease = until;
        }
        if begins {
            run.state = RunState::Running;
        }
        let renewal = LeaseRenewal {
            until: *lease,
            cancel: run.cancel,
        };
        let changed = Some(run.id.clone()).filter(|_| begins || extends);
        self.changed.extend(changed);
        Ok(renewal)
    }

    /// Takes the result of an attempt. `stored_log` is the length of the log in the hub.
    ///
    /// # Errors
    /// [`ResultRefusal`] if the attempt counts no longer, has another result, or its log is not whole.
    pub fn finish(
        &mut self,
        now: UnixMillis,
        run: &RunId,
        attempt: u32,
        result: &AttemptResult,
        stored_log: u64,
    ) -> Result<ResultReceipt, ResultRefusal> {
        let run = self.run_mut(run)?;
        if let Some(accepted) = run.accepted.as_ref().filter(|it| it.attempt == attempt) {
            return match accepted.digest == result.digest {
                true => Ok(ResultReceipt::AlreadyAccepted),
                false => Err(ResultRefusal::Conflict { attempt }),
            };
        }
        run.check_attempt(attempt)?;
        if stored_log < result.log_bytes {
            return Err(ResultRefusal::LogIncomplete {
                stored: stored_log,
                expected: result.log_bytes,
            });
        }
        run.accepted = Some(AcceptedResult {
            attempt,
            digest: result.digest.clone(),
        });
        run.end_attempt(now, result.outcome);
        let id = run.id.clone();
        self.changed.push(id);
        Ok(ResultReceipt::Accepted)
    }

    /// Cancels a run: a queued one at once, a claimed one with the next call of its agent. Hard overrides soft.
    ///
    /// # Errors
    /// [`StopReason`] if there is no such run, or if it has ended.
    pub fn cancel(
        &mut self,
        now: UnixMillis,
        run: &RunId,
        mode: CancelMode,
    ) -> Result<(), StopReason> {
        self.tick(now);
        let run = self.run_mut(run)?;
        match run.state {
            RunState::Queued => run.finish(now, RunState::Cancelled, RunEnd::Cancelled),
            RunState::Leased | RunState::Running => run.cancel = run.cancel.max(Some(mode)),
            ended => return Err(StopReason::Ended(ended)),
        }
        let id = run.id.clone();
        self.changed.push(id);
        Ok(())
    }

    /// Cancels a queued run whose bundle was deleted. Any other run stays as it is.
    pub fn withdraw(&mut self, now: UnixMillis, run: &RunId) {
        let queued = self.run_mut(run).ok();
        let Some(queued) = queued.filter(|it| it.state == RunState::Queued) else {
            return;
        };
        queued.finish(now, RunState::Cancelled, RunEnd::BundleDeleted);
        self.changed.push(run.clone());
    }
}
