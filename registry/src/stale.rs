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
mod tests;
