//! Reconciler of Git repositories. It compares desired with actual state instead of following
//! events, so a hub that ends in between misses nothing. Of several hubs on one database one does
//! this.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fairlead_api::Failure;
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
    GitServer, GitTrouble, MadeRepo, RepoOwner, WantedRepo,
    plans::{Plans, Question, Seen},
    state::state_after,
};
use crate::{hub::Hub, registry::template_of};

/// Maximum number of concurrent server calls.
const AT_ONCE: usize = 8;
const DEADLINE: Duration = Duration::from_secs(30);
/// Changes within this time are processed together.
const GATHER: Duration = Duration::from_millis(300);
/// Interval at which a standby hub checks that the active one is alive.
const STAND_BY: Duration = Duration::from_secs(5);

/// Never returns.
pub(super) async fn keep(hub: &Arc<Hub>) {
    loop {
        if hub.store.leads() {
            Keeper::new(Arc::clone(hub)).work().await;
        }
        sleep(STAND_BY).await;
    }
}

struct Keeper {
    hub: Arc<Hub>,
    plans: Plans,
    asking: JoinSet<Asked>,
}

/// Result of one server call.
struct Asked {
    owner: RepoOwner,
    of: String,
    /// Hash of the desired repository after the call, and its phase.
    came_to: Result<Option<(String, RepoPhase)>, Failure>,
}

impl Keeper {
    fn new(hub: Arc<Hub>) -> Self {
        Keeper {
            hub,
            plans: Plans::default(),
            asking: JoinSet::new(),
        }
    }

    /// Returns when another hub becomes responsible.
    async fn work(mut self) {
        let mut revisions = self.hub.store.watch();
        self.look();
        while self.hub.store.leads() {
            self.ask();
            let has_room = self.asking.len() < AT_ONCE;
            let due = self.plans.next().filter(|_| has_room);
            tokio::select! {
                changed = revisions.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(GATHER).await;
                    revisions.mark_unchanged();
                    self.look();
                }
                Some(done) = self.asking.join_next() => {
                    if let Ok(asked) = done {
                        self.note(asked);
                    }
                }
                () = sleep_until(due.unwrap_or(Instant::now() + STAND_BY)) => {}
            }
        }
    }

    /// Refreshes the plans from the store.
    fn look(&mut self) {
        let view = self.hub.store.view();
        for record in view.tenants() {
            let tenant = &record.value;
            let seen = (record.revision, Revision(0));
            let owner = RepoOwner::Tenant(tenant.id.clone());
            self.consider(owner, seen, tenant.repo_state.as_ref(), || {
                WantedRepo::of_tenant(tenant)
            });
        }
        for record in view.clusters() {
            let cluster = &record.value;
            let tenant = view.tenant(&cluster.tenant);
            let seen = (
                record.revision,
                tenant.map_or(Revision(0), |tenant| tenant.revision),
            );
            let owner = RepoOwner::Cluster(cluster.id.clone());
            self.consider(owner, seen, cluster.repo_state.as_ref(), || {
                WantedRepo::of_cluster(cluster, template_of(&view, &cluster.tenant))
            });
        }
        self.plans.retain(|owner| match owner {
            RepoOwner::Tenant(id) => view.tenant(id).is_some(),
            RepoOwner::Cluster(id) => view.cluster(id).is_some(),
        });
    }

    fn consider(
        &mut self,
        owner: RepoOwner,
        seen: Seen,
        known: Option<&RepoState>,
        wanted: impl FnOnce() -> Option<WantedRepo>,
    ) {
        if self.plans.has_seen(&owner, seen) {
            return;
        }
        let servers = &self.hub.git_servers;
        match wanted().filter(|it| servers.of(it).is_some()) {
            Some(wanted) => self.plans.want(wanted, seen, known),
            None => self.plans.forget(&owner),
        }
    }

    /// Starts the calls that are due, up to the limit.
    fn ask(&mut self) {
        let room = AT_ONCE.saturating_sub(self.asking.len());
        for Question { wanted, of } in self.plans.take_due(room) {
            let hub = Arc::clone(&self.hub);
            let owner = wanted.owner.clone();
            self.asking.spawn(async move {
                let came_to = ensure(&hub, wanted, &of).await;
                Asked { owner, of, came_to }
            });
        }
    }

    fn note(&mut self, asked: Asked) {
        let came_to = asked.came_to.unwrap_or_else(|failure| {
            warn!(owner = %asked.owner, %failure, "what became of a repository cannot be written down now");
            None
        });
        self.plans.note(asked.owner, &asked.of, came_to);
    }
}

/// Calls the server and records the result, if the repository is still desired in that form.
async fn ensure(
    hub: &Arc<Hub>,
    wanted: WantedRepo,
    of: &str,
) -> Result<Option<(String, RepoPhase)>, Failure> {
    let Some(server) = hub.git_servers.of(&wanted) else {
        return Ok(None);
    };
    let said = said_by(server.as_ref(), &wanted).await;
    let url = said.as_ref().map(|made| &made.url);
    info!(owner = %wanted.owner, server = server.name(), said = ?url, "repository asked for");
    let came = Came {
        of: of.to_owned(),
        said,
        at: whole_millis(hub.now()),
    };
    let decide = move |draft: &mut Draft| settle(draft, &wanted.owner, &came);
    Ok(hub.store.change(Actor::Hub, decide).await?.value)
}

/// Calls the server with a deadline. A panic counts as a failure that may be retried.
async fn said_by(server: &dyn GitServer, wanted: &WantedRepo) -> Result<MadeRepo, GitTrouble> {
    let asked = AssertUnwindSafe(async { server.ensure(wanted).await }).catch_unwind();
    let name = server.name();
    let detail = match timeout(DEADLINE, asked).await {
        Ok(Ok(said)) => return said,
        // The panic message is omitted: viewers of the repository must not see it.
        Ok(Err(_)) => format!("asking {name} panicked, a bug of this hub whose log says more"),
        Err(_) => format!("{name} has not answered within {} s", DEADLINE.as_secs()),
    };
    Err(GitTrouble::Away(detail))
}

/// `None` if another repository or none is desired by now.
fn settle(
    draft: &mut Draft,
    owner: &RepoOwner,
    came: &Came,
) -> Result<Option<(String, RepoPhase)>, StoreError> {
    match owner {
        RepoOwner::Tenant(id) => {
            let Some(mut tenant) = draft.tenant(id).map(|it| it.value.clone()) else {
                return Ok(None);
            };
            let then = came.write(&mut tenant, WantedRepo::of_tenant, |it| {
                (&mut it.git_repo, &mut it.repo_state)
            });
            draft.put_tenant(tenant)?;
            Ok(then)
        }
        RepoOwner::Cluster(id) => {
            let Some(mut cluster) = draft.cluster(id).map(|it| it.value.clone()) else {
                return Ok(None);
            };
            let template = template_of(draft, &cluster.tenant);
            let wanted = |it: &Cluster| WantedRepo::of_cluster(it, template);
            let then = came.write(&mut cluster, wanted, |it| {
                (&mut it.git_repo, &mut it.repo_state)
            });
            draft.put_cluster(cluster)?;
            Ok(then)
        }
    }
}

/// Answer of a server for the desired repository with hash `of`.
struct Came {
    of: String,
    said: Result<MadeRepo, GitTrouble>,
    at: OffsetDateTime,
}

impl Came {
    /// Writes the status into the owner's record, and fills fields that only the server knows. If
    /// that fills the URL, the hash of the desired repository changes.
    fn write<T>(
        &self,
        owner: &mut T,
        wanted: impl Fn(&T) -> Option<WantedRepo>,
        parts: impl Fn(&mut T) -> (&mut Option<GitRepo>, &mut Option<RepoState>),
    ) -> Option<(String, RepoPhase)> {
        let before = wanted(owner).filter(|it| it.hash() == self.of)?;
        if let Ok(made) = &self.said {
            let (repo, _) = parts(owner);
            if before.url.is_none() {
                repo.get_or_insert_default().url = Some(made.url.clone());
            }
            // The host keys of a template's URL belong to the template.
            if let Some(own) = repo.as_mut().filter(|own| own.url.is_some()) {
                own.host_keys = own.host_keys.take().or_else(|| made.host_keys.clone());
            }
        }
        let then = wanted(owner)?.hash();
        let (_, state) = parts(owner);
        let next = state_after(state.as_ref(), &then, &self.said, self.at);
        let phase = next.phase;
        *state = Some(next);
        Some((then, phase))
    }
}
