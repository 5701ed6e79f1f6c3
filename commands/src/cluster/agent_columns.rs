//! Data for the columns of the wide table that are not in cluster documents: sessions and configuration of the agents.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    ClusterId, Failure,
    config::AgentConfigStatus,
    resources::{AgentSession, Cluster, ClusterState, List},
};
use fairlead_client::HubClient;

use super::views::rtt;
use crate::output::OutputFormat;

/// Agent data of clusters; empty except for format `wide`.
#[derive(Default)]
pub(super) struct AgentColumns {
    /// Clusters whose agents apply an older configuration than the desired one.
    pub(super) outdated: BTreeSet<ClusterId>,
    sessions: BTreeMap<ClusterId, Vec<AgentSession>>,
}

impl AgentColumns {
    /// Reads the sessions of each connected cluster, one after the other over one connection.
    pub(super) async fn of(
        hub: &HubClient,
        format: &OutputFormat,
        clusters: &[Cluster],
    ) -> Result<Self, Failure> {
        let mut agents = AgentColumns::default();
        if *format != OutputFormat::Wide {
            return Ok(agents);
        }
        let all: List<AgentConfigStatus> = hub.get("/v1/agents").await?;
        let outdated = all.items.into_iter().filter(|it| it.outdated);
        agents.outdated = outdated.map(|it| it.cluster).collect();
        let has_session = |it: &&Cluster| {
            matches!(
                it.status.state,
                ClusterState::Connected | ClusterState::ApiUnreachable
            )
        };
        for cluster in clusters.iter().filter(has_session) {
            let path = format!("/v1/clusters/{}/sessions", cluster.id);
            // The cluster may have been deleted since the list was read.
            let sessions: Option<List<AgentSession>> = hub.get_optional(&path).await?;
            let items = sessions.map(|it| it.items).unwrap_or_default();
            agents.sessions.insert(cluster.id.clone(), items);
        }
        Ok(agents)
    }

    fn sessions(&self, id: &ClusterId) -> &[AgentSession] {
        self.sessions.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Versions of the cluster's agents without duplicates.
    pub(super) fn versions(&self, id: &ClusterId) -> String {
        let sessions = self.sessions(id).iter();
        let versions: BTreeSet<&str> = sessions.map(|it| it.agent_version.as_str()).collect();
        versions.into_iter().collect::<Vec<_>>().join(",")
    }

    /// Number of agents with a session.
    pub(super) fn replicas(&self, id: &ClusterId) -> Option<String> {
        let sessions = self.sessions(id).iter();
        let names: BTreeSet<_> = sessions.map(|it| it.instance.to_string()).collect();
        (!names.is_empty()).then(|| names.len().to_string())
    }

    /// Shortest round-trip time of the sessions.
    pub(super) fn rtt(&self, id: &ClusterId) -> Option<String> {
        let all = self.sessions(id).iter().filter_map(|it| it.rtt_micros);
        all.min().map(rtt)
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
    fn sessions_are_counted_by_agent() {
        let session = |instance: &str, version: &str, rtt: u64| -> AgentSession {
            let at = "2026-11-21T12:00:00Z";
            serde_json::from_value(json!({
                "from": "10.0.0.1", "opened": at, "instance": instance.repeat(32), "link": 0, "agentVersion": version, "up": true,
                "recognised": true, "requests": 1, "rttMicros": rtt, "certificateExpires": at,
            }))
            .unwrap()
        };
        let id: ClusterId = "c-a".parse().unwrap();
        let sessions = vec![
            session("a", "0.1.0", 2_000),
            session("a", "0.1.0", 1_500),
            session("b", "0.2.0", 3_000),
        ];
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
