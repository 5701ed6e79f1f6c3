//! `/v1/audit`: changes with actor and values before and after, newest first, paged.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{ClusterId, Failure, TenantId};
use fairlead_store::{Asked, Change, Kind, LogPlace, Revision};
use http::{HeaderMap, Uri};
use serde::Serialize;

use crate::{
    changes::sight::{is_below, seen},
    invalid::invalid,
    page::{Query, next_page},
    registry::Registry,
    reply::{Answer, Who},
    rights::{Right, allow},
};

const USUAL: u32 = 100;
const MOST: u32 = 1000;
/// Number of pages read per request while the database cannot filter by visibility; the next
/// request continues from there.
const PAGES: usize = 50;

#[derive(Serialize)]
pub(super) struct Audited {
    items: Vec<Change>,
}

pub(super) async fn audit(
    State(registry): State<Arc<Registry>>,
    Who(caller): Who,
    uri: Uri,
) -> Answer<(HeaderMap, Json<Audited>)> {
    let query = Query::of(&uri)?;
    let (limit, mut asked) = (limit(&query)?, asked(&query)?);
    let mut before = before(&query)?;
    allow(&caller, Right::Audit)?;
    asked.seen_by.clone_from(&caller.tenant);
    let view = registry.store.view();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    // One extra line shows whether there are more.
    let page = limit + 1;
    let mut items = Vec::new();
    let mut is_all = false;
    'log: for _ in 0..PAGES {
        let lines = registry.store.audit(&asked, before, page).await?;
        is_all = lines.len() < usize::try_from(page).unwrap_or(usize::MAX);
        for line in lines {
            let at = LogPlace::from(&line);
            let is_below = |above| is_below(&caller, &line, above);
            if !asked.tenant.as_ref().is_none_or(is_below) {
                before = at;
                continue;
            }
            if let Some(line) = seen(&view, &caller, line) {
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
    Ok((link, Json(Audited { items })))
}

fn limit(query: &Query) -> Result<u32, Failure> {
    let Some(limit) = query.one("limit")? else {
        return Ok(USUAL);
    };
    let limit = limit.parse().ok().filter(|it| (1..=MOST).contains(it));
    limit.ok_or_else(|| invalid(format_args!("limit: it is 1 to {MOST}")))
}

/// Start position: after the previous page, if any.
fn before(query: &Query) -> Result<LogPlace, Failure> {
    let cursor = query.one("cursor")?.map(|cursor| {
        let (revision, part) = cursor.split_once('-')?;
        Some(LogPlace {
            revision: revision.parse().ok()?,
            part: part.parse().ok()?,
        })
    });
    let cursor = cursor.map(|it| it.ok_or_else(|| invalid("cursor: it is not one of ours")));
    let before = query.one("before")?.map(|before| {
        let before = before.parse::<Revision>();
        before.map_err(|_| invalid("before: it is a revision"))
    });
    let before = before.transpose()?.unwrap_or(Revision(u64::MAX));
    let before = LogPlace::from(before);
    Ok(cursor.transpose()?.map_or(before, |it| it.min(before)))
}

fn asked(query: &Query) -> Result<Asked, Failure> {
    let cluster = query.one("cluster")?.map(str::parse::<ClusterId>);
    let cluster = cluster
        .transpose()
        .map_err(|_| invalid("cluster: it is the id of one"))?;
    let tenant = query.one("tenant")?.map(str::parse::<TenantId>);
    let tenant = tenant
        .transpose()
        .map_err(|_| invalid("tenant: it is the id of one"))?;
    Ok(Asked {
        thing: cluster.map(|id| (Kind::Cluster, id.to_string())),
        tenant,
        actor: query.one("actor")?.map(str::to_owned),
        seen_by: None,
    })
}
