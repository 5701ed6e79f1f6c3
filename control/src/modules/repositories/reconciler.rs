//! Reconciler of Git repositories. It compares desired with actual state instead of following
//! events, so a hub that ends in between misses nothing. Of several hubs on one database one does
//! this.

use std::{sync::Arc, time::Duration};

use fairlead_api::Failure;
use fairlead_registry::template_of;
use fairlead_repositories::{
    DesiredRepo, GitServer, GitServerError, KnownRepo, RepoOwner, ReportedRepo,
};
use fairlead_store::{
    Actor, Draft, Revision, StoreError, View,
    model::{Cluster, GitRepo, RepoState, Tenant},
    whole_millis,
};
use time::OffsetDateTime;
use tokio::{task::JoinSet, time::Instant};
use tracing::{info, warn};

use super::{
    Repositories,
    desired::{desired_of_cluster, desired_of_tenant, hash_of},
    host_keys::host_keys_of,
    opened::secrets_of,
    pipeline,
    plans::{Call, CallOutcome, Plans, Sources},
    state::{DesiredHashes, creating, state_after},
    tenant_files::is_removed,
};
use crate::reconciling::{self, CALL_DEADLINE, CallFailure, Reconciling};

/// Maximum number of concurrent server calls.
const MAX_CONCURRENT_CALLS: usize = 8;

/// Never returns.
pub(super) async fn run(repositories: &Arc<Repositories>) {
    let new = || Reconciler::new(Arc::clone(repositories));
    reconciling::run(&repositories.store, new).await;
}

struct Reconciler {
    repositories: Arc<Repositories>,
    plans: Plans,
    calls: JoinSet<Completed>,
    /// View of the last refresh.
    planned: Option<Arc<View>>,
}

/// Result of one server call.
struct Completed {
    owner: RepoOwner,
    number: u64,
    outcome: Result<Option<CallOutcome>, Failure>,
}

impl Reconciler {
    fn new(repositories: Arc<Repositories>) -> Self {
        Reconciler {
            repositories,
            plans: Plans::default(),
            calls: JoinSet::new(),
            planned: None,
        }
    }
}

impl Reconciling for Reconciler {
    const MAX_CONCURRENT_CALLS: usize = MAX_CONCURRENT_CALLS;
    const BATCH_DELAY: Duration = Duration::from_millis(300);
    type Completed = Completed;

    fn calls(&mut self) -> &mut JoinSet<Completed> {
        &mut self.calls
    }

    fn next(&self) -> Option<Instant> {
        self.plans.next()
    }

    fn refresh(&mut self) {
        let view = self.repositories.store.view();
        let same_clusters = self.planned.as_ref();
        let same_clusters = same_clusters.is_some_and(|it| it.has_same_clusters(&view));
        for record in view.tenants() {
            let tenant = &record.value;
            // A tenant's files depend on its clusters, and its pipeline on their records.
            let is_same = same_clusters && pipeline::of(tenant).is_none();
            let clusters = match is_same {
                true => Revision(0),
                false => view.revision(),
            };
            let sources = (record.revision, clusters);
            let owner = RepoOwner::Tenant(tenant.id.clone());
            if is_same && self.plans.has_record(&owner, record.revision) {
                continue;
            }
            let api_url = self.repositories.public_url.clone();
            self.plan(owner, sources, tenant.repo_state.as_deref(), || {
                let mut desired = tenant_in(&view, tenant)?;
                pipeline::add(&mut desired, &view, tenant, &api_url);
                Some(desired)
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
            self.plan(owner, sources, cluster.repo_state.as_deref(), || {
                desired_of_cluster(cluster, template_of(&view, &cluster.tenant))
            });
        }
        self.plans.retain(|owner| match owner {
            RepoOwner::Tenant(id) => view.tenant(id).is_some(),
            RepoOwner::Cluster(id) => view.cluster(id).is_some(),
        });
        self.planned = Some(view);
    }

    fn start_calls(&mut self) {
        let capacity = MAX_CONCURRENT_CALLS.saturating_sub(self.calls.len());
        for call in self.plans.take_due(capacity) {
            let repositories = Arc::clone(&self.repositories);
            let (owner, number) = (call.desired.owner.clone(), call.number);
            self.calls.spawn(async move {
                let outcome = ensure(&repositories, call).await;
                Completed {
                    owner,
                    number,
                    outcome,
                }
            });
        }
    }

    fn complete(&mut self, completed: Completed) {
        let outcome = completed.outcome.unwrap_or_else(|failure| {
            warn!(owner = %completed.owner, %failure, "repository status not recorded");
            None
        });
        self.plans
            .complete(completed.owner, completed.number, outcome);
    }
}

impl Reconciler {
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
}

fn tenant_in(view: &View, tenant: &Tenant) -> Option<DesiredRepo> {
    tenant.git_repo.as_ref()?;
    let clusters = view.clusters_of(&tenant.id);
    let clusters: Vec<_> = clusters.map(|it| it.value.id.clone()).collect();
    desired_of_tenant(tenant, clusters.iter())
}

/// Calls the server and records the result, if the repository is still desired in that form.
async fn ensure(
    repositories: &Arc<Repositories>,
    call: Call,
) -> Result<Option<CallOutcome>, Failure> {
    let Call {
        desired, hashes, ..
    } = call;
    let Some(server) = repositories.git_servers.of(&desired) else {
        return Ok(None);
    };
    let now = || whole_millis(repositories.clock.now());
    let known = begin(repositories, &desired, &hashes, now()).await?;
    let called = async {
        let secrets = secrets_of(repositories, &desired)?;
        server.ensure(&desired, &known, &secrets).await
    };
    let mut result = with_deadline(server.as_ref(), called).await;
    if let Ok(made) = &mut result {
        let view = repositories.store.view();
        let keys = || host_keys_of(&view, server.as_ref());
        made.host_keys = made.host_keys.take().or_else(keys);
    }
    let url = result.as_ref().map(|made| &made.url);
    info!(owner = %desired.owner, server = server.name(), result = ?url, "repository requested");
    let answer = ServerAnswer {
        hashes,
        desired,
        result,
        at: now(),
    };
    let decide = move |draft: &mut Draft| settle(draft, &answer);
    Ok(repositories.store.change(Actor::Hub, decide).await?.value)
}

/// Records the first request of a repository, and returns the result of earlier ones.
async fn begin(
    repositories: &Arc<Repositories>,
    desired: &DesiredRepo,
    hashes: &DesiredHashes,
    at: OffsetDateTime,
) -> Result<KnownRepo, Failure> {
    let last = {
        let view = repositories.store.view();
        match &desired.owner {
            RepoOwner::Tenant(id) => view.tenant(id).and_then(|it| it.value.repo_state.clone()),
            RepoOwner::Cluster(id) => view.cluster(id).and_then(|it| it.value.repo_state.clone()),
        }
    };
    if let Some(first) = creating(last.as_deref(), hashes, at) {
        let owner = desired.owner.clone();
        let decide = move |draft: &mut Draft| record_start(draft, &owner, &first);
        repositories.store.change(Actor::Hub, decide).await?;
    }
    Ok(last.map_or_else(KnownRepo::default, |last| KnownRepo {
        url: last.url,
        deploy_keys: last.deploy_keys,
        generated_keys: last.generated_keys,
        files: last.written_files,
        ci_variables: last.ci_variables,
        access_token: last.access_token_id,
    }))
}

/// Writes the status unless the repository has changed meanwhile.
fn record_start(draft: &mut Draft, owner: &RepoOwner, first: &RepoState) -> Result<(), StoreError> {
    match owner {
        RepoOwner::Tenant(id) => {
            let tenant = draft.tenant(id).map(|it| it.value.clone());
            let tenant = tenant.filter(|tenant| {
                let desired = tenant_in(draft, tenant);
                desired.is_some_and(|it| hash_of(&it) == first.of)
            });
            if let Some(mut tenant) = tenant {
                tenant.repo_state = Some(Box::new(first.clone()));
                draft.put_tenant(tenant)?;
            }
        }
        RepoOwner::Cluster(id) => {
            let cluster = draft.cluster(id).map(|it| it.value.clone());
            let cluster = cluster.filter(|cluster| {
                let desired = desired_of_cluster(cluster, template_of(draft, &cluster.tenant));
                desired.is_some_and(|it| hash_of(&it) == first.of)
            });
            if let Some(mut cluster) = cluster {
                cluster.repo_state = Some(Box::new(first.clone()));
                draft.put_cluster(cluster)?;
            }
        }
    }
    Ok(())
}

/// Calls the server with a deadline. A panic counts as a failure that may be retried.
pub(super) async fn with_deadline<T>(
    server: &dyn GitServer,
    called: impl Future<Output = Result<T, GitServerError>>,
) -> Result<T, GitServerError> {
    let name = server.name();
    let detail = match reconciling::with_deadline(called).await {
        Ok(result) => return result,
        Err(CallFailure::Panicked) => {
            format!("the client of {name} panicked; see the hub's log")
        }
        Err(CallFailure::Late) => {
            format!("{name} did not answer within {} s", CALL_DEADLINE.as_secs())
        }
    };
    Err(GitServerError::Unavailable(detail))
}

/// `None` if another repository or none is desired by now.
fn settle(draft: &mut Draft, answer: &ServerAnswer) -> Result<Option<CallOutcome>, StoreError> {
    match &answer.desired.owner {
        RepoOwner::Tenant(id) => {
            let Some(mut tenant) = draft.tenant(id).map(|it| it.value.clone()) else {
                return Ok(None);
            };
            let view: &View = draft;
            let outcome = answer.write(
                &mut tenant,
                |it| tenant_in(view, it),
                |it| (&mut it.git_repo, &mut it.repo_state),
            );
            if outcome.is_some() && answer.result.is_ok() {
                let files = &answer.desired.files;
                tenant.former_clusters.retain(|id| !is_removed(files, id));
                (tenant.compiled_clusters).clone_from(&answer.desired.compiled_clusters);
            }
            draft.put_tenant(tenant)?;
            Ok(outcome)
        }
        RepoOwner::Cluster(id) => {
            let Some(mut cluster) = draft.cluster(id).map(|it| it.value.clone()) else {
                return Ok(None);
            };
            let template = template_of(draft, &cluster.tenant);
            let desired = |it: &Cluster| desired_of_cluster(it, template);
            let outcome = answer.write(&mut cluster, desired, |it| {
                (&mut it.git_repo, &mut it.repo_state)
            });
            draft.put_cluster(cluster)?;
            Ok(outcome)
        }
    }
}

/// Answer of a server for a desired repository.
struct ServerAnswer {
    desired: DesiredRepo,
    hashes: DesiredHashes,
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
        parts: impl Fn(&mut T) -> (&mut Option<Box<GitRepo>>, &mut Option<Box<RepoState>>),
    ) -> Option<CallOutcome> {
        let before = desired(owner).filter(|it| hash_of(it) == self.hashes.of)?;
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
        let hashes = DesiredHashes {
            of: hash_of(&desired(owner)?),
            contents: self.hashes.contents.clone(),
        };
        let (_, state) = parts(owner);
        let next = state_after(state.as_deref(), &hashes, &self.result, self.at);
        *state = Some(Box::new(next));
        Some(CallOutcome {
            of: hashes.of,
            is_done: self.result.as_ref().is_ok_and(|it| it.unmet.is_empty()),
            wait: match &self.result {
                Err(GitServerError::Throttled { wait, .. }) => Some(*wait),
                _ => None,
            },
        })
    }
}
