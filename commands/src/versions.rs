//! `fairlead version --fleet`: versions of the hub and of all connected agents.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    ClusterId, Failure,
    resources::{AgentSession, Cluster, ClusterState, HubInfo, List},
};
use fairlead_client::{Environment, HubClient};
use serde::Serialize;

use crate::{
    args::OutputArgs,
    output::{self, Cell, TableColumn},
    runtime::block_on,
};

/// Versions that run.
#[derive(Debug, Serialize)]
struct FleetVersions {
    /// Version of this program.
    client: &'static str,
    /// Version of the hub that answered.
    hub: String,
    /// Versions of connected agents.
    agents: Vec<VersionClusters>,
    /// Clusters without a connected agent.
    disconnected: BTreeSet<ClusterId>,
}

/// Clusters with an agent of one version. A cluster whose agents differ is in several.
#[derive(Debug, Serialize)]
struct VersionClusters {
    version: String,
    clusters: BTreeSet<ClusterId>,
}

/// Shows the versions of the hub and of the visible clusters' agents. `client`: version of this program.
///
/// # Errors
/// The failures of the hub.
pub fn show(
    output: &OutputArgs,
    client: &'static str,
    environment: &Environment,
) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    let versions = block_on(read(&hub, client))??;
    let format = &output.output;
    Ok(output::show(format, &versions, |versions| {
        output::table(format, &columns(), rows(versions))
    })?)
}

/// Reads the sessions of each connected cluster, one after the other over one connection.
async fn read(hub: &HubClient, client: &'static str) -> Result<FleetVersions, Failure> {
    let about: HubInfo = hub.get("/v1/hub").await?;
    let clusters: Vec<Cluster> = hub.get("/clusters").await?;
    let mut agents: BTreeMap<String, BTreeSet<ClusterId>> = BTreeMap::new();
    let mut disconnected = BTreeSet::new();
    for cluster in clusters {
        let is_connected = matches!(
            cluster.status.state,
            ClusterState::Connected | ClusterState::ApiUnreachable
        );
        let mut sessions = Vec::new();
        if is_connected {
            let path = format!("/v1/clusters/{}/sessions", cluster.id);
            // The cluster may have been deleted since the list was read.
            let found: Option<List<AgentSession>> = hub.get_optional(&path).await?;
            sessions = found.map(|it| it.items).unwrap_or_default();
        }
        if sessions.is_empty() {
            disconnected.insert(cluster.id.clone());
        }
        for session in sessions {
            let clusters = agents.entry(session.agent_version).or_default();
            clusters.insert(cluster.id.clone());
        }
    }
    let agents = agents.into_iter();
    Ok(FleetVersions {
        client,
        hub: about.version,
        agents: agents
            .map(|(version, clusters)| VersionClusters { version, clusters })
            .collect(),
        disconnected,
    })
}

fn columns() -> [TableColumn; 4] {
    [
        TableColumn::word("PART"),
        TableColumn::word("VERSION"),
        TableColumn::word("COUNT"),
        TableColumn::text("CLUSTERS").wide(),
    ]
}

fn rows(versions: &FleetVersions) -> Vec<[Cell; 4]> {
    let part = |part: &str, version: &str| -> [Cell; 4] {
        [part.into(), version.into(), "".into(), "".into()]
    };
    let of = |part: &str, version: &str, clusters: &BTreeSet<ClusterId>| -> [Cell; 4] {
        let ids: Vec<&str> = clusters.iter().map(ClusterId::as_str).collect();
        let count = clusters.len().to_string();
        [
            part.into(),
            version.into(),
            count.into(),
            ids.join(",").into(),
        ]
    };
    let mut rows = vec![part("client", versions.client), part("hub", &versions.hub)];
    let agents = versions.agents.iter();
    rows.extend(agents.map(|it| of("agent", &it.version, &it.clusters)));
    if !versions.disconnected.is_empty() {
        rows.push(of("agent", "(not connected)", &versions.disconnected));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::OutputFormat;

    #[test]
    fn table_counts_clusters_by_version() {
        let ids = |ids: &[&str]| ids.iter().map(|id| id.parse().unwrap()).collect();
        let versions = FleetVersions {
            client: "0.3.0",
            hub: "0.2.0".to_owned(),
            agents: vec![
                VersionClusters {
                    version: "0.1.0".to_owned(),
                    clusters: ids(&["c-a", "c-b"]),
                },
                VersionClusters {
                    version: "0.2.0".to_owned(),
                    clusters: ids(&["c-c"]),
                },
            ],
            disconnected: ids(&["c-d"]),
        };
        let format = OutputFormat::Wide;
        let table = output::table(&format, &columns(), rows(&versions));
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[2], ["hub", "0.2.0"]);
        assert_eq!(lines[3], ["agent", "0.1.0", "2", "c-a,c-b"]);
        assert_eq!(lines[4], ["agent", "0.2.0", "1", "c-c"]);
        assert_eq!(lines[5], ["agent", "(not", "connected)", "1", "c-d"]);
    }
}
