//! Known facts about the cluster, within bounds, and the changes not yet reported to the hub.

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

use super::collector::{CollectedFact, CollectionRound};

/// Maximum number of collected facts; one place is reserved for `incomplete`.
const MAX_OWN_FACTS: usize = MAX_FACTS - 1;
/// Size reserved for `incomplete`, in bytes.
const MAX_INCOMPLETE_BYTES: usize = 8 * 1024;

/// Milliseconds since 1970.
pub(super) type UnixMillis = i64;

#[derive(Default)]
pub(super) struct KnownFacts {
    facts: BTreeMap<FactName, KnownFact>,
    /// Names of removed facts, with the change that removed them.
    removed: BTreeMap<FactName, ChangeNumber>,
    /// Reasons for missing facts, by collector, by fact or source.
    notes: BTreeMap<CollectorKind, BTreeMap<String, String>>,
    last_change: ChangeNumber,
    /// Last change acknowledged by the hub, and the hub's entity tag for that state.
    acknowledged: Option<(ChangeNumber, String)>,
    sequence: u64,
}

/// Counter of changes.
type ChangeNumber = u64;

struct KnownFact {
    /// Collector of the fact; None for `incomplete`.
    kind: Option<CollectorKind>,
    value: Box<RawValue>,
    observed: UnixMillis,
    changed: ChangeNumber,
}

/// Report on its way to the hub.
pub(super) struct PendingReport {
    pub(super) json: String,
    change: ChangeNumber,
}

impl KnownFacts {
    /// Replaces all facts of a collector by those of a new round.
    pub(super) fn update(&mut self, kind: CollectorKind, round: CollectionRound, now: UnixMillis) {
        let mut notes = BTreeMap::new();
        if !round.forbidden.is_empty() {
            let rights = round.forbidden.join(", ");
            notes.insert(
                kind.as_str().to_owned(),
                format!("the agent lacks the right to: {rights}"),
            );
        }
        if round.unread > 0 {
            let text = format!("{} objects could not be read", round.unread);
            notes.insert(format!("{}/objects", kind.as_str()), text);
        }
        let mut facts = Vec::new();
        let (mut count, mut bytes_left) = self.remaining_capacity(kind);
        for CollectedFact {
            name,
            value,
            left_out,
        } in round.facts
        {
            let Some(name) = self.available_name(&name, kind) else {
                notes.insert(printable(&name), "the name is in use or invalid".to_owned());
                continue;
            };
            let (value, cut) = truncate(value, bytes_left.min(MAX_FACT_BYTES));
            let left_out = left_out + cut;
            match value.filter(|_| count < MAX_OWN_FACTS) {
                Some(value) => {
                    (count, bytes_left) = (count + 1, bytes_left - value.get().len());
                    if left_out > 0 {
                        notes.insert(
                            printable(name.as_str()),
                            format!("{left_out} entries left out"),
                        );
                    }
                    facts.push((name, value));
                }
                None => drop(notes.insert(
                    printable(name.as_str()),
                    "it exceeds the size limit of facts".to_owned(),
                )),
            }
        }
        self.replace(Some(kind), facts, now);
        self.notes.insert(kind, notes);
    }

    /// Removes the facts of a disabled collector.
    pub(super) fn remove_kind(&mut self, kind: CollectorKind, now: UnixMillis) {
        self.notes.remove(&kind);
        self.replace(Some(kind), Vec::new(), now);
    }

    /// Updates `incomplete`; called after the last collector of a round.
    pub(super) fn update_incomplete(&mut self, now: UnixMillis) {
        let mut notes = serde_json::Map::new();
        for (name, text) in self.notes.values().flatten() {
            notes.insert(name.clone(), text.as_str().into());
        }
        let value = (!notes.is_empty()).then(|| truncate(notes.into(), MAX_INCOMPLETE_BYTES).0);
        let facts = INCOMPLETE_FACT.parse().ok().zip(value.flatten());
        self.replace(None, facts.into_iter().collect(), now);
    }

    /// Number of facts and bytes left for a collector. The size of `incomplete` is reserved.
    fn remaining_capacity(&self, kind: CollectorKind) -> (usize, usize) {
        let others = || {
            self.facts
                .values()
                .filter(|fact| fact.kind.is_some_and(|of| of != kind))
        };
        let bytes: usize = others().map(|fact| fact.value.get().len()).sum();
        (
            others().count(),
            (MAX_TOTAL_FACT_BYTES - MAX_INCOMPLETE_BYTES).saturating_sub(bytes),
        )
    }

    fn available_name(&self, name: &str, kind: CollectorKind) -> Option<FactName> {
        let name: FactName = name.parse().ok()?;
        let in_use = name.as_str() == INCOMPLETE_FACT
            || (self.facts.get(&name)).is_some_and(|fact| fact.kind != Some(kind));
        (!in_use).then_some(name)
    }

    fn replace(
        &mut self,
        kind: Option<CollectorKind>,
        facts: Vec<(FactName, Box<RawValue>)>,
        now: UnixMillis,
    ) {
        let facts: BTreeMap<_, _> = facts.into_iter().collect();
        let change = self.last_change + 1;
        let gone =
            |name: &FactName, fact: &mut KnownFact| fact.kind == kind && !facts.contains_key(name);
        for (name, _) in self.facts.extract_if(.., gone) {
            self.removed.insert(name, change);
            self.last_change = change;
        }
        if self.acknowledged.is_none() || self.removed.len() > MAX_FACTS {
            // The next report is full, so it implies the removals.
            self.reset();
        }
        for (name, value) in facts {
            let same = (self.facts.get(&name)).is_some_and(|fact| fact.value.get() == value.get());
            if same {
                continue;
            }
            self.last_change = change;
            self.removed.remove(&name);
            let fact = KnownFact {
                kind,
                value,
                observed: now,
                changed: change,
            };
            self.facts.insert(name, fact);
        }
    }

    /// Whether the hub lacks a change.
    pub(super) fn has_changes(&self) -> bool {
        (self.acknowledged.as_ref()).is_none_or(|(change, _)| *change < self.last_change)
    }

    /// Makes the next report a full one: the hub has lost the previous ones.
    pub(super) fn reset(&mut self) {
        self.acknowledged = None;
        self.removed.clear();
    }

    /// Next report: changes since the last acknowledged one, else all facts.
    ///
    /// # Errors
    ///
    /// The report cannot be written as JSON.
    pub(super) fn report(
        &mut self,
        instance: Instance,
        every: u32,
    ) -> Result<PendingReport, serde_json::Error> {
        self.sequence += 1;
        let since = (self.acknowledged.as_ref()).map_or(0, |(change, _)| *change);
        let is_new = |(_, fact): &(&FactName, &KnownFact)| fact.changed > since;
        let facts = self.facts.iter().filter(is_new).map(|(name, fact)| {
            let reported = ReportedFact {
                value: fact.value.as_ref(),
                observed: fact.observed,
            };
            (name.clone(), Some(reported))
        });
        // A full report names no removed facts.
        let gone = self
            .removed
            .iter()
            .filter(|(_, change)| since > 0 && **change > since);
        let report = Report {
            instance,
            sequence: self.sequence,
            interval_seconds: every,
            base: self.acknowledged.as_ref().map(|(_, etag)| etag.clone()),
            facts: facts
                .chain(gone.map(|(name, _)| (name.clone(), None)))
                .collect(),
        };
        Ok(PendingReport {
            json: serde_json::to_string(&report)?,
            change: self.last_change,
        })
    }

    /// Notes that the hub has accepted the report.
    pub(super) fn acknowledge(&mut self, change: ChangeNumber, etag: String) {
        self.removed.retain(|_, gone| *gone > change);
        self.acknowledged = Some((change, etag));
    }
}

impl PendingReport {
    pub(super) fn change(&self) -> ChangeNumber {
        self.change
    }
}

/// Name of a fact, bounded and without control characters, for `incomplete`.
fn printable(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_ascii_graphic())
        .take(128)
        .collect()
}

/// Cuts a value to `limit` bytes. Returns it with the number of omitted entries; None if it cannot be cut.
fn truncate(value: Value, limit: usize) -> (Option<Box<RawValue>>, usize) {
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
mod tests;
