//! Rates of clusters between two answers of one hub.

use std::collections::HashMap;

use fairlead_api::{
    ClusterId, TenantId,
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
    let clusters = before.map_or(&[][..], |it| &it.clusters);
    let earlier: HashMap<&ClusterId, &ClusterActivity> =
        clusters.iter().map(|it| (&it.id, it)).collect();
    let seconds = before.map(|it| (now.at - it.at).as_seconds_f64());
    let seconds = seconds.filter(|it| *it > 0.0);
    let rows = now.clusters.iter().map(|cluster| {
        let sessions = cluster.sessions.as_ref();
        let before = earlier.get(&cluster.id).and_then(|it| it.sessions.as_ref());
        let rate = |count: fn(&SessionsActivity) -> u64| {
            let (seconds, now) = (seconds?, count(sessions?));
            // A smaller count began anew.
            let before = before.map_or(0, count);
            let delta = now.checked_sub(before).unwrap_or(now);
            Some(delta as f64 / seconds)
        };
        TopRow {
            id: cluster.id.clone(),
            tenant: cluster.tenant.clone(),
            display_name: cluster.display_name.clone(),
            state: cluster.state,
            since: cluster.since,
            last_seen: cluster.last_seen,
            agent_versions: sessions.map_or_else(Vec::new, |it| it.agent_versions.clone()),
            rtt_micros: sessions.and_then(|it| it.rtt_micros),
            requests_open: sessions.map(|it| it.requests_open),
            requests_per_second: rate(|it| it.requests_total),
            bytes_in_per_second: rate(|it| it.bytes_in),
            bytes_out_per_second: rate(|it| it.bytes_out),
        }
    });
    rows.collect()
}

#[cfg(test)]
pub(super) mod tests {
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
}
