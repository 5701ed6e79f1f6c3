//! What is known of the cluster, within bounds, and what of it the hub does not know yet.

use std::collections::BTreeMap;

use fairlead_api::{
    config::CollectorKind,
    facts::{
        FactName, INCOMPLETE_FACT, MAX_FACT_BYTES, MAX_FACT_DEPTH, MAX_FACTS, MAX_TOTAL_FACT_BYTES,
        Report, ReportedFact, depth,
    },
    hello::Instance,
};
use serde_json::{Value, value::RawValue};

use super::collector::{Round, Told};

/// One place is kept for what says that something is missing.
const MOST: usize = MAX_FACTS - 1;
/// Its room, in bytes.
const ROOM: usize = 8 * 1024;

/// Time in milliseconds since 1970.
pub(super) type Millis = i64;

#[derive(Default)]
pub(super) struct Known {
    facts: BTreeMap<FactName, Fact>,
    /// Names that are no more, and when that was found.
    removed: BTreeMap<FactName, Change>,
    /// What is missing, by fact or collector.
    notes: BTreeMap<CollectorKind, BTreeMap<String, String>>,
    last: Change,
    /// The last change that the hub has, and what it calls what it knows since then.
    acknowledged: Option<(Change, String)>,
    sequence: u64,
}

/// Counts changes.
type Change = u64;

struct Fact {
    /// None: what is missing.
    of: Option<CollectorKind>,
    value: Box<RawValue>,
    observed: Millis,
    changed: Change,
}

/// A report on its way.
pub(super) struct Sent {
    pub(super) json: String,
    change: Change,
}

impl Known {
    /// What a collector has found replaces what it found before.
    pub(super) fn learn(&mut self, kind: CollectorKind, round: Round, now: Millis) {
        let mut notes = BTreeMap::new();
        if !round.forbidden.is_empty() {
            let rights = round.forbidden.join(", ");
            notes.insert(
                kind.as_str().to_owned(),
                format!("the agent may not: {rights}"),
            );
        }
        if round.unread > 0 {
            let text = format!("{} objects could not be read", round.unread);
            notes.insert(format!("{}/objects", kind.as_str()), text);
        }
        let mut told = Vec::new();
        let (mut count, mut room) = self.room_beside(kind);
        for Told {
            name,
            value,
            left_out,
        } in round.told
        {
            let Some(name) = self.free(&name, kind) else {
                notes.insert(shown(&name), "the name is taken, or is none".to_owned());
                continue;
            };
            let (value, cut) = cut(value, room.min(MAX_FACT_BYTES));
            let left_out = left_out + cut;
            match value.filter(|_| count < MOST) {
                Some(value) => {
                    (count, room) = (count + 1, room - value.get().len());
                    if left_out > 0 {
                        notes.insert(shown(name.as_str()), format!("{left_out} entries left out"));
                    }
                    told.push((name, value));
                }
                None => drop(notes.insert(
                    shown(name.as_str()),
                    "it is more than may be told".to_owned(),
                )),
            }
        }
        self.replace(Some(kind), told, now);
        self.notes.insert(kind, notes);
    }

    /// Its collector runs no more.
    pub(super) fn forget(&mut self, kind: CollectorKind, now: Millis) {
        self.notes.remove(&kind);
        self.replace(Some(kind), Vec::new(), now);
    }

    /// To be called when all collectors of a round have been learned from.
    pub(super) fn note(&mut self, now: Millis) {
        let mut notes = serde_json::Map::new();
        for (name, text) in self.notes.values().flatten() {
            notes.insert(name.clone(), text.as_str().into());
        }
        let value = (!notes.is_empty()).then(|| cut(notes.into(), ROOM).0);
        let told = INCOMPLETE_FACT.parse().ok().zip(value.flatten());
        self.replace(None, told.into_iter().collect(), now);
    }

    /// How many facts and bytes there are of other collectors, the room of what is missing included.
    fn room_beside(&self, kind: CollectorKind) -> (usize, usize) {
        let others = || {
            self.facts
                .values()
                .filter(|fact| fact.of.is_some_and(|of| of != kind))
        };
        let bytes: usize = others().map(|fact| fact.value.get().len()).sum();
        (
            others().count(),
            (MAX_TOTAL_FACT_BYTES - ROOM).saturating_sub(bytes),
        )
    }

    fn free(&self, name: &str, kind: CollectorKind) -> Option<FactName> {
        let name: FactName = name.parse().ok()?;
        let taken = name.as_str() == INCOMPLETE_FACT
            || (self.facts.get(&name)).is_some_and(|fact| fact.of != Some(kind));
        (!taken).then_some(name)
    }

    fn replace(
        &mut self,
        of: Option<CollectorKind>,
        told: Vec<(FactName, Box<RawValue>)>,
        now: Millis,
    ) {
        let told: BTreeMap<_, _> = told.into_iter().collect();
        let change = self.last + 1;
        let gone = |name: &FactName, fact: &mut Fact| fact.of == of && !told.contains_key(name);
        for (name, _) in self.facts.extract_if(.., gone) {
            self.removed.insert(name, change);
            self.last = change;
        }
        if self.acknowledged.is_none() || self.removed.len() > MAX_FACTS {
            // The whole is told next, and says by itself what is gone.
            self.start_over();
        }
        for (name, value) in told {
            let same = (self.facts.get(&name)).is_some_and(|fact| fact.value.get() == value.get());
            if same {
                continue;
            }
            self.last = change;
            self.removed.remove(&name);
            let fact = Fact {
                of,
                value,
                observed: now,
                changed: change,
            };
            self.facts.insert(name, fact);
        }
    }

    /// Whether there is something that the hub does not know.
    pub(super) fn has_news(&self) -> bool {
        (self.acknowledged.as_ref()).is_none_or(|(change, _)| *change < self.last)
    }

    /// The hub knows nothing of what was said before.
    pub(super) fn start_over(&mut self) {
        self.acknowledged = None;
        self.removed.clear();
    }

    /// What to send: what has changed since the hub acknowledged something, else everything.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub(super) fn report(
        &mut self,
        instance: Instance,
        every: u32,
    ) -> Result<Sent, serde_json::Error> {
        self.sequence += 1;
        let since = (self.acknowledged.as_ref()).map_or(0, |(change, _)| *change);
        let is_new = |(_, fact): &(&FactName, &Fact)| fact.changed > since;
        let told = self.facts.iter().filter(is_new).map(|(name, fact)| {
            let reported = ReportedFact {
                value: fact.value.as_ref(),
                observed: fact.observed,
            };
            (name.clone(), Some(reported))
        });
        // Nothing was ever told of which something could be gone.
        let gone = self
            .removed
            .iter()
            .filter(|(_, change)| since > 0 && **change > since);
        let report = Report {
            instance,
            sequence: self.sequence,
            interval_seconds: every,
            base: self.acknowledged.as_ref().map(|(_, etag)| etag.clone()),
            facts: told
                .chain(gone.map(|(name, _)| (name.clone(), None)))
                .collect(),
        };
        Ok(Sent {
            json: serde_json::to_string(&report)?,
            change: self.last,
        })
    }

    /// The hub has taken it.
    pub(super) fn acknowledge(&mut self, change: Change, etag: String) {
        self.removed.retain(|_, gone| *gone > change);
        self.acknowledged = Some((change, etag));
    }
}

impl Sent {
    pub(super) fn change(&self) -> Change {
        self.change
    }
}

/// A name as it may stand in a fact, whoever chose it.
fn shown(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_ascii_graphic())
        .take(128)
        .collect()
}

/// The value in `limit` bytes, and how many of its entries were left out for that. None if it cannot be cut so far.
fn cut(value: Value, limit: usize) -> (Option<Box<RawValue>>, usize) {
    if depth(&value) > MAX_FACT_DEPTH {
        return (None, 0);
    }
    let raw = |value: &Value| serde_json::value::to_raw_value(value).ok();
    let Some(whole) = raw(&value) else {
        return (None, 0);
    };
    if whole.get().len() <= limit {
        return (Some(whole), 0);
    }
    // Brackets, commas and colons.
    let length = |value: &Value| raw(value).map_or(limit, |raw| raw.get().len()) + 2;
    let quoted = |key: &str| serde_json::to_string(key).map_or(limit, |key| key.len());
    let mut used = 2;
    let mut fits = |more: usize| {
        used += more;
        used <= limit
    };
    let (kept, left_out) = match value {
        Value::Object(object) => {
            let count = object.len();
            let entries = object.into_iter();
            let kept: serde_json::Map<_, _> = entries
                .take_while(|(key, value)| fits(quoted(key) + 1 + length(value)))
                .collect();
            let left_out = count - kept.len();
            (Value::from(kept), left_out)
        }
        Value::Array(list) => {
            let count = list.len();
            let kept: Vec<_> = list
                .into_iter()
                .take_while(|value| fits(length(value)))
                .collect();
            let left_out = count - kept.len();
            (Value::from(kept), left_out)
        }
        _ => return (None, 0),
    };
    (raw(&kept).filter(|raw| raw.get().len() <= limit), left_out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn round(told: &[(&str, Value)]) -> Round {
        Round {
            told: told
                .iter()
                .map(|(name, value)| Told::whole(name, value.clone()))
                .collect(),
            forbidden: Vec::new(),
            unread: 0,
        }
    }

    fn sent(known: &mut Known) -> (Report, Sent) {
        let sent = known.report(Instance::from_bytes([1; 16]), 3600).unwrap();
        (serde_json::from_str(&sent.json).unwrap(), sent)
    }

    fn told(report: &Report) -> Value {
        let facts = report.facts.iter();
        facts
            .map(|(name, fact)| {
                (
                    name.to_string(),
                    json!(fact.as_ref().map(|fact| &fact.value)),
                )
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    #[test]
    fn the_first_report_is_whole_and_the_next_says_what_has_changed() {
        let mut known = Known::default();
        assert!(known.has_news(), "that there is nothing is news, too");
        known.learn(
            CollectorKind::Nodes,
            round(&[("nodes", json!(3)), ("other", json!(1))]),
            10,
        );
        known.learn(
            CollectorKind::Version,
            round(&[("version", json!("1"))]),
            10,
        );
        let (report, first) = sent(&mut known);
        assert_eq!(report.base, None);
        assert_eq!(
            told(&report),
            json!({ "nodes": 3, "other": 1, "version": "1" })
        );
        known.acknowledge(first.change(), "e1".to_owned());
        assert!(!known.has_news());

        known.learn(CollectorKind::Nodes, round(&[("nodes", json!(4))]), 20);
        known.learn(
            CollectorKind::Version,
            round(&[("version", json!("1"))]),
            20,
        );
        assert!(known.has_news());
        let (report, second) = sent(&mut known);
        assert_eq!(report.base.as_deref(), Some("e1"));
        assert_eq!(told(&report), json!({ "nodes": 4, "other": null }));
        assert_eq!(report.facts.values().flatten().next().unwrap().observed, 20);
        assert!(report.sequence > 1);

        // The answer was lost, and something has come back meanwhile.
        known.learn(
            CollectorKind::Nodes,
            round(&[("nodes", json!(4)), ("other", json!(2))]),
            30,
        );
        let (report, third) = sent(&mut known);
        assert_eq!(told(&report), json!({ "nodes": 4, "other": 2 }));
        known.acknowledge(second.change(), "e2".to_owned());
        assert!(known.has_news());
        known.acknowledge(third.change(), "e3".to_owned());
        assert!(!known.has_news());
        assert_eq!(told(&sent(&mut known).0), json!({}));

        known.start_over();
        assert_eq!(
            told(&sent(&mut known).0),
            json!({ "nodes": 4, "other": 2, "version": "1" })
        );
    }

    #[test]
    fn what_is_forbidden_or_too_much_is_said() {
        let mut known = Known::default();
        let mut nodes = round(&[]);
        nodes.forbidden.push("list nodes");
        known.learn(CollectorKind::Nodes, nodes, 1);
        let hosts: serde_json::Map<_, _> = (0..9000)
            .map(|n| (format!("{n:05}.example.com"), json!(["ns/name"])))
            .collect();
        known.learn(
            CollectorKind::Hosts,
            round(&[("ingressHosts", hosts.into())]),
            1,
        );
        let mut deep = json!(1);
        for _ in 0..=MAX_FACT_DEPTH {
            deep = json!([deep]);
        }
        let additional = [
            ("deep", deep),
            ("ingressHosts", json!("mine")),
            ("incomplete", json!("mine")),
            ("a name", json!(1)),
            ("long", json!("x".repeat(MAX_FACT_BYTES))),
        ];
        known.learn(CollectorKind::Additional, round(&additional), 1);
        known.note(1);
        let (report, first) = sent(&mut known);
        let told = told(&report);
        let kept = told["ingressHosts"].as_object().unwrap().len();
        assert!(told["ingressHosts"].to_string().len() <= MAX_FACT_BYTES);
        let taken = "the name is taken, or is none";
        assert_eq!(
            told["incomplete"],
            json!({
                "nodes": "the agent may not: list nodes",
                "ingressHosts": taken,
                "deep": "it is more than may be told",
                "long": "it is more than may be told",
                "incomplete": taken,
                "aname": taken,
            })
        );
        assert!(kept > 1000 && told.as_object().unwrap().len() == 2);

        known.acknowledge(first.change(), "e".to_owned());
        known.learn(CollectorKind::Nodes, round(&[]), 2);
        known.learn(CollectorKind::Hosts, round(&[]), 2);
        known.learn(CollectorKind::Additional, round(&[]), 2);
        known.note(2);
        assert_eq!(
            self::told(&sent(&mut known).0),
            json!({ "ingressHosts": null, "incomplete": null })
        );
    }

    #[test]
    fn whatever_is_found_the_whole_stays_within_its_bounds() {
        let mut known = Known::default();
        let many: Vec<_> = (0..MAX_FACTS + 10)
            .map(|n| Told::whole(&format!("f{n}"), json!(["x".repeat(5000)])))
            .collect();
        let many = Round {
            told: many,
            forbidden: Vec::new(),
            unread: 3,
        };
        known.learn(CollectorKind::Additional, many, 1);
        known.learn(
            CollectorKind::Nodes,
            round(&[("nodes", json!("y".repeat(2000)))]),
            1,
        );
        known.note(1);
        let (report, sent) = sent(&mut known);
        let bytes: usize = known
            .facts
            .values()
            .map(|fact| fact.value.get().len())
            .sum();
        assert!(bytes <= MAX_TOTAL_FACT_BYTES && report.facts.len() <= MAX_FACTS);
        assert!(sent.json.len() <= fairlead_api::facts::MAX_REPORT_BYTES);
        assert!(
            report
                .facts
                .keys()
                .any(|name| name.as_str() == INCOMPLETE_FACT)
        );
    }

    #[test]
    fn a_collector_that_is_switched_off_takes_its_facts_along() {
        let mut known = Known::default();
        known.learn(CollectorKind::Nodes, round(&[("nodes", json!(3))]), 1);
        let (_, first) = sent(&mut known);
        known.acknowledge(first.change(), "e".to_owned());
        known.forget(CollectorKind::Nodes, 2);
        assert_eq!(told(&sent(&mut known).0), json!({ "nodes": null }));
    }
}
