//! Routes of named services. Who sees a cluster sees its services; admins of the cluster make and delete them.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use fairlead_api::{
    Code, Failure,
    resources::{List, PutService, Role, ServiceDocument, ServiceName},
};
use fairlead_registry::{
    Precondition, RegistryError, allow_in, by, listed, sees_cluster, tagged, visible,
};
use fairlead_routes::{
    ApiRoutes, ListPosition, Page, QueryParameter, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, Record, View, model::ServiceRecord, whole_millis};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use tracing::info;

use super::{ServiceParts, check};

const SERVICE: Right = Right::new("changing the services of a cluster", &[Role::Admin]);

pub(super) fn routes() -> ApiRoutes<Arc<ServiceParts>> {
    const TAG: Tag = Tag::CLUSTER;
    const ALL: &str = "/v1/services";
    const ONE: &str = "/v1/services/{serviceName}";
    ApiRoutes::new()
        .route(
            RouteSpec::get(TAG, ALL, "listServices", "List the visible named services")
                .query([QueryParameter::cluster("Filter: services of this cluster")])
                .query(Page::parameters())
                .gives_list::<ServiceDocument>(200, "Services"),
            list,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getService", "Get a named service")
                .gives::<ServiceDocument>(200),
            show,
        )
        .route(
            RouteSpec::put(TAG, ONE, "putService", "Create or replace a named service")
                .needs(&[SERVICE])
                .takes::<PutService>()
                .example(json!({
                    "cluster": "c-of-a", "target": "db.shop:5432", "protocol": "tcp",
                    "port": 20000, "from": ["10.0.0.0/8"],
                }))
                .honours_if_match()
                .fails(
                    409,
                    "port or host is taken, or the hub does not listen for it",
                )
                .gives::<ServiceDocument>(200)
                .gives::<ServiceDocument>(201),
            put,
        )
        .route(
            RouteSpec::delete(
                TAG,
                ONE,
                "deleteService",
                "Delete a named service; its connections end within seconds",
            )
            .needs(&[SERVICE])
            .honours_if_match()
            .gives_nothing(204),
            delete,
        )
}

fn no_such_service(name: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no service {name:?} is visible"))
        .next("List the visible services with `fairlead service list`.")
}

fn sees(view: &View, caller: &Caller, service: &ServiceRecord) -> bool {
    let cluster = view.cluster(&service.cluster);
    cluster.is_some_and(|it| sees_cluster(view, caller, &it.value))
}

/// The service if it exists and is visible.
fn seen(
    view: &View,
    caller: &Caller,
    name: &str,
) -> Result<Arc<Record<ServiceRecord>>, RegistryError> {
    let known = name.parse().ok().and_then(|name| view.service(&name));
    let known = known.filter(|it| sees(view, caller, &it.value));
    known.cloned().ok_or_else(|| no_such_service(name).into())
}

fn document(parts: &ServiceParts, view: &View, service: &ServiceRecord) -> ServiceDocument {
    let it = service.clone();
    ServiceDocument {
        state: parts.state(view, service),
        name: it.name,
        cluster: it.cluster,
        target: it.target,
        protocol: it.protocol,
        port: it.port,
        host: it.host,
        from: it.from,
        callers: it.callers,
        created_by: it.created_by,
        created: it.created,
    }
}

async fn list(
    State(parts): State<Arc<ServiceParts>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let page = Page::of(&uri)?;
    let cluster = page.query().one("cluster")?;
    let view = parts.store.view();
    let found = view.services().map(|it| &it.value);
    let found = found.filter(|it| cluster.is_none_or(|id| it.cluster.as_str() == id));
    let found = found.filter(|it| sees(&view, &caller, it));
    let placed = found.map(|it| (ListPosition::of(it.name.as_str()), it));
    let (found, link) = page.cut(placed.collect());
    let items = found.into_iter().map(|it| document(&parts, &view, it));
    let items: Vec<ServiceDocument> = items.collect();
    Ok(listed(&headers, &view, &List { items }, link)?)
}

async fn show(
    State(parts): State<Arc<ServiceParts>>,
    Authenticated(caller): Authenticated,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let view = parts.store.view();
    let service = seen(&view, &caller, &name)?;
    let shown = document(&parts, &view, &service.value);
    let version = Some(service.version);
    Ok(tagged(&headers, StatusCode::OK, version, &shown)?)
}

async fn put(
    State(parts): State<Arc<ServiceParts>>,
    Authenticated(caller): Authenticated,
    Path(name): Path<String>,
    headers: HeaderMap,
    JsonBody(given): JsonBody<PutService>,
) -> Answer<Response> {
    let view = parts.store.view();
    let cluster = visible(&view, &caller, given.cluster.as_str())?;
    allow_in(&view, &caller, &cluster.value, SERVICE)?;
    let name: ServiceName =
        (name.parse()).map_err(|error| invalid(format_args!("serviceName: {error}")))?;
    let now = whole_millis(parts.clock.now());
    let service = check::record(&parts, name, given, (&caller.name, now))?;
    let (precondition, who) = (Precondition::of(&headers), caller.clone());
    let decide = move |draft: &mut Draft| put_in(draft, &who, &precondition, service.clone());
    let (record, status) = parts.store.change(by(&caller), decide).await?.value;
    let service = &record.value;
    info!(service = %service.name, cluster = %service.cluster, caller = caller.name, "service written");
    parts.handled(service).await;
    let shown = document(&parts, &parts.store.view(), service);
    let no_condition = HeaderMap::new();
    Ok(tagged(&no_condition, status, Some(record.version), &shown)?)
}

/// Writes a service in the turn of a change. A hidden service is answered like a missing one first.
fn put_in(
    draft: &mut Draft,
    caller: &Caller,
    precondition: &Precondition,
    service: ServiceRecord,
) -> Result<(Record<ServiceRecord>, StatusCode), RegistryError> {
    let cluster = visible(draft, caller, service.cluster.as_str())?;
    allow_in(draft, caller, &cluster.value, SERVICE)?;
    let before = draft.service(&service.name).cloned();
    let shown = before.as_ref().filter(|it| sees(draft, caller, &it.value));
    precondition.check(shown.map(|it| it.version))?;
    let status = match (shown, &before) {
        (Some(before), _) => {
            let former = visible(draft, caller, before.value.cluster.as_str())?;
            allow_in(draft, caller, &former.value, SERVICE)?;
            StatusCode::OK
        }
        (None, Some(_)) => return Err(RegistryError::Conflict),
        (None, None) => StatusCode::CREATED,
    };
    check_unique(draft, &service)?;
    let name = service.name.clone();
    draft.put_service(service)?;
    let record = draft.service(&name).ok_or(RegistryError::Conflict)?;
    Ok((Record::clone(record), status))
}

/// A port or host belongs to one service. The cause does not name the other one, which may be hidden.
fn check_unique(view: &View, service: &ServiceRecord) -> Result<(), Failure> {
    let others = view.services().map(|it| &it.value);
    let mut others = others.filter(|it| it.name != service.name);
    let clash = others.find(|it| {
        let has_port = service.port.is_some() && it.port == service.port;
        has_port || service.host.is_some() && it.host == service.host
    });
    let Some(clash) = clash else {
        return Ok(());
    };
    let cause = match (clash.port, &clash.host) {
        (Some(port), _) => format!("the port {port} is taken"),
        (None, host) => format!("the host {} is taken", host.as_deref().unwrap_or_default()),
    };
    Err(Failure::because(Code::ServiceTaken, cause))
}

async fn delete(
    State(parts): State<Arc<ServiceParts>>,
    Authenticated(caller): Authenticated,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    let (precondition, who) = (Precondition::of(&headers), caller.clone());
    let decide = move |draft: &mut Draft| {
        let service = seen(draft, &who, &name)?;
        let cluster = visible(draft, &who, service.value.cluster.as_str())?;
        allow_in(draft, &who, &cluster.value, SERVICE)?;
        precondition.check(Some(service.version))?;
        draft.delete_service(&service.value.name)?;
        Ok::<_, RegistryError>(service.value.name.clone())
    };
    let name = parts.store.change(by(&caller), decide).await?.value;
    info!(service = %name, caller = caller.name, "service deleted");
    Ok(StatusCode::NO_CONTENT)
}
