//! `POST /agent/v1/check`: whether a token or an identity would be accepted. Nothing is spent, signed or stored.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{
    enroll::{CheckRequest, CheckResponse, MAX_ENROLL_BODY_BYTES},
    hex,
};
use fairlead_registry::admit;
use fairlead_routes::reply::{Answer, JsonBody, Peer};
use fairlead_seam::AgentPeer;

use super::{
    Enroll, SpendError, TokenClaim, error::EnrollError, issue::rejected, spend::may_spend,
};

pub(super) async fn check(
    State(issuer): State<Arc<Enroll>>,
    Peer(peer): Peer,
    JsonBody(asked): JsonBody<CheckRequest, MAX_ENROLL_BODY_BYTES>,
) -> Answer<Json<CheckResponse>> {
    let checked = match &peer {
        AgentPeer::Agent(identity) => admit(&issuer.store, identity)
            .map(|home| CheckResponse {
                cluster: identity.cluster.clone(),
                tenant: home.value.tenant.clone(),
                expires: identity.not_after,
                hub_version: issuer.settings.version.clone(),
            })
            .map_err(EnrollError::from),
        AgentPeer::Anonymous => check_token(&issuer, &asked),
        AgentPeer::Lapsed(_) => Err(EnrollError::Lapsed("the identity has expired")),
    };
    checked.map(Json).map_err(|error| rejected("check", error))
}

fn check_token(issuer: &Enroll, asked: &CheckRequest) -> Result<CheckResponse, EnrollError> {
    let token = asked.token.as_ref().ok_or(EnrollError::EnrolOnly)?;
    let claims = issuer.bootstrap.read(token).ok_or(SpendError::Unknown)?;
    let view = issuer.store.view();
    let cluster = view.cluster(&claims.cluster).ok_or(SpendError::Unknown)?;
    let claim = TokenClaim {
        cluster: claims.cluster.clone(),
        registration: claims.registration,
        generation: claims.generation,
        expires: claims.expires,
        // No key has the fingerprint of zeros.
        fingerprint: asked
            .key
            .as_deref()
            .and_then(hex::decode)
            .unwrap_or_default(),
        uid: None,
    };
    may_spend(&cluster.value.binding, &claim, issuer.now())?;
    Ok(CheckResponse {
        cluster: claims.cluster,
        tenant: cluster.value.tenant.clone(),
        expires: claims.expires,
        hub_version: issuer.settings.version.clone(),
    })
}
