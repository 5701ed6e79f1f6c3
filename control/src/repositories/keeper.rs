//! Has servers make repositories, each as it is wanted now. It goes by what is wanted, never by what has happened, so nothing
//! is missed where a hub ends between the two; of several hubs on one database one does this.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fairlead_api::Failure;
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
};
use crate::{
    hub::Hub,
    model::{Cluster, GitRepo, RepoPhase, RepoState},
    registry::template_of,
    store::{Actor, Draft, Revision, StoreError, whole_millis},
};

/// How many servers are asked at once.
const AT_ONCE: usize = 8;
const DEADLINE: Duration = Duration::from_secs(30);
/// Changes that come within this time are looked at together.
const GATHER: Duration = Duration::from_millis(300);
/// How often a hub that has left this to another one looks whether that is still there.
const STAND_BY: Duration = Duration::from_secs(5);

/// Forever.
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

/// A server was asked for a repository.
struct Asked {
    owner: RepoOwner,
    of: String,
    /// The name of what is wanted then, and whether it is there.
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

    /// Until another hub does it.
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

    /// Takes in what is wanted.
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

    /// Asks for what is due, as many at once as may be.
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

/// Has a repository made and writes down what came of it, if it is still wanted like that.
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

/// In time or not; one that panics has failed, too, and may do better the next time.
async fn said_by(server: &dyn GitServer, wanted: &WantedRepo) -> Result<MadeRepo, GitTrouble> {
    let asked = AssertUnwindSafe(async { server.ensure(wanted).await }).catch_unwind();
    let name = server.name();
    let detail = match timeout(DEADLINE, asked).await {
        Ok(Ok(said)) => return said,
        // Not what it panicked with: people see this who may not see that.
        Ok(Err(_)) => format!("asking {name} panicked, a bug of this hub whose log says more"),
        Err(_) => format!("{name} has not answered within {} s", DEADLINE.as_secs()),
    };
    Err(GitTrouble::Away(detail))
}

/// None where another one is wanted by now, or none.
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

/// What a server has said of the repository that is named `of`.
struct Came {
    of: String,
    said: Result<MadeRepo, GitTrouble>,
    at: OffsetDateTime,
}

impl Came {
    /// Into the owner's record: how it stands with its repository, and what its server alone could say of it. What is wanted
    /// has another name then, if its URL was not known.
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
            // Those of a template's URL are the template's.
            if let Some(own) = repo.as_mut().filter(|own| own.url.is_some()) {
                own.host_keys = own.host_keys.take().or_else(|| made.host_keys.clone());
            }
        }
        let then = wanted(owner)?.hash();
        let (_, state) = parts(owner);
        let next = RepoState::after(state.as_ref(), &then, &self.said, self.at);
        let phase = next.phase;
        *state = Some(next);
        Some((then, phase))
    }
}
