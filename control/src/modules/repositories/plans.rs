//! Schedule of server calls: one call per repository at a time, always for the currently desired
//! state. Pure except for the clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairlead_repositories::{DesiredRepo, RepoOwner};
use fairlead_store::{
    Revision,
    model::{RepoPhase, RepoState},
};
use tokio::time::Instant;

use super::{
    desired::{contents_hash_of, hash_of},
    state::DesiredHashes,
};
use crate::reconciling::delays::{jittered, retry_delay, throttled_delay};

/// Longest interval of checks for drift: people change repositories on the server, too.
const DRIFT_CHECK_INTERVAL: Duration = Duration::from_secs(3 * 3600);

/// Revisions of the changes that wrote an owner's record and its template's.
pub(super) type Sources = (Revision, Revision);

#[derive(Default)]
pub(super) struct Plans {
    plans: BTreeMap<RepoOwner, PlannedCall>,
    queue: BTreeSet<(Instant, RepoOwner)>,
    busy: BTreeSet<RepoOwner>,
    last_number: u64,
}

/// Next call for one repository, and its due time.
struct PlannedCall {
    sources: Sources,
    hashes: DesiredHashes,
    desired: DesiredRepo,
    due: Instant,
    misses: u32,
    /// Distinguishes the plan from an earlier one of the same owner.
    number: u64,
}

/// A call to make; [`Plans::complete`] completes it.
pub(super) struct Call {
    pub(super) desired: DesiredRepo,
    pub(super) hashes: DesiredHashes,
    pub(super) number: u64,
}

/// Recorded result of a call.
pub(super) struct CallOutcome {
    /// Hash of the desired repository after the call.
    pub(super) of: String,
    /// True if the repository is as desired.
    pub(super) is_done: bool,
    /// Wait that the server asks for.
    pub(super) wait: Option<Duration>,
}

impl Plans {
    /// True if an owner is unchanged since it was last planned.
    pub(super) fn is_planned(&self, owner: &RepoOwner, sources: Sources) -> bool {
        self.plans
            .get(owner)
            .is_some_and(|plan| plan.sources == sources)
    }

    /// True if an owner is planned with the record of this revision.
    pub(super) fn has_record(&self, owner: &RepoOwner, revision: Revision) -> bool {
        let plan = self.plans.get(owner);
        plan.is_some_and(|plan| plan.sources.0 == revision)
    }

    pub(super) fn add(
        &mut self,
        desired: DesiredRepo,
        sources: Sources,
        known: Option<&RepoState>,
    ) {
        let hashes = hashes_of(&desired);
        if let Some(plan) = self.plans.get_mut(&desired.owner)
            && plan.hashes == hashes
        {
            // The change may be the fields that the server filled in.
            (plan.sources, plan.desired) = (sources, desired);
            return;
        }
        let exists = known.is_some_and(|it| {
            it.phase == RepoPhase::Created && (&it.of, &it.files) == (&hashes.of, &hashes.contents)
        });
        let wait = if exists {
            jittered(DRIFT_CHECK_INTERVAL)
        } else {
            Duration::ZERO
        };
        let owner = desired.owner.clone();
        self.forget(&owner);
        let due = Instant::now() + wait;
        self.queue.insert((due, owner.clone()));
        self.last_number += 1;
        let plan = PlannedCall {
            sources,
            hashes,
            desired,
            due,
            misses: 0,
            number: self.last_number,
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
            calls.push(Call {
                desired: plan.desired.clone(),
                hashes: plan.hashes.clone(),
                number: plan.number,
            });
            self.queue.remove(&(due, owner.clone()));
            self.busy.insert(owner);
        }
        calls
    }

    /// Completes the call of this number; `None` if its result could not be recorded.
    pub(super) fn complete(&mut self, owner: RepoOwner, number: u64, outcome: Option<CallOutcome>) {
        self.busy.remove(&owner);
        let Some(plan) = self.plans.get_mut(&owner) else {
            return;
        };
        if plan.number != number {
            // The desired state changed meanwhile and is due.
            return;
        }
        let mut wait = None;
        let mut is_done = false;
        if let Some(outcome) = outcome {
            plan.hashes.of = outcome.of;
            (is_done, wait) = (outcome.is_done, outcome.wait);
        }
        plan.misses = if is_done { 0 } else { plan.misses + 1 };
        let delay = match (wait, plan.misses) {
            (Some(wait), _) => throttled_delay(wait),
            (None, 0) => jittered(DRIFT_CHECK_INTERVAL),
            (None, misses) => retry_delay(misses),
        };
        plan.due = Instant::now() + delay;
        self.queue.insert((plan.due, owner));
    }
}

fn hashes_of(desired: &DesiredRepo) -> DesiredHashes {
    DesiredHashes {
        of: hash_of(desired),
        contents: contents_hash_of(desired),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::reconciling::delays::THROTTLE_SPREAD;

    const BEYOND_ALL_DELAYS: Duration = Duration::from_secs(4 * 3600);

    fn desired(url: Option<&str>, name: &str) -> DesiredRepo {
        DesiredRepo {
            owner: RepoOwner::Cluster("c-one".parse().unwrap()),
            title: "One".to_owned(),
            url: url.map(str::to_owned),
            path: None,
            name: Some(name.to_owned()),
            api_secret: None,
            deploy_keys: BTreeMap::new(),
            creation_policy: None,
            files: BTreeMap::new(),
            ci_variables: BTreeMap::new(),
            tenant: "t-one".parse().unwrap(),
            access_token: None,
            compiled_clusters: BTreeSet::new(),
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

    fn created(desired: &DesiredRepo) -> Option<CallOutcome> {
        Some(CallOutcome {
            of: hash_of(desired),
            is_done: true,
            wait: None,
        })
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
        plans.complete(first.owner.clone(), asked.number, created(&first));
        assert_eq!(plans.next(), Some(Instant::now()));
        assert_eq!(due_call(&mut plans).unwrap().desired, second);
    }

    #[tokio::test(start_paused = true)]
    async fn fields_filled_by_the_server_need_no_further_call() {
        let mut plans = Plans::default();
        let (empty, filled) = (desired(None, "it"), desired(Some("ssh://a/b.git"), "it"));
        plans.add(empty.clone(), sources(1), None);
        let asked = due_call(&mut plans).unwrap();
        plans.complete(empty.owner.clone(), asked.number, created(&filled));
        plans.add(filled.clone(), sources(2), None);
        assert!(due_call(&mut plans).is_none(), "the server filled it in");
        tokio::time::advance(BEYOND_ALL_DELAYS).await;
        assert_eq!(due_call(&mut plans).unwrap().desired, filled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_back_and_forth_leads_to_one_more_call() {
        let mut plans = Plans::default();
        let (first, second) = (desired(None, "first"), desired(None, "second"));
        plans.add(first.clone(), sources(1), None);
        let asked = due_call(&mut plans).unwrap();
        plans.add(second, sources(2), None);
        plans.add(first.clone(), sources(3), None);
        plans.complete(first.owner.clone(), asked.number, created(&first));
        assert_eq!(due_call(&mut plans).unwrap().desired, first);
        assert_eq!(plans.next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn new_files_of_the_same_repository_are_due() {
        let mut plans = Plans::default();
        let first = desired(None, "it");
        plans.add(first.clone(), sources(1), None);
        let asked = due_call(&mut plans).unwrap();
        plans.complete(first.owner.clone(), asked.number, created(&first));
        let mut more = first.clone();
        let file = fairlead_repositories::DesiredFile::Absent {
            earlier: Vec::new(),
        };
        more.files.insert("c-one.yml".to_owned(), file);
        assert_eq!(hash_of(&more), hash_of(&first));
        plans.add(more.clone(), sources(2), None);
        assert_eq!(due_call(&mut plans).unwrap().desired, more);
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_call_waits_as_its_server_asks() {
        let mut plans = Plans::default();
        let first = desired(None, "it");
        plans.add(first.clone(), sources(1), None);
        let asked = due_call(&mut plans).unwrap();
        let wait = Duration::from_secs(1800);
        let outcome = CallOutcome {
            of: hash_of(&first),
            is_done: false,
            wait: Some(wait),
        };
        plans.complete(first.owner.clone(), asked.number, Some(outcome));
        let due = plans.next().unwrap() - Instant::now();
        assert!(due >= wait && due <= wait + THROTTLE_SPREAD, "{due:?}");
    }
}
