//! `/v1/audit`: changes with actor and values before and after, newest first, paged.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{
    ClusterId, TenantId,
    resources::{List, Role},
};
use fairlead_routes::{
    InvalidValue, Page, Query, QueryParameter, Right, RouteSpec, Tag, invalid, next_page,
    reply::{Answer, Authenticated},
};
use fairlead_store::{Asked, Change, Kind, LogPlace, Revision};
use http::{HeaderMap, Uri};

use crate::{
    changes::visibility::{is_below, visible_change},
    listing::TENANT_FILTER,
    registry::Registry,
    rights::allow_somewhere,
};

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1000;
/// Number of pages read per request while the database cannot filter by visibility; the next
/// request continues from there.
const MAX_PAGES_PER_REQUEST: usize = 50;

/// Read the audit log with values before and after each change.
pub(super) const AUDIT: Right = Right::new("reading the audit", &[Role::Admin]);

pub(super) fn spec() -> RouteSpec {
    let filters = [
        QueryParameter::cluster("Filter: changes of this cluster"),
        QueryParameter::tenant(TENANT_FILTER),
        QueryParameter::text("actor", "Filter: changes by this author"),
        QueryParameter::integer(
            "before",
            "Filter: changes before this revision",
            0..=u64::MAX,
        ),
    ];
    RouteSpec::get(
        Tag::CHANGE,
        "/v1/audit",
        "audit",
        "List changes with author and values, latest first",
    )
    .needs(&[AUDIT])
    .query(filters)
    .query(Page::parameters())
    .gives_list::<Change>(200, "Audit")
}

pub(super) async fn audit(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<(HeaderMap, Json<List<Change>>)> {
    let query = Query::of(&uri)?;
    let (limit, mut filter) = (limit(&query)?, audit_filter(&query)?);
    let mut before = before(&query)?;
    let caller = allow_somewhere(&caller, AUDIT)?;
    filter.seen_by.clone_from(&caller.tenant);
    let view = registry.store.view();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    // One extra line shows whether there are more.
    let page = limit + 1;
    let mut items = Vec::new();
    let mut is_all = false;
    'log: for _ in 0..MAX_PAGES_PER_REQUEST {
        let lines = registry.store.audit(&filter, before, page).await?;
        is_all = lines.len() < usize::try_from(page).unwrap_or(usize::MAX);
        for line in lines {
            let at = LogPlace::from(&line);
            let is_below = |above| is_below(&caller, &line, above);
            if !filter.tenant.as_ref().is_none_or(is_below) {
                before = at;
                continue;
            }
            if let Some(line) = visible_change(&view, &caller, line) {
                if items.len() == most {
                    is_all = false;
                    break 'log;
                }
                items.push(line);
            }
            before = at;
        }
        if is_all {
            break;
        }
    }
    let link = if is_all {
        HeaderMap::new()
    } else {
        next_page(&uri, &format!("{}-{}", before.revision, before.part))?
    };
    Ok((link, Json(List { items })))
}

pub(super) fn limit(query: &Query) -> Result<u32, InvalidValue> {
    let Some(limit) = query.one("limit")? else {
        return Ok(DEFAULT_LIMIT);
    };
    let limit = limit.parse().ok().filter(|it| (1..=MAX_LIMIT).contains(it));
    limit.ok_or_else(|| invalid(format_args!("limit: expected 1 to {MAX_LIMIT}")))
}

/// Start position: after the previous page, if any.
fn before(query: &Query) -> Result<LogPlace, InvalidValue> {
    let cursor = query.one("cursor")?.map(|cursor| {
        let (revision, part) = cursor.split_once('-')?;
        Some(LogPlace {
            revision: revision.parse().ok()?,
            part: part.parse().ok()?,
        })
    });
    let cursor = cursor.map(|it| it.ok_or_else(|| invalid("cursor: not a cursor of this hub")));
    let before = query.one("before")?.map(|before| {
        let before = before.parse::<Revision>();
        before.map_err(|_| invalid("before: expected a revision"))
    });
    let before = before.transpose()?.unwrap_or(Revision(u64::MAX));
    let before = LogPlace::from(before);
    Ok(cursor.transpose()?.map_or(before, |it| it.min(before)))
}

fn audit_filter(query: &Query) -> Result<Asked, InvalidValue> {
    let cluster = query.one("cluster")?.map(str::parse::<ClusterId>);
    let cluster = cluster
        .transpose()
        .map_err(|_| invalid("cluster: expected the id of a cluster"))?;
    let tenant = query.one("tenant")?.map(str::parse::<TenantId>);
    let tenant = tenant
        .transpose()
        .map_err(|_| invalid("tenant: expected the id of a tenant"))?;
    Ok(Asked {
        thing: cluster.map(|id| (Kind::Cluster, id.to_string())),
        tenant,
        actor: query.one("actor")?.map(str::to_owned),
        seen_by: None,
    })
}
