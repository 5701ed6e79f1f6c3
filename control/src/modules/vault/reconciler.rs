//! Reconciler of the access to Vault. It compares desired with actual state instead of following
//! events, so a hub that ends in between misses nothing. Of several hubs on one database one does
//! this.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fairlead_api::{ClusterId, Failure};
use fairlead_registry::retire_vault_access;
use fairlead_store::{
    Actor, Draft, Revision, StoreError, View,
    model::{Cluster, DeletionPolicy, VaultNames},
    whole_millis,
};
use fairlead_vault::{SecretAccess, VaultError};
use time::OffsetDateTime;
use tokio::{task::JoinSet, time::Instant};
use tracing::{info, warn};

use super::{
    VaultParts,
    desired::{PlannedAccess, names, planned_access},
    retired,
    schedule::{DueWork, Schedule, Work, WorkOutcome},
    state::{begun, state_after},
};
use crate::reconciling::{self, CALL_DEADLINE, CallFailure, Reconciling};

/// Maximum number of concurrent requests.
const MAX_CONCURRENT_CALLS: usize = 4;

/// Never returns.
pub(super) async fn run(parts: &Arc<VaultParts>, access: &Arc<dyn SecretAccess>) {
    let new = || Reconciler {
        parts: Arc::clone(parts),
        access: Arc::clone(access),
        schedule: Schedule::default(),
        calls: JoinSet::new(),
        planned: BTreeMap::new(),
    };
    reconciling::run(&parts.store, new).await;
}

struct Reconciler {
    parts: Arc<VaultParts>,
    access: Arc<dyn SecretAccess>,
    schedule: Schedule,
    calls: JoinSet<(DueWork, WorkOutcome)>,
    /// Revision of each cluster's record when it was planned.
    planned: BTreeMap<ClusterId, Revision>,
}

impl Reconciling for Reconciler {
    const MAX_CONCURRENT_CALLS: usize = MAX_CONCURRENT_CALLS;
    const BATCH_DELAY: Duration = Duration::from_millis(500);
    type Completed = (DueWork, WorkOutcome);

    fn calls(&mut self) -> &mut JoinSet<Self::Completed> {
        &mut self.calls
    }

    fn next(&self) -> Option<Instant> {
        self.schedule.next()
    }

    fn complete(&mut self, (work, outcome): Self::Completed) {
        self.schedule.complete(&work, outcome);
    }

    fn refresh(&mut self) {
        let view = self.parts.store.view();
        for record in view.retired_vault_accesses() {
            let work = Work::Retire(record.value.id.clone());
            self.schedule
                .plan(work, &record.value.names.mount, "", false);
        }
        for record in view.clusters() {
            let cluster = &record.value;
            if self.planned.get(&cluster.id) == Some(&record.revision) {
                continue;
            }
            self.planned.insert(cluster.id.clone(), record.revision);
            self.plan(cluster);
        }
        self.planned.retain(|id, _| view.cluster(id).is_some());
        self.schedule.retain(|work| match work {
            Work::Retire(id) => view.retired_vault_access(id).is_some(),
            Work::Ensure(id) => view.cluster(id).is_some(),
        });
    }

    fn start_calls(&mut self) {
        while self.calls.len() < MAX_CONCURRENT_CALLS {
            let Some(due) = self.schedule.take_due() else {
                return;
            };
            let (parts, access) = (Arc::clone(&self.parts), Arc::clone(&self.access));
            self.calls.spawn(async move {
                let done = match &due.work {
                    Work::Retire(id) => retired::remove(&parts, access.as_ref(), id).await,
                    Work::Ensure(id) => ensure(&parts, access.as_ref(), id).await,
                };
                let outcome = done.unwrap_or_else(|failure| {
                    warn!(work = ?due.work, %failure, "access to vault not recorded");
                    WorkOutcome::Failed(None)
                });
                (due, outcome)
            });
        }
    }
}

impl Reconciler {
    fn plan(&mut self, cluster: &Cluster) {
        let work = Work::Ensure(cluster.id.clone());
        let names = names(self.access.as_ref(), cluster);
        let known = cluster.vault.as_ref();
        let is_moved = known.is_some_and(|it| it.names != names);
        match planned_access(self.access.as_ref(), cluster) {
            Ok(planned) => {
                let is_done = known.is_some_and(|it| it.of == planned.of && it.reason.is_none());
                // A later cluster with the same id and keys is another one: the parts of the first end.
                let of = format!("{} {}", planned.of, cluster.created);
                self.schedule.plan(work, &names.mount, &of, is_done);
            }
            // The parts of the former tenant end without new keys, too.
            Err(_) if is_moved => self.schedule.plan(work, &names.mount, "", false),
            Err(_) => self.schedule.forget(&work),
        }
    }
}

/// Requests the access of a cluster, and records the result if it is still desired.
async fn ensure(
    parts: &VaultParts,
    access: &dyn SecretAccess,
    id: &ClusterId,
) -> Result<WorkOutcome, Failure> {
    let now = || whole_millis(parts.clock.now());
    let Some(cluster) = begin(parts, access, id, now()).await? else {
        return Ok(WorkOutcome::Failed(None));
    };
    let Ok(planned) = planned_access(access, &cluster) else {
        return Ok(WorkOutcome::Done);
    };
    let result = with_deadline(access.ensure(&planned.desired)).await;
    match &result {
        Ok(corrected) => info!(cluster = %id, ?corrected, "access to vault checked"),
        Err(error) => warn!(cluster = %id, %error, "access to vault not checked"),
    }
    let outcome = outcome_of(&result);
    let (view, at) = (parts.store.view(), now());
    let is_repeated = view.cluster(id).is_some_and(|record| {
        let state = record.value.vault.as_deref();
        state.is_some_and(|state| state_after(state, &planned.of, &result, at) == *state)
    });
    if !is_repeated {
        let names = access.names(&cluster.tenant, id);
        let id = id.clone();
        let decide = move |draft: &mut Draft| settle(draft, &id, (&names, &planned), &result, at);
        parts.store.change(Actor::Hub, decide).await?;
    }
    Ok(outcome)
}

/// Records the names of the parts before the first request, so that they are removed later in any case,
/// and retires the parts of a former tenant or setting. `None` while an earlier cluster has the names.
async fn begin(
    parts: &VaultParts,
    access: &dyn SecretAccess,
    id: &ClusterId,
    now: OffsetDateTime,
) -> Result<Option<Cluster>, Failure> {
    let view = parts.store.view();
    let Some(record) = view.cluster(id) else {
        return Ok(None);
    };
    let cluster = record.value.clone();
    let names = names(access, &cluster);
    if is_retiring(&view, &names) {
        return Ok(None);
    }
    if cluster.vault.as_ref().is_some_and(|it| it.names == names) {
        return Ok(Some(cluster));
    }
    let decide = move |draft: &mut Draft| begin_in(draft, &cluster, &names, now);
    Ok(parts.store.change(Actor::Hub, decide).await?.value)
}

fn begin_in(
    draft: &mut Draft,
    seen: &Cluster,
    names: &VaultNames,
    now: OffsetDateTime,
) -> Result<Option<Cluster>, StoreError> {
    let record = draft.cluster(&seen.id).map(|it| it.value.clone());
    let same = record.filter(|it| it.tenant == seen.tenant && it.created == seen.created);
    let Some(mut cluster) = same.filter(|_| !is_retiring(draft, names)) else {
        return Ok(None);
    };
    if let Some(former) = cluster.vault.take().filter(|it| it.names != *names) {
        // The cluster lives on, so its secrets are not the hub's to delete.
        let policy = DeletionPolicy::Retain;
        retire_vault_access(draft, &cluster.id, &former.names, policy, now);
    }
    cluster.vault = Some(Box::new(begun(names.clone(), now)));
    draft.put_cluster(cluster.clone())?;
    Ok(Some(cluster))
}

/// True while parts of these names are to be removed.
fn is_retiring(view: &View, names: &VaultNames) -> bool {
    view.retired_vault_accesses().any(|record| {
        let retired = &record.value.names;
        retired.mount == names.mount || retired.policy == names.policy
    })
}

/// Writes the status, unless something else is desired by now.
fn settle(
    draft: &mut Draft,
    id: &ClusterId,
    (names, planned): (&VaultNames, &PlannedAccess),
    result: &Result<Vec<String>, VaultError>,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let cluster = draft.cluster(id).map(|it| it.value.clone());
    let Some(mut cluster) = cluster else {
        return Ok(());
    };
    if let Some(state) = cluster.vault.take_if(|it| it.names == *names) {
        let state = state_after(&state, &planned.of, result, now);
        cluster.vault = Some(Box::new(state));
        draft.put_cluster(cluster)?;
    }
    Ok(())
}

pub(super) fn outcome_of<T>(result: &Result<T, VaultError>) -> WorkOutcome {
    match result {
        Ok(_) => WorkOutcome::Done,
        Err(VaultError::Throttled { wait }) => WorkOutcome::Failed(Some(*wait)),
        Err(_) => WorkOutcome::Failed(None),
    }
}

/// Waits for Vault up to a deadline. A panic counts as a failure that may be retried.
pub(super) async fn with_deadline<T>(
    called: impl Future<Output = Result<T, VaultError>>,
) -> Result<T, VaultError> {
    let cause = match reconciling::with_deadline(called).await {
        Ok(result) => return result,
        Err(CallFailure::Panicked) => "its client panicked; see the hub's log".to_owned(),
        Err(CallFailure::Late) => format!("no answer within {} s", CALL_DEADLINE.as_secs()),
    };
    Err(VaultError::Away(cause))
}
