//! `POST /agent/v1/adopt`: announcement of a key, repeated by the agent until a person has decided.

use std::{net::IpAddr, sync::Arc};

use axum::{Extension, Json, extract::State};
use fairlead_api::{
    Code, Failure,
    adoption::{AdoptAnswer, AdoptRequest},
    enroll::MAX_ENROLL_BODY_BYTES,
    hello::printable,
    resources::AdoptionState,
};
use fairlead_certs::csr_fingerprint;
use fairlead_registry::RegistryError;
use fairlead_routes::reply::{Answer, JsonBody};
use fairlead_seam::{AgentAddress, network};
use fairlead_store::{
    Actor, Draft, View,
    model::{PendingAdoption, hex},
    random, whole_millis,
};
use time::OffsetDateTime;
use tracing::{info, warn};

use super::{MAX_ADOPTIONS, MAX_PER_NETWORK, POLL_SECONDS};
use crate::modules::enroll::{Enroll, error::EnrollError};

pub(crate) async fn adopt(
    State(enroll): State<Arc<Enroll>>,
    Extension(AgentAddress(from)): Extension<AgentAddress>,
    JsonBody(asked): JsonBody<AdoptRequest, MAX_ENROLL_BODY_BYTES>,
) -> Answer<Json<AdoptAnswer>> {
    match announced(&enroll, from, asked).await {
        Ok(answer) => Ok(Json(answer)),
        Err(failure) => {
            warn!(peer.ip = %from, code = %failure.code, "announcement of an agent refused");
            Err(failure.into())
        }
    }
}

async fn announced(
    enroll: &Arc<Enroll>,
    from: IpAddr,
    asked: AdoptRequest,
) -> Result<AdoptAnswer, Failure> {
    let settings = enroll.settings.adoption.as_ref();
    let settings = settings.ok_or(Code::AdoptionOff)?;
    let key = hex::encode(&csr_fingerprint(&asked.csr).map_err(EnrollError::from)?);
    let now = enroll.now();
    if let Some(answer) = known(enroll, &enroll.store.view(), &key, now)? {
        return Ok(answer);
    }
    if !enroll.adoptions.permits_announcement(from, now) {
        let cause = "this address, or all together, announced too many agents in ten minutes";
        return Err(Failure::because(Code::AdoptionsFull, cause));
    }
    let id: [u8; 8] = random::bytes().map_err(|it| Failure::because(Code::Internal, it))?;
    let created = whole_millis(now);
    let new = PendingAdoption {
        id: format!("ad-{}", hex::encode(&id)),
        key,
        address: from,
        cluster_uid: asked.cluster_uid,
        kubernetes_version: asked.kubernetes_version.map(|it| printable(&it)),
        agent_version: printable(&asked.agent_version),
        created,
        expires: created + settings.ttl,
        cluster: None,
        decided_by: None,
    };
    let (issuer, put) = (Arc::clone(enroll), new.clone());
    let decide = move |draft: &mut Draft| announce(&issuer, draft, &put, now);
    let answer = enroll.store.change(Actor::Hub, decide).await;
    let answer = answer.map_err(Failure::from)?.value;
    info!(adoption = new.id, peer.ip = %from, key = new.key, agent.version = new.agent_version, "agent announced itself for adoption");
    Ok(answer)
}

/// Stores a new announcement. Rows at their end make way, also an approval that was not used.
fn announce(
    enroll: &Enroll,
    draft: &mut Draft,
    new: &PendingAdoption,
    now: OffsetDateTime,
) -> Result<AdoptAnswer, RegistryError> {
    // Another hub may have stored the same key meanwhile.
    if let Some(answer) = known(enroll, draft, &new.key, now)? {
        return Ok(answer);
    }
    let all = draft.adoptions().map(|it| &it.value);
    let ended = all.filter(|it| it.state(now) == AdoptionState::Expired || it.key == new.key);
    let ended: Vec<String> = ended.map(|it| it.id.clone()).collect();
    for id in ended {
        draft.delete_adoption(&id)?;
    }
    let own = network(new.address);
    let near = draft.adoptions();
    let near = near.filter(|it| network(it.value.address) == own).count();
    if draft.adoptions().len() >= MAX_ADOPTIONS || near >= MAX_PER_NETWORK {
        let cause = format!(
            "{} wait, {near} of them with this address",
            draft.adoptions().len()
        );
        return Err(Failure::because(Code::AdoptionsFull, cause).into());
    }
    draft.put_adoption(new.clone());
    Ok(waits(enroll, new))
}

/// Answer for a key that was announced before; `None` if it has to be announced anew.
fn known(
    enroll: &Enroll,
    view: &View,
    key: &str,
    now: OffsetDateTime,
) -> Result<Option<AdoptAnswer>, Failure> {
    let mut all = view.adoptions().map(|it| &it.value);
    let found = all.find(|it| it.key == key && it.state(now) != AdoptionState::Expired);
    let Some(adoption) = found else {
        return Ok(None);
    };
    match adoption.state(now) {
        AdoptionState::Pending => Ok(Some(waits(enroll, adoption))),
        AdoptionState::Refused => Ok(Some(AdoptAnswer::Refused)),
        AdoptionState::Approved => approved(enroll, view, adoption, now),
        AdoptionState::Expired => Ok(None),
    }
}

fn waits(enroll: &Enroll, adoption: &PendingAdoption) -> AdoptAnswer {
    AdoptAnswer::Pending {
        code: enroll.bootstrap.adoption_code(&adoption.id, &adoption.key),
        expires: adoption.expires,
        poll_seconds: POLL_SECONDS,
    }
}

/// The join string, as long as the cluster's token is the one that the approval spent for this key.
fn approved(
    enroll: &Enroll,
    view: &View,
    adoption: &PendingAdoption,
    now: OffsetDateTime,
) -> Result<Option<AdoptAnswer>, Failure> {
    let cluster = adoption.cluster.as_ref().and_then(|id| view.cluster(id));
    let Some(cluster) = cluster.map(|it| &it.value) else {
        return Ok(None);
    };
    let (token, key) = (&cluster.binding.bootstrap, Some(&adoption.key));
    let is_bound = token.spent_by.as_ref() == key && cluster.binding.agent_key.as_ref() == key;
    if !is_bound || token.revoked || now >= token.expires {
        return Ok(None);
    }
    let token = enroll.bootstrap.token(&cluster.id, &cluster.binding);
    let join = enroll.join_string(token, &enroll.site_of(cluster));
    let join = join.map_err(Failure::from)?;
    Ok(Some(AdoptAnswer::Approved { join }))
}
