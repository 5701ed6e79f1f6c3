//! Upgrades as callers see them: with the clusters that are visible to them.

use std::collections::BTreeSet;

use fairlead_api::{
    ClusterId,
    resources::{AgentUpgrade, ClusterUpgrade},
};
use fairlead_registry::{RegistryError, sees_cluster};
use fairlead_seam::Caller;
use fairlead_store::{View, model::FleetUpgrade};

/// True if the caller may know of the upgrade: it sees one of its clusters, or everything.
fn sees(view: &View, caller: &Caller, upgrade: &FleetUpgrade) -> bool {
    caller.is_unlimited() || upgrade.clusters.keys().any(|id| sees_id(view, caller, id))
}

fn sees_id(view: &View, caller: &Caller, id: &ClusterId) -> bool {
    match view.cluster(id) {
        Some(cluster) => sees_cluster(view, caller, &cluster.value),
        None => caller.is_unlimited(),
    }
}

/// The upgrade if the caller may know of it.
///
/// # Errors
/// `FL-4183`
pub(super) fn find(view: &View, caller: &Caller, id: &str) -> Result<FleetUpgrade, RegistryError> {
    let found = view.fleet_upgrade(id).map(|it| &it.value);
    let found = found.filter(|it| sees(view, caller, it));
    found
        .cloned()
        .ok_or_else(|| super::create::missing(id).into())
}

/// Visible upgrades.
pub(super) fn all(view: &View, caller: &Caller) -> Vec<AgentUpgrade> {
    let found = view.fleet_upgrades().map(|it| &it.value);
    let found = found.filter(|it| sees(view, caller, it));
    found.map(|it| shown(view, caller, it)).collect()
}

/// The upgrade as the caller sees it.
pub(super) fn shown(view: &View, caller: &Caller, upgrade: &FleetUpgrade) -> AgentUpgrade {
    let numbered = (1_u32..).zip(&upgrade.waves);
    let in_waves = numbered.flat_map(|(wave, ids)| ids.iter().map(move |id| (wave, id)));
    let members: BTreeSet<&ClusterId> = upgrade.waves.iter().flatten().collect();
    let skipped = upgrade.clusters.keys();
    let skipped = skipped.filter(|id| !members.contains(id));
    let ids = in_waves.chain(skipped.map(|id| (0, id)));
    let ids = ids.filter(|(_, id)| sees_id(view, caller, id));
    let clusters = ids.filter_map(|(wave, id)| {
        let progress = upgrade.clusters.get(id)?.clone();
        Some(ClusterUpgrade {
            cluster: id.clone(),
            wave,
            state: progress.state,
            cause: progress.cause,
            started: progress.started,
            finished: progress.finished,
        })
    });
    AgentUpgrade {
        id: upgrade.id.clone(),
        version: upgrade.version.clone(),
        image: upgrade.image.clone(),
        selector: upgrade.selector.clone(),
        state: upgrade.state,
        // It names clusters, perhaps hidden ones.
        reason: upgrade
            .reason
            .clone()
            .filter(|_| upgrade.clusters.keys().all(|id| sees_id(view, caller, id))),
        timeout_seconds: upgrade.timeout_seconds,
        max_failed: upgrade.max_failed,
        created: upgrade.created,
        created_by: upgrade.created_by.clone(),
        finished: upgrade.finished,
        clusters: clusters.collect(),
    }
}
