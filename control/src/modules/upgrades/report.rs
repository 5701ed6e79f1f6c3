//! `POST /agent/v1/upgrade`: an agent reports its upgrade. Only the record of its own cluster changes.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{
    Code,
    resources::ClusterUpgradeState,
    upgrade::{MAX_UPGRADE_CAUSE_CHARS, MAX_UPGRADE_REPORT_BYTES, UpgradeReceipt, UpgradeReport},
};
use fairlead_registry::{RegistryError, admit};
use fairlead_routes::{
    invalid,
    reply::{Answer, JsonBody, Peer},
};
use fairlead_seam::AgentPeer;
use fairlead_store::{Actor, Draft, StoreError, model::Cluster};
use tracing::info;

use super::UpgradeParts;

pub(super) async fn receive(
    State(parts): State<Arc<UpgradeParts>>,
    Peer(peer): Peer,
    JsonBody(report): JsonBody<UpgradeReport, MAX_UPGRADE_REPORT_BYTES>,
) -> Answer<Json<UpgradeReceipt>> {
    let AgentPeer::Agent(identity) = peer else {
        return Err(Code::EnrolOnly.into());
    };
    if !is_reportable(report.state) {
        let cause = format_args!("state: an agent does not report {}", report.state);
        return Err(invalid(cause).into());
    }
    let cluster = admit(&parts.store, &identity)?;
    if !awaits(&cluster.value, &report) {
        return Ok(Json(UpgradeReceipt {}));
    }
    let id = identity.cluster.clone();
    let (changed, sent) = (id.clone(), report.clone());
    let cause = report.cause.as_deref().map(cause_of);
    let decide = move |draft: &mut Draft| {
        let known = draft.cluster(&changed).ok_or(StoreError::Missing)?;
        if awaits(&known.value, &sent) {
            draft.amend_cluster(&changed, |cluster| {
                if let Some(order) = cluster.upgrade.as_mut() {
                    order.state = sent.state;
                    order.cause.clone_from(&cause);
                }
            })?;
        }
        Ok::<_, RegistryError>(())
    };
    parts.store.change(Actor::Agent(id.clone()), decide).await?;
    info!(cluster = %id, upgrade = report.id, state = %report.state, cause = report.cause, "upgrade of an agent reported");
    Ok(Json(UpgradeReceipt {}))
}

const fn is_reportable(state: ClusterUpgradeState) -> bool {
    matches!(
        state,
        ClusterUpgradeState::Upgrading
            | ClusterUpgradeState::Done
            | ClusterUpgradeState::RolledBack
            | ClusterUpgradeState::Refused
    )
}

/// True if the report is about the cluster's present upgrade, and brings something new.
fn awaits(cluster: &Cluster, report: &UpgradeReport) -> bool {
    let order = cluster.upgrade.as_ref();
    order.is_some_and(|it| it.id == report.id && !it.state.is_final() && it.state != report.state)
}

/// A cause as one line of text of limited length, without escapes of a terminal.
fn cause_of(sent: &str) -> String {
    let text = sent.chars().take(MAX_UPGRADE_CAUSE_CHARS);
    text.map(|it| if it.is_control() { ' ' } else { it })
        .collect()
}
