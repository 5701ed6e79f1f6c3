//! `DELETE /v1/bundles/{id}`: the objects stay, or tombstones remove them first.

use std::collections::BTreeSet;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::ClusterId;
use fairlead_bundle::Removal;
use fairlead_registry::{Precondition, RegistryError, allow_in_tenant, by, confirm_of};
use fairlead_routes::{
    InvalidValue, Query, invalid,
    reply::{Answer, Authenticated, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, Record, View, model::BundleRecord};
use http::{HeaderMap, StatusCode, Uri};
use tracing::info;

use super::{known, shown, visible};
use crate::{
    confirm::{Affected, clusters_below, removals, require},
    hub_bundles,
    parts::DeliveryParts,
    rights::DELIVER,
};

/// Handling of the objects of a deleted bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeleteMode {
    Keep,
    Remove,
}

impl DeleteMode {
    fn of(query: &Query) -> Result<Self, InvalidValue> {
        match query.one("mode")? {
            None | Some("keep") => Ok(DeleteMode::Keep),
            Some("remove") => Ok(DeleteMode::Remove),
            Some(_) => Err(invalid("mode: expected keep or remove")),
        }
    }
}

pub(super) async fn delete(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let query = Query::of(&uri)?;
    let (mode, confirm) = (DeleteMode::of(&query)?, confirm_of(&query)?);
    let view = parts.store.view();
    let bundle = known(&view, &caller, &id)?;
    allow_in_tenant(&view, &caller, &bundle.value.tenant, DELIVER)?;
    let (id, precondition) = (bundle.value.id.clone(), Precondition::of(&headers));
    let deployed = match mode {
        DeleteMode::Keep => Vec::new(),
        DeleteMode::Remove => {
            (parts.deployments.clusters_of(&id).await).map_err(RegistryError::from)?
        }
    };
    let (who, doomed) = (caller.clone(), id.clone());
    let decide = move |draft: &mut Draft| {
        let bundle = visible(draft, &who, &doomed).cloned();
        let bundle = bundle.ok_or(RegistryError::Conflict)?;
        precondition.check(Some(bundle.version))?;
        hub_bundles::refuse(&doomed)?;
        let removals = match mode {
            DeleteMode::Keep => delete_in(draft, &bundle.value)?,
            DeleteMode::Remove => remove_in(draft, &bundle.value, &deployed)?,
        };
        require(draft, &who, &removals, confirm.as_ref())?;
        let left = draft.bundle(&doomed).map(|it| it.as_ref().clone());
        Ok::<_, RegistryError>(left)
    };
    let left = parts.store.change(by(&caller), decide).await?.value;
    answer(&parts, &caller, &id, left.as_ref())
}

fn answer(
    parts: &DeliveryParts,
    caller: &Caller,
    id: &fairlead_api::BundleId,
    left: Option<&Record<BundleRecord>>,
) -> Answer<Response> {
    let Some(record) = left else {
        info!(bundle = %id, caller = caller.name, "bundle deleted");
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let clusters = record.value.removals.len();
    info!(bundle = %id, clusters, caller = caller.name, "removal of bundle started");
    let view = parts.store.view();
    let accepted = (record, StatusCode::ACCEPTED);
    Ok(shown::answer(&view, caller, accepted, false)?)
}

/// Deletes the document alone. Of a bundle that is being removed already, the clusters without a report keep the objects.
fn delete_in(draft: &mut Draft, bundle: &BundleRecord) -> Result<BTreeSet<Removal>, RegistryError> {
    let before = View::clone(draft);
    let affected = affected(draft, bundle);
    draft.delete_bundle(&bundle.id)?;
    Ok(removals(&before, draft, &affected))
}

/// Writes tombstones for all clusters with the bundle; without any the document goes at once.
fn remove_in(
    draft: &mut Draft,
    bundle: &BundleRecord,
    deployed: &[ClusterId],
) -> Result<BTreeSet<Removal>, RegistryError> {
    if bundle.deleting {
        return Ok(BTreeSet::new());
    }
    let before = View::clone(draft);
    let affected = affected(draft, bundle);
    let mut doomed = bundle.clone();
    doomed.deleting = true;
    draft.put_bundle(doomed.clone())?;
    let mut removals = removals(&before, draft, &affected);
    // Clusters that are targeted no longer may have kept the objects.
    let kept = deployed.iter().filter(|it| affected.clusters.contains(it));
    removals.extend(kept.map(|cluster| Removal {
        bundle: bundle.id.clone(),
        cluster: cluster.clone(),
        deletes: true,
    }));
    let number = bundle.newest().map_or(0, |it| it.number);
    let clusters = removals.iter().map(|it| (it.cluster.clone(), number));
    doomed.removals.extend(clusters);
    match doomed.removals.is_empty() {
        true => draft.delete_bundle(&bundle.id)?,
        false => draft.put_bundle(doomed)?,
    }
    Ok(removals)
}

fn affected(view: &View, bundle: &BundleRecord) -> Affected {
    Affected {
        bundles: vec![bundle.id.clone()],
        clusters: clusters_below(view, &bundle.tenant),
    }
}
