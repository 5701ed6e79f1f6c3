//! `fairlead cluster delete`: one confirmation for all named or selected clusters.

use fairlead_api::{Failure, resources::Cluster};
use fairlead_client::{
    HubClient,
    lookup::{among, find},
    query_of,
};

use super::purge;
use crate::{args, bulk, confirm::confirm, output};

/// Hint about the objects of the install manifest, which remain in a deleted cluster.
const LEFTOVERS: &str = "\
In the cluster itself the agent is still there. This removes it:

  fairlead agent uninstall --kubeconfig KUBECONFIG

With --purge it also removes all delivered objects. Or, without this program:

  kubectl delete namespace fairlead
  kubectl delete clusterrolebindings,clusterroles -l app.kubernetes.io/part-of=fairlead
";

pub(super) async fn run(hub: &HubClient, asked: args::ClusterDelete) -> Result<(), Failure> {
    let clusters = match &asked.selector {
        Some(selector) => {
            let query = query_of([("selector", Some(selector.as_str()))]);
            hub.get::<Vec<Cluster>>(&format!("/clusters?{query}"))
                .await?
        }
        None => named(hub, &asked.names).await?,
    };
    if asked.cancel {
        return purge::cancel(hub, &clusters).await;
    }
    if clusters.is_empty() {
        output::note("No clusters match the selector. Nothing was deleted.");
        return Ok(());
    }
    confirm(asked.yes, &question(&clusters, asked.purge))?;
    let mut deleted = bulk::Outcome::default();
    for cluster in &clusters {
        if asked.purge {
            purge::run(hub, &cluster.id, asked.timeout).await?;
        }
        let done = hub.delete(&format!("/clusters/{}", cluster.id)).await;
        if deleted
            .add("deleted", cluster.id.as_str(), done)?
            .is_break()
        {
            break;
        }
    }
    let had_agent = |it: &Cluster| it.enrolled;
    if deleted.any() && clusters.iter().any(had_agent) {
        output::print(&format!("\n{LEFTOVERS}"))?;
    }
    deleted.end("deleted", clusters.len())
}

/// Resolves all names without duplicates; fails if one of them is unknown.
async fn named(hub: &HubClient, names: &[String]) -> Result<Vec<Cluster>, Failure> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for name in names {
        let cluster = find(hub, name).await?;
        if among(&clusters, cluster.id.as_str()).is_err() {
            clusters.push(cluster);
        }
    }
    Ok(clusters)
}

fn question(clusters: &[Cluster], is_purge: bool) -> String {
    let objects = match is_purge {
        true => " It first removes all delivered objects, with their data.",
        false => "",
    };
    if let [one] = clusters {
        return format!(
            "This deletes cluster {} ({}); this disconnects its agent.{objects} Continue?",
            one.id, one.display_name
        );
    }
    let line = |it: &Cluster| {
        let state = it.status.state;
        format!(
            "  {} ({}), {}, {state}\n",
            it.id, it.display_name, it.tenant
        )
    };
    let lines: String = clusters.iter().map(line).collect();
    format!(
        "{lines}This deletes these {} clusters; this disconnects their agents.{objects} Continue?",
        clusters.len()
    )
}
