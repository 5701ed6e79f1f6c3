//! One attempt of a run: fence, journal, executor, health.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code, RunId,
    delivery::{BundleKind, RunDiff, RunKind, Spec, SpecId},
};
use fairlead_manifests::{HealthState, HealthSummary};
use fairlead_masking::Masker;
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{
    decide::RunOrder,
    earlier::end_earlier_runs,
    executor::{Applied, CancelSignal, RunContext, SecretValues},
    failure::{FailureClass, RunFailure},
    health::HealthPoll,
    log::RunLog,
    shared::Shared,
};
use crate::{
    drift::RollbackNote,
    fence::{AccountName, FencedAttempt, RunFence},
    journal::{AcceptedSpec, Journal, PendingRun, RetryState, StoredObject},
};

/// Successful end of an attempt.
pub(super) enum AttemptEnd {
    /// Objects are applied; the health is that of the last look, if they were not ready in time.
    Synced {
        health: HealthSummary,
        blocked: Option<String>,
    },
    /// Objects and journal are gone.
    Removed,
    /// Nothing was changed.
    Compared(RunDiff),
}

/// End of the wait for health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthEnd {
    Ready,
    Overdue,
    Cancelled,
    /// The hub has newer content.
    Superseded,
}

/// One attempt of a run.
pub(super) struct Attempt<'a> {
    pub(super) shared: &'a Shared,
    pub(super) journal: &'a Journal,
    pub(super) run: RunId,
    pub(super) number: u32,
    pub(super) order: RunOrder,
    pub(super) spec: Arc<Spec>,
    pub(super) spec_id: SpecId,
    pub(super) log: RunLog,
    pub(super) cancel: CancelSignal,
    /// True if newer content makes the wait for health pointless.
    pub(super) is_superseded: &'a (dyn Fn() -> bool + Send + Sync),
}

impl Attempt<'_> {
    /// Runs the attempt. The journal has no pending run afterwards, unless it cannot be written.
    pub(super) async fn execute(&self) -> Result<AttemptEnd, RunFailure> {
        let account = AccountName::parse(&self.spec.service_account)?;
        let site = self.shared.site.borrow().clone();
        site.check_account(&account)?;
        let kind = self.spec.kind;
        let executor = self.shared.executors.of(kind).ok_or_else(no_helm)?.clone();
        let record = self.journal.state().await.record;
        let bundle = &self.spec.bundle;
        let fences = &self.shared.fences;
        end_earlier_runs(fences, Some(&executor), bundle, Some(&account), &record).await?;
        self.cancel.check()?;
        let permit = self.shared.permits.clone().acquire_owned().await;
        let attempt = FencedAttempt {
            bundle,
            run: &self.run,
            attempt: self.number,
        };
        let fence = self.shared.fences.acquire(attempt, &account).await?;
        let context = self.context(&fence, site, record.pending);
        let result = self
            .with_fence(&fence, context, &*executor, permit.ok())
            .await;
        self.log.finish_output();
        if let Err(error) = self.shared.fences.release(fence).await {
            // The next attempt takes the lock over.
            self.log
                .line(&format!("the lock of the run is not deleted: {error}"));
        }
        result
    }

    async fn with_fence(
        &self,
        fence: &RunFence,
        mut context: RunContext,
        executor: &dyn super::Executor,
        permit: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> Result<AttemptEnd, RunFailure> {
        if self.order.kind == RunKind::Diff {
            context.secrets = self.secrets(fence).await?;
            return Ok(AttemptEnd::Compared(executor.diff(&context).await?));
        }
        let pending = PendingRun {
            run: self.run.clone(),
            attempt: self.number,
            kind: self.order.kind,
            origin: self.order.origin,
            generation: self.order.generation,
            step: "start".to_owned(),
            lock: fence.lock.clone(),
            process: self.shared.fences.process().clone(),
            started_at: OffsetDateTime::now_utc(),
        };
        let removing = (self.order.kind == RunKind::Remove).then_some(self.order.generation);
        self.journal
            .update(|state| {
                let record = &mut state.record;
                record.last_run = Some(pending.run.clone());
                record.pending = Some(pending);
                if let Some(generation) = removing {
                    // A failure of the content must not stop the removal, if that is interrupted.
                    if record.removing != Some(generation) {
                        record.retry = RetryState::default();
                    }
                    record.removing = Some(generation);
                    record.highest = record.highest.max(generation);
                }
            })
            .await?;
        if removing.is_some() {
            executor.remove(&context).await?;
            self.journal.delete().await?;
            return Ok(AttemptEnd::Removed);
        }
        context.secrets = self.secrets(fence).await?;
        let applied = executor.sync(&context).await?;
        drop(permit);
        let blocked = applied.blocked.clone();
        let health = self.finish(executor, context, applied).await?;
        Ok(AttemptEnd::Synced { health, blocked })
    }

    /// Notes the applied objects, and waits for their health. Content of a bundle that rolls back is noted after that
    /// wait: until then the journal has the content to return to.
    async fn finish(
        &self,
        executor: &dyn super::Executor,
        context: RunContext,
        applied: Applied,
    ) -> Result<HealthSummary, RunFailure> {
        if !executor.rolls_back(&self.spec) {
            self.note_applied(&applied, true).await?;
            let (health, _) = self.wait_for_health(&context, &applied).await?;
            if health.worst.state != HealthState::Ready && self.spec.kind == BundleKind::Helm {
                self.note_applied(&applied, false).await?;
            }
            return Ok(health);
        }
        let (health, end) = self.wait_for_health(&context, &applied).await?;
        let reason = &health.worst.reason;
        match end {
            HealthEnd::Superseded => {
                let class = FailureClass::Waiting;
                return Err(RunFailure::new(class, Code::NotReadyInTime, reason));
            }
            HealthEnd::Overdue => {
                let sentence = format!("not ready in time: {reason}");
                let class = FailureClass::Permanent;
                let failure = RunFailure::new(class, Code::NotReadyInTime, sentence);
                let _permit = self.shared.permits.clone().acquire_owned().await;
                if let Some(failure) = executor.roll_back(&context, failure).await {
                    return Err(failure);
                }
            }
            HealthEnd::Ready | HealthEnd::Cancelled => {}
        }
        self.note_applied(&applied, end == HealthEnd::Ready).await?;
        Ok(health)
    }

    /// Notes the applied objects. `is_good`: nothing is known against a return to them.
    async fn note_applied(&self, applied: &Applied, is_good: bool) -> Result<(), RunFailure> {
        let failure = applied.blocked.as_ref().map(|sentence| {
            RunFailure::new(FailureClass::Blocked, Code::PruneBlocked, sentence.clone())
        });
        let objects = applied.objects.iter();
        let stored = objects.map(|it| StoredObject::new(&it.manifest, it.baseline.clone()));
        let stored = stored.collect();
        let inventory = applied.inventory.clone().into_shared();
        self.journal
            .update(|state| {
                state.inventory = inventory;
                state.content = Arc::new(crate::journal::JournalContent {
                    accepted: state.content.accepted.clone(),
                    applied: Some(self.spec.clone()),
                    objects: stored,
                });
                state.record.applied = Some(AcceptedSpec {
                    generation: self.order.generation,
                    spec: self.spec_id.clone(),
                });
                state.record.needs_apply = false;
                state.record.never_ready = !is_good;
                state.record.rollbacks = RollbackNote::default();
                state.record.pending = None;
                state.record.retry = RetryState {
                    failure: failure.as_ref().map(Into::into),
                    ..RetryState::default()
                };
            })
            .await
    }

    async fn wait_for_health(
        &self,
        context: &RunContext,
        applied: &Applied,
    ) -> Result<(HealthSummary, HealthEnd), RunFailure> {
        let deadline = Instant::now() + Duration::from_secs(self.spec.timeout_seconds);
        let mut poll = HealthPoll::new(&context.kube, &context.discovery, &applied.objects);
        loop {
            let read = poll.read().await;
            let end = if self.cancel.mode().is_some() {
                Some(HealthEnd::Cancelled)
            } else if Instant::now() >= deadline {
                Some(HealthEnd::Overdue)
            } else {
                (self.is_superseded)().then_some(HealthEnd::Superseded)
            };
            match (read, end) {
                (Ok(health), _) if health.worst.state == HealthState::Ready => {
                    return Ok((health, HealthEnd::Ready));
                }
                (Ok(health), Some(end)) => return Ok((health, end)),
                (Ok(_), None) => {}
                (Err(error), end) => {
                    self.log.line(&format!("health is not known: {error}"));
                    if matches!(end, Some(HealthEnd::Cancelled | HealthEnd::Overdue)) {
                        return Err(RunFailure::of_kube(&error));
                    }
                }
            }
            poll.pause().await;
        }
    }

    /// Reads the Secrets that the spec names, with the token of the run, and hides their values in the log.
    async fn secrets(&self, fence: &RunFence) -> Result<SecretValues, RunFailure> {
        if self.spec.secrets.is_empty() {
            return Ok(SecretValues::default());
        }
        let reader = self.shared.observer.reader();
        let values = reader.read(&fence.kube, &self.spec).await?;
        let vars = values.vars.values().map(|value| value.expose_secret());
        let texts = values.values.iter().map(|(_, value)| value.expose_secret());
        let masker = Masker::new(vars.chain(texts.map(str::as_bytes)));
        let masker = masker.map_err(|error| {
            let class = FailureClass::Permanent;
            RunFailure::new(class, Code::SecretUnusable, error.to_string())
        })?;
        self.log.set_masker(masker);
        Ok(values)
    }

    fn context(
        &self,
        fence: &RunFence,
        site: Arc<super::SiteLimits>,
        interrupted: Option<PendingRun>,
    ) -> RunContext {
        RunContext {
            run: self.run.clone(),
            attempt: self.number,
            generation: self.order.generation,
            spec: self.spec.clone(),
            spec_id: self.spec_id.clone(),
            confirmed: self.order.is_confirmed,
            kube: fence.kube.clone(),
            token: fence.token.clone(),
            user: fence.user.clone(),
            discovery: self.shared.discovery.clone(),
            content: self.shared.content.clone(),
            journal: self.journal.clone(),
            interrupted,
            log: self.log.clone(),
            cancel: self.cancel.clone(),
            secrets: SecretValues::default(),
            site,
        }
    }
}

fn no_helm() -> RunFailure {
    let kind = BundleKind::Helm;
    let sentence = format!(
        "this agent has no runner for bundles of the kind {kind}: outside of a pod, `--helm FILE` names Helm"
    );
    RunFailure::new(FailureClass::Waiting, Code::DeploymentWaits, sentence)
}
