//! `/v1/groups`: named selectors of clusters.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use fairlead_api::{
    Code, Failure, GroupId,
    delivery::{Group, GroupStatus, PlanHash, PutGroup},
    resources::List,
};
use fairlead_registry::{
    Listing, Precondition, RegistryError, allow_in_tenant, by, confirm_of, confirm_parameter,
    listed, sees_tenant, tagged,
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, RouteSpec, dry_run_parameter, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft, Record, Store, View,
    model::{BundleRecord, ClusterGroup},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::json;
use tracing::info;

use crate::{
    confirm::{Affected, check, clusters_below},
    members::members,
    rights::{DELIVER, TAG},
};

pub(crate) fn routes() -> ApiRoutes<Store> {
    const ALL: &str = "/v1/groups";
    const ONE: &str = "/v1/groups/{groupId}";
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                ALL,
                "listGroups",
                "List the visible groups of clusters",
            )
            .query(Listing::parameters_with_text("Part of id or tenant"))
            .gives_list::<GroupStatus>(200, "Groups"),
            list,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getGroup", "Get a group of clusters")
                .gives::<GroupStatus>(200),
            show,
        )
        .route(
            RouteSpec::put(
                TAG,
                ONE,
                "putGroup",
                "Create or replace a group of clusters",
            )
            .needs(&[DELIVER])
            .takes::<PutGroup>()
            .example(json!({ "tenant": "t-a", "selector": "site=edge" }))
            .query([dry_run_parameter(), confirm_parameter()])
            .honours_if_match()
            .gives::<GroupStatus>(200)
            .gives::<GroupStatus>(201),
            put,
        )
        .route(
            RouteSpec::delete(TAG, ONE, "deleteGroup", "Delete a group; its clusters stay")
                .needs(&[DELIVER])
                .query([confirm_parameter()])
                .honours_if_match()
                .gives_nothing(204),
            delete,
        )
}

fn status(view: &View, group: &ClusterGroup) -> GroupStatus {
    GroupStatus {
        group: group.clone(),
        members: members(view, group).count(),
    }
}

fn no_such_group(id: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no group {id:?} is visible"))
        .next("List the visible groups with `fairlead group list`.")
}

/// The group if it exists and is visible.
fn visible<'a>(view: &'a View, caller: &Caller, id: &GroupId) -> Option<&'a Record<ClusterGroup>> {
    let group = view.group(id)?;
    sees_tenant(view, caller, &group.value.tenant).then_some(group)
}

fn parsed(id: &str) -> Result<GroupId, InvalidValue> {
    id.parse()
        .map_err(|error| invalid(format_args!("groupId: {error}")))
}

async fn list(
    State(store): State<Store>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let listing = Listing::of(&uri)?;
    let view = store.view();
    let groups = view.groups().map(|it| &it.value);
    let groups = groups.map(|it| (it.id.as_str(), &it.tenant, it));
    let (found, link) = listing.of_tenants((&view, &caller), groups, |it| {
        [it.id.as_str(), it.tenant.as_str()]
    });
    let items = found.into_iter().map(|it| status(&view, it)).collect();
    Ok(listed(&headers, &view, &List { items }, link)?)
}

async fn show(
    State(store): State<Store>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let view = store.view();
    let found = parsed(&id).ok();
    let found = found.and_then(|it| visible(&view, &caller, &it));
    let group = found.ok_or_else(|| no_such_group(&id))?;
    let shown = status(&view, &group.value);
    Ok(tagged(
        &headers,
        StatusCode::OK,
        Some(group.version),
        &shown,
    )?)
}

async fn put(
    State(store): State<Store>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    JsonBody(given): JsonBody<PutGroup>,
) -> Answer<Response> {
    let id = parsed(&id)?;
    let query = Query::of(&uri)?;
    let (dry_run, confirm) = (query.boolean("dryRun")?, confirm_of(&query)?);
    if given.selector.is_empty() {
        let cause = "selector: an empty one matches all clusters; name at least one label";
        return Err(invalid(cause).into());
    }
    let precondition = Precondition::of(&headers);
    let group = Group {
        id,
        tenant: given.tenant,
        selector: given.selector,
    };
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let before = View::clone(draft);
        let written = put_in(draft, &who, &precondition, group.clone())?;
        check_group((&before, draft), &group.id, &who, confirm.as_ref())?;
        Ok::<_, RegistryError>(written)
    };
    let (record, status_code) = match dry_run {
        true => store.attempt(&by(&caller), decide)?,
        false => store.change(by(&caller), decide).await?.value,
    };
    // Nothing was written by a dry run, so there is no version.
    let version = (!dry_run).then_some(record.version);
    let shown = status(&store.view(), &record.value);
    let mut answer = tagged(&HeaderMap::new(), status_code, version, &shown)?;
    if dry_run {
        return Ok(answer);
    }
    let id = &record.value.id;
    info!(group = %id, caller = caller.name, "group of clusters written");
    if status_code == StatusCode::CREATED
        && let Ok(location) = HeaderValue::try_from(format!("/v1/groups/{id}"))
    {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// Writes a group in the turn of a change. A hidden group is answered like a missing one first.
fn put_in(
    draft: &mut Draft,
    caller: &Caller,
    precondition: &Precondition,
    group: Group,
) -> Result<(Record<ClusterGroup>, StatusCode), RegistryError> {
    if !sees_tenant(draft, caller, &group.tenant) {
        return Err(RegistryError::UnknownTenant);
    }
    allow_in_tenant(draft, caller, &group.tenant, DELIVER)?;
    let before = visible(draft, caller, &group.id);
    let before = before.map(|it| (it.version, it.value.tenant.clone()));
    precondition.check(before.as_ref().map(|(version, _)| *version))?;
    let status = match &before {
        Some((_, tenant)) => {
            // A group moves only between tenants that the caller delivers to.
            allow_in_tenant(draft, caller, tenant, DELIVER)?;
            StatusCode::OK
        }
        None if draft.group(&group.id).is_some() => return Err(RegistryError::Conflict),
        None => StatusCode::CREATED,
    };
    let id = group.id.clone();
    draft.put_group(group)?;
    let record = draft.group(&id).ok_or(RegistryError::Conflict)?;
    Ok((Record::clone(record), status))
}

/// Checks a change of a group for bundles that its members would lose.
///
/// # Errors
/// `FL-6105`
fn check_group(
    (before, draft): (&View, &mut Draft),
    id: &GroupId,
    principal: &Caller,
    confirm: Option<&PlanHash>,
) -> Result<(), RegistryError> {
    let names_it = |it: &BundleRecord| it.fields.targets.iter().any(|it| it.groups.contains(id));
    let bundles = draft.bundles().map(|it| &it.value);
    let bundles = bundles.filter(|it| names_it(it)).map(|it| it.id.clone());
    let bundles: Vec<_> = bundles.collect();
    if bundles.is_empty() {
        return Ok(());
    }
    let groups = [before.group(id), draft.group(id)].into_iter().flatten();
    let clusters = groups.flat_map(|it| clusters_below(draft, &it.value.tenant));
    let clusters: BTreeSet<_> = clusters.collect();
    let affected = Affected {
        clusters: clusters.into_iter().collect(),
        bundles,
    };
    check((before, draft), &affected, principal, confirm)
}

async fn delete(
    State(store): State<Store>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    let confirm = confirm_of(&Query::of(&uri)?)?;
    let view = store.view();
    let known = parsed(&id).ok();
    let known = known.and_then(|it| visible(&view, &caller, &it));
    let known = known.ok_or_else(|| no_such_group(&id))?;
    allow_in_tenant(&view, &caller, &known.value.tenant, DELIVER)?;
    let (id, precondition) = (known.value.id.clone(), Precondition::of(&headers));
    let (doomed, who) = (id.clone(), caller.clone());
    let decide = move |draft: &mut Draft| {
        let group = draft.group(&doomed).ok_or(RegistryError::Conflict)?;
        precondition.check(Some(group.version))?;
        let before = View::clone(draft);
        draft.delete_group(&doomed)?;
        check_group((&before, draft), &doomed, &who, confirm.as_ref())
    };
    store.change(by(&caller), decide).await?;
    info!(group = %id, caller = caller.name, "group of clusters deleted");
    Ok(StatusCode::NO_CONTENT)
}
