//! Decisions of people about waiting agents.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{
    ClusterId, Code, Failure,
    adoption::AdoptionCode,
    resources::{Adoption, AdoptionByCode, AdoptionState, ApproveAdoption},
};
use fairlead_registry::{BOOTSTRAP_TTL, RegistryError, allow_in, allow_somewhere, by, visible};
use fairlead_routes::{
    Right, invalid,
    reply::{Answer, Authenticated, JsonBody},
};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft,
    model::{Bootstrap, PendingAdoption},
};
use time::OffsetDateTime;
use tracing::info;

use super::{
    limits::{ATTEMPTS_WINDOW, MAX_WRONG_CODES},
    pending, shown,
};
use crate::modules::enroll::Enroll;

pub(super) async fn find(
    State(enroll): State<Arc<Enroll>>,
    Authenticated(caller): Authenticated,
    JsonBody(given): JsonBody<AdoptionByCode>,
) -> Answer<Json<Adoption>> {
    let code = read(&given.code)?;
    allow_somewhere(&caller, Right::WRITE_CLUSTER)?;
    let now = enroll.now();
    let found = by_code(&enroll, &caller, code, now)?;
    Ok(Json(shown(&found, now)))
}

pub(super) async fn refuse(
    State(enroll): State<Arc<Enroll>>,
    Authenticated(caller): Authenticated,
    JsonBody(given): JsonBody<AdoptionByCode>,
) -> Answer<Json<Adoption>> {
    let code = read(&given.code)?;
    allow_somewhere(&caller, Right::WRITE_CLUSTER)?;
    let now = enroll.now();
    let found = by_code(&enroll, &caller, code, now)?;
    let (id, who) = (found.id, caller.name.clone());
    let decide = move |draft: &mut Draft| {
        let mut adoption = still_pending(draft, &id, now)?;
        adoption.decided_by = Some(who.clone());
        draft.put_adoption(adoption.clone());
        Ok::<_, RegistryError>(adoption)
    };
    let adoption = enroll.store.change(by(&caller), decide).await?.value;
    info!(
        adoption = adoption.id,
        caller = caller.name,
        key = adoption.key,
        "adoption refused"
    );
    Ok(Json(shown(&adoption, now)))
}

/// Makes the announced key the enrolled one of the cluster, with a token that only this key can use.
pub(super) async fn approve(
    State(enroll): State<Arc<Enroll>>,
    Authenticated(caller): Authenticated,
    JsonBody(given): JsonBody<ApproveAdoption>,
) -> Answer<Json<Adoption>> {
    let code = read(&given.code)?;
    let view = enroll.store.view();
    let cluster = visible(&view, &caller, given.cluster.as_str())?;
    allow_in(&view, &caller, &cluster.value, Right::WRITE_CLUSTER)?;
    let now = enroll.now();
    let found = by_code(&enroll, &caller, code, now)?;
    check_fingerprint(&found, given.key_fingerprint.as_deref())?;
    let (id, who, target) = (found.id, caller.clone(), given.cluster);
    let decide = move |draft: &mut Draft| {
        let mut adoption = still_pending(draft, &id, now)?;
        bind(draft, &who, &target, &adoption, now)?;
        adoption.cluster = Some(target.clone());
        adoption.decided_by = Some(who.name.clone());
        draft.put_adoption(adoption.clone());
        Ok::<_, RegistryError>(adoption)
    };
    let adoption = enroll.store.change(by(&caller), decide).await?.value;
    info!(
        adoption = adoption.id,
        caller = caller.name,
        cluster = adoption.cluster.as_ref().map(ClusterId::as_str),
        key = adoption.key,
        "adoption approved"
    );
    Ok(Json(shown(&adoption, now)))
}

fn bind(
    draft: &mut Draft,
    who: &Caller,
    target: &ClusterId,
    adoption: &PendingAdoption,
    now: OffsetDateTime,
) -> Result<(), RegistryError> {
    let mut cluster = visible(draft, who, target.as_str())?.value.clone();
    if cluster.binding.agent_key.is_some() {
        let cause = format!("{target} has an agent already");
        let next = format!(
            "Choose another cluster, or revoke the identity with `fairlead cluster identity revoke {target}`."
        );
        return Err(Failure::with_cause(Code::Conflict, cause).next(next).into());
    }
    let binding = &mut cluster.binding;
    let generation = binding.bootstrap.generation.saturating_add(1);
    // Tokens have whole seconds.
    let expires = now.replace_nanosecond(0).unwrap_or(now) + BOOTSTRAP_TTL;
    binding.bootstrap = Bootstrap::new(generation, expires, Some(who.name.clone()));
    binding.bootstrap.spent_by = Some(adoption.key.clone());
    binding.agent_key = Some(adoption.key.clone());
    binding.ca = None;
    binding.uid.clone_from(&adoption.cluster_uid);
    binding.clone = None;
    draft.put_cluster(cluster)?;
    Ok(())
}

/// The waiting agent with this code. Wrong codes count against the person.
fn by_code(
    enroll: &Enroll,
    caller: &Caller,
    code: AdoptionCode,
    now: OffsetDateTime,
) -> Result<PendingAdoption, Failure> {
    if !enroll.adoptions.permits_code(&caller.name, now) {
        let minutes = ATTEMPTS_WINDOW.whole_minutes();
        let cause = format!("{MAX_WRONG_CODES} wrong codes within {minutes} minutes");
        let next = format!("Try again in {minutes} minutes, with the code in the agent's log.");
        return Err(Failure::with_cause(Code::TooManyRequests, cause).next(next));
    }
    let found = pending(enroll, &enroll.store.view(), code, now);
    found.ok_or_else(|| {
        enroll.adoptions.count_wrong_code(&caller.name, now);
        Code::AdoptionUnknown.into()
    })
}

fn still_pending(
    draft: &Draft,
    id: &str,
    now: OffsetDateTime,
) -> Result<PendingAdoption, RegistryError> {
    let found = draft.adoption(id).map(|it| &it.value);
    let found = found.filter(|it| it.state(now) == AdoptionState::Pending);
    found
        .cloned()
        .ok_or_else(|| Failure::from(Code::AdoptionUnknown).into())
}

fn read(code: &str) -> Result<AdoptionCode, fairlead_routes::InvalidValue> {
    code.parse()
        .map_err(|error| invalid(format_args!("code: {error}")))
}

/// Compares with the fingerprint of the agent's log, in any case and with or without its prefix.
fn check_fingerprint(adoption: &PendingAdoption, given: Option<&str>) -> Result<(), Failure> {
    let Some(given) = given else {
        return Ok(());
    };
    let given = given.trim().to_ascii_lowercase();
    let given = given.strip_prefix("sha256:").unwrap_or(&given);
    match *given == adoption.key {
        true => Ok(()),
        false => Err(Code::AdoptionKeyDiffers.into()),
    }
}
