//! `POST /v1/bundles/{id}/rollback`: a new generation with older content and options.

use axum::{extract::State, response::Response};
use fairlead_api::{Code, Failure, delivery::Rollback};
use fairlead_registry::{Precondition, RegistryError, allow_in_tenant, by, confirm_of};
use fairlead_routes::{
    Query, invalid,
    reply::{Answer, Authenticated, OptionalDocument, Path},
};
use fairlead_store::{
    Draft, millis,
    model::{BundleRecord, Generation},
};
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;
use tracing::info;

use super::{
    known,
    put::{confirm_write, refuse_deleting, write},
    shown, visible,
};
use crate::{hub_bundles, parts::DeliveryParts, rights::DELIVER};

pub(super) async fn roll_back(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    OptionalDocument(body): OptionalDocument,
) -> Answer<Response> {
    let query = Query::of(&uri)?;
    let (dry_run, confirm) = (query.boolean("dryRun")?, confirm_of(&query)?);
    let asked = match body {
        Some(body) if body.is_object() => Rollback::deserialize(body).map_err(invalid)?,
        Some(_) => return Err(invalid("a rollback is an object").into()),
        None => Rollback::default(),
    };
    let view = parts.store.view();
    let bundle = known(&view, &caller, &id)?;
    allow_in_tenant(&view, &caller, &bundle.value.tenant, DELIVER)?;
    let precondition = Precondition::of(&headers);
    let unchanged = precondition.check(Some(bundle.version));
    unchanged.inspect_err(|_| parts.store.has_lost())?;
    let target = target(&bundle.value, asked.to)?.clone();
    let options = parts.generations.options(&target.options).await;
    let options = options.map_err(RegistryError::from)?;
    let now = parts.clock.now();
    if !dry_run {
        // Both are kept while the bundle names them; this keeps them until then.
        for content in [&target.artifact, &target.options] {
            let touched = parts.contents.touch(content, millis(now)).await;
            touched.map_err(RegistryError::from)?;
        }
    }
    let (id, who) = (bundle.value.id.clone(), caller.clone());
    let decide = move |draft: &mut Draft| {
        let bundle = visible(draft, &who, &id).cloned();
        let bundle = bundle.ok_or(RegistryError::Conflict)?;
        precondition.check(Some(bundle.version))?;
        hub_bundles::refuse(&id)?;
        refuse_deleting(&bundle.value)?;
        if !bundle.value.generations.contains(&target) {
            return Err(RegistryError::Conflict);
        }
        let mut new = bundle.value.clone();
        new.fields = options.fields.clone();
        new.push(Generation {
            at: now,
            by: who.name.clone(),
            ..target.clone()
        });
        let written = write(draft, Some(&bundle.value), new)?;
        confirm_write(&written, (draft, &who), confirm.as_ref())
    };
    let (record, _) = match dry_run {
        true => parts.store.attempt(&by(&caller), decide)?,
        false => parts.store.change(by(&caller), decide).await?.value,
    };
    if !dry_run {
        let number = record.value.newest().map_or(0, |it| it.number);
        info!(bundle = %record.value.id, generation = number, caller = caller.name, "bundle rolled back");
    }
    let view = parts.store.view();
    let written = (&record, StatusCode::OK);
    Ok(shown::answer(&view, &caller, written, dry_run)?)
}

/// The generation with this number; by default the one before the newest.
fn target(bundle: &BundleRecord, to: Option<u64>) -> Result<&Generation, Failure> {
    let newest = bundle.newest().map_or(0, |it| it.number);
    let found = match to {
        Some(number) if number == newest => {
            let cause = format!("{number} is the newest generation of {}", bundle.id);
            return Err(Failure::because(Code::NoSuchGeneration, cause));
        }
        Some(number) => bundle.generations.iter().find(|it| it.number == number),
        None => bundle.generations.get(1),
    };
    found.ok_or_else(|| {
        let kept = bundle.generations.iter().map(|it| it.number.to_string());
        let kept = kept.collect::<Vec<_>>().join(", ");
        let cause = format!("the kept generations of {} are {kept}", bundle.id);
        Failure::because(Code::NoSuchGeneration, cause)
    })
}
