//! Logs and results of runs on their way to the hub. They wait while the hub is away, within a bound.

mod task;
mod ticket;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use fairlead_api::{
    RunId,
    delivery::{AgentRun, ClaimedRun},
};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tracing::warn;

pub(crate) use self::ticket::RunTicket;
use crate::{
    engine::{CancelSignal, RunLog},
    hub::HubConnection,
};

/// Bytes of all logs that wait for the hub.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Runs that wait for the hub. Further ones are not reported; their deployments are.
const MAX_WAITING_RUNS: usize = 1_000;

/// Uploads of all runs. Clones share them.
#[derive(Clone)]
pub(crate) struct Uploads {
    hub: Arc<dyn HubConnection>,
    tasks: TaskTracker,
    waiting: Arc<AtomicUsize>,
    /// Logs of ended runs, oldest first.
    ended: Arc<Mutex<VecDeque<RunLog>>>,
}

impl Uploads {
    /// Uploads over this connection.
    #[must_use]
    pub(crate) fn new(hub: Arc<dyn HubConnection>) -> Self {
        Self {
            hub,
            tasks: TaskTracker::new(),
            waiting: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// Registers a run of the agent's own.
    #[must_use]
    pub(crate) fn begin(&self, run: RunId, registration: AgentRun) -> RunTicket {
        let ticket = self.hold(run, registration);
        ticket.report();
        ticket
    }

    /// Ticket of a run that the hub does not know before [`RunTicket::report`] or a result.
    #[must_use]
    pub(crate) fn hold(&self, run: RunId, registration: AgentRun) -> RunTicket {
        let attempt = registration.attempt;
        self.ticket(run, attempt, task::Origin::Agent(registration))
            .0
    }

    /// Takes a claimed run. The signal carries the hub's order to cancel it, or the loss of its lease.
    #[must_use]
    pub(crate) fn claimed(&self, claimed: &ClaimedRun) -> (RunTicket, CancelSignal) {
        let origin = task::Origin::Claimed {
            lease_seconds: claimed.lease_seconds,
            log_offset: claimed.log_offset,
        };
        let (ticket, cancel) = self.ticket(claimed.run.clone(), claimed.attempt, origin);
        ticket.report();
        (ticket, cancel)
    }

    fn ticket(&self, run: RunId, attempt: u32, origin: task::Origin) -> (RunTicket, CancelSignal) {
        let log = RunLog::default();
        let (cancel, signal) = CancelSignal::new();
        let (outcome, outcomes) = watch::channel(None);
        let task = task::UploadTask {
            hub: self.hub.clone(),
            run: run.clone(),
            attempt,
            origin,
            log: log.clone(),
            outcomes,
            cancel,
        };
        let ticket = RunTicket {
            run,
            attempt,
            log,
            outcome,
            uploads: self.clone(),
            held: Mutex::new(Some(task)),
        };
        (ticket, signal)
    }

    /// Starts the upload of a run.
    fn spawn(&self, task: task::UploadTask) {
        if self.waiting.load(Ordering::Relaxed) >= MAX_WAITING_RUNS {
            warn!(run = %task.run, "run not reported: too many runs wait for the hub");
            return;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = self.waiting.clone();
        self.tasks.spawn(async move {
            task.run().await;
            waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Keeps the logs of ended runs within the bound.
    fn note_end(&self, log: RunLog) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push_back(log);
        ended.retain(|log| log.pending_bytes() > 0);
        let mut total: usize = ended.iter().map(RunLog::pending_bytes).sum();
        while total > MAX_WAITING_BYTES {
            let Some(oldest) = ended.pop_front() else {
                return;
            };
            total -= oldest.pending_bytes();
            oldest.drop_pending();
        }
    }
}

#[cfg(test)]
mod tests;
