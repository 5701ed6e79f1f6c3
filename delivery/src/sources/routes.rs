//! `/v1/sources`: sources of people.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    Code, Failure, SourceId,
    delivery::{PutSource, Source},
    resources::List,
};
use fairlead_registry::{
    Listing, Precondition, RegistryError, allow_in_tenant, by, listed, sees_tenant, tagged,
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, RouteSpec, dry_run_parameter, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft, Record, View, millis,
    model::{BundleRecord, BundleSource},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::json;
use tracing::info;

use super::{Sources, check::checked, keeper::request, state::shown};
use crate::rights::{DELIVER, TAG};

/// Limit of a source in bytes: host keys and signers may be long.
const MAX_SOURCE_BYTES: usize = 256 * 1024;

/// Routes of people.
pub(crate) fn routes() -> ApiRoutes<Arc<Sources>> {
    const ALL: &str = "/v1/sources";
    const ONE: &str = "/v1/sources/{sourceId}";
    let example = json!({
        "tenant": "t-a",
        "git": { "url": "https://git.example/platform", "ref": "main", "paths": ["apps/shop"] },
    });
    ApiRoutes::new()
        .route(
            RouteSpec::get(TAG, ALL, "listSources", "List the visible sources")
                .query(Listing::parameters_with_text("Part of id, tenant or URL"))
                .gives_list::<Source>(200, "Sources"),
            list,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getSource", "Get a source").gives::<Source>(200),
            show,
        )
        .route(
            RouteSpec::put(TAG, ONE, "putSource", "Create or replace a source")
                .needs(&[DELIVER])
                .takes::<PutSource>()
                .example(example)
                .query([dry_run_parameter()])
                .honours_if_match()
                .gives::<Source>(200)
                .gives::<Source>(201),
            put,
        )
        .route(
            RouteSpec::delete(
                TAG,
                ONE,
                "deleteSource",
                "Delete a source; its bundles and their objects stay",
            )
            .needs(&[DELIVER])
            .honours_if_match()
            .gives_nothing(204),
            delete,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/sources/{sourceId}/sync",
                "syncSource",
                "Poll the repository of a source at once",
            )
            .needs(&[DELIVER])
            .gives_nothing(202)
            .fails(409, "The source is suspended"),
            sync,
        )
}

fn no_such_source(id: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no source {id:?} is visible"))
        .next("List the visible sources with `fairlead source list`.")
}

/// The source if it exists and is visible.
fn visible<'a>(view: &'a View, caller: &Caller, id: &SourceId) -> Option<&'a Record<BundleSource>> {
    let source = view.source(id)?;
    sees_tenant(view, caller, &source.value.tenant).then_some(source)
}

fn parsed(id: &str) -> Result<SourceId, InvalidValue> {
    id.parse()
        .map_err(|error| invalid(format_args!("sourceId: {error}")))
}

/// The visible source, or the failure of a missing one.
fn find<'a>(
    view: &'a View,
    caller: &Caller,
    id: &str,
) -> Result<&'a Record<BundleSource>, Failure> {
    let id_of = parsed(id).ok();
    let found = id_of.and_then(|it| visible(view, caller, &it));
    found.ok_or_else(|| no_such_source(id))
}

async fn list(
    State(sources): State<Arc<Sources>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let listing = Listing::of(&uri)?;
    let view = sources.parts.store.view();
    let all = view.sources().map(|it| &it.value);
    let all = all.map(|it| (it.id.as_str(), &it.tenant, it));
    let (found, link) = listing.of_tenants((&view, &caller), all, |it| {
        [it.id.as_str(), it.tenant.as_str(), it.git.url.as_str()]
    });
    let items = found.into_iter().map(shown).collect();
    Ok(listed(&headers, &view, &List { items }, link)?)
}

async fn show(
    State(sources): State<Arc<Sources>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let view = sources.parts.store.view();
    let source = find(&view, &caller, &id)?;
    let shown = shown(&source.value);
    // State and document have one answer, so the tag of the document does not hold for it.
    let unconditional = HeaderMap::new();
    let _ = headers;
    Ok(tagged(
        &unconditional,
        StatusCode::OK,
        Some(source.version),
        &shown,
    )?)
}

async fn put(
    State(sources): State<Arc<Sources>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    JsonBody(given): JsonBody<PutSource, MAX_SOURCE_BYTES>,
) -> Answer<Response> {
    let id = parsed(&id)?;
    let dry_run = Query::of(&uri)?.boolean("dryRun")?;
    let given = PutSource {
        git: checked(given.git)?,
        ..given
    };
    let precondition = Precondition::of(&headers);
    let who = caller.clone();
    let decide = move |draft: &mut Draft| put_in(draft, &who, &precondition, (&id, given.clone()));
    let store = &sources.parts.store;
    let (record, status) = match dry_run {
        true => store.attempt(&by(&caller), decide)?,
        false => store.change(by(&caller), decide).await?.value,
    };
    let version = (!dry_run).then_some(record.version);
    let shown = shown(&record.value);
    let mut answer = tagged(&HeaderMap::new(), status, version, &shown)?;
    if dry_run {
        return Ok(answer);
    }
    let id = &record.value.id;
    info!(source = %id, caller = caller.name, "source written");
    if status == StatusCode::CREATED
        && let Ok(location) = HeaderValue::try_from(format!("/v1/sources/{id}"))
    {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// Writes a source in the turn of a change. A hidden source is answered like a missing one first.
fn put_in(
    draft: &mut Draft,
    caller: &Caller,
    precondition: &Precondition,
    (id, given): (&SourceId, PutSource),
) -> Result<(Record<BundleSource>, StatusCode), RegistryError> {
    if !sees_tenant(draft, caller, &given.tenant) {
        return Err(RegistryError::UnknownTenant);
    }
    allow_in_tenant(draft, caller, &given.tenant, DELIVER)?;
    let before = visible(draft, caller, id);
    let before = before.map(|it| (it.version, it.value.clone()));
    precondition.check(before.as_ref().map(|(version, _)| *version))?;
    let (known, status) = match before {
        Some((_, source)) if source.tenant != given.tenant => {
            let cause = "tenant: a source stays in its tenant; delete it and create another one";
            return Err(invalid(cause).into());
        }
        Some((_, source)) => (source, StatusCode::OK),
        None if draft.source(id).is_some() => return Err(RegistryError::Conflict),
        None => (new_source(id, &given), StatusCode::CREATED),
    };
    // The result of another repository tells nothing about this one.
    let poll = known.poll.filter(|_| known.git == given.git);
    draft.put_source(BundleSource {
        poll,
        git: given.git,
        suspended: given.suspended,
        prune: given.prune,
        ..known
    })?;
    let record = draft.source(id).ok_or(RegistryError::Conflict)?;
    Ok((Record::clone(record), status))
}

fn new_source(id: &SourceId, given: &PutSource) -> BundleSource {
    BundleSource {
        id: id.clone(),
        tenant: given.tenant.clone(),
        git: given.git.clone(),
        suspended: given.suspended,
        prune: given.prune,
        commit: None,
        artifacts: Vec::new(),
        requested: 0,
        poll: None,
    }
}

async fn delete(
    State(sources): State<Arc<Sources>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    let store = &sources.parts.store;
    let view = store.view();
    let known = find(&view, &caller, &id)?;
    allow_in_tenant(&view, &caller, &known.value.tenant, DELIVER)?;
    let (id, precondition) = (known.value.id.clone(), Precondition::of(&headers));
    let doomed = id.clone();
    let decide = move |draft: &mut Draft| {
        let source = draft.source(&doomed).ok_or(RegistryError::Conflict)?;
        precondition.check(Some(source.version))?;
        let bundles = draft.bundles().map(|it| &it.value);
        let left = bundles.filter(|it| it.source.as_ref() == Some(&doomed));
        let left: Vec<BundleRecord> = left.cloned().collect();
        for bundle in left {
            draft.put_bundle(BundleRecord {
                orphaned: true,
                ..bundle
            })?;
        }
        Ok::<_, RegistryError>(draft.delete_source(&doomed)?)
    };
    store.change(by(&caller), decide).await?;
    info!(source = %id, caller = caller.name, "source deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// The leading hub polls as soon as it reads the request.
async fn sync(
    State(sources): State<Arc<Sources>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Response> {
    let store = &sources.parts.store;
    let view = store.view();
    let known = find(&view, &caller, &id)?;
    allow_in_tenant(&view, &caller, &known.value.tenant, DELIVER)?;
    if known.value.suspended {
        let cause = format!("{} is suspended", known.value.id);
        return Err(Failure::with_cause(Code::SourceSuspended, cause).into());
    }
    let (id, now) = (known.value.id.clone(), millis(sources.parts.clock.now()));
    let wanted = id.clone();
    let decide = move |draft: &mut Draft| Ok::<_, RegistryError>(request(draft, &wanted, now)?);
    store.change(by(&caller), decide).await?;
    info!(source = %id, caller = caller.name, "poll of a source requested");
    Ok(StatusCode::ACCEPTED.into_response())
}
