//! `fairlead version --fleet`: versions of the hub and of all connected agents.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    ClusterId, Failure, HubUrl,
    resources::{Activity, HubInfo, HubVersion},
};
use fairlead_client::{Environment, HubClient};
use serde::Serialize;

use crate::{
    args::OutputArgs,
    output::{self, Cell, TableColumn},
    runtime::block_on,
    top::note_missing,
};

/// Versions that run.
#[derive(Debug, Serialize)]
struct FleetVersions {
    /// Version of this program.
    client: &'static str,
    /// Version of the hub that answered.
    hub: String,
    /// All hubs that have answered it; empty for the only hub of a store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hubs: Vec<HubVersion>,
    /// Live hubs without an answer. Agents with sessions there alone count as not connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "incompleteHubs")]
    incomplete_hubs: Vec<HubUrl>,
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
    note_missing(&versions.incomplete_hubs);
    let format = &output.output;
    Ok(output::show(format, &versions, |versions| {
        output::table(format, &columns(), rows(versions))
    })?)
}

/// Reads the activity of all clusters, which has the versions of their agents.
async fn read(hub: &HubClient, client: &'static str) -> Result<FleetVersions, Failure> {
    let about: HubInfo = hub.get("/v1/hub").await?;
    let activity: Activity = hub.get("/v1/activity").await?;
    let mut agents: BTreeMap<String, BTreeSet<ClusterId>> = BTreeMap::new();
    let mut disconnected = BTreeSet::new();
    for cluster in activity.clusters {
        let versions = cluster.sessions.map(|it| it.agent_versions);
        let versions = versions.unwrap_or_default();
        if versions.is_empty() {
            disconnected.insert(cluster.id.clone());
        }
        for version in versions {
            let clusters = agents.entry(version).or_default();
            clusters.insert(cluster.id.clone());
        }
    }
    let agents = agents.into_iter();
    Ok(FleetVersions {
        client,
        hub: about.version,
        hubs: activity.hubs,
        incomplete_hubs: activity.incomplete_hubs,
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
    let mut rows = vec![part("client", versions.client)];
    match versions.hubs.as_slice() {
        [] => rows.push(part("hub", &versions.hub)),
        hubs => rows.extend(hubs.iter().map(|it| -> [Cell; 4] {
            let url = it.hub.to_string();
            [
                "hub".into(),
                it.version.as_str().into(),
                "".into(),
                url.into(),
            ]
        })),
    }
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
            hubs: Vec::new(),
            incomplete_hubs: Vec::new(),
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
        let hubs = [("https://one", "0.2.0"), ("https://two", "0.3.0")];
        let hubs = hubs.map(|(hub, version)| HubVersion {
            hub: hub.parse().unwrap(),
            version: version.to_owned(),
        });
        let versions = FleetVersions {
            hubs: hubs.to_vec(),
            ..versions
        };
        let table = output::table(&format, &columns(), rows(&versions));
        let hubs: Vec<Vec<&str>> = table
            .lines()
            .filter(|line| line.starts_with("hub"))
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(hubs[0], ["hub", "0.2.0", "https://one"]);
        assert_eq!(hubs[1], ["hub", "0.3.0", "https://two"]);
    }
}
