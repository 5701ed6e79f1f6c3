//! Reconciler of Git repositories. It compares desired with actual state instead of following
//! events, so a hub that ends in between misses nothing. Of several hubs on one database one does
//! this.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fairlead_api::Failure;
use fairlead_registry::template_of;
use fairlead_store::{
    Actor, Draft, Revision, StoreError,
    model::{Cluster, GitRepo, RepoPhase, RepoState},
    whole_millis,
};
use futures_util::FutureExt;
use time::OffsetDateTime;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{info, warn};

use super::{
    DesiredRepo, GitServer, GitServerError, RepoOwner, ReportedRepo, Repositories,
    plans::{Call, Plans, Sources},
    state::state_after,
};

/// Maximum number of concurrent server calls.
const MAX_CONCURRENT_CALLS: usize = 8;
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// Changes within this time are processed together.
const BATCH_DELAY: Duration = Duration::from_millis(300);
/// Interval at which a standby hub checks that the active one is alive.
const STANDBY_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Never returns.
pub(super) async fn run(repositories: &Arc<Repositories>) {
    loop {
        if repositories.store.leads() {
            Reconciler::new(Arc::clone(repositories)).reconcile().await;
        }
        sleep(STANDBY_POLL_INTERVAL).await;
    }
}

struct Reconciler {
    repositories: Arc<Repositories>,
    plans: Plans,
    calls: JoinSet<Completed>,
}

/// Result of one server call.
struct Completed {
    owner: RepoOwner,
    of: String,
    /// Hash of the desired repository after the call, and its phase.
    outcome: Result<Option<(String, RepoPhase)>, Failure>,
}

impl Reconciler {
    fn new(repositories: Arc<Repositories>) -> Self {
        Reconciler {
            repositories,
            plans: Plans::default(),
            calls: JoinSet::new(),
        }
    }

    /// Returns when another hub becomes responsible.
    async fn reconcile(mut self) {
        let mut revisions = self.repositories.store.watch();
        self.refresh();
        while self.repositories.store.leads() {
            self.start_calls();
            let has_capacity = self.calls.len() < MAX_CONCURRENT_CALLS;
            let due = self.plans.next().filter(|_| has_capacity);
            tokio::select! {
                changed = revisions.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(BATCH_DELAY).await;
                    revisions.mark_unchanged();
                    self.refresh();
                }
                Some(done) = self.calls.join_next() => {
                    if let Ok(completed) = done {
                        self.complete(completed);
                    }
                }
                () = sleep_until(due.unwrap_or(Instant::now() + STANDBY_POLL_INTERVAL)) => {}
            }
        }
    }

    /// Refreshes the plans from the store.
    fn refresh(&mut self) {
        let view = self.repositories.store.view();
        for record in view.tenants() {
            let tenant = &record.value;
            let sources = (record.revision, Revision(0));
            let owner = RepoOwner::Tenant(tenant.id.clone());
            self.plan(owner, sources, tenant.repo_state.as_ref(), || {
                DesiredRepo::of_tenant(tenant)
            });
        }
        for record in view.clusters() {
            let cluster = &record.value;
            let tenant = view.tenant(&cluster.tenant);
            let sources = (
                record.revision,
                tenant.map_or(Revision(0), |tenant| tenant.revision),
            );
            let owner = RepoOwner::Cluster(cluster.id.clone());
            self.plan(owner, sources, cluster.repo_state.as_ref(), || {
                DesiredRepo::of_cluster(cluster, template_of(&view, &cluster.tenant))
            });
        }
        self.plans.retain(|owner| match owner {
            RepoOwner::Tenant(id) => view.tenant(id).is_some(),
            RepoOwner::Cluster(id) => view.cluster(id).is_some(),
        });
    }

    fn plan(
        &mut self,
        owner: RepoOwner,
        sources: Sources,
        known: Option<&RepoState>,
        desired: impl FnOnce() -> Option<DesiredRepo>,
    ) {
        if self.plans.is_planned(&owner, sources) {
            return;
        }
        let servers = &self.repositories.git_servers;
        match desired().filter(|it| servers.of(it).is_some()) {
            Some(desired) => self.plans.add(desired, sources, known),
            None => self.plans.forget(&owner),
        }
    }

    /// Starts the calls that are due, up to the limit.
    fn start_calls(&mut self) {
        let capacity = MAX_CONCURRENT_CALLS.saturating_sub(self.calls.len());
        for Call { desired, of } in self.plans.take_due(capacity) {
            let repositories = Arc::clone(&self.repositories);
            let owner = desired.owner.clone();
            self.calls.spawn(async move {
                let outcome = ensure(&repositories, desired, &of).await;
                Completed { owner, of, outcome }
            });
        }
    }

    fn complete(&mut self, completed: Completed) {
        let outcome = completed.outcome.unwrap_or_else(|failure| {
            warn!(owner = %completed.owner, %failure, "repository status not recorded");
            None
        });
        self.plans.complete(completed.owner, &completed.of, outcome);
    }
}

/// Calls the server and records the result, if the repository is still desired in that form.
async fn ensure(
    repositories: &Arc<Repositories>,
    desired: DesiredRepo,
    of: &str,
) -> Result<Option<(String, RepoPhase)>, Failure> {
    let Some(server) = repositories.git_servers.of(&desired) else {
        return Ok(None);
    };
    let result = call(server.as_ref(), &desired).await;
    let url = result.as_ref().map(|made| &made.url);
    info!(owner = %desired.owner, server = server.name(), result = ?url, "repository requested");
    let answer = ServerAnswer {
        of: of.to_owned(),
        result,
        at: whole_millis(repositories.clock.now()),
    };
    let decide = move |draft: &mut Draft| settle(draft, &desired.owner, &answer);
    Ok(repositories.store.change(Actor::Hub, decide).await?.value)
}

/// Calls the server with a deadline. A panic counts as a failure that may be retried.
async fn call(
    server: &dyn GitServer,
    desired: &DesiredRepo,
) -> Result<ReportedRepo, GitServerError> {
    let completed = AssertUnwindSafe(async { server.ensure(desired).await }).catch_unwind();
    let name = server.name();
    let detail = match timeout(CALL_DEADLINE, completed).await {
        Ok(Ok(result)) => return result,
        // The panic message is omitted: viewers of the repository must not see it.
        Ok(Err(_)) => format!("the client of {name} panicked; see the hub's log"),
        Err(_) => format!("{name} did not answer within {} s", CALL_DEADLINE.as_secs()),
    };
    Err(GitServerError::Unavailable(detail))
}

/// `None` if another repository or none is desired by now.
fn settle(
    draft: &mut Draft,
    owner: &RepoOwner,
    answer: &ServerAnswer,
) -> Result<Option<(String, RepoPhase)>, StoreError> {
    match owner {
        RepoOwner::Tenant(id) => {
            let Some(mut tenant) = draft.tenant(id).map(|it| it.value.clone()) else {
                return Ok(None);
            };
            let hash = answer.write(&mut tenant, DesiredRepo::of_tenant, |it| {
                (&mut it.git_repo, &mut it.repo_state)
            });
            draft.put_tenant(tenant)?;
            Ok(hash)
        }
        RepoOwner::Cluster(id) => {
            let Some(mut cluster) = draft.cluster(id).map(|it| it.value.clone()) else {
                return Ok(None);
            };
            let template = template_of(draft, &cluster.tenant);
            let desired = |it: &Cluster| DesiredRepo::of_cluster(it, template);
            let hash = answer.write(&mut cluster, desired, |it| {
                (&mut it.git_repo, &mut it.repo_state)
            });
            draft.put_cluster(cluster)?;
            Ok(hash)
        }
    }
}

/// ServerAnswer of a server for the desired repository with hash `of`.
struct ServerAnswer {
    of: String,
    result: Result<ReportedRepo, GitServerError>,
    at: OffsetDateTime,
}

impl ServerAnswer {
    /// Writes the status into the owner's record, and fills fields that only the server knows. If
    /// that fills the URL, the hash of the desired repository changes.
    fn write<T>(
        &self,
        owner: &mut T,
        desired: impl Fn(&T) -> Option<DesiredRepo>,
        parts: impl Fn(&mut T) -> (&mut Option<GitRepo>, &mut Option<RepoState>),
    ) -> Option<(String, RepoPhase)> {
        let before = desired(owner).filter(|it| it.hash() == self.of)?;
        if let Ok(made) = &self.result {
            let (repo, _) = parts(owner);
            if before.url.is_none() {
                repo.get_or_insert_default().url = Some(made.url.clone());
            }
            // The host keys of a template's URL belong to the template.
            if let Some(own) = repo.as_mut().filter(|own| own.url.is_some()) {
                own.host_keys = own.host_keys.take().or_else(|| made.host_keys.clone());
            }
        }
        let hash = desired(owner)?.hash();
        let (_, state) = parts(owner);
        let next = state_after(state.as_ref(), &hash, &self.result, self.at);
        let phase = next.phase;
        *state = Some(next);
        Some((hash, phase))
    }
}
