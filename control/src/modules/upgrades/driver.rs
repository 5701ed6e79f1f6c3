//! Background work of the leading hub: advances each active upgrade when the store changes, and every few seconds for
//! its deadlines.

use std::time::Duration;

use fairlead_api::{
    ClusterId,
    resources::{AgentUpgradeState, ClusterState, ClusterUpgradeState},
};
use fairlead_registry::{LeaderPasses, RegistryError};
use fairlead_store::{Actor, Draft, Store, View, model::FleetUpgrade};
use time::OffsetDateTime;
use tracing::{info, warn};

use super::{
    UpgradeParts,
    advance::{NextStep, ObservedCluster, advance, unreported},
};

/// Interval at which deadlines are checked, and at which a hub learns that it leads.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Never returns.
pub(super) async fn run(parts: &UpgradeParts) {
    let mut passes = LeaderPasses::new(&parts.store, POLL_INTERVAL);
    loop {
        passes.due().await;
        pass(parts).await;
    }
}

/// Advances each active upgrade. A failed change is repeated by the next pass.
async fn pass(parts: &UpgradeParts) {
    let view = parts.store.view();
    let active = view.fleet_upgrades().map(|it| &it.value);
    let active = active.filter(|it| it.is_active());
    for upgrade in active {
        let mut after = upgrade.clone();
        let step = next(&parts.store, &view, &mut after, parts.now());
        if after == *upgrade && step == NextStep::default() {
            continue;
        }
        match change(parts, upgrade.id.clone()).await {
            Ok(state) => info!(upgrade = upgrade.id, %state, "upgrade of agents advanced"),
            Err(error) => {
                let cause = error.to_string();
                warn!(
                    upgrade = upgrade.id,
                    cause, "upgrade of agents not advanced"
                );
            }
        }
    }
}

fn next(store: &Store, view: &View, upgrade: &mut FleetUpgrade, now: OffsetDateTime) -> NextStep {
    advance(upgrade, now, |id| {
        let cluster = view.cluster(id)?;
        Some(ObservedCluster {
            order: cluster.value.upgrade.clone(),
            connected: is_connected(store.observed_of(cluster).status.state),
        })
    })
}

/// True if an agent has a session.
pub(super) fn is_connected(state: ClusterState) -> bool {
    matches!(
        state,
        ClusterState::Connected | ClusterState::ApiUnreachable
    )
}

/// Advances an upgrade as it is in the store now; returns its state.
async fn change(parts: &UpgradeParts, id: String) -> Result<AgentUpgradeState, RegistryError> {
    let (store, now) = (parts.store.clone(), parts.now());
    let decide = move |draft: &mut Draft| {
        let Some(upgrade) = draft.fleet_upgrade(&id) else {
            return Err(RegistryError::internal("the upgrade is gone"));
        };
        let mut upgrade = upgrade.value.clone();
        let step = next(&store, draft, &mut upgrade, now);
        write(draft, &upgrade, &step, |id| {
            let cluster = store.view().cluster(id).cloned();
            let cluster = cluster.map(|it| store.observed_of(&it).status.state);
            cluster.is_some_and(is_connected)
        })?;
        let state = upgrade.state;
        draft.put_fleet_upgrade(upgrade);
        Ok(state)
    };
    Ok(parts.store.change(Actor::Hub, decide).await?.value)
}

/// Writes orders and expirations into the records of clusters.
fn write(
    draft: &mut Draft,
    upgrade: &FleetUpgrade,
    step: &NextStep,
    connected: impl Fn(&ClusterId) -> bool,
) -> Result<(), RegistryError> {
    for id in &step.begin {
        // A cluster that was deleted in between is noticed by the next step.
        if draft.cluster(id).is_some() {
            draft.amend_cluster(id, |it| it.upgrade = Some(upgrade.order()))?;
        }
    }
    for id in &step.expired {
        let cause = unreported(connected(id));
        draft.amend_cluster(id, |cluster| {
            if let Some(order) = cluster.upgrade.as_mut().filter(|it| it.id == upgrade.id) {
                order.state = ClusterUpgradeState::Failed;
                order.cause = Some(cause);
            }
        })?;
    }
    Ok(())
}
