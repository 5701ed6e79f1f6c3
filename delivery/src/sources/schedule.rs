//! Times of polls: one for each repository and reference, for all sources that name it.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use fairlead_api::{SourceId, TenantId, delivery::GitSource, resources::Credentials};
use tokio::time::Instant;

use super::check::host_of;

/// Interval of polls without failures.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum interval after failures.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(15 * 60);
/// Minimum interval after a server has requested fewer polls, by the status 429 or 503.
const OVERLOAD_INTERVAL_MIN: Duration = Duration::from_secs(5 * 60);
/// Maximum number of polls of one host at the same time.
const MAX_POLLS_PER_HOST: usize = 4;

/// Outcome of a poll for the time of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PollOutcome {
    Succeeded,
    Failed,
    /// The server requests fewer polls.
    Overloaded,
}

/// Sources with the same key are polled together. Credentials belong to a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PollKey {
    pub(super) url: String,
    pub(super) reference: String,
    pub(super) tenant: TenantId,
    pub(super) credentials: Option<String>,
    pub(super) host_keys: Option<String>,
}

impl PollKey {
    pub(super) fn of(tenant: &TenantId, git: &GitSource) -> Self {
        let name = |it: &Credentials| it.name.clone();
        PollKey {
            url: git.url.clone(),
            reference: git.reference.clone(),
            tenant: tenant.clone(),
            credentials: git.credentials.as_ref().map(name),
            host_keys: git.host_keys.clone(),
        }
    }
}

/// A source to poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PollSource {
    pub(super) id: SourceId,
    pub(super) key: PollKey,
    /// Time of the last request by a person or a webhook, in milliseconds since 1970.
    pub(super) requested: i64,
    /// Revision of the document as a person wrote it: other options are read again at once.
    pub(super) options: String,
}

#[derive(Debug)]
struct Plan {
    due: Instant,
    failures: u32,
    running: bool,
    /// A request came while the poll was running.
    again: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Known {
    key: PollKey,
    requested: i64,
    options: String,
}

/// Schedule of all polls.
#[derive(Default)]
pub(super) struct Schedule {
    plans: BTreeMap<PollKey, Plan>,
    known: HashMap<SourceId, Known>,
}

impl Schedule {
    /// Takes the sources over. New, changed and requested ones are due now.
    pub(super) fn refresh(&mut self, now: Instant, sources: &[PollSource]) {
        for source in sources {
            let new = Known {
                key: source.key.clone(),
                requested: source.requested,
                options: source.options.clone(),
            };
            let is_same = self.known.get(&source.id) == Some(&new);
            if !is_same {
                self.request(now, &source.key);
                self.known.insert(source.id.clone(), new);
            }
        }
        let is_listed = |id: &SourceId| sources.iter().any(|it| it.id == *id);
        self.known.retain(|id, _| is_listed(id));
        let known = &self.known;
        self.plans
            .retain(|key, plan| plan.running || known.values().any(|it| it.key == *key));
    }

    fn request(&mut self, now: Instant, key: &PollKey) {
        let plan = self.plans.entry(key.clone()).or_insert(Plan {
            due: now,
            failures: 0,
            running: false,
            again: false,
        });
        plan.due = now;
        plan.again = plan.running;
    }

    /// Takes the polls that may begin now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<PollKey> {
        let mut per_host: HashMap<String, usize> = HashMap::new();
        for (key, _) in self.plans.iter().filter(|(_, plan)| plan.running) {
            *per_host.entry(host_of(&key.url).to_owned()).or_default() += 1;
        }
        let mut due = Vec::new();
        for (key, plan) in &mut self.plans {
            let polls = per_host.entry(host_of(&key.url).to_owned()).or_default();
            if !plan.running && plan.due <= now && *polls < MAX_POLLS_PER_HOST {
                *polls += 1;
                plan.running = true;
                plan.again = false;
                due.push(key.clone());
            }
        }
        due
    }

    /// Ends a poll, and returns the time until the next one. `spread` is 0 to 1.
    pub(super) fn complete(
        &mut self,
        now: Instant,
        key: &PollKey,
        (outcome, spread): (PollOutcome, f64),
    ) -> Duration {
        let Some(plan) = self.plans.get_mut(key) else {
            return POLL_INTERVAL;
        };
        plan.running = false;
        plan.failures = match outcome {
            PollOutcome::Succeeded => 0,
            PollOutcome::Failed | PollOutcome::Overloaded => plan.failures + 1,
        };
        let doublings = plan.failures.min(8);
        let interval = POLL_INTERVAL
            .saturating_mul(1 << doublings)
            .min(POLL_INTERVAL_MAX);
        // A tenth more or less, so that sources of one time do not stay together. The minimum is kept.
        let (interval, least) = match outcome {
            PollOutcome::Overloaded => (interval.max(OVERLOAD_INTERVAL_MIN), 1.0),
            PollOutcome::Succeeded | PollOutcome::Failed => (interval, 0.9),
        };
        let interval = interval.mul_f64(least + 0.2 * spread.clamp(0.0, 1.0));
        let interval = if plan.again { Duration::ZERO } else { interval };
        plan.again = false;
        plan.due = now + interval;
        interval
    }

    /// Time of the next poll.
    pub(super) fn next(&self) -> Option<Instant> {
        let waiting = self.plans.values().filter(|it| !it.running);
        waiting.map(|it| it.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(id: &str, url: &str, requested: i64) -> PollSource {
        PollSource {
            id: id.parse().unwrap(),
            key: PollKey {
                url: url.to_owned(),
                reference: "main".to_owned(),
                tenant: "t-a".parse().unwrap(),
                credentials: None,
                host_keys: None,
            },
            requested,
            options: String::new(),
        }
    }

    const ONE: &str = "https://git.test/one";

    #[tokio::test(start_paused = true)]
    async fn sources_of_one_reference_are_polled_once() {
        let mut schedule = Schedule::default();
        let now = Instant::now();
        let mut sources = vec![source("s-a", ONE, 0), source("s-b", ONE, 0)];
        schedule.refresh(now, &sources);
        let due = schedule.take_due(now);
        assert_eq!(due, [source("s-a", ONE, 0).key]);
        assert_eq!(schedule.take_due(now), []);
        assert_eq!(
            schedule.complete(now, &due[0], (PollOutcome::Succeeded, 0.5)),
            POLL_INTERVAL
        );
        schedule.refresh(now, &sources);
        assert_eq!(schedule.take_due(now), []);
        assert_eq!(schedule.next(), Some(now + POLL_INTERVAL));
        sources[1].requested = 7;
        schedule.refresh(now, &sources);
        assert_eq!(schedule.take_due(now).len(), 1, "a webhook polls at once");
        sources[1].requested = 8;
        schedule.refresh(now, &sources);
        assert_eq!(
            schedule.complete(now, &due[0], (PollOutcome::Succeeded, 0.5)),
            Duration::ZERO
        );
        assert_eq!(
            schedule.take_due(now).len(),
            1,
            "a call during a poll is not lost"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_interval_up_to_fifteen_minutes() {
        let mut schedule = Schedule::default();
        let now = Instant::now();
        schedule.refresh(now, &[source("s-a", ONE, 0)]);
        let mut intervals = Vec::new();
        for _ in 0..6 {
            let due = schedule.next().unwrap();
            let key = schedule.take_due(due).remove(0);
            intervals.push(
                schedule
                    .complete(due, &key, (PollOutcome::Failed, 0.5))
                    .as_secs(),
            );
        }
        assert_eq!(intervals, [120, 240, 480, 900, 900, 900]);
        let due = schedule.next().unwrap();
        let key = schedule.take_due(due).remove(0);
        assert_eq!(
            schedule
                .complete(due, &key, (PollOutcome::Succeeded, 0.0))
                .as_secs(),
            54
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_server_is_polled_five_minutes_later_at_the_earliest() {
        let mut schedule = Schedule::default();
        schedule.refresh(Instant::now(), &[source("s-a", ONE, 0)]);
        let mut complete = |outcome, spread| {
            let due = schedule.next().unwrap();
            let key = schedule.take_due(due).remove(0);
            schedule.complete(due, &key, (outcome, spread)).as_secs()
        };
        assert_eq!(complete(PollOutcome::Overloaded, 0.0), 300);
        assert_eq!(complete(PollOutcome::Overloaded, 1.0), 360);
        assert_eq!(complete(PollOutcome::Overloaded, 0.0), 480);
        assert_eq!(complete(PollOutcome::Overloaded, 0.0), 900);
        assert_eq!(complete(PollOutcome::Succeeded, 0.5), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_has_four_polls_at_a_time() {
        let mut schedule = Schedule::default();
        let now = Instant::now();
        let sources: Vec<_> = (0..6)
            .map(|it| source(&format!("s-{it}"), &format!("{ONE}{it}"), 0))
            .chain([source("s-x", "https://other.test/a", 0)])
            .collect();
        schedule.refresh(now, &sources);
        let due = schedule.take_due(now);
        assert_eq!(due.len(), 5);
        schedule.complete(now, &due[0], (PollOutcome::Succeeded, 0.5));
        assert_eq!(schedule.take_due(now).len(), 1);
        schedule.refresh(now, &[]);
        assert_eq!(schedule.take_due(now), []);
    }
}
