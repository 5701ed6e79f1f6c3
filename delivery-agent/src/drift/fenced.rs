//! Clients of drift detection from fences: observers bound to journals, corrections behind the lock of their deployment.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fairlead_api::{
    BundleId, Code, RunId,
    delivery::{AgentRun, DriftedObject, RunKind, RunOrigin},
};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    access::{AccessError, CorrectionOutcome, CorrectionRun, DriftAccess},
    api::{EventStream, ObjectApi},
};
use crate::{
    engine::{Executor, FailureClass, RunFailure, end_earlier_runs, programs_ended},
    fence::{AccountName, FencedAttempt, Fences, RunFence},
    journal::{Journal, JournalRecord},
    kube::{KubeClient, KubeError, ObjectList, Query},
    new_run_id,
    uploads::{RunTicket, Uploads},
};

/// Use of one observer's token, which lasts an hour.
const OBSERVER_LIFETIME: Duration = Duration::from_secs(40 * 60);
/// Time after which the lock of another run is taken over: between runs only a run that was killed leaves one.
const STALE_LOCK_AGE: Duration = Duration::from_secs(120);

/// Access of a deployment.
#[derive(Clone)]
pub(crate) struct DriftGrant {
    pub(crate) account: AccountName,
    pub(crate) journal: Journal,
    /// UID of the journal, to which tokens are bound.
    pub(crate) journal_uid: String,
    /// Executor of the deployment, which ends its programs; none for Helm without a runner.
    pub(crate) executor: Option<Arc<dyn Executor>>,
    /// Applied generation.
    pub(crate) generation: u64,
}

/// A deployment with access.
struct Granted {
    grant: DriftGrant,
    /// First refusal by the lock of another run.
    locked_since: Option<Instant>,
}

/// An observer's client, and the deployment with the journal of its token.
struct Observer {
    client: Arc<dyn ObjectApi>,
    bundle: BundleId,
    made_at: Instant,
}

#[derive(Default)]
struct State {
    grants: HashMap<BundleId, Granted>,
    observers: HashMap<String, Observer>,
}

/// [`DriftAccess`] by fences. Clones share it.
#[derive(Clone)]
pub struct FencedAccess {
    fences: Fences,
    uploads: Uploads,
    stale_lock_age: Duration,
    state: Arc<Mutex<State>>,
}

impl FencedAccess {
    /// Access without deployments.
    #[must_use]
    pub(crate) fn new(fences: Fences, uploads: Uploads) -> Self {
        Self {
            fences,
            uploads,
            stale_lock_age: STALE_LOCK_AGE,
            state: Arc::default(),
        }
    }

    /// Gives access as the account of a deployment, with tokens bound to its journal.
    pub(crate) fn grant(&self, bundle: &BundleId, grant: DriftGrant) {
        let granted = Granted {
            grant,
            locked_since: None,
        };
        self.lock().grants.insert(bundle.clone(), granted);
    }

    /// Ends the access of a deployment: its journal may be deleted afterwards.
    pub fn revoke(&self, bundle: &BundleId) {
        let mut state = self.lock();
        state.grants.remove(bundle);
        state.observers.retain(|_, it| it.bundle != *bundle);
    }

    /// Ends the access of all deployments.
    pub fn revoke_all(&self) {
        *self.lock() = State::default();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self, account: &str) -> Option<Arc<dyn ObjectApi>> {
        let state = self.lock();
        let observer = state.observers.get(account)?;
        let is_fresh = observer.made_at.elapsed() < OBSERVER_LIFETIME;
        is_fresh.then(|| observer.client.clone())
    }

    /// A deployment with the account.
    fn granted(&self, account: &AccountName) -> Option<(BundleId, DriftGrant)> {
        let state = self.lock();
        let mut grants = state.grants.iter();
        let found = grants.find(|(_, granted)| granted.grant.account == *account);
        found.map(|(bundle, granted)| (bundle.clone(), granted.grant.clone()))
    }

    /// Client whose token is bound to the journal. A journal that somebody deleted is written again.
    async fn observer_of(
        &self,
        bundle: &BundleId,
        account: &AccountName,
        grant: &DriftGrant,
    ) -> Result<KubeClient, RunFailure> {
        let uid = grant.journal.uid().await;
        let uid = uid.unwrap_or_else(|| grant.journal_uid.clone());
        let refused = match self.fences.observer(bundle, account, &uid).await {
            Err(failure) if failure.code == Code::AccountUnusable => failure,
            other => return other,
        };
        match grant.journal.restore().await {
            Ok(true) => {
                let uid = grant.journal.uid().await.unwrap_or_default();
                self.fences.observer(bundle, account, &uid).await
            }
            Ok(false) => Err(refused),
            Err(failure) => Err(failure),
        }
    }

    fn grant_of(&self, bundle: &BundleId) -> Option<DriftGrant> {
        let state = self.lock();
        state.grants.get(bundle).map(|it| it.grant.clone())
    }

    /// Fence of a correction. A lock that a killed run has left is taken over, and its programs are ended before.
    async fn acquire(
        &self,
        bundle: &BundleId,
        run: &RunId,
        grant: &DriftGrant,
    ) -> Result<RunFence, AccessError> {
        let attempt = FencedAttempt {
            bundle,
            run,
            attempt: 1,
        };
        let record = grant.journal.state().await.record;
        let fence = match self.fences.acquire(attempt, &grant.account).await {
            // A run that lost the contact to its program has released the lock.
            Ok(fence) if !programs_ended(grant.executor.as_ref(), &record).await => {
                release(&self.fences, fence).await;
                let cause = "a program of an earlier run may still work";
                return Err(AccessError::Unavailable(cause.to_owned()));
            }
            Ok(fence) => fence,
            Err(failure) if failure.class != FailureClass::Waiting => {
                return Err(unavailable(&failure));
            }
            Err(_) if self.is_stale(bundle) => {
                self.end_earlier_runs(bundle, grant, &record).await?;
                let acquired = self.fences.acquire(attempt, &grant.account).await;
                acquired.map_err(|_| AccessError::Busy)?
            }
            Err(_) => return Err(AccessError::Busy),
        };
        if let Some(granted) = self.lock().grants.get_mut(bundle) {
            granted.locked_since = None;
        }
        Ok(fence)
    }

    async fn end_earlier_runs(
        &self,
        bundle: &BundleId,
        grant: &DriftGrant,
        record: &JournalRecord,
    ) -> Result<(), AccessError> {
        let (executor, account) = (grant.executor.as_ref(), Some(&grant.account));
        let ended = end_earlier_runs(&self.fences, executor, bundle, account, record);
        ended.await.map_err(|error| unavailable(&error))
    }

    /// True if the lock of another run has been there for long.
    fn is_stale(&self, bundle: &BundleId) -> bool {
        let mut state = self.lock();
        let Some(grant) = state.grants.get_mut(bundle) else {
            return false;
        };
        let since = *grant.locked_since.get_or_insert_with(Instant::now);
        since.elapsed() >= self.stale_lock_age
    }
}

#[async_trait]
impl DriftAccess for FencedAccess {
    async fn observer(&self, account: &str) -> Result<Arc<dyn ObjectApi>, AccessError> {
        if let Some(client) = self.cached(account) {
            return Ok(client);
        }
        let name = AccountName::parse(account).map_err(|error| unavailable(&error))?;
        let no_deployment = || AccessError::Unavailable(format!("no deployment uses {account}"));
        let (bundle, grant) = self.granted(&name).ok_or_else(no_deployment)?;
        let client = self.observer_of(&bundle, &name, &grant).await;
        let client = client.map_err(|error| unavailable(&error))?;
        let client: Arc<dyn ObjectApi> = Arc::new(ObserverClient {
            client,
            account: account.to_owned(),
            state: self.state.clone(),
        });
        let observer = Observer {
            client: client.clone(),
            bundle,
            made_at: Instant::now(),
        };
        self.lock().observers.insert(account.to_owned(), observer);
        Ok(client)
    }

    async fn begin_correction(
        &self,
        bundle: &BundleId,
        objects: &[DriftedObject],
    ) -> Result<Box<dyn CorrectionRun>, AccessError> {
        let grant = self.grant_of(bundle).ok_or(AccessError::Busy)?;
        let now = OffsetDateTime::now_utc();
        let run = new_run_id(now);
        let fence = self.acquire(bundle, &run, &grant).await?;
        let generation = grant.generation;
        let ticket = (!objects.is_empty()).then(|| {
            let registration = AgentRun {
                bundle: bundle.clone(),
                kind: RunKind::Sync,
                origin: RunOrigin::Drift,
                generation,
                attempt: 1,
                started_at: now,
            };
            self.uploads.begin(run.clone(), registration)
        });
        if let Some(ticket) = &ticket {
            for object in objects {
                let fields = object.fields.join(", ");
                let manager = object.manager.as_deref().unwrap_or("nobody");
                let line = format!("{}: {fields} changed by {manager}", object.object);
                ticket.log().line(&line);
            }
        }
        Ok(Box::new(FencedCorrection {
            ticket,
            client: Arc::new(fence.kube.clone()),
            fence: Some(fence),
            fences: self.fences.clone(),
            run,
        }))
    }
}

fn unavailable(failure: &RunFailure) -> AccessError {
    AccessError::Unavailable(failure.sentence.clone())
}

/// A correction behind the lock of its deployment.
struct FencedCorrection {
    client: Arc<dyn ObjectApi>,
    /// None once it has ended.
    fence: Option<RunFence>,
    fences: Fences,
    run: RunId,
    /// None if only ownership is taken back.
    ticket: Option<RunTicket>,
}

#[async_trait]
impl CorrectionRun for FencedCorrection {
    fn api(&self) -> Arc<dyn ObjectApi> {
        self.client.clone()
    }

    async fn end(mut self: Box<Self>, outcome: CorrectionOutcome, sentence: &str) -> Option<RunId> {
        info!(run = %self.run, ?outcome, sentence, "correction ended");
        if let Some(fence) = self.fence.take() {
            release(&self.fences, fence).await;
        }
        let ticket = self.ticket.take()?;
        match outcome {
            CorrectionOutcome::Corrected => ticket.succeed(Some(sentence.to_owned()), None),
            CorrectionOutcome::Incomplete => {
                let class = FailureClass::Retry;
                ticket.fail(&RunFailure::new(class, Code::ObjectRefused, sentence));
            }
        }
        Some(self.run.clone())
    }
}

/// A correction that was dropped must not keep its lock.
impl Drop for FencedCorrection {
    fn drop(&mut self) {
        if let Some(fence) = self.fence.take() {
            let fences = self.fences.clone();
            tokio::spawn(async move { release(&fences, fence).await });
        }
    }
}

async fn release(fences: &Fences, fence: RunFence) {
    if let Err(error) = fences.release(fence).await {
        warn!(%error, "lock of a correction not released");
    }
}

/// Client of an observer. A refused token is not used again.
struct ObserverClient {
    client: KubeClient,
    account: String,
    state: Arc<Mutex<State>>,
}

impl ObserverClient {
    fn noted<T>(&self, answer: Result<T, KubeError>) -> Result<T, KubeError> {
        if let Err(error) = &answer
            && error.status() == Some(401)
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.observers.remove(&self.account);
        }
        answer
    }
}

#[async_trait]
impl ObjectApi for ObserverClient {
    async fn get(&self, path: &str) -> Result<Option<Value>, KubeError> {
        self.noted(ObjectApi::get(&self.client, path).await)
    }

    async fn list(&self, path: &str, query: &Query) -> Result<Option<ObjectList>, KubeError> {
        self.noted(ObjectApi::list(&self.client, path, query).await)
    }

    async fn apply(
        &self,
        path: &str,
        manager: &str,
        dry_run: bool,
        object: &Value,
    ) -> Result<Value, KubeError> {
        self.noted(ObjectApi::apply(&self.client, path, manager, dry_run, object).await)
    }

    async fn create(&self, path: &str, object: &Value) -> Result<Value, KubeError> {
        self.noted(ObjectApi::create(&self.client, path, object).await)
    }

    async fn json_patch(&self, path: &str, patch: &Value) -> Result<Value, KubeError> {
        self.noted(ObjectApi::json_patch(&self.client, path, patch).await)
    }

    async fn delete(&self, path: &str, uid: &str) -> Result<(), KubeError> {
        self.noted(ObjectApi::delete(&self.client, path, uid).await)
    }

    async fn watch(
        &self,
        path: &str,
        query: &Query,
        resource_version: &str,
    ) -> Result<Box<dyn EventStream>, KubeError> {
        self.noted(ObjectApi::watch(&self.client, path, query, resource_version).await)
    }
}

#[cfg(test)]
mod tests;
