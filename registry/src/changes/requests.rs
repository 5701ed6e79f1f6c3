//! `/v1/audit/requests`: events of requests from the audit log of this hub, latest first, paged.

use std::{path::Path, sync::Arc};

use axum::{Json, extract::State};
use fairlead_api::{ClusterId, resources::List};
use fairlead_audit::{AuditEvent, EventFilter, EventPage, Stage, read, timestamp};
use fairlead_routes::{
    InvalidValue, Page, Query, QueryParameter, RouteSpec, Tag, invalid, next_page,
    reply::{Answer, Authenticated},
};
use fairlead_seam::Caller;
use fairlead_store::View;
use http::{HeaderMap, Uri};
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    changes::audit::{AUDIT, limit},
    error::RegistryError,
    registry::Registry,
    rights::{allow_somewhere, covers_id, sees_tenant},
};

/// Reads of the log at the same time: each scans up to 32 MiB.
static READERS: Semaphore = Semaphore::const_new(2);

pub(super) fn spec() -> RouteSpec {
    let filters = [
        QueryParameter::text("caller", "Filter: requests of this caller"),
        QueryParameter::cluster("Filter: requests to this cluster"),
        QueryParameter::text("verb", "Filter: requests with this verb, like `create`"),
        QueryParameter::text("id", "Filter: the request with this id"),
        QueryParameter::choice("stage", "Filter: events of this stage", &["start", "end"]),
        QueryParameter::time("since", "Filter: events since this time (RFC 3339)"),
    ];
    RouteSpec::get(
        Tag::CHANGE,
        "/v1/audit/requests",
        "auditRequests",
        "List events of requests that this hub served, latest first",
    )
    .needs(&[AUDIT])
    .query(filters)
    .query(Page::parameters_with_cursor("^[0-9]{1,19}$"))
    .gives_list::<AuditEvent>(200, "AuditRequests")
}

pub(super) async fn requests(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<(HeaderMap, Json<List<AuditEvent>>)> {
    let query = Query::of(&uri)?;
    let (limit, filter, before) = (limit(&query)?, filter(&query)?, before(&query)?);
    let caller = allow_somewhere(&caller, AUDIT)?;
    let Some(dir) = registry.settings.audit_dir.clone() else {
        return Ok((HeaderMap::new(), Json(List { items: Vec::new() })));
    };
    let view = registry.store.view();
    let permit = READERS.acquire().await.map_err(RegistryError::internal)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let reading = spawn_blocking(move || page(&dir, &filter, before, limit, &view, &caller));
    let page = reading.await.map_err(RegistryError::internal)?;
    drop(permit);
    let EventPage { events, next } = page.map_err(RegistryError::internal)?;
    let link = match next {
        Some(next) => next_page(&uri, &next.to_string())?,
        None => HeaderMap::new(),
    };
    Ok((link, Json(List { items: events })))
}

fn page(
    dir: &Path,
    filter: &EventFilter,
    before: u64,
    limit: usize,
    view: &View,
    caller: &Caller,
) -> std::io::Result<EventPage> {
    match read(dir, filter, before, limit, |event| {
        is_visible(view, caller, event)
    }) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(EventPage::default()),
        page => page,
    }
}

/// An event belongs to the tenant of its cluster, or of its caller. Those of no tenant are visible to callers for all
/// tenants.
fn is_visible(view: &View, caller: &Caller, event: &AuditEvent) -> bool {
    if !caller.clusters.is_all() {
        let cluster = event.cluster.as_deref();
        return cluster.is_some_and(|id| covers_id(view, caller, id));
    }
    let tenant = event.tenant.as_ref().and_then(|tenant| tenant.parse().ok());
    match tenant {
        Some(tenant) => sees_tenant(view, caller, &tenant),
        None => caller.tenant.is_none(),
    }
}

fn filter(query: &Query) -> Result<EventFilter, InvalidValue> {
    let text = |name| query.one(name).map(|value| value.map(str::to_owned));
    let stage = match query.one("stage")? {
        None => None,
        Some("start") => Some(Stage::Start),
        Some("end") => Some(Stage::End),
        Some(_) => return Err(invalid("stage: expected start or end")),
    };
    let since = query.one("since")?.map(|since| {
        let since = OffsetDateTime::parse(since, &Rfc3339).ok();
        let since = since.and_then(|it| it.checked_to_offset(UtcOffset::UTC));
        let since = since.map(timestamp);
        since.ok_or_else(|| invalid("since: expected a time in RFC 3339"))
    });
    let cluster = query.one("cluster")?.map(str::parse::<ClusterId>);
    let cluster = cluster
        .transpose()
        .map_err(|_| invalid("cluster: expected the id of a cluster"))?;
    Ok(EventFilter {
        caller: text("caller")?,
        cluster: cluster.map(|it| it.to_string()),
        verb: text("verb")?,
        id: text("id")?,
        stage,
        since: since.transpose()?,
    })
}

fn before(query: &Query) -> Result<u64, InvalidValue> {
    let cursor = query.one("cursor")?.map(str::parse::<u64>);
    let cursor = cursor.transpose();
    let cursor = cursor.map_err(|_| invalid("cursor: not a cursor of this hub"))?;
    Ok(cursor.unwrap_or(u64::MAX))
}
