//! `POST /agent/v1/gitops/keys`: an agent replaces its deploy keys in the record of its cluster. It is a
//! compare-and-swap, so that a decision upon outdated keys withdraws none.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{
    Code,
    gitops::{KeyReceipt, KeyReport, MAX_KEY_REPORT_BYTES},
};
use fairlead_registry::{Effective, RegistryError, admit, agent_keys, template_of};
use fairlead_routes::{
    invalid,
    reply::{Answer, JsonBody, Peer},
};
use fairlead_seam::AgentPeer;
use fairlead_store::{Actor, StoreError};
use tracing::info;

use super::Configuration;

pub(super) async fn replace(
    State(state): State<Arc<Configuration>>,
    Peer(peer): Peer,
    JsonBody(report): JsonBody<KeyReport, MAX_KEY_REPORT_BYTES>,
) -> Answer<Json<KeyReceipt>> {
    let AgentPeer::Agent(identity) = peer else {
        return Err(Code::EnrolOnly.into());
    };
    let cluster = admit(&state.store, &identity)?;
    agent_keys::check(&report.keys)?;
    let current = agent_keys::of(cluster.value.git_repo.as_deref());
    if current == report.keys {
        return Ok(Json(KeyReceipt { keys: current }));
    }
    let id = identity.cluster.clone();
    let changed = id.clone();
    let replaced = state.store.change(Actor::Agent(id.clone()), move |draft| {
        let record = draft.cluster(&changed).ok_or(StoreError::Missing)?;
        let template = template_of(draft, &record.value.tenant);
        if !Effective::of(&record.value, template).has_repo() {
            let cause = "the cluster has no repository for a deploy key";
            return Err(RegistryError::from(invalid(cause)));
        }
        let current = agent_keys::of(record.value.git_repo.as_deref());
        if current != report.expected {
            return Ok(current);
        }
        let keys = report.keys.clone();
        draft.amend_cluster(&changed, |cluster| {
            agent_keys::replace(cluster.git_repo.get_or_insert_default(), &keys);
        })?;
        Ok(keys)
    });
    let keys = replaced.await?.value;
    info!(cluster = %id, rotating = keys.next.is_some(), "deploy keys of an agent replaced");
    Ok(Json(KeyReceipt { keys }))
}
