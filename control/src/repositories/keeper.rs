//! Has servers make repositories, each as it is wanted now. It goes by what is wanted, never by what has happened, so nothing
//! is missed where a hub ends between the two; of several hubs on one database one does this.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fairlead_api::Failure;
use time::OffsetDateTime;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{info, warn};

use super::{GitTrouble, MadeRepo, RepoOwner, WantedRepo};
use crate::{
    hub::Hub,
    model::{Cluster, GitRepo, RepoPhase, RepoState},
    random,
    registry::template_of,
    store::{Actor, Draft, Revision, StoreError, whole_millis},
};

/// How many servers are asked at once.
const AT_ONCE: usize = 8;
const DEADLINE: Duration = Duration::from_secs(30);
/// Changes that come within this time are looked at together.
const GATHER: Duration = Duration::from_millis(300);
/// When a server is asked again that had no good word; twice as late each time.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(600);
/// When it is asked whether all is still as it was: people work on it, too.
const AGAIN: Duration = Duration::from_secs(3600);
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
    plans: BTreeMap<RepoOwner, Plan>,
    queue: BTreeSet<(Instant, RepoOwner)>,
    busy: BTreeSet<RepoOwner>,
    asking: JoinSet<Asked>,
}

/// What is to be done about one repository, and when.
struct Plan {
    /// Of the changes that wrote its owner's record and the template's.
    seen: (Revision, Revision),
    of: String,
    wanted: WantedRepo,
    due: Instant,
    misses: u32,
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
            plans: BTreeMap::new(),
            queue: BTreeSet::new(),
            busy: BTreeSet::new(),
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
            // One whose server is being asked waits for that, however long it is due.
            let mut idle = (self.queue.iter()).filter(|(_, owner)| !self.busy.contains(owner));
            let due = idle.next().map(|(due, _)| *due).filter(|_| has_room);
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
        let is_gone = |owner: &&RepoOwner| match owner {
            RepoOwner::Tenant(id) => view.tenant(id).is_none(),
            RepoOwner::Cluster(id) => view.cluster(id).is_none(),
        };
        let gone: Vec<RepoOwner> = self.plans.keys().filter(is_gone).cloned().collect();
        for owner in gone {
            self.drop_plan(&owner);
        }
    }

    fn consider(
        &mut self,
        owner: RepoOwner,
        seen: (Revision, Revision),
        known: Option<&RepoState>,
        wanted: impl FnOnce() -> Option<WantedRepo>,
    ) {
        if self.plans.get(&owner).is_some_and(|plan| plan.seen == seen) {
            return;
        }
        let servers = &self.hub.git_servers;
        let Some(wanted) = wanted().filter(|it| servers.of(it).is_some()) else {
            self.drop_plan(&owner);
            return;
        };
        let of = wanted.hash();
        if let Some(plan) = self.plans.get_mut(&owner)
            && plan.of == of
        {
            // It may be what its server has filled in.
            (plan.seen, plan.wanted) = (seen, wanted);
            return;
        }
        let is_there = known.is_some_and(|it| it.of == of && it.phase == RepoPhase::Created);
        let wait = if is_there {
            some_of(AGAIN)
        } else {
            Duration::ZERO
        };
        self.drop_plan(&owner);
        let due = Instant::now() + wait;
        self.queue.insert((due, owner.clone()));
        let plan = Plan {
            seen,
            of,
            wanted,
            due,
            misses: 0,
        };
        self.plans.insert(owner, plan);
    }

    fn drop_plan(&mut self, owner: &RepoOwner) {
        if let Some(plan) = self.plans.remove(owner) {
            self.queue.remove(&(plan.due, owner.clone()));
        }
    }

    /// Asks for what is due, as many at once as may be.
    fn ask(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = (self.queue.iter())
            .take_while(|(due, _)| *due <= now)
            .filter(|(_, owner)| !self.busy.contains(owner))
            .take(AT_ONCE.saturating_sub(self.asking.len()))
            .cloned()
            .collect();
        for (due, owner) in due {
            let Some(plan) = self.plans.get(&owner) else {
                continue;
            };
            let (hub, wanted, of) = (Arc::clone(&self.hub), plan.wanted.clone(), plan.of.clone());
            self.queue.remove(&(due, owner.clone()));
            self.busy.insert(owner.clone());
            self.asking.spawn(async move {
                let came_to = ensure(&hub, wanted, &of).await;
                Asked { owner, of, came_to }
            });
        }
    }

    /// When it is asked for the next time.
    fn note(&mut self, asked: Asked) {
        self.busy.remove(&asked.owner);
        let Some(plan) = self.plans.get_mut(&asked.owner) else {
            return;
        };
        if plan.of != asked.of {
            // Something else is wanted meanwhile, and due.
            return;
        }
        let is_there = match asked.came_to {
            Ok(Some((of, phase))) => {
                plan.of = of;
                phase == RepoPhase::Created
            }
            Ok(None) => false,
            Err(failure) => {
                warn!(owner = %asked.owner, %failure, "what became of a repository cannot be written down now");
                false
            }
        };
        plan.misses = if is_there { 0 } else { plan.misses + 1 };
        plan.due = Instant::now()
            + match plan.misses {
                0 => some_of(AGAIN),
                misses => some_of(LONGEST.min(FIRST * (1 << misses.min(8)))),
            };
        self.queue.insert((plan.due, asked.owner));
    }
}

/// Half of it at least, so that not all come at once.
fn some_of(whole: Duration) -> Duration {
    let [share] = random::bytes::<1>().unwrap_or([0]);
    whole / 2 + (whole / 2).mul_f64(f64::from(share) / 255.0)
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
    let said = timeout(DEADLINE, server.ensure(&wanted)).await;
    let said = said.unwrap_or_else(|_| {
        let name = server.name();
        let seconds = DEADLINE.as_secs();
        let detail = format!("{name} has not answered within {seconds} s");
        Err(GitTrouble::Away(detail))
    });
    info!(owner = %wanted.owner, server = server.name(), said = ?said.as_ref().map(|made| &made.url), "repository asked for");
    let came = Came {
        of: of.to_owned(),
        said,
        at: whole_millis(hub.now()),
    };
    let decide = move |draft: &mut Draft| settle(draft, &wanted.owner, &came);
    Ok(hub.store.change(Actor::Hub, decide).await?.value)
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
