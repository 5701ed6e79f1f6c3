//! Applies a report to a cluster's facts: a pure function, plus a content hash of the result.

use aws_lc_rs::digest::{SHA256, digest};
use fairlead_api::facts::{
    MAX_FACT_BYTES, MAX_FACT_DEPTH, MAX_FACTS, MAX_TOTAL_FACT_BYTES, Report, depth,
};
use fairlead_routes::InvalidValue;
use fairlead_store::model::{Fact, FactSource, Facts, hex};

/// Content hash of the agent's facts; other sources' facts do not matter.
pub(super) fn etag(facts: &Facts) -> String {
    let reported_facts: Vec<_> = of_agent(facts)
        .map(|(name, fact)| (name, &fact.value))
        .collect();
    // Strings and JSON values with sorted keys: serialisation cannot fail.
    let bytes = serde_json::to_vec(&reported_facts).unwrap_or_default();
    let hash = digest(&SHA256, &bytes);
    hex::encode(hash.as_ref().get(..16).unwrap_or_default())
}

fn of_agent(facts: &Facts) -> impl Iterator<Item = (&String, &Fact)> {
    facts
        .iter()
        .filter(|(_, fact)| fact.source == FactSource::Agent)
}

/// Rejects reports that no agent of ours sends.
///
/// # Errors
/// `FL-4109`
pub(super) fn check(report: &Report) -> Result<(), InvalidValue> {
    let invalid = |detail: String| InvalidValue::because(detail);
    for (name, reported) in &report.facts {
        let Some(reported) = reported else { continue };
        if depth(&reported.value) > MAX_FACT_DEPTH {
            return Err(invalid(format!(
                "{name} is more than {MAX_FACT_DEPTH} levels deep"
            )));
        }
        if reported.value.to_string().len() > MAX_FACT_BYTES {
            return Err(invalid(format!(
                "{name} is longer than {MAX_FACT_BYTES} bytes"
            )));
        }
    }
    Ok(())
}

/// Applies the report; `now` in milliseconds since 1970. A fact with an equal value is left
/// untouched. `None` if the report is based on another state.
///
/// # Errors
/// `FL-4109` if the facts exceed their limits.
pub(super) fn apply(
    facts: &mut Facts,
    report: &Report,
    now: i64,
) -> Result<Option<()>, InvalidValue> {
    match &report.base {
        Some(base) if *base != etag(facts) => return Ok(None),
        Some(_) => {}
        None => facts.retain(|name, fact| {
            let is_told = || {
                let mut reports = report.facts.iter();
                reports.any(|(reports, value)| reports.as_str() == name && value.is_some())
            };
            fact.source != FactSource::Agent || is_told()
        }),
    }
    for (name, reported) in &report.facts {
        let before = facts.get(name.as_str());
        let Some(reported) = reported else {
            if before.is_some_and(|before| before.source == FactSource::Agent) {
                facts.remove(name.as_str());
            }
            continue;
        };
        let is_known = before.is_some_and(|before| {
            before.source == FactSource::Agent && before.value == reported.value
        });
        if !is_known {
            let fact = Fact {
                value: reported.value.clone(),
                source: FactSource::Agent,
                received: now,
                // The agent's clock may be ahead.
                observed: reported.observed.min(now),
            };
            facts.insert(name.to_string(), fact);
        }
    }
    within_bounds(facts).map(Some)
}

fn within_bounds(facts: &Facts) -> Result<(), InvalidValue> {
    let count = of_agent(facts).count();
    if count > MAX_FACTS {
        let detail = format!("{count} facts, at most {MAX_FACTS} are allowed");
        return Err(InvalidValue::because(detail));
    }
    let bytes: usize = of_agent(facts)
        .map(|(_, fact)| fact.value.to_string().len())
        .sum();
    if bytes > MAX_TOTAL_FACT_BYTES {
        let detail = format!("{bytes} bytes of facts, at most {MAX_TOTAL_FACT_BYTES} are allowed");
        return Err(InvalidValue::because(detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fairlead_api::{facts::ReportedFact, hello::Instance};
    use serde_json::{Value, json};

    use super::*;

    fn report(base: Option<String>, facts: &[(&str, Option<Value>)]) -> Report {
        let reported = |value: &Option<Value>| {
            value
                .clone()
                .map(|value| ReportedFact { value, observed: 5 })
        };
        Report {
            instance: Instance::from_bytes([1; 16]),
            sequence: 1,
            interval_seconds: 3600,
            base,
            facts: facts
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), reported(value)))
                .collect(),
        }
    }

    fn values(facts: &Facts) -> Value {
        let values = facts
            .iter()
            .map(|(name, fact)| (name.clone(), fact.value.clone()));
        values.collect::<serde_json::Map<_, _>>().into()
    }

    fn stewards(value: Value) -> Fact {
        Fact {
            value,
            source: FactSource::Steward,
            received: 1,
            observed: 1,
        }
    }

    #[test]
    fn a_whole_report_replaces_only_the_agents_facts() {
        let mut facts = Facts::from([
            ("theirs".to_owned(), stewards(json!(1))),
            ("version".to_owned(), stewards(json!("1"))),
        ]);
        let whole = report(
            None,
            &[("nodes", Some(json!(3))), ("version", Some(json!("1")))],
        );
        assert_eq!(apply(&mut facts, &whole, 10).unwrap(), Some(()));
        assert_eq!(
            values(&facts),
            json!({ "nodes": 3, "theirs": 1, "version": "1" })
        );
        assert_eq!(facts["version"].source, FactSource::Agent);
        let before = facts.clone();
        let again = report(
            None,
            &[("nodes", Some(json!(3))), ("version", Some(json!("1")))],
        );
        apply(&mut facts, &again, 20).unwrap();
        assert_eq!(facts, before, "an unchanged report changes nothing");
        apply(&mut facts, &report(None, &[]), 30).unwrap();
        assert_eq!(values(&facts), json!({ "theirs": 1 }));
    }

    #[test]
    fn a_change_applies_only_to_its_base() {
        let mut facts = Facts::from([("theirs".to_owned(), stewards(json!(1)))]);
        let empty = etag(&facts);
        apply(
            &mut facts,
            &report(Some(empty.clone()), &[("a", Some(json!(1)))]),
            10,
        )
        .unwrap();
        let one = etag(&facts);
        assert_ne!(one, empty);
        let before = facts.clone();
        let late = report(Some(empty.clone()), &[("a", Some(json!(2)))]);
        assert_eq!(apply(&mut facts, &late, 20).unwrap(), None);
        assert_eq!(facts, before);
        let gone = report(Some(one), &[("a", None), ("theirs", None)]);
        apply(&mut facts, &gone, 30).unwrap();
        assert_eq!(
            values(&facts),
            json!({ "theirs": 1 }),
            "it removes its own only"
        );
        assert_eq!(etag(&facts), empty);
    }

    #[test]
    fn observation_times_in_the_future_are_clamped() {
        let mut facts = Facts::new();
        apply(&mut facts, &report(None, &[("a", Some(json!(1)))]), 3).unwrap();
        assert_eq!((facts["a"].observed, facts["a"].received), (3, 3));
    }

    #[test]
    fn reports_beyond_the_limits_are_rejected() {
        let mut deep = json!(1);
        for _ in 0..=MAX_FACT_DEPTH {
            deep = json!([deep]);
        }
        assert!(check(&report(None, &[("deep", Some(deep))])).is_err());
        let long = json!("x".repeat(MAX_FACT_BYTES));
        assert!(check(&report(None, &[("long", Some(long))])).is_err());
        let names: Vec<_> = (0..=MAX_FACTS).map(|n| format!("f{n}")).collect();
        let many: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), Some(json!(1))))
            .collect();
        assert!(apply(&mut Facts::new(), &report(None, &many), 1).is_err());
        let large = json!("x".repeat(MAX_FACT_BYTES - 2));
        let five: Vec<_> = names
            .iter()
            .take(5)
            .map(|name| (name.as_str(), Some(large.clone())))
            .collect();
        assert!(check(&report(None, &five)).is_ok());
        assert!(apply(&mut Facts::new(), &report(None, &five), 1).is_err());
    }
}
