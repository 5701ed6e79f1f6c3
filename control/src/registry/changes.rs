//! `/v1/changes`: what changes, as it changes. Whoever goes on from the revision they have seen last misses nothing; of so
//! long ago that it is no longer kept they are told that with 410. `/v1/audit`: who has changed what, with the values.
//!
//! A watcher costs a task that sleeps until the next revision; nothing is queued for it.

use std::{sync::Arc, time::Duration};

use axum::{Json, Router, body::Bytes, extract::State, response::Response, routing::get};
use fairlead_api::{ClusterId, Code, Failure, TenantId};
use fairlead_gateway::Caller;
use futures_util::stream;
use http::{HeaderMap, Uri};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    document::invalid,
    page::Query,
    rights::{Right, allow, sees_tenant},
    streams::{self, HEARTBEAT, NOTHING_NEW, STREAM_LIFE, Woken},
};
use crate::{
    hub::Hub,
    reply::{Answer, Who},
    store::{Asked, Change, Changes, Kind, Revision, StoreError, View},
};

/// Lines of the log that are read at once.
const SLICE: u32 = 500;
const MAX_AUDIT: u32 = 1000;
/// `since`, for all that is kept.
const FIRST: &str = "first";

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/v1/changes", get(changes))
        .route("/v1/audit", get(audit))
}

/// One change as watchers see it: what became of which thing, and not its values, which `/v1/audit` has for those who may
/// see them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen<'a> {
    revision: Revision,
    kind: Kind,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a TenantId>,
    operation: crate::store::Operation,
    #[serde(with = "time::serde::rfc3339")]
    at: time::OffsetDateTime,
    actor: &'a str,
}

impl<'a> Seen<'a> {
    fn of(change: &'a Change) -> Self {
        Seen {
            revision: change.revision,
            kind: change.kind,
            id: &change.id,
            tenant: change.tenant.as_ref(),
            operation: change.operation,
            at: change.at,
            actor: &change.actor,
        }
    }
}

#[derive(Serialize)]
struct Polled<'a> {
    /// To go on from.
    revision: Revision,
    items: Vec<Seen<'a>>,
}

/// Tokens are for those who look after them; the rest is as visible as the thing itself, or as its tenant when it is gone.
pub(super) fn sees(view: &View, caller: &Caller, change: &Change) -> bool {
    let of_cluster = matches!(change.kind, Kind::Cluster | Kind::Catalog);
    if let Some(own) = &caller.cluster {
        return of_cluster && change.id == own.as_str();
    }
    let allowed = match change.kind {
        Kind::Token => allow(caller, Right::Tokens).is_ok(),
        Kind::Tenant | Kind::Cluster | Kind::Catalog => true,
    };
    let Some(own) = &caller.tenant else {
        return allowed;
    };
    let whose = match change.kind {
        // Of one on a single cluster the log does not say whose that is.
        Kind::Token | Kind::Cluster | Kind::Catalog => change.tenant.clone(),
        Kind::Tenant => change.id.parse().ok(),
    };
    let seen = |tenant: &TenantId| tenant == own || sees_tenant(view, caller, tenant);
    allowed && whose.as_ref().is_some_and(seen)
}

/// # Errors
/// `FL-4115`
async fn after(hub: &Hub, since: Revision) -> Result<Changes, Failure> {
    let changes = hub.store.changes(since, SLICE).await;
    changes.map_err(|error| match error {
        StoreError::Compacted { oldest } => {
            Failure::because(Code::Compacted, format_args!("the oldest is {oldest}"))
        }
        other => other.into(),
    })
}

/// What comes before the first change that is kept.
async fn before_all(hub: &Hub) -> Result<Revision, Failure> {
    match hub.store.changes(Revision(0), 1).await {
        Ok(_) => Ok(Revision(0)),
        Err(StoreError::Compacted { oldest }) => Ok(oldest),
        Err(other) => Err(other.into()),
    }
}

async fn changes(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let query = Query::of(&uri)?;
    let since = match streams::since_of(&query, &headers)? {
        None => Some(hub.store.view().revision()),
        Some(FIRST) => None,
        Some(since) => Some(since.parse().map_err(|_| {
            invalid("since: it is the revision of an earlier answer, or \"first\"")
        })?),
    };
    let wait = streams::wait_of(&query)?;
    allow(&caller, Right::Read)?;
    let since = match since {
        Some(since) => since,
        None => before_all(&hub).await?,
    };
    if streams::wants_events(&headers) {
        // The first look tells whether there is anything to go on from.
        after(&hub, since).await?;
        return Ok(events(hub, caller, since));
    }
    poll(&hub, &caller, since, wait).await
}

/// Answers as soon as there is something that the caller may see, or when the time is over.
async fn poll(hub: &Hub, caller: &Caller, since: Revision, wait: Duration) -> Answer<Response> {
    let deadline = Instant::now() + wait;
    let mut watch = hub.store.watch();
    let mut since = since;
    loop {
        watch.borrow_and_update();
        let changes = after(hub, since).await?;
        let view = hub.store.view();
        let seen = changes.changes.iter().filter(|it| sees(&view, caller, it));
        let items: Vec<Seen> = seen.map(Seen::of).collect();
        let go_on = items.is_empty() && changes.revision > since;
        since = changes.revision;
        if !items.is_empty() || Instant::now() >= deadline {
            return Ok(streams::polled(&Polled {
                revision: since,
                items,
            }));
        }
        // What was read may not be all there is.
        if go_on {
            continue;
        }
        let changed = async { watch.changed().await.is_ok() };
        if let Woken::Ends = streams::woken(hub, deadline, changed).await {
            return Err(Code::Draining.into());
        }
    }
}

struct Streaming {
    hub: Arc<Hub>,
    caller: Caller,
    since: Revision,
    watch: tokio::sync::watch::Receiver<Revision>,
    ends: Instant,
}

/// Server-sent events: each change with its revision as id, and a comment where nothing happens.
fn events(hub: Arc<Hub>, caller: Caller, since: Revision) -> Response {
    let streaming = Streaming {
        watch: hub.store.watch(),
        hub,
        caller,
        since,
        ends: Instant::now() + STREAM_LIFE,
    };
    streams::events(stream::unfold(streaming, async |mut streaming| {
        Some((streaming.next().await?, streaming))
    }))
}

impl Streaming {
    /// The next piece; nothing when the stream is to end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if Instant::now() >= self.ends {
                return None;
            }
            self.watch.borrow_and_update();
            let changes = match after(&self.hub, self.since).await {
                Ok(changes) => changes,
                // The client comes again and is told then.
                Err(_) => return None,
            };
            let view = self.hub.store.view();
            let seen = changes.changes.iter();
            let seen = seen.filter(|it| sees(&view, &self.caller, it));
            let text: String = seen.filter_map(event).collect();
            let more = changes.revision > self.since;
            self.since = changes.revision;
            if !text.is_empty() {
                return Some(text.into());
            }
            if more {
                continue;
            }
            let beat = Instant::now() + HEARTBEAT;
            let changed = async { self.watch.changed().await.is_ok() };
            match streams::woken(&self.hub, beat.min(self.ends), changed).await {
                Woken::Changed => {}
                Woken::Ends => return None,
                Woken::TimeOver => return Some(NOTHING_NEW),
            }
        }
    }
}

fn event(change: &Change) -> Option<String> {
    let data = serde_json::to_string(&Seen::of(change)).ok()?;
    Some(format!(
        "id: {}\nevent: {}\ndata: {data}\n\n",
        change.revision, change.kind
    ))
}

#[derive(Serialize)]
struct Audited {
    items: Vec<Change>,
}

async fn audit(State(hub): State<Arc<Hub>>, Who(caller): Who, uri: Uri) -> Answer<Json<Audited>> {
    let query = Query::of(&uri)?;
    let limit = match query.one("limit")? {
        None => 100,
        Some(limit) => {
            let limit = limit.parse().ok().filter(|it| (1..=MAX_AUDIT).contains(it));
            limit.ok_or_else(|| invalid(format_args!("limit: it is 1 to {MAX_AUDIT}")))?
        }
    };
    let before = match query.one("before")? {
        None => Revision(u64::MAX),
        Some(before) => before
            .parse()
            .map_err(|_| invalid("before: it is a revision"))?,
    };
    let cluster = query.one("cluster")?.map(|id| {
        let id = id.parse::<ClusterId>();
        id.map(|id| (Kind::Cluster, id.to_string()))
    });
    let cluster = cluster
        .transpose()
        .map_err(|_| invalid("cluster: it is the id of one"))?;
    let tenant = query.one("tenant")?.map(str::parse::<TenantId>);
    let tenant = tenant
        .transpose()
        .map_err(|_| invalid("tenant: it is the id of one"))?;
    allow(&caller, Right::Audit)?;
    let asked = Asked {
        thing: cluster,
        tenant,
        actor: query.one("actor")?.map(str::to_owned),
    };
    let view = hub.store.view();
    let mut items = hub.store.audit(&asked, before, limit).await?;
    items.retain(|it| sees(&view, &caller, it));
    Ok(Json(Audited { items }))
}
