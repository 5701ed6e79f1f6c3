//! `/v1/changes`: the change log as a feed. A client that resumes from its last revision misses
//! nothing; a revision beyond the retention is answered with 410.
//!
//! A watcher costs one task that sleeps until the next revision; nothing is queued for it.

mod audit;
mod requests;
mod visibility;

use std::{sync::Arc, time::Duration};

use axum::{body::Bytes, extract::State, response::Response};
use fairlead_api::{
    Code, TenantId,
    resources::{ChangeEntry, Changes as ShownChanges},
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, QueryParameter, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated},
};
use fairlead_seam::Caller;
use futures_util::stream;
use http::{HeaderMap, Uri};
use serde_json::json;
use tokio::time::Instant;

pub(super) use visibility::visible_operation;

use fairlead_store::{Change, Changes, Kind, Revision, StoreError, View};

use crate::{
    error::RegistryError,
    listing::TENANT_FILTER,
    registry::Registry,
    rights::allow,
    streams::{self, HEARTBEAT_COMMENT, HEARTBEAT_INTERVAL, STREAM_LIFETIME, WakeReason},
};

/// Number of log lines per read.
const LINES_PER_READ: u32 = 500;
/// Value of `since` for the whole retained log.
const FIRST: &str = "first";

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    let parameters = [
        streams::since_parameter(json!({ "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": u64::MAX },
            { "type": "string", "enum": [FIRST] },
        ] })),
        streams::wait_parameter(),
        QueryParameter::choice(
            "kind",
            "Filter: resources of this kind",
            &["tenant", "cluster", "token", "catalog", "authority"],
        ),
        QueryParameter::text("id", "Filter: the resource with this id"),
        QueryParameter::tenant(TENANT_FILTER),
    ];
    let watch = RouteSpec::get(
        Tag::CHANGE,
        "/v1/changes",
        "watchChanges",
        "Watch changes: long poll, or events with `Accept: text/event-stream`",
    )
    .query(parameters)
    .gives::<ShownChanges>(200)
    .fails(410, "Changes of so long ago are no longer kept");
    ApiRoutes::new()
        .route(watch, changes)
        .route(audit::spec(), audit::audit)
        .route(requests::spec(), requests::requests)
}

/// One change as shown to watchers: resource and operation. Values are in `/v1/audit`, which has
/// its own permission.
fn entry(change: &Change) -> ChangeEntry {
    ChangeEntry {
        revision: change.revision.0,
        kind: change.kind,
        id: change.id.clone(),
        tenant: change.tenant.clone(),
        operation: change.operation,
        at: change.at,
        actor: change.actor.clone(),
    }
}

/// Reads the log after a revision.
///
/// # Errors
/// `FL-4115`
async fn after(registry: &Registry, since: Revision) -> Result<Changes, RegistryError> {
    let changes = registry.store.changes(since, LINES_PER_READ).await;
    changes.map_err(|error| match error {
        // The client recovers as from a trimmed log: it lists, and watches from there.
        StoreError::Compacted { .. } if since > registry.store.view().revision() => {
            let now = registry.store.view().revision();
            RegistryError::NotReached { now, since }
        }
        StoreError::Compacted { oldest } => RegistryError::Compacted(oldest),
        other => other.into(),
    })
}

/// Filter of changes; matches everything by default.
#[derive(Default)]
struct Filter {
    kind: Option<Kind>,
    id: Option<String>,
    /// Includes all descendants.
    tenant: Option<TenantId>,
}

impl Filter {
    fn of(query: &Query) -> Result<Self, InvalidValue> {
        let kind = query.one("kind")?.map(str::parse::<Kind>).transpose();
        let kind = kind.map_err(|_| invalid("kind: expected tenant, cluster, token or catalog"))?;
        let tenant = query.one("tenant")?.map(str::parse::<TenantId>);
        Ok(Filter {
            kind,
            id: query.one("id")?.map(str::to_owned),
            tenant: tenant
                .transpose()
                .map_err(|_| invalid("tenant: expected the id of a tenant"))?,
        })
    }

    fn matches(&self, caller: &Caller, line: &Change) -> bool {
        self.kind.is_none_or(|kind| kind == line.kind)
            && self.id.as_ref().is_none_or(|id| *id == line.id)
            && (self.tenant.as_ref()).is_none_or(|above| visibility::is_below(caller, line, above))
    }
}

/// The revision before the oldest retained change.
async fn before_all(registry: &Registry) -> Result<Revision, RegistryError> {
    match registry.store.changes(Revision(0), 1).await {
        Ok(_) => Ok(Revision(0)),
        Err(StoreError::Compacted { oldest }) => Ok(oldest),
        Err(other) => Err(other.into()),
    }
}

async fn changes(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let query = Query::of(&uri)?;
    let since = match streams::since_of(&query, &headers)? {
        None => Some(registry.store.view().revision()),
        Some(FIRST) => None,
        Some(since) => Some(since.parse().map_err(|_| {
            invalid("since: expected the revision of an earlier response, or \"first\"")
        })?),
    };
    let (wait, filter) = (streams::wait_of(&query)?, Filter::of(&query)?);
    allow(&caller, Right::READ)?;
    let since = match since {
        Some(since) => since,
        None => before_all(&registry).await?,
    };
    if streams::wants_events(&headers) {
        // Fails early if the revision cannot be resumed from.
        after(&registry, since).await?;
        return Ok(events(registry, caller, filter, since));
    }
    poll(&registry, &caller, &filter, since, wait).await
}

/// Answers once a visible change exists, or after the timeout.
async fn poll(
    registry: &Registry,
    caller: &Caller,
    filter: &Filter,
    since: Revision,
    wait: Duration,
) -> Answer<Response> {
    let deadline = Instant::now() + wait;
    let mut watch = registry.store.watch();
    let mut since = since;
    loop {
        watch.borrow_and_update();
        let changes = after(registry, since).await?;
        let lines = visible_lines(&registry.store.view(), caller, filter, changes.changes);
        let items: Vec<ChangeEntry> = lines.iter().map(entry).collect();
        let has_more = items.is_empty() && changes.revision > since;
        since = changes.revision;
        if !items.is_empty() || Instant::now() >= deadline {
            return Ok(streams::polled(&fairlead_api::resources::Changes {
                revision: since.0,
                items,
            }));
        }
        // The read slice may not be all there is.
        if has_more {
            continue;
        }
        let changed = async { watch.changed().await.is_ok() };
        match streams::wait_for_change(registry, deadline, changed).await {
            WakeReason::Changed | WakeReason::TimedOut => {}
            WakeReason::Draining => return Err(Code::Draining.into()),
        }
    }
}

fn visible_lines(view: &View, caller: &Caller, filter: &Filter, lines: Vec<Change>) -> Vec<Change> {
    let seen = |line| visibility::visible_change(view, caller, line);
    let matching = lines
        .into_iter()
        .filter(|line| filter.matches(caller, line));
    matching.filter_map(seen).collect()
}

struct ChangeStream {
    registry: Arc<Registry>,
    caller: Caller,
    filter: Filter,
    since: Revision,
    watch: tokio::sync::watch::Receiver<Revision>,
    ends: Instant,
}

/// Server-sent events. The last event of a change carries its revision as id; comments serve as
/// heartbeat.
fn events(registry: Arc<Registry>, caller: Caller, filter: Filter, since: Revision) -> Response {
    let stream_state = ChangeStream {
        watch: registry.store.watch(),
        registry,
        caller,
        filter,
        since,
        ends: Instant::now() + STREAM_LIFETIME,
    };
    streams::events(stream::unfold(stream_state, async |mut stream_state| {
        Some((stream_state.next().await?, stream_state))
    }))
}

impl ChangeStream {
    /// The next chunk; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if Instant::now() >= self.ends {
                return None;
            }
            self.watch.borrow_and_update();
            let changes = match after(&self.registry, self.since).await {
                Ok(changes) => changes,
                // The client reconnects and gets the error then.
                Err(_) => return None,
            };
            let lines = visible_lines(
                &self.registry.store.view(),
                &self.caller,
                &self.filter,
                changes.changes,
            );
            let text = event_text(&lines);
            let more = changes.revision > self.since;
            self.since = changes.revision;
            if !text.is_empty() {
                return Some(text.into());
            }
            if more {
                continue;
            }
            let next_heartbeat = Instant::now() + HEARTBEAT_INTERVAL;
            let changed = async { self.watch.changed().await.is_ok() };
            let until = next_heartbeat.min(self.ends);
            match streams::wait_for_change(&self.registry, until, changed).await {
                WakeReason::Changed => {}
                WakeReason::Draining => return None,
                WakeReason::TimedOut => return Some(HEARTBEAT_COMMENT),
            }
        }
    }
}

/// One event per line. The last line of a change carries the revision as id: a client that resumes
/// from it has received the whole change.
fn event_text(lines: &[Change]) -> String {
    let mut text = String::new();
    let next = lines.iter().skip(1).map(|it| it.revision);
    let next = next.map(Some).chain([None]);
    for (line, next) in lines.iter().zip(next) {
        let Ok(data) = serde_json::to_string(&entry(line)) else {
            continue;
        };
        if next != Some(line.revision) {
            text.push_str(&format!("id: {}\n", line.revision));
        }
        text.push_str(&format!("event: {}\ndata: {data}\n\n", line.kind));
    }
    text
}
