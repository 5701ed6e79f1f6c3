//! Data for the columns of the wide table that are not in cluster documents: activity and configuration of the agents.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    ClusterId, Failure,
    config::AgentConfigStatus,
    resources::{Activity, List, SessionsActivity},
};
use fairlead_client::HubClient;

use super::views::rtt;
use crate::output::OutputFormat;

/// Agent data of clusters; empty except for format `wide`.
#[derive(Default)]
pub(super) struct AgentColumns {
    /// Clusters whose agents apply an older configuration than the desired one.
    pub(super) outdated: BTreeSet<ClusterId>,
    sessions: BTreeMap<ClusterId, SessionsActivity>,
}

impl AgentColumns {
    /// Reads the activity of all visible clusters.
    pub(super) async fn of(hub: &HubClient, format: &OutputFormat) -> Result<Self, Failure> {
        let mut agents = AgentColumns::default();
        if *format != OutputFormat::Wide {
            return Ok(agents);
        }
        let all: List<AgentConfigStatus> = hub.get("/v1/agents").await?;
        let outdated = all.items.into_iter().filter(|it| it.outdated);
        agents.outdated = outdated.map(|it| it.cluster).collect();
        // A hub of an earlier version has no such route.
        let activity: Option<Activity> = hub.get_optional("/v1/activity").await?;
        let clusters = activity.map(|it| it.clusters).unwrap_or_default();
        let sessions = clusters.into_iter();
        agents.sessions = sessions
            .filter_map(|it| Some((it.id, it.sessions?)))
            .collect();
        Ok(agents)
    }

    /// Versions of the cluster's agents without duplicates.
    pub(super) fn versions(&self, id: &ClusterId) -> String {
        let sessions = self.sessions.get(id);
        sessions.map_or_else(String::new, |it| it.agent_versions.join(","))
    }

    /// Number of agents with a session.
    pub(super) fn replicas(&self, id: &ClusterId) -> Option<String> {
        self.sessions.get(id).map(|it| it.agents.to_string())
    }

    /// Shortest round-trip time of the sessions.
    pub(super) fn rtt(&self, id: &ClusterId) -> Option<String> {
        self.sessions.get(id)?.rtt_micros.map(rtt)
    }

    pub(super) fn configuration(&self, id: &ClusterId) -> &'static str {
        match self.outdated.contains(id) {
            true => "outdated",
            false => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_without_a_session_have_empty_columns() {
        let id: ClusterId = "c-a".parse().unwrap();
        let sessions = serde_json::from_value(json!({
            "agents": 2, "agentVersions": ["0.1.0", "0.2.0"], "rttMicros": 1500, "requestsOpen": 1, "requestsTotal": 9,
            "bytesIn": 1, "bytesOut": 1,
        }))
        .unwrap();
        let agents = AgentColumns {
            sessions: [(id.clone(), sessions)].into(),
            ..AgentColumns::default()
        };
        assert_eq!(agents.versions(&id), "0.1.0,0.2.0");
        assert_eq!(agents.replicas(&id).as_deref(), Some("2"));
        assert_eq!(agents.rtt(&id).as_deref(), Some("1.5ms"));
        let other: ClusterId = "c-b".parse().unwrap();
        assert_eq!((agents.replicas(&other), agents.rtt(&other)), (None, None));
    }
}
