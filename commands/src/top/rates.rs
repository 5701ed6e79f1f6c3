//! Rates of clusters between two answers of one hub, over the hubs that are in both.

use std::collections::HashMap;

use fairlead_api::{
    ClusterId, HubUrl, TenantId,
    resources::{Activity, ClusterActivity, ClusterState, SessionsActivity},
};
use serde::Serialize;
use time::OffsetDateTime;

/// One cluster with its rates; those are unknown before the second answer, and without a session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopRow {
    pub(super) id: ClusterId,
    pub(super) tenant: TenantId,
    pub(super) display_name: String,
    pub(super) state: ClusterState,
    #[serde(with = "time::serde::rfc3339")]
    pub(super) since: OffsetDateTime,
    #[serde(
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) last_seen: Option<OffsetDateTime>,
    pub(super) agent_versions: Vec<String>,
    /// Hubs with a session; empty for the only hub of a store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hubs: Vec<HubUrl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rtt_micros: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requests_open: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requests_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_in_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_out_per_second: Option<f64>,
}

/// Rows of `now`, with rates since `before`.
pub(super) fn rates(before: Option<&Activity>, now: &Activity) -> Vec<TopRow> {
    let first = before;
    let clusters = before.map_or(&[][..], |it| &it.clusters);
    let earlier: HashMap<&ClusterId, &ClusterActivity> =
        clusters.iter().map(|it| (&it.id, it)).collect();
    let seconds = before.map(|it| (now.at - it.at).as_seconds_f64());
    let seconds = seconds.filter(|it| *it > 0.0);
    let rows = now.clusters.iter().map(|cluster| {
        let sessions = cluster.sessions.as_ref();
        let before = earlier.get(&cluster.id).copied();
        let counted = HubCounts {
            before: before.map_or_else(Vec::new, by_hub),
            now: by_hub(cluster),
            // A hub that has not answered before has counts of its whole life.
            answered: &|hub| has_answered(first, hub),
        };
        let rate = |count: fn(&SessionsActivity) -> u64| {
            let seconds = seconds?;
            sessions?;
            Some(counted.delta(count) as f64 / seconds)
        };
        TopRow {
            id: cluster.id.clone(),
            tenant: cluster.tenant.clone(),
            display_name: cluster.display_name.clone(),
            state: cluster.state,
            since: cluster.since,
            last_seen: cluster.last_seen,
            agent_versions: sessions.map_or_else(Vec::new, |it| it.agent_versions.clone()),
            hubs: cluster.hubs.iter().map(|it| it.hub.clone()).collect(),
            rtt_micros: sessions.and_then(|it| it.rtt_micros),
            requests_open: sessions.map(|it| it.requests_open),
            requests_per_second: rate(|it| it.requests_total),
            bytes_in_per_second: rate(|it| it.bytes_in),
            bytes_out_per_second: rate(|it| it.bytes_out),
        }
    });
    rows.collect()
}

/// Activity of one cluster by hub, in two answers. The only hub of a store has no name.
struct HubCounts<'a> {
    before: Vec<(Option<&'a HubUrl>, &'a SessionsActivity)>,
    now: Vec<(Option<&'a HubUrl>, &'a SessionsActivity)>,
    answered: &'a dyn Fn(Option<&HubUrl>) -> bool,
}

impl HubCounts<'_> {
    fn delta(&self, count: fn(&SessionsActivity) -> u64) -> u64 {
        let deltas = self.now.iter().map(|(hub, now)| {
            let mut same = self.before.iter().filter(|(other, _)| other == hub);
            let (now, before) = (count(now), same.next().map(|(_, it)| count(it)));
            match before {
                // A smaller count began anew.
                Some(before) => now.checked_sub(before).unwrap_or(now),
                None if (self.answered)(*hub) => now,
                None => 0,
            }
        });
        deltas.fold(0, u64::saturating_add)
    }
}

fn by_hub(cluster: &ClusterActivity) -> Vec<(Option<&HubUrl>, &SessionsActivity)> {
    let hubs = cluster.hubs.iter();
    match cluster.hubs.is_empty() {
        true => cluster.sessions.iter().map(|it| (None, it)).collect(),
        false => hubs.map(|it| (Some(&it.hub), &it.sessions)).collect(),
    }
}

fn has_answered(answer: Option<&Activity>, hub: Option<&HubUrl>) -> bool {
    answer.is_some_and(|answer| match hub {
        Some(hub) => answer.hubs.iter().any(|it| it.hub == *hub),
        None => true,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use fairlead_api::resources::{HubSessionsActivity, HubVersion};
    use serde_json::json;

    use super::*;

    pub(crate) fn activity(second: u8, clusters: &[(&str, &str, Option<u64>)]) -> Activity {
        let at = format!("2026-11-21T12:00:{second:02}Z");
        let clusters: Vec<_> = clusters
            .iter()
            .map(|(id, state, count)| {
                let sessions = count.map(|count| {
                    json!({ "agents": 1, "agentVersions": ["0.1.0"], "rttMicros": 1500, "requestsOpen": 2,
                        "requestsTotal": count, "bytesIn": 1000 * count, "bytesOut": 10 * count })
                });
                json!({ "id": id, "tenant": "t-a", "displayName": id.trim_start_matches("c-"), "state": state,
                    "since": "2026-11-21T11:00:00Z", "sessions": sessions })
            })
            .collect();
        serde_json::from_value(json!({ "at": at, "clusters": clusters })).unwrap()
    }

    #[test]
    fn rates_are_differences_by_seconds() {
        let before = activity(0, &[("c-a", "Connected", Some(100)), ("c-b", "Lost", None)]);
        let all = [
            ("c-a", "Connected", Some(120)),
            ("c-b", "Lost", None),
            ("c-c", "Connected", Some(8)),
        ];
        let now = activity(4, &all);
        let rows = rates(Some(&before), &now);
        let requests: Vec<_> = rows.iter().map(|it| it.requests_per_second).collect();
        assert_eq!(requests, [Some(5.0), None, Some(2.0)]);
        assert_eq!(rows[0].bytes_in_per_second, Some(5000.0));
        assert_eq!(rows[0].bytes_out_per_second, Some(50.0));
    }

    #[test]
    fn first_answer_has_no_rates_and_a_new_count_starts_at_zero() {
        let first = activity(0, &[("c-a", "Connected", Some(100))]);
        assert_eq!(rates(None, &first)[0].requests_per_second, None);
        let again = activity(2, &[("c-a", "Connected", Some(6))]);
        let rows = rates(Some(&first), &again);
        assert_eq!(rows[0].requests_per_second, Some(3.0));
        // The same answer twice.
        assert_eq!(rates(Some(&again), &again)[0].requests_per_second, None);
    }

    /// Answer with one cluster whose sessions at these hubs have these counts.
    fn at_hubs(second: u8, counts: &[(&str, u64)]) -> Activity {
        let mut answer = activity(second, &[("c-a", "Connected", Some(0))]);
        let cluster = answer.clusters.first_mut().unwrap();
        for (name, count) in counts {
            let hub: HubUrl = format!("https://{name}").parse().unwrap();
            let counted = activity(second, &[("c-a", "Connected", Some(*count))]);
            let sessions = counted.clusters[0].sessions.clone().unwrap();
            cluster.sessions.as_mut().unwrap().add(&sessions);
            cluster.hubs.push(HubSessionsActivity {
                hub: hub.clone(),
                sessions,
            });
            let version = "0.1.0".to_owned();
            answer.hubs.push(HubVersion { hub, version });
        }
        answer
    }

    #[test]
    fn hub_without_an_answer_makes_no_peak() {
        let both = at_hubs(0, &[("one", 100), ("two", 5000)]);
        let alone = at_hubs(2, &[("one", 110)]);
        let again = at_hubs(4, &[("one", 120), ("two", 5100)]);
        let later = at_hubs(6, &[("one", 130), ("two", 5120)]);
        let rate = |before, now| rates(Some(before), now)[0].requests_per_second;
        assert_eq!(rate(&both, &alone), Some(5.0));
        assert_eq!(rate(&alone, &again), Some(5.0));
        assert_eq!(rate(&again, &later), Some(15.0));
    }
}
