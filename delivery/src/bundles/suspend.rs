//! `POST /v1/bundles/{id}/suspend` and `/resume`.

use axum::{extract::State, response::Response};
use fairlead_registry::{Precondition, RegistryError, allow_in_tenant, by};
use fairlead_routes::reply::{Answer, Authenticated, Path};
use fairlead_seam::Caller;
use fairlead_store::{Draft, Record};
use http::{HeaderMap, StatusCode};
use tracing::info;

use super::{known, put::refuse_deleting, shown, visible};
use crate::{parts::DeliveryParts, rights::DELIVER};

pub(super) async fn suspend(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    set(&parts, &caller, (&id, &headers), true).await
}

pub(super) async fn resume(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    set(&parts, &caller, (&id, &headers), false).await
}

async fn set(
    parts: &DeliveryParts,
    caller: &Caller,
    (id, headers): (&str, &HeaderMap),
    suspended: bool,
) -> Answer<Response> {
    let view = parts.store.view();
    let bundle = known(&view, caller, id)?;
    allow_in_tenant(&view, caller, &bundle.value.tenant, DELIVER)?;
    let (id, precondition) = (bundle.value.id.clone(), Precondition::of(headers));
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let bundle = visible(draft, &who, &id).ok_or(RegistryError::Conflict)?;
        precondition.check(Some(bundle.version))?;
        refuse_deleting(&bundle.value)?;
        let mut bundle = bundle.value.clone();
        bundle.suspended = suspended;
        draft.put_bundle(bundle)?;
        let bundle = draft.bundle(&id).ok_or(RegistryError::Conflict)?;
        Ok::<_, RegistryError>(Record::clone(bundle))
    };
    let record = parts.store.change(by(caller), decide).await?.value;
    info!(bundle = %record.value.id, suspended, caller = caller.name, "bundle suspended or resumed");
    let view = parts.store.view();
    Ok(shown::answer(
        &view,
        caller,
        (&record, StatusCode::OK),
        false,
    )?)
}
