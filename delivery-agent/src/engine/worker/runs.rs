//! Runs of a worker: takes content over, executes attempts, and notes their outcome.

use std::sync::Arc;

use fairlead_api::{
    Code, RunId,
    delivery::{AgentRun, RunKind, Spec, SpecId},
};
use fairlead_manifests::HealthState;
use time::OffsetDateTime;
use tokio::time::timeout;
use tracing::{info, warn};

use super::{
    AcceptedSpec, Attempt, AttemptEnd, CancelSignal, Command, FailureClass, HOLD_TIME,
    JournalContent, JournalState, REPEAT_DELAY, RetryState, RunFailure, RunOrder, RunTicket,
    StoredFailure, Wish, Worker, new_run_id, next_try, rejected,
};

impl Worker {
    /// Takes a spec over into the journal. Content that is already applied needs no run.
    pub(super) async fn accept(
        &mut self,
        state: &JournalState,
        accepted: AcceptedSpec,
    ) -> Result<(), RunFailure> {
        let known = state.content.applied.as_ref();
        let is_applied = state
            .record
            .applied
            .as_ref()
            .is_some_and(|it| it.spec == accepted.spec);
        let spec = match known.filter(|_| is_applied) {
            Some(spec) => spec.clone(),
            None => {
                let fetched = self.shared.content.spec(&accepted.spec).await;
                fetched.map_err(|error| crate::manifests::content_failure(&error))?
            }
        };
        if spec.bundle != *self.bundle() {
            let sentence = format!("the spec is of another bundle: {}", spec.bundle);
            let class = FailureClass::Permanent;
            return Err(RunFailure::new(class, Code::InvalidManifests, sentence));
        }
        info!(bundle = %self.bundle(), generation = accepted.generation, "delivery accepted");
        self.is_overdue = false;
        self.journal
            .update(|state| {
                let record = &mut state.record;
                let is_whole = record.damage.take().is_none()
                    && is_applied
                    && record.pending.is_none()
                    && record.retry.failure.is_none();
                record.highest = record.highest.max(accepted.generation);
                record.retry = RetryState::default();
                record.removing = None;
                if is_whole {
                    record.applied = Some(accepted.clone());
                }
                record.accepted = Some(accepted);
                state.content = Arc::new(JournalContent {
                    accepted: Some(spec),
                    ..(*state.content).clone()
                });
            })
            .await
    }

    /// Runs one attempt, and notes its outcome.
    pub(super) async fn attempt(&mut self, state: &JournalState, order: RunOrder) {
        let command = self.command.take();
        let number = state.record.retry.failed + 1;
        let is_repeated = command.is_none() && waiting_before(state).is_some();
        let (ticket, cancel) = match command {
            Some(command) => {
                let Command {
                    claimed,
                    ticket,
                    cancel,
                } = *command;
                if let Some(spec) = claimed.spec.filter(|_| claimed.kind == RunKind::Diff) {
                    return self.compare(state, order, spec, ticket, cancel).await;
                }
                (ticket, cancel)
            }
            None => {
                let now = OffsetDateTime::now_utc();
                let registration = AgentRun {
                    bundle: self.bundle().clone(),
                    kind: order.kind,
                    origin: order.origin,
                    generation: order.generation,
                    attempt: number,
                    started_at: now,
                };
                let ticket = self.shared.uploads.hold(new_run_id(now), registration);
                (ticket, CancelSignal::new().1)
            }
        };
        let accepted = state.record.accepted.as_ref();
        let known = state.accepted_spec().cloned().zip(accepted);
        let Some((spec, accepted)) = known else {
            let failure = self.without_spec(state).await;
            let run = ticket.run().clone();
            ticket.fail(&failure);
            return self.note_failure(order, failure, Some(run)).await;
        };
        if order.kind != RunKind::Diff {
            self.shared.observer.release(self.bundle()).await;
        }
        let spec_id = accepted.spec.clone();
        let result = {
            let executing = self.execute(order, number, spec, spec_id, &ticket, &cancel);
            let mut executing = std::pin::pin!(executing);
            // An attempt that waits for the same as the one before is no news. It ends early.
            let early = match is_repeated {
                true => timeout(REPEAT_DELAY, &mut executing).await.ok(),
                false => None,
            };
            match early {
                Some(result) => result,
                None => {
                    ticket.report();
                    self.publish_run(state, order, number, ticket.run());
                    executing.await
                }
            }
        };
        self.note(state, order, result, ticket).await;
        self.observe().await;
    }

    /// Compares a spec that a person sent with the cluster.
    async fn compare(
        &self,
        state: &JournalState,
        order: RunOrder,
        id: SpecId,
        ticket: RunTicket,
        cancel: CancelSignal,
    ) {
        let number = ticket.attempt();
        let result = match self.shared.content.spec(&id).await {
            Err(error) => Err(crate::manifests::content_failure(&error)),
            Ok(spec) => {
                let generation = order.generation.max(state.record.highest);
                let order = RunOrder {
                    generation,
                    ..order
                };
                self.execute(order, number, spec, id, &ticket, &cancel)
                    .await
            }
        };
        match result {
            Ok(AttemptEnd::Compared(diff)) => ticket.succeed(None, Some(diff)),
            Ok(_) => ticket.succeed(None, None),
            Err(failure) => ticket.fail(&failure),
        }
    }

    async fn execute(
        &self,
        order: RunOrder,
        number: u32,
        spec: Arc<Spec>,
        spec_id: SpecId,
        ticket: &RunTicket,
        cancel: &CancelSignal,
    ) -> Result<AttemptEnd, RunFailure> {
        let generation = order.generation;
        let is_superseded = || match self.wish() {
            Wish::Named(desired) => desired.generation > generation,
            _ => false,
        };
        let attempt = Attempt {
            shared: &self.shared,
            journal: &self.journal,
            run: ticket.run().clone(),
            number,
            order,
            spec,
            spec_id,
            log: ticket.log().clone(),
            cancel: cancel.clone(),
            is_superseded: &is_superseded,
        };
        Box::pin(attempt.execute()).await
    }

    /// Notes the outcome of an attempt in journal and state, and reports it.
    async fn note(
        &mut self,
        before: &JournalState,
        order: RunOrder,
        result: Result<AttemptEnd, RunFailure>,
        ticket: RunTicket,
    ) {
        match result {
            Ok(AttemptEnd::Compared(diff)) => ticket.succeed(None, Some(diff)),
            Ok(AttemptEnd::Removed) => ticket.succeed(None, None),
            Ok(AttemptEnd::Synced { health, blocked }) => {
                self.has_run = true;
                self.is_stale = false;
                self.overwritten = None;
                self.drift.clear();
                // The next observation lists them again.
                self.beside.clear();
                self.fight = None;
                let is_ready = health.worst.state == HealthState::Ready;
                self.is_overdue = !is_ready;
                let sentence = health.worst.reason.clone();
                self.health = Some(health);
                match blocked {
                    Some(sentence) => {
                        let class = FailureClass::Blocked;
                        ticket.fail(&RunFailure::new(class, Code::PruneBlocked, sentence));
                    }
                    None if is_ready => ticket.succeed(None, None),
                    None => {
                        let class = FailureClass::Retry;
                        ticket.fail(&RunFailure::new(class, Code::NotReadyInTime, sentence));
                    }
                }
            }
            Err(failure) => {
                let waiting = waiting_before(before).filter(|_| ticket.is_held());
                let is_news = waiting.is_none_or(|it| *it != StoredFailure::from(&failure));
                let mut last_run = before.record.last_run.clone();
                if is_news {
                    warn!(bundle = %self.bundle(), code = %failure.code, "delivery failed");
                    last_run = Some(ticket.run().clone());
                    ticket.fail(&failure);
                }
                if order.kind != RunKind::Diff {
                    self.note_failure(order, failure, last_run).await;
                }
            }
        }
    }

    /// Notes a failed attempt in the journal. `last_run`: the last run that the hub knows.
    async fn note_failure(
        &mut self,
        order: RunOrder,
        failure: RunFailure,
        last_run: Option<RunId>,
    ) {
        let now = OffsetDateTime::now_utc();
        let noted = self
            .journal
            .update(|state| {
                let retry = &mut state.record.retry;
                let stored = StoredFailure::from(&failure);
                let is_repeated = retry.failure.as_ref() == Some(&stored);
                match failure.class {
                    FailureClass::Waiting if is_repeated => retry.waited += 1,
                    class => {
                        retry.waited = 0;
                        retry.failed += u32::from(class == FailureClass::Retry);
                    }
                }
                retry.next_try = next_try(failure.class, retry, failure.not_before, now);
                retry.failure = Some(stored);
                state.record.last_run = last_run;
                if failure.ends_step {
                    state.record.helm.step = None;
                }
                // A run with an unknown end stays pending: its lock is fenced before the next one.
                if failure.class != FailureClass::Unknown {
                    state.record.pending = None;
                }
            })
            .await;
        if let Err(error) = noted {
            warn!(bundle = %self.bundle(), kind = ?order.kind, cause = %error, "outcome not noted");
            self.hold = Some((now + HOLD_TIME, failure));
        }
    }

    /// Fetches a spec that the journal has lost.
    async fn without_spec(&self, state: &JournalState) -> RunFailure {
        let Some(accepted) = &state.record.accepted else {
            return rejected("the cluster has no content of the bundle yet");
        };
        match self.shared.content.spec(&accepted.spec).await {
            Err(error) => crate::manifests::content_failure(&error),
            Ok(spec) => {
                let change = |state: &mut JournalState| {
                    state.content = Arc::new(JournalContent {
                        accepted: Some(spec),
                        ..(*state.content).clone()
                    });
                };
                let class = FailureClass::Waiting;
                match self.journal.update(change).await {
                    Ok(()) => {
                        RunFailure::new(class, Code::DeploymentWaits, "the content is here again")
                    }
                    Err(failure) => failure,
                }
            }
        }
    }
}

/// Failure of the last attempt, if that had to wait for something else.
fn waiting_before(state: &JournalState) -> Option<&StoredFailure> {
    let failure = state.record.retry.failure.as_ref();
    failure.filter(|it| it.class == FailureClass::Waiting)
}
