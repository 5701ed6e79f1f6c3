//! `PUT /v1/bundles/{id}`.

use axum::{extract::State, response::Response};
use fairlead_api::{Code, Failure, delivery::PlanHash};
use fairlead_registry::{Precondition, RegistryError, allow_in_tenant, by, confirm_of};
use fairlead_routes::{
    Query,
    reply::{Answer, Authenticated, DocumentBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, Record, View, millis, model::BundleRecord};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use time::OffsetDateTime;
use tracing::info;

use super::{
    document::BundleDocument,
    parsed,
    proposal::{Proposal, check_tenant},
    shown, visible,
};
use crate::{
    confirm::{Affected, check, clusters_below},
    hub_bundles,
    parts::DeliveryParts,
    rights::DELIVER,
};

/// A written bundle, and the status of the answer.
pub(super) type Written = (Record<BundleRecord>, StatusCode);

pub(super) async fn put(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    DocumentBody(body): DocumentBody,
) -> Answer<Response> {
    let id = parsed(&id)?;
    let query = Query::of(&uri)?;
    let (dry_run, confirm) = (query.boolean("dryRun")?, confirm_of(&query)?);
    let document = BundleDocument::read(body)?;
    let proposal = Proposal::check(&parts, &caller, id, document).await?;
    let precondition = Precondition::of(&headers);
    let now = parts.clock.now();
    if let Some(content) = proposal.content.as_ref().filter(|_| !dry_run) {
        let stored = parts
            .generations
            .store_options(&content.options, millis(now));
        stored.await.map_err(RegistryError::from)?;
    }
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let written = put_in(draft, &who, &precondition, (&proposal, now))?;
        confirm_write(&written, (draft, &who), confirm.as_ref())
    };
    let written = match dry_run {
        true => parts.store.attempt(&by(&caller), decide)?,
        false => parts.store.change(by(&caller), decide).await?.value,
    };
    let view = parts.store.view();
    let (record, status) = (&written.0, written.1);
    let mut answer = shown::answer(&view, &caller, (record, status), dry_run)?;
    if dry_run {
        return Ok(answer);
    }
    let id = &record.value.id;
    let generation = record.value.newest().map_or(0, |it| it.number);
    info!(bundle = %id, generation, caller = caller.name, "bundle written");
    if status == StatusCode::CREATED
        && let Ok(location) = HeaderValue::try_from(format!("/v1/bundles/{id}"))
    {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// A write in a draft that no one has confirmed yet.
pub(super) struct Unconfirmed {
    /// The registry without the write.
    pub(super) before: View,
    /// Deployments that it may affect.
    pub(super) affected: Affected,
    /// Status of the answer.
    pub(super) status: StatusCode,
}

/// Writes a bundle in the turn of a change. A hidden bundle is answered like a missing one first.
///
/// # Errors
/// [`RegistryError`]
pub(super) fn put_in(
    draft: &mut Draft,
    caller: &Caller,
    precondition: &Precondition,
    (proposal, now): (&Proposal, OffsetDateTime),
) -> Result<Unconfirmed, RegistryError> {
    check_tenant(draft, caller, &proposal.tenant)?;
    hub_bundles::refuse(&proposal.id)?;
    let known = visible(draft, caller, &proposal.id).cloned();
    precondition.check(known.as_ref().map(|it| it.version))?;
    let status = match &known {
        Some(it) => {
            // A bundle moves only between tenants that the caller delivers to.
            allow_in_tenant(draft, caller, &it.value.tenant, DELIVER)?;
            refuse_deleting(&it.value)?;
            StatusCode::OK
        }
        None if draft.bundle(&proposal.id).is_some() => return Err(RegistryError::Conflict),
        None => StatusCode::CREATED,
    };
    proposal.check_references(draft, caller)?;
    let old = known.as_ref().map(|it| &it.value);
    let written = write(draft, old, proposal.over(old, caller, now))?;
    Ok(Unconfirmed { status, ..written })
}

/// Replaces a bundle in a draft.
///
/// # Errors
/// [`RegistryError::Store`]
pub(super) fn write(
    draft: &mut Draft,
    old: Option<&BundleRecord>,
    new: BundleRecord,
) -> Result<Unconfirmed, RegistryError> {
    let before = View::clone(draft);
    let tenant = old.map(|it| &it.tenant);
    let affected = Affected {
        bundles: vec![new.id.clone()],
        clusters: tenant.map_or_else(Vec::new, |it| clusters_below(draft, it)),
    };
    draft.put_bundle(new)?;
    Ok(Unconfirmed {
        before,
        affected,
        status: StatusCode::OK,
    })
}

/// Requires the confirmation of a write; returns its bundle.
///
/// # Errors
/// `FL-6105`
pub(super) fn confirm_write(
    written: &Unconfirmed,
    (draft, caller): (&mut Draft, &Caller),
    confirm: Option<&PlanHash>,
) -> Result<Written, RegistryError> {
    let affected = &written.affected;
    check((&written.before, draft), affected, caller, confirm)?;
    let bundle = affected.bundles.first().and_then(|it| draft.bundle(it));
    let bundle = bundle.ok_or(RegistryError::Conflict)?;
    Ok((Record::clone(bundle), written.status))
}

/// # Errors
/// `FL-6107`
pub(super) fn refuse_deleting(bundle: &BundleRecord) -> Result<(), Failure> {
    match bundle.deleting {
        false => Ok(()),
        true => Err(Failure::because(Code::BundleDeleting, &bundle.id)),
    }
}
