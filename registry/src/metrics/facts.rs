//! Facts as metrics: selected facts as labels, and the time of each source's last report.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::Code;
use fairlead_store::{
    Observed,
    model::{Cluster, FactSource, Facts},
};
use serde_json::Value;

use crate::{
    metrics::{
        compiled::label,
        family::{Family, number, seconds},
    },
    stale::{Reporting, stale_names},
};

/// Problems of a tool's health that become rows.
const MAX_HEALTH_PROBLEMS: usize = 5;

pub(super) struct FactMetrics {
    chosen: Vec<(String, String)>,
    facts: Family,
    dynamic: Family,
    reported: Family,
    freshness: Family,
    stale: Family,
    gitops: Family,
    counts: BTreeMap<(FactSource, bool), usize>,
    reporting: Reporting,
}

impl FactMetrics {
    /// `chosen` facts become labels.
    pub(super) fn new(chosen: &[String], reporting: Reporting) -> Self {
        let family = Family::new;
        let mut taken = BTreeSet::new();
        let chosen = chosen.iter().map(|name| (name.clone(), label(name)));
        FactMetrics {
            // Of two facts with the same label name the first one is used.
            chosen: (chosen.filter(|(_, label)| taken.insert(label.clone()))).collect(),
            facts: family(
                "syn_lieutenant_cluster_facts",
                "Chosen facts that people have set, as labels; always 1.",
            ),
            dynamic: family(
                "syn_lieutenant_cluster_dynamic_facts",
                "Chosen facts that programs have seen, as labels; always 1.",
            ),
            reported: family(
                "fairlead_cluster_facts_reported_timestamp_seconds",
                "When a source last reported facts of a cluster, in seconds since 1970.",
            ),
            freshness: family(
                "fairlead_facts_sources",
                "Clusters by source of their facts, and whether its reports still come.",
            ),
            stale: family(
                "fairlead_cluster_stale_facts",
                "Facts that programs have seen and cluster_labels source has stopped reporting.",
            ),
            gitops: family(
                "fairlead_cluster_gitops_problem",
                "Problem of a cluster's GitOps key, of its last sync or of its tool, by code; always 1.",
            ),
            counts: BTreeMap::new(),
            reporting,
        }
    }

    pub(super) fn add(&mut self, cluster: &Cluster, observed: &Observed, now: i64) {
        let cluster_labels = [
            ("cluster", cluster.id.as_str()),
            ("tenant", cluster.tenant.as_str()),
        ];
        for (family, facts) in [
            (&mut self.facts, &cluster.facts),
            (&mut self.dynamic, &cluster.dynamic_facts),
        ] {
            let texts: Vec<(&str, String)> = (self.chosen.iter())
                .filter_map(|(name, label)| Some((label.as_str(), text(facts, name)?)))
                .collect();
            if !texts.is_empty() {
                let labels = texts.iter().map(|(label, text)| (*label, text.as_str()));
                family.add(cluster_labels.into_iter().chain(labels), 1.0);
            }
        }
        let dynamic = &cluster.dynamic_facts;
        if !dynamic.is_empty() {
            let stale = stale_names(dynamic, observed, &self.reporting, now);
            self.stale.add(cluster_labels, number(stale.len()));
        }
        for code in gitops_problems(dynamic) {
            let labels = cluster_labels.into_iter().chain([("code", code.as_str())]);
            self.gitops.add(labels, 1.0);
        }
        for (source, at) in seen(cluster, observed) {
            let labels = [cluster_labels[0], ("source", source.as_str())];
            self.reported.add(labels, seconds(at));
            let stale = self.reporting.is_stale(source, at, now);
            *self.counts.entry((source, stale)).or_default() += 1;
        }
    }

    pub(super) fn into_families(mut self) -> [Family; 6] {
        for ((source, stale), count) in self.counts {
            let state = if stale { "stale" } else { "fresh" };
            let labels = [("source", source.as_str()), ("state", state)];
            self.freshness.add(labels, number(count));
        }
        [
            self.facts,
            self.dynamic,
            self.reported,
            self.freshness,
            self.stale,
            self.gitops,
        ]
    }
}

/// Codes in the fact `gitops`: of the key or the last sync, and of the tool's health. Agents report them, so only known
/// codes become labels.
fn gitops_problems(facts: &Facts) -> BTreeSet<String> {
    let Some(fact) = facts.get("gitops") else {
        return BTreeSet::new();
    };
    let of_health = fact
        .value
        .pointer("/health/problems")
        .and_then(Value::as_array);
    let of_health = of_health.into_iter().flatten().take(MAX_HEALTH_PROBLEMS);
    let codes = of_health.filter_map(|it| it.get("code"));
    let codes = codes
        .chain(fact.value.get("code"))
        .filter_map(Value::as_str);
    let known = codes.filter_map(|it| it.parse::<Code>().ok());
    known.map(|it| it.to_string()).collect()
}

/// Last report of each source, with or without changes.
fn seen(cluster: &Cluster, observed: &Observed) -> BTreeMap<FactSource, i64> {
    let mut seen = observed.reported.clone();
    let facts = cluster.facts.values().chain(cluster.dynamic_facts.values());
    for fact in facts {
        let at = seen.entry(fact.source).or_insert(fact.received);
        *at = fact.received.max(*at);
    }
    seen
}

/// Values other than strings are written as JSON.
fn text(facts: &Facts, name: &str) -> Option<String> {
    match &facts.get(name)?.value {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
