//! `/v1/status`: connection status of clusters as a feed. Status is not part of the registry's
//! history: a cursor resumes from the last sent state, and an unknown cursor gets the full state
//! again. So a client is never outdated for longer than one poll.
//!
//! Mere passage of time (`lastSeen`, `lastGoodProbe`) causes no event.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc, time::Duration};

use axum::{body::Bytes, extract::State, response::Response};
use fairlead_api::{
    ClusterId, Code,
    resources::{ClusterStatusEntry, ClusterStatusUpdate},
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated},
};
use fairlead_seam::Caller;
use fairlead_store::{Change, Kind, Record, Revision, StoreError, View, model::Cluster};
use futures_util::stream;
use http::{HeaderMap, Uri};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    changes::visible_operation,
    error::RegistryError,
    registry::Registry,
    rights::{allow, sees_cluster},
    streams::{self, HEARTBEAT_COMMENT, HEARTBEAT_INTERVAL, STREAM_LIFETIME, WakeReason},
};

/// Events within this time are combined.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// With more log lines than this, the full state is sent instead.
const MAX_LOG_LINES: u32 = 500;

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    let cursor = json!({ "type": "string", "pattern": "^[0-9a-f]{8}-[0-9]{1,18}-[0-9]{1,18}$" });
    ApiRoutes::new().route(
        RouteSpec::get(
            Tag::CLUSTER,
            "/v1/status",
            "watchStatus",
            "Watch the status of clusters: long poll, or events with `Accept: text/event-stream`",
        )
        .query([streams::since_parameter(cursor), streams::wait_parameter()])
        .gives::<ClusterStatusUpdate>(200),
        status,
    )
}

/// StatusCursor: process, turn of the observed status, revision of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StatusCursor {
    run: u32,
    turn: u64,
    revision: Revision,
}

impl fmt::Display for StatusCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}-{}", self.run, self.turn, self.revision)
    }
}

impl FromStr for StatusCursor {
    type Err = InvalidValue;
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let parse = || {
            let mut parts = text.split('-');
            let cursor = StatusCursor {
                run: u32::from_str_radix(parts.next()?, 16).ok()?,
                turn: parts.next()?.parse().ok()?,
                revision: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(cursor)
        };
        parse().ok_or_else(|| invalid("since: expected the cursor of an earlier response"))
    }
}

/// Wakes waiting requests.
struct Watch {
    turns: watch::Receiver<u64>,
    revisions: watch::Receiver<Revision>,
}

impl Watch {
    fn new(registry: &Registry) -> Self {
        Watch {
            turns: registry.store.watch_seen(),
            revisions: registry.store.watch(),
        }
    }

    /// False when the store is closed.
    async fn changed(&mut self) -> bool {
        let changed = tokio::select! {
            changed = self.turns.changed() => changed,
            changed = self.revisions.changed() => changed,
        };
        sleep(BATCH_DELAY).await;
        changed.is_ok()
    }

    /// The next answer covers changes up to this turn.
    fn turn(&mut self) -> u64 {
        self.revisions.borrow_and_update();
        *self.turns.borrow_and_update()
    }
}

async fn status(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let query = Query::of(&uri)?;
    let since = streams::since_of(&query, &headers)?;
    let since = since.map(str::parse::<StatusCursor>).transpose()?;
    let wait = streams::wait_of(&query)?;
    allow(&caller, Right::READ)?;
    let watch = Watch::new(&registry);
    if streams::wants_events(&headers) {
        let stream_state = StatusStream {
            registry,
            caller,
            since,
            watch,
            ends: Instant::now() + STREAM_LIFETIME,
        };
        return Ok(streams::events(stream::unfold(
            stream_state,
            async |mut stream_state| Some((stream_state.next().await?, stream_state)),
        )));
    }
    poll(&registry, &caller, since, watch, wait).await
}

/// Answers once there is something to send, or after the timeout.
async fn poll(
    registry: &Registry,
    caller: &Caller,
    mut since: Option<StatusCursor>,
    mut watch: Watch,
    wait: Duration,
) -> Answer<Response> {
    let deadline = Instant::now() + wait;
    loop {
        let (cursor, update) = update_since(registry, caller, since, watch.turn()).await?;
        if !update.is_empty() || Instant::now() >= deadline {
            return Ok(streams::polled(&update));
        }
        since = Some(cursor);
        let changed = watch.changed();
        match streams::wait_for_change(registry, deadline, changed).await {
            WakeReason::Changed | WakeReason::TimedOut => {}
            WakeReason::Draining => return Err(Code::Draining.into()),
        }
    }
}

struct StatusStream {
    registry: Arc<Registry>,
    caller: Caller,
    since: Option<StatusCursor>,
    watch: Watch,
    ends: Instant,
}

impl StatusStream {
    /// The next chunk; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if Instant::now() >= self.ends {
                return None;
            }
            let turn = self.watch.turn();
            // The client reconnects and gets the error then.
            let update = update_since(&self.registry, &self.caller, self.since, turn).await;
            let (cursor, update) = update.ok()?;
            self.since = Some(cursor);
            if !update.is_empty() {
                return event(&update);
            }
            let next_heartbeat = Instant::now() + HEARTBEAT_INTERVAL;
            let changed = self.watch.changed();
            let until = next_heartbeat.min(self.ends);
            match streams::wait_for_change(&self.registry, until, changed).await {
                WakeReason::Changed => {}
                WakeReason::Draining => return None,
                WakeReason::TimedOut => return Some(HEARTBEAT_COMMENT),
            }
        }
    }
}

fn event(update: &ClusterStatusUpdate) -> Option<Bytes> {
    let data = serde_json::to_string(update).ok()?;
    let cursor = &update.cursor;
    Some(format!("id: {cursor}\nevent: status\ndata: {data}\n\n").into())
}

/// Changes after the state `since`. The turn was read earlier, so a concurrent change may be sent
/// twice but is never missed.
async fn update_since(
    registry: &Registry,
    caller: &Caller,
    since: Option<StatusCursor>,
    turn: u64,
) -> Result<(StatusCursor, ClusterStatusUpdate), RegistryError> {
    let view = registry.store.view();
    let cursor = StatusCursor {
        run: registry.run,
        turn,
        revision: view.revision(),
    };
    let known = since.filter(|it| it.run == cursor.run && it.turn <= turn);
    if let Some(known) = known.filter(|it| it.revision <= cursor.revision)
        && let Some(lines) = lines(registry, known.revision, cursor.revision).await?
    {
        let update = deltas(
            registry,
            &view,
            caller,
            &CursorRange {
                known,
                current: cursor,
            },
            &lines,
        );
        return Ok((cursor, update));
    }
    let seen = view.clusters();
    let seen = seen.filter(|it| sees_cluster(&view, caller, &it.value));
    let update = ClusterStatusUpdate {
        cursor: cursor.to_string(),
        snapshot: true,
        changed: since.is_some(),
        items: seen.map(|it| item(registry, &view, it)).collect(),
        removed: Vec::new(),
    };
    Ok((cursor, update))
}

/// Cursors of the previous response and of this one.
struct CursorRange {
    known: StatusCursor,
    current: StatusCursor,
}

/// Changes within a range.
fn deltas(
    registry: &Registry,
    view: &View,
    caller: &Caller,
    range: &CursorRange,
    lines: &[Change],
) -> ClusterStatusUpdate {
    let visible = lines
        .iter()
        .filter(|it| visible_operation(view, caller, it).is_some());
    let visible: Vec<&Change> = visible.collect();
    let named = visible.iter().filter(|it| it.kind == Kind::Cluster);
    let mut touched: BTreeSet<ClusterId> = named.filter_map(|it| it.id.parse().ok()).collect();
    let (mut items, mut removed) = (Vec::new(), touched.clone());
    removed.retain(|id| visible_cluster(view, caller, id).is_none());
    touched.extend(registry.store.seen_since(range.known.turn));
    for id in &touched {
        items.extend(visible_cluster(view, caller, id).map(|it| item(registry, view, it)));
    }
    ClusterStatusUpdate {
        cursor: range.current.to_string(),
        snapshot: false,
        changed: !visible.is_empty(),
        items,
        removed: removed.into_iter().collect(),
    }
}

fn visible_cluster<'a>(
    view: &'a View,
    caller: &Caller,
    id: &ClusterId,
) -> Option<&'a Arc<Record<Cluster>>> {
    let cluster = view.cluster(id);
    cluster.filter(|it| sees_cluster(view, caller, &it.value))
}

fn item(registry: &Registry, view: &View, cluster: &Record<Cluster>) -> ClusterStatusEntry {
    ClusterStatusEntry {
        id: cluster.value.id.clone(),
        status: registry.store.observed_of(cluster).status.clone(),
        outdated: registry.outdated(view, cluster),
    }
}

/// Log lines in between. `None` if they do not determine visibility: too many, no longer retained,
/// or something has moved.
async fn lines(
    registry: &Registry,
    after: Revision,
    until: Revision,
) -> Result<Option<Vec<Change>>, StoreError> {
    if after == until {
        return Ok(Some(Vec::new()));
    }
    match registry.store.changes(after, MAX_LOG_LINES).await {
        Ok(found) if found.revision < until || found.changes.iter().any(alters_visibility) => {
            Ok(None)
        }
        Ok(mut found) => {
            found.changes.retain(|it| it.revision <= until);
            Ok(Some(found.changes))
        }
        Err(StoreError::Compacted { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// True if the change alters the visibility of a cluster.
fn alters_visibility(change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return change.kind == Kind::Tenant;
    };
    let field = match change.kind {
        Kind::Tenant => "parent",
        Kind::Cluster => "tenant",
        Kind::Token
        | Kind::Catalog
        | Kind::Authority
        | Kind::Lock
        | Kind::Person
        | Kind::Access
        | Kind::Source
        | Kind::Bundle
        | Kind::Group
        | Kind::Repository
        | Kind::HostKeys
        | Kind::Credential
        | Kind::Adoption
        | Kind::Vault
        | Kind::Upgrade
        | Kind::Service => return false,
    };
    before.get(field) != after.get(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_parses_back_and_other_texts_are_rejected() {
        let cursor = StatusCursor {
            run: 0xcafe,
            turn: 7,
            revision: Revision(12),
        };
        assert_eq!(cursor.to_string(), "0000cafe-7-12");
        assert_eq!(cursor.to_string().parse::<StatusCursor>().unwrap(), cursor);
        for text in ["", "7", "cafe-7", "cafe-7-12-1", "cafe--7-12", "x-7-12"] {
            assert!(text.parse::<StatusCursor>().is_err(), "{text}");
        }
    }
}
