//! `POST /agent/v1/enroll` and `POST /agent/v1/renew`: certificates for agents' keys.
//!
//! An identity may renew itself for some time after its expiry: a cluster that was switched off
//! needs no visit.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{
    enroll::{EnrollRequest, Issued, MAX_ENROLL_BODY_BYTES, RenewRequest},
    hello::printable,
    moment::timestamp,
};
use fairlead_certs::{AgentIdentity, Signed, csr_fingerprint};
use fairlead_registry::admit;
use fairlead_routes::reply::{Answer, JsonBody, Peer, Rejected};
use fairlead_seam::{AgentPeer, DirectoryError};
use fairlead_store::{
    Actor, Draft, Store, StoreError,
    model::{Cluster, LateRenewal, hex},
    whole_millis,
};
use tracing::{info, warn};

use super::{Enroll, Enrolled, SpendError, TokenClaim, error::EnrollError, spend};
use crate::authorities::CaSet;

pub(super) async fn enroll(
    State(issuer): State<Arc<Enroll>>,
    JsonBody(asked): JsonBody<EnrollRequest, MAX_ENROLL_BODY_BYTES>,
) -> Answer<Json<Issued>> {
    let answer = try_enroll(&issuer, asked).await;
    answer.map_err(|error| rejected("enrolment", error))
}

async fn try_enroll(
    issuer: &Arc<Enroll>,
    asked: EnrollRequest,
) -> Result<Json<Issued>, EnrollError> {
    let claims = issuer
        .bootstrap
        .read(&asked.token)
        .ok_or(SpendError::Unknown)?;
    let claim = TokenClaim {
        cluster: claims.cluster.clone(),
        registration: claims.registration,
        generation: claims.generation,
        expires: claims.expires,
        fingerprint: csr_fingerprint(&asked.csr)?,
        uid: asked.cluster_uid,
    };
    let (set, epoch) = (issuer.authorities.set(), issuer.store.view().epoch());
    let (signer, cluster, csr) = (Arc::clone(set.issuer()), claims.cluster.clone(), asked.csr);
    let now = issuer.now();
    let sign = move |it: &Cluster| {
        let serial = it.binding.registration.in_epoch(epoch);
        signer.sign_agent_of(serial, &csr, &it.tenant, &cluster, now)
    };
    let Enrolled {
        tenant,
        signed,
        again,
    } = spend(&issuer.store, claim, now, sign).await?;
    info!(cluster = %claims.cluster, %tenant, again, serial = signed.serial, agent.version = printable(&asked.agent_version), "agent enrolled");
    let identity = (claims.cluster, tenant);
    Ok(Json(issued(&set, identity, signed)))
}

pub(super) async fn renew(
    State(issuer): State<Arc<Enroll>>,
    Peer(peer): Peer,
    JsonBody(asked): JsonBody<RenewRequest, MAX_ENROLL_BODY_BYTES>,
) -> Answer<Json<Issued>> {
    let answer = renew_for(&issuer, &peer, &asked).await;
    answer.map_err(|error| rejected("renewal", error))
}

async fn renew_for(
    issuer: &Enroll,
    peer: &AgentPeer,
    asked: &RenewRequest,
) -> Result<Json<Issued>, EnrollError> {
    let (AgentPeer::Agent(identity) | AgentPeer::Lapsed(identity)) = peer else {
        return Err(EnrollError::EnrolOnly);
    };
    // Before anything is written or signed.
    if !issuer.renewals.permits(&identity.cluster, issuer.now()) {
        return Err(EnrollError::TooManyRenewals);
    }
    if matches!(peer, AgentPeer::Lapsed(_)) {
        check_late_renewal(issuer, identity, asked).await?;
    }
    try_renew(issuer, identity, asked).await
}

/// Signs the certificate of an admitted identity. Another key than before takes the place of the old one, which is void
/// from then on.
async fn try_renew(
    issuer: &Enroll,
    identity: &AgentIdentity,
    asked: &RenewRequest,
) -> Result<Json<Issued>, EnrollError> {
    let home = admit(&issuer.store, identity)?;
    let (cluster, tenant) = (&identity.cluster, &home.value.tenant);
    let (set, now) = (issuer.authorities.set(), issuer.now());
    let epoch = issuer.store.view().epoch();
    let serial = home.value.binding.registration.in_epoch(epoch);
    let signed = (set.issuer()).sign_agent_of(serial, &asked.csr, tenant, cluster, now)?;
    let key = csr_fingerprint(&asked.csr)?;
    if key != identity.key {
        replace_key(&issuer.store, identity, &key).await?;
    }
    info!(%cluster, %tenant, serial = signed.serial, agent.version = printable(&asked.agent_version), "agent certificate renewed");
    Ok(Json(issued(
        &set,
        (cluster.clone(), tenant.clone()),
        signed,
    )))
}

/// Makes another key the enrolled one.
///
/// # Errors
/// [`DirectoryError::Revoked`] if the old key is void by now, [`DirectoryError::ClusterDeleted`], errors of the store
async fn replace_key(
    store: &Store,
    identity: &AgentIdentity,
    key: &[u8; 32],
) -> Result<(), EnrollError> {
    let id = identity.cluster.clone();
    let (old, new) = (hex::encode(&identity.key), hex::encode(key));
    let decide = move |draft: &mut Draft| {
        let cluster = draft.cluster(&id).ok_or(StoreError::Missing)?;
        let is_current = cluster.value.binding.agent_key.as_ref() == Some(&old);
        if is_current {
            draft.amend_cluster(&id, |it| it.binding.agent_key = Some(new.clone()))?;
        }
        Ok(is_current)
    };
    let actor = Actor::Agent(identity.cluster.clone());
    match store.change(actor, decide).await {
        Ok(done) if done.value => {
            info!(cluster = %identity.cluster, "agent key replaced");
            Ok(())
        }
        Ok(_) => Err(DirectoryError::Revoked("another key has enrolled since").into()),
        Err(StoreError::Missing) => Err(DirectoryError::ClusterDeleted.into()),
        Err(other) => Err(other.into()),
    }
}

/// Checks an expired identity: it may renew only with the key that enrolled last. The renewal is
/// recorded in the change log.
///
/// # Errors
/// [`EnrollError::Lapsed`], [`DirectoryError::ClusterDeleted`], errors of the store
async fn check_late_renewal(
    issuer: &Enroll,
    identity: &AgentIdentity,
    asked: &RenewRequest,
) -> Result<(), EnrollError> {
    let ended = EnrollError::Lapsed;
    let renewal = LateRenewal {
        at: whole_millis(issuer.now()),
        expired: identity.not_after,
    };
    if renewal.at - renewal.expired > issuer.settings.renew_grace {
        return Err(ended("the identity expired too long ago"));
    }
    if csr_fingerprint(&asked.csr)? != identity.key {
        return Err(ended("an expired identity may renew its own key only"));
    }
    let (id, key) = (identity.cluster.clone(), hex::encode(&identity.key));
    let decide = move |draft: &mut Draft| {
        let cluster = draft.cluster(&id).ok_or(StoreError::Missing)?;
        let known = cluster.value.binding.agent_key.as_ref() == Some(&key);
        if known {
            draft.amend_cluster(&id, |it| it.binding.late_renewal = Some(renewal.clone()))?;
        }
        Ok(known)
    };
    let actor = Actor::Agent(identity.cluster.clone());
    match issuer.store.change(actor, decide).await {
        Ok(done) if done.value => {
            warn!(cluster = %identity.cluster, serial = identity.serial, expired = timestamp(identity.not_after), "expired identity renewed");
            Ok(())
        }
        Ok(_) => Err(ended("another key has enrolled since")),
        Err(StoreError::Missing) => Err(DirectoryError::ClusterDeleted.into()),
        Err(other) => Err(other.into()),
    }
}

fn issued(
    set: &CaSet,
    (cluster, tenant): (fairlead_api::ClusterId, fairlead_api::TenantId),
    signed: Signed,
) -> Issued {
    Issued {
        cluster,
        tenant,
        certificate: signed.certificate_pem,
        ca: set.bundle_pem(),
        issuer: Some(set.issuer().pin()),
        not_before: signed.not_before,
        not_after: signed.not_after,
    }
}

pub(super) fn rejected(route: &'static str, error: EnrollError) -> Rejected {
    // The gateway counts guesses per address and logs them once a minute.
    if !error.is_unknown_token() {
        // The cause may quote the request, so only the code is logged.
        warn!(route, code = %error.code(), "agent request rejected");
    }
    error.into()
}
