//! Staleness of facts: a fact is stale after three missed reports of its source. Imported facts are
//! always stale.

use std::{ops::RangeInclusive, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_store::{
    Observed,
    model::{Fact, FactSource, Facts},
};

const INTERVAL_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 3600);

/// Maximum report interval of each source; other sources do not repeat their facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reporting {
    /// Fairlead's agents; one hour by default, the interval of our agents.
    pub agent: Duration,
    /// Steward and other programs with a cluster's own token; one minute by default.
    pub steward: Duration,
}

impl Default for Reporting {
    fn default() -> Self {
        Reporting {
            agent: Duration::from_secs(3600),
            steward: Duration::from_secs(60),
        }
    }
}

impl Reporting {
    /// Validates the intervals.
    ///
    /// # Errors
    /// `FL-4101` for less than a second or more than 30 days.
    pub fn check(&self) -> Result<(), Failure> {
        if INTERVAL_RANGE.contains(&self.agent) && INTERVAL_RANGE.contains(&self.steward) {
            return Ok(());
        }
        let detail = "the report interval of a source is one second to 30 days";
        Err(Failure::because(Code::BadConfig, detail))
    }

    /// `seen` is the source's last report; both times in milliseconds since 1970.
    pub fn is_stale(&self, source: FactSource, seen: i64, now: i64) -> bool {
        let interval = match source {
            FactSource::Agent => self.agent,
            FactSource::Steward => self.steward,
            FactSource::People | FactSource::Inventory => return false,
            FactSource::Import => return true,
        };
        let three = i64::try_from(interval.saturating_mul(3).as_millis()).unwrap_or(i64::MAX);
        now.saturating_sub(seen) > three
    }
}

/// True if a fact is stale, given the cluster's observations; `now` in milliseconds since 1970.
pub fn is_stale(fact: &Fact, observed: &Observed, reporting: &Reporting, now: i64) -> bool {
    let seen = seen(fact, observed.reported.get(&fact.source).copied());
    reporting.is_stale(fact.source, seen, now)
}

/// Names of stale facts. Checks each source once, because lists call this for every cluster.
pub fn stale_names<'a>(
    facts: &'a Facts,
    observed: &Observed,
    reporting: &Reporting,
    now: i64,
) -> Vec<&'a str> {
    let reports = |source: FactSource| {
        let reported = observed.reported.get(&source);
        reported.is_some_and(|at| !reporting.is_stale(source, *at, now))
    };
    let (agent, steward) = (reports(FactSource::Agent), reports(FactSource::Steward));
    let is_old = |fact: &Fact| match fact.source {
        FactSource::Agent if agent => false,
        FactSource::Steward if steward => false,
        _ => is_stale(fact, observed, reporting, now),
    };
    let old = facts.iter().filter(|(_, fact)| is_old(fact));
    old.map(|(name, _)| name.as_str()).collect()
}

/// Last confirmation of a fact, given its source's last report.
pub fn seen(fact: &Fact, reported: Option<i64>) -> i64 {
    reported.unwrap_or(fact.received).max(fact.received)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    #[test]
    fn facts_are_stale_after_three_missed_reports() {
        let by_default = Reporting::default();
        let three_hours = 180 * MINUTE_MS;
        assert!(!by_default.is_stale(FactSource::Agent, 0, three_hours));
        assert!(by_default.is_stale(FactSource::Agent, 0, three_hours + 1));
        assert!(by_default.is_stale(FactSource::Steward, 0, 3 * MINUTE_MS + 1));
        assert!(!by_default.is_stale(FactSource::People, 0, i64::MAX));
        assert!(by_default.is_stale(FactSource::Import, 0, 0));
        let rarely = Reporting {
            agent: Duration::from_secs(2 * 3600),
            steward: Duration::from_secs(3600),
        };
        assert!(!rarely.is_stale(FactSource::Agent, 0, 2 * three_hours));
        assert!(rarely.is_stale(FactSource::Agent, 0, 2 * three_hours + 1));
        assert!(!rarely.is_stale(FactSource::Steward, 0, three_hours));
    }

    #[test]
    fn stale_names_agree_with_each_fact() {
        let reporting = Reporting::default();
        let sources = [
            FactSource::People,
            FactSource::Agent,
            FactSource::Steward,
            FactSource::Inventory,
            FactSource::Import,
        ];
        let mut facts = Facts::new();
        for (source, received) in sources.into_iter().flat_map(|it| [(it, 0), (it, 200)]) {
            let fact = Fact {
                value: true.into(),
                source,
                received: received * MINUTE_MS,
                observed: 0,
            };
            facts.insert(format!("{source:?}-{received}"), fact);
        }
        for (agent, steward) in [(None, None), (Some(210), None), (Some(1), Some(239))] {
            let mut observed = Observed::nothing(time::OffsetDateTime::UNIX_EPOCH);
            for (source, at) in [(FactSource::Agent, agent), (FactSource::Steward, steward)] {
                observed
                    .reported
                    .extend(at.map(|at: i64| (source, at * MINUTE_MS)));
            }
            for now in [200, 240, 390, 400].map(|minute| minute * MINUTE_MS) {
                let each = facts
                    .iter()
                    .filter(|(_, fact)| is_stale(fact, &observed, &reporting, now));
                let each: Vec<_> = each.map(|(name, _)| name.as_str()).collect();
                assert_eq!(stale_names(&facts, &observed, &reporting, now), each);
            }
        }
    }

    #[test]
    fn intervals_are_one_second_to_30_days() {
        let of = |agent, steward| {
            let (agent, steward) = (Duration::from_secs(agent), Duration::from_secs(steward));
            Reporting { agent, steward }.check().map_err(|it| it.code)
        };
        let month = 30 * 24 * 3600;
        assert_eq!(of(1, month), Ok(()));
        for (agent, steward) in [(0, 60), (3600, 0), (month + 1, 60), (3600, month + 1)] {
            assert_eq!(of(agent, steward), Err(Code::BadConfig));
        }
    }
}
