//! The single writer. Changes wait in a queue; all queued changes are decided in order, each on top
//! of the previous one, and committed together.
//!
//! Memory changes after the commit, and callers are answered last: no answer can be lost again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    backend::{ChangeBatch, Committed},
    draft::Draft,
    error::{Refusal, Result, StoreError},
    journal::{self, Actor},
    metrics::ChangeOutcome,
    millis::whole_millis,
    observations::PERSIST_DELAY,
    quota,
    revision::Revision,
    shared::StoreState,
    view::View,
};

/// Capacity of the queue of changes.
pub(super) const QUEUE_CAPACITY: usize = 1024;
/// Maximum number of changes per commit.
const MAX_CHANGES_PER_COMMIT: usize = 256;
/// Delay before observations are persisted again after a failure.
const PERSIST_RETRY_DELAY: Duration = Duration::from_secs(5);

/// A completed change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done<T> {
    /// Result of `decide`.
    pub value: T,
    /// Revision at which the change is visible; if nothing changed, the one at which that was
    /// decided.
    pub revision: Revision,
}

/// A change with erased types.
pub(super) trait QueuedChange: Send {
    /// Decides, possibly repeatedly; returns the outcome if the draft is to be dropped.
    fn decide(&mut self, draft: &mut Draft) -> std::result::Result<(), ChangeOutcome>;
    fn actor(&self) -> &Actor;
    /// Replaces the outcome by an error.
    fn refuse(&mut self, error: StoreError);
    /// Sends the result.
    fn complete(self: Box<Self>, revision: Revision);
    fn fail(self: Box<Self>, error: StoreError);
}

pub(super) struct PendingChange<T, E, Decide> {
    pub(super) actor: Actor,
    pub(super) decide: Decide,
    pub(super) outcome: Option<std::result::Result<T, E>>,
    pub(super) reply: oneshot::Sender<std::result::Result<Done<T>, E>>,
}

impl<T, E, Decide> QueuedChange for PendingChange<T, E, Decide>
where
    T: Send,
    E: Refusal,
    Decide: FnMut(&mut Draft) -> std::result::Result<T, E> + Send,
{
    fn decide(&mut self, draft: &mut Draft) -> std::result::Result<(), ChangeOutcome> {
        // One caller's panic must not end the writer.
        let decided = catch_unwind(AssertUnwindSafe(|| (self.decide)(draft)));
        let outcome = decided.unwrap_or_else(|_| Err(E::from(StoreError::CutOff)));
        match self.outcome.insert(outcome) {
            Ok(_) => Ok(()),
            Err(error) if error.has_lost() => Err(ChangeOutcome::Conflict),
            Err(_) => Err(ChangeOutcome::Refused),
        }
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }

    fn refuse(&mut self, error: StoreError) {
        self.outcome = Some(Err(E::from(error)));
    }

    fn complete(self: Box<Self>, revision: Revision) {
        let outcome = self
            .outcome
            .unwrap_or_else(|| Err(E::from(StoreError::CutOff)));
        // A disconnected caller is fine: the change is committed all the same.
        let _ = (self.reply).send(outcome.map(|value| Done { value, revision }));
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(E::from(error)));
    }
}

/// Runs until `end`, then drains the queue.
pub(super) async fn run(
    shared: Arc<StoreState>,
    mut queue: mpsc::Receiver<Box<dyn QueuedChange>>,
    end: CancellationToken,
) {
    let mut due = None;
    loop {
        let observed = async {
            match due {
                Some(at) => sleep_until(at).await,
                None => shared.observations.wake.notified().await,
            }
        };
        tokio::select! {
            biased;
            () = end.cancelled(), if !queue.is_closed() => queue.close(),
            () = shared.remote_change.notified() => apply_remote_changes(&shared).await,
            () = observed => due = match due {
                None => Some(Instant::now() + PERSIST_DELAY),
                Some(_) if persist_observations(&shared).await => None,
                Some(_) => Some(Instant::now() + PERSIST_RETRY_DELAY),
            },
            job = queue.recv() => {
                let Some(first) = job else { break };
                let mut jobs = vec![first];
                while jobs.len() < MAX_CHANGES_PER_COMMIT && let Ok(job) = queue.try_recv() {
                    jobs.push(job);
                }
                process(&shared, jobs).await;
            }
        }
    }
    persist_observations(&shared).await;
}

/// Wakes the writer when another hub may have committed.
pub(super) async fn listen(shared: Arc<StoreState>, end: CancellationToken) {
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            () = shared.backend.remote_commit() => shared.remote_change.notify_one(),
        }
    }
}

/// Applies other hubs' commits.
async fn apply_remote_changes(shared: &StoreState) {
    let known = shared.view().revision;
    let applied = match shared.backend.revision().await {
        Ok(last) if last == known => Ok(()),
        Ok(_) => shared.catch_up().await,
        Err(error) => Err(error),
    };
    if let Err(error) = applied {
        // Retried within a second; writers get the error.
        debug!(%error, revision = %known, "changes of other hubs not read");
    }
}

/// Persists observations; false on failure.
async fn persist_observations(shared: &StoreState) -> bool {
    let pending = shared.observations.take_pending();
    let backend = &shared.backend;
    let hub = shared.observations.me();
    let written = backend
        .observe(hub, &pending.rows, &pending.merged_rows)
        .await;
    if let Err(error) = &written {
        warn!(%error, clusters = pending.clusters.len(), "observed status not persisted");
        shared.observations.return_pending(pending);
    }
    written.is_ok()
}

/// Result of deciding a queue of changes.
struct Decided {
    view: View,
    batch: ChangeBatch,
    /// ChangeOutcome and visible revision of each change, in order.
    changes: Vec<(ChangeOutcome, Revision)>,
}

async fn process(shared: &StoreState, mut jobs: Vec<Box<dyn QueuedChange>>) {
    match commit(shared, &mut jobs).await {
        Ok(decided) => {
            shared.publish(decided.view, decided.batch.documents.values());
            for (job, (outcome, revision)) in jobs.into_iter().zip(decided.changes) {
                shared.meter.changed(outcome);
                job.complete(revision);
            }
        }
        Err(error) => {
            for job in jobs {
                shared.meter.changed(ChangeOutcome::Failed);
                job.fail(error.clone());
            }
        }
    }
}

async fn commit(shared: &StoreState, jobs: &mut [Box<dyn QueuedChange>]) -> Result<Decided> {
    loop {
        let base = shared.view();
        let decided = decide(shared, &base, jobs)?;
        if decided.batch.log.is_empty() {
            return Ok(decided);
        }
        let started = Instant::now();
        let committed = shared.backend.commit(&decided.batch, base.revision).await;
        shared.meter.commit_took(started.elapsed());
        if committed.is_err() {
            shared.remote_commits.expect_own();
        }
        match committed? {
            Committed::Done => return Ok(decided),
            Committed::Behind => {
                shared.meter.conflict();
                shared.catch_up().await?;
            }
        }
    }
}

fn decide(shared: &StoreState, base: &View, jobs: &mut [Box<dyn QueuedChange>]) -> Result<Decided> {
    let at = whole_millis(shared.clock.now());
    let terms = shared.quota_terms();
    let mut decided = Decided {
        view: base.clone(),
        batch: ChangeBatch::default(),
        changes: Vec::with_capacity(jobs.len()),
    };
    for job in jobs {
        let mut draft = Draft::new(decided.view.clone());
        let outcome = if let Err(outcome) = job.decide(&mut draft) {
            outcome
        } else if let Err(exceeded) = quota::check(&mut draft, job.actor(), terms) {
            job.refuse(StoreError::Quota(exceeded));
            ChangeOutcome::Refused
        } else if journal::record(&draft, job.actor(), at, &mut decided.batch)? {
            decided.view = draft.view;
            ChangeOutcome::Written
        } else {
            ChangeOutcome::Unchanged
        };
        decided.changes.push((outcome, decided.view.revision));
    }
    Ok(decided)
}
