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

use super::{RepoOwner, WantedRepo};

/// First retry delay after a failure; it doubles each time.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(600);
/// Interval of checks for drift: people change repositories on the server, too.
const AGAIN: Duration = Duration::from_secs(3600);

/// Revisions of the changes that wrote an owner's record and its template's.
pub(super) type Seen = (Revision, Revision);

#[derive(Default)]
pub(super) struct Plans {
    plans: BTreeMap<RepoOwner, Plan>,
    queue: BTreeSet<(Instant, RepoOwner)>,
    busy: BTreeSet<RepoOwner>,
}

/// Next call for one repository, and its due time.
struct Plan {
    seen: Seen,
    of: String,
    wanted: WantedRepo,
    due: Instant,
    misses: u32,
}

/// A call to make; [`Plans::note`] completes it.
pub(super) struct Question {
    pub(super) wanted: WantedRepo,
    pub(super) of: String,
}

impl Plans {
    /// True if an owner is unchanged since it was last planned.
    pub(super) fn has_seen(&self, owner: &RepoOwner, seen: Seen) -> bool {
        self.plans.get(owner).is_some_and(|plan| plan.seen == seen)
    }

    pub(super) fn want(&mut self, wanted: WantedRepo, seen: Seen, known: Option<&RepoState>) {
        let of = wanted.hash();
        if let Some(plan) = self.plans.get_mut(&wanted.owner)
            && plan.of == of
        {
            // The change may be the fields that the server filled in.
            (plan.seen, plan.wanted) = (seen, wanted);
            return;
        }
        let is_there = known.is_some_and(|it| it.of == of && it.phase == RepoPhase::Created);
        let wait = if is_there {
            some_of(AGAIN)
        } else {
            Duration::ZERO
        };
        let owner = wanted.owner.clone();
        self.forget(&owner);
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

    pub(super) fn forget(&mut self, owner: &RepoOwner) {
        if let Some(plan) = self.plans.remove(owner) {
            self.queue.remove(&(plan.due, owner.clone()));
        }
    }

    /// Drops the plans of all other owners.
    pub(super) fn retain(&mut self, is_there: impl Fn(&RepoOwner) -> bool) {
        let gone = self.plans.keys().filter(|owner| !is_there(owner));
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
    pub(super) fn take_due(&mut self, most: usize) -> Vec<Question> {
        let now = Instant::now();
        let due: Vec<_> = (self.queue.iter())
            .take_while(|(due, _)| *due <= now)
            .filter(|(_, owner)| !self.busy.contains(owner))
            .take(most)
            .cloned()
            .collect();
        let mut questions = Vec::new();
        for (due, owner) in due {
            let Some(plan) = self.plans.get(&owner) else {
                continue;
            };
            let (wanted, of) = (plan.wanted.clone(), plan.of.clone());
            questions.push(Question { wanted, of });
            self.queue.remove(&(due, owner.clone()));
            self.busy.insert(owner);
        }
        questions
    }

    /// Completes the call for hash `of`: the desired hash and phase after it, if they could be
    /// recorded.
    pub(super) fn note(
        &mut self,
        owner: RepoOwner,
        of: &str,
        came_to: Option<(String, RepoPhase)>,
    ) {
        self.busy.remove(&owner);
        let Some(plan) = self.plans.get_mut(&owner) else {
            return;
        };
        if plan.of != of {
            // The desired state changed meanwhile and is due.
            return;
        }
        let mut is_there = false;
        if let Some((of, phase)) = came_to {
            plan.of = of;
            is_there = phase == RepoPhase::Created;
        }
        // Already due if the desired state changed back and forth.
        self.queue.remove(&(plan.due, owner.clone()));
        plan.misses = if is_there { 0 } else { plan.misses + 1 };
        plan.due = Instant::now()
            + match plan.misses {
                0 => some_of(AGAIN),
                misses => some_of(LONGEST.min(FIRST * (1 << misses.min(8)))),
            };
        self.queue.insert((plan.due, owner));
    }
}

/// Jitter: half of the delay at least.
fn some_of(whole: Duration) -> Duration {
    let [share] = random::bytes::<1>().unwrap_or([0]);
    whole / 2 + (whole / 2).mul_f64(f64::from(share) / 255.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const LONGER_THAN_ALL: Duration = Duration::from_secs(2 * 3600);

    fn wanted(url: Option<&str>, name: &str) -> WantedRepo {
        WantedRepo {
            owner: RepoOwner::Cluster("c-one".parse().unwrap()),
            url: url.map(str::to_owned),
            path: None,
            name: Some(name.to_owned()),
            api_secret: None,
            deploy_keys: BTreeMap::new(),
            creation_policy: None,
        }
    }

    fn seen(revision: u64) -> Seen {
        (Revision(revision), Revision(0))
    }

    /// The call that is due now, at most one.
    fn ask(plans: &mut Plans) -> Option<Question> {
        let mut questions = plans.take_due(8);
        let question = questions.pop();
        assert!(questions.is_empty(), "one owner has one question");
        question
    }

    fn created(wanted: &WantedRepo) -> Option<(String, RepoPhase)> {
        Some((wanted.hash(), RepoPhase::Created))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wanted_while_a_server_is_asked_is_due_when_that_has_answered() {
        let mut plans = Plans::default();
        let (first, second) = (wanted(None, "first"), wanted(None, "second"));
        plans.want(first.clone(), seen(1), None);
        let asked = ask(&mut plans).unwrap();
        plans.want(second.clone(), seen(2), None);
        assert!(ask(&mut plans).is_none());
        assert_eq!(plans.next(), None, "there is nothing to wake up for");
        plans.note(first.owner.clone(), &asked.of, created(&first));
        assert_eq!(plans.next(), Some(Instant::now()));
        assert_eq!(ask(&mut plans).unwrap().wanted, second);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_has_filled_in_is_what_it_is_asked_for_from_then_on() {
        let mut plans = Plans::default();
        let (empty, filled) = (wanted(None, "it"), wanted(Some("ssh://a/b.git"), "it"));
        plans.want(empty.clone(), seen(1), None);
        let asked = ask(&mut plans).unwrap();
        plans.note(empty.owner.clone(), &asked.of, created(&filled));
        plans.want(filled.clone(), seen(2), None);
        assert!(ask(&mut plans).is_none(), "that is what it has said");
        tokio::time::advance(LONGER_THAN_ALL).await;
        assert_eq!(ask(&mut plans).unwrap().wanted, filled);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_wanted_for_a_while_is_asked_for_once() {
        let mut plans = Plans::default();
        let (first, second) = (wanted(None, "first"), wanted(None, "second"));
        plans.want(first.clone(), seen(1), None);
        let asked = ask(&mut plans).unwrap();
        plans.want(second, seen(2), None);
        plans.want(first.clone(), seen(3), None);
        plans.note(first.owner.clone(), &asked.of, created(&first));
        assert!(ask(&mut plans).is_none(), "that was it");
        tokio::time::advance(LONGER_THAN_ALL).await;
        assert_eq!(ask(&mut plans).unwrap().wanted, first);
        assert_eq!(plans.next(), None);
    }
}
