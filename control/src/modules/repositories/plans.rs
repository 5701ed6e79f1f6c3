//! Schedule of server calls: one call per repository at a time, always for the currently desired
//! state. Pure except for the clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairlead_store::{
    Revision,
    model::{RepoPhase, RepoState},
    random,
};
use tokio::time::Instant;

use super::{DesiredRepo, RepoOwner};

/// First retry delay after a failure; it doubles each time.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(5);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(600);
/// Interval of checks for drift: people change repositories on the server, too.
const DRIFT_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Revisions of the changes that wrote an owner's record and its template's.
pub(super) type Sources = (Revision, Revision);

#[derive(Default)]
pub(super) struct Plans {
    plans: BTreeMap<RepoOwner, PlannedCall>,
    queue: BTreeSet<(Instant, RepoOwner)>,
    busy: BTreeSet<RepoOwner>,
}

/// Next call for one repository, and its due time.
struct PlannedCall {
    sources: Sources,
    of: String,
    desired: DesiredRepo,
    due: Instant,
    misses: u32,
}

/// A call to make; [`Plans::complete`] completes it.
pub(super) struct Call {
    pub(super) desired: DesiredRepo,
    pub(super) of: String,
}

impl Plans {
    /// True if an owner is unchanged since it was last planned.
    pub(super) fn is_planned(&self, owner: &RepoOwner, sources: Sources) -> bool {
        self.plans
            .get(owner)
            .is_some_and(|plan| plan.sources == sources)
    }

    pub(super) fn add(
        &mut self,
        desired: DesiredRepo,
        sources: Sources,
        known: Option<&RepoState>,
    ) {
        let of = desired.hash();
        if let Some(plan) = self.plans.get_mut(&desired.owner)
            && plan.of == of
        {
            // The change may be the fields that the server filled in.
            (plan.sources, plan.desired) = (sources, desired);
            return;
        }
        let exists = known.is_some_and(|it| it.of == of && it.phase == RepoPhase::Created);
        let wait = if exists {
            jittered(DRIFT_CHECK_INTERVAL)
        } else {
            Duration::ZERO
        };
        let owner = desired.owner.clone();
        self.forget(&owner);
        let due = Instant::now() + wait;
        self.queue.insert((due, owner.clone()));
        let plan = PlannedCall {
            sources,
            of,
            desired,
            due,
            misses: 0,
        };
        self.plans.insert(owner, plan);
    }

    pub(super) fn forget(&mut self, owner: &RepoOwner) {
        if let Some(plan) = self.plans.remove(owner) {
            self.queue.remove(&(plan.due, owner.clone()));
        }
    }

    /// Drops the plans of all other owners.
    pub(super) fn retain(&mut self, exists: impl Fn(&RepoOwner) -> bool) {
        let gone = self.plans.keys().filter(|owner| !exists(owner));
        for owner in gone.cloned().collect::<Vec<_>>() {
            self.forget(&owner);
        }
    }

    /// Time of the next due call. A repository with a call in progress is skipped.
    pub(super) fn next(&self) -> Option<Instant> {
        let mut idle = (self.queue.iter()).filter(|(_, owner)| !self.busy.contains(owner));
        idle.next().map(|(due, _)| *due)
    }

    /// Takes up to `most` calls that are due.
    pub(super) fn take_due(&mut self, most: usize) -> Vec<Call> {
        let now = Instant::now();
        let due: Vec<_> = (self.queue.iter())
            .take_while(|(due, _)| *due <= now)
            .filter(|(_, owner)| !self.busy.contains(owner))
            .take(most)
            .cloned()
            .collect();
        let mut calls = Vec::new();
        for (due, owner) in due {
            let Some(plan) = self.plans.get(&owner) else {
                continue;
            };
            let (desired, of) = (plan.desired.clone(), plan.of.clone());
            calls.push(Call { desired, of });
            self.queue.remove(&(due, owner.clone()));
            self.busy.insert(owner);
        }
        calls
    }

    /// Completes the call for hash `of`: the desired hash and phase after it, if they could be
    /// recorded.
    pub(super) fn complete(
        &mut self,
        owner: RepoOwner,
        of: &str,
        outcome: Option<(String, RepoPhase)>,
    ) {
        self.busy.remove(&owner);
        let Some(plan) = self.plans.get_mut(&owner) else {
            return;
        };
        if plan.of != of {
            // The desired state changed meanwhile and is due.
            return;
        }
        let mut exists = false;
        if let Some((of, phase)) = outcome {
            plan.of = of;
            exists = phase == RepoPhase::Created;
        }
        // Already due if the desired state changed back and forth.
        self.queue.remove(&(plan.due, owner.clone()));
        plan.misses = if exists { 0 } else { plan.misses + 1 };
        plan.due = Instant::now()
            + match plan.misses {
                0 => jittered(DRIFT_CHECK_INTERVAL),
                misses => jittered(RETRY_DELAY_MAX.min(RETRY_DELAY_MIN * (1 << misses.min(8)))),
            };
        self.queue.insert((plan.due, owner));
    }
}

/// Jitter: half of the delay at least.
fn jittered(whole: Duration) -> Duration {
    let [share] = random::bytes::<1>().unwrap_or([0]);
    whole / 2 + (whole / 2).mul_f64(f64::from(share) / 255.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const BEYOND_ALL_DELAYS: Duration = Duration::from_secs(2 * 3600);

    fn desired(url: Option<&str>, name: &str) -> DesiredRepo {
        DesiredRepo {
            owner: RepoOwner::Cluster("c-one".parse().unwrap()),
            url: url.map(str::to_owned),
            path: None,
            name: Some(name.to_owned()),
            api_secret: None,
            deploy_keys: BTreeMap::new(),
            creation_policy: None,
        }
    }

    fn sources(revision: u64) -> Sources {
        (Revision(revision), Revision(0))
    }

    /// The call that is due now, at most one.
    fn due_call(plans: &mut Plans) -> Option<Call> {
        let mut calls = plans.take_due(8);
        let question = calls.pop();
        assert!(calls.is_empty(), "one owner has one call");
        question
    }

    fn created(desired: &DesiredRepo) -> Option<(String, RepoPhase)> {
        Some((desired.hash(), RepoPhase::Created))
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_during_a_call_is_due_after_it() {
        let mut plans = Plans::default();
        let (first, second) = (desired(None, "first"), desired(None, "second"));
        plans.add(first.clone(), sources(1), None);
        let asked = due_call(&mut plans).unwrap();
        plans.add(second.clone(), sources(2), None);
        assert!(due_call(&mut plans).is_none());
        assert_eq!(plans.next(), None, "there is nothing to wake up for");
        plans.complete(first.owner.clone(), &asked.of, created(&first));
        assert_eq!(plans.next(), Some(Instant::now()));
        assert_eq!(due_call(&mut plans).unwrap().desired, second);
    }

    #[tokio::test(start_paused = true)]
    async fn fields_filled_by_the_server_need_no_further_call() {
        let mut plans = Plans::default();
        let (empty, filled) = (desired(None, "it"), desired(Some("ssh://a/b.git"), "it"));
        plans.add(empty.clone(), sources(1), None);
        let asked = due_call(&mut plans).unwrap();
        plans.complete(empty.owner.clone(), &asked.of, created(&filled));
        plans.add(filled.clone(), sources(2), None);
        assert!(due_call(&mut plans).is_none(), "the server filled it in");
        tokio::time::advance(BEYOND_ALL_DELAYS).await;
        assert_eq!(due_call(&mut plans).unwrap().desired, filled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_back_and_forth_causes_one_call() {
        let mut plans = Plans::default();
        let (first, second) = (desired(None, "first"), desired(None, "second"));
        plans.add(first.clone(), sources(1), None);
        let asked = due_call(&mut plans).unwrap();
        plans.add(second, sources(2), None);
        plans.add(first.clone(), sources(3), None);
        plans.complete(first.owner.clone(), &asked.of, created(&first));
        assert!(due_call(&mut plans).is_none(), "one call is enough");
        tokio::time::advance(BEYOND_ALL_DELAYS).await;
        assert_eq!(due_call(&mut plans).unwrap().desired, first);
        assert_eq!(plans.next(), None);
    }
}
