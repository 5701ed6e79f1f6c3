//! `/v1/deployments/status`: states of deployments as a feed, in the form of `/v1/status`. A cursor resumes from the last sent
//! change; an unknown or old cursor gets all states again.

use std::{fmt, str::FromStr};

use axum::{extract::State, response::Response};
use bytes::Bytes;
use fairlead_api::{BundleId, Code, delivery::DeploymentStatusUpdate};
use fairlead_registry::{allow, sees_cluster, streams};
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, QueryParameter, Right, RouteSpec, invalid,
    reply::{Answer, Authenticated},
};
use fairlead_seam::Caller;
use fairlead_store::{StoreError, View, model::Cluster};
use futures_util::stream;
use http::{HeaderMap, Uri};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep},
};

use crate::{
    fleet::{ChangedDeployments, Fleet},
    parts::DeliveryParts,
    rights::TAG,
};

/// Events within this time are combined.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// Value of `since` for a cursor without states.
const SINCE_NOW: &str = "now";

pub(crate) fn routes() -> ApiRoutes<DeliveryParts> {
    let cursor = json!({ "type": "string", "pattern": "^(now|[0-9a-f]{8}-[0-9]{1,18})$" });
    ApiRoutes::new().route(
        RouteSpec::get(
            TAG,
            "/v1/deployments/status",
            "watchDeployments",
            "Watch the states of deployments: long poll, or events with `Accept: text/event-stream`",
        )
        .query([
            QueryParameter::new(
                "since",
                "Cursor of the previous response, or `now` for changes from now on (default: all states)",
                cursor,
            ),
            streams::wait_parameter(),
            QueryParameter::bundle("Filter: deployments of this bundle"),
        ])
        .gives::<DeploymentStatusUpdate>(200),
        status,
    )
}

/// Process and number of the last sent change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DeploymentCursor {
    run: u32,
    change: u64,
}

impl fmt::Display for DeploymentCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.run, self.change)
    }
}

impl FromStr for DeploymentCursor {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let parse = || {
            let (run, change) = text.split_once('-')?;
            Some(DeploymentCursor {
                run: u32::from_str_radix(run, 16).ok()?,
                change: change.parse().ok()?,
            })
        };
        parse().ok_or_else(|| invalid("since: expected the cursor of an earlier response"))
    }
}

/// A follower of states.
struct StatusFollower {
    parts: DeliveryParts,
    caller: Caller,
    bundle: Option<BundleId>,
    since: Option<DeploymentCursor>,
    changes: watch::Receiver<u64>,
    ends: Instant,
}

async fn status(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let query = Query::of(&uri)?;
    let wait = streams::wait_of(&query)?;
    let bundle = query.one("bundle")?.map(str::parse).transpose();
    let bundle = bundle.map_err(|error| invalid(format_args!("bundle: {error}")))?;
    let since = streams::since_of(&query, &headers)?;
    allow(&caller, Right::READ)?;
    let since = match since {
        Some(SINCE_NOW) => Some(DeploymentCursor {
            run: parts.fleet.run_id(),
            change: parts.fleet.read(Fleet::last_change).await?,
        }),
        since => since.map(str::parse).transpose()?,
    };
    let mut follower = StatusFollower {
        changes: parts.fleet.changes(),
        parts,
        caller,
        bundle,
        since,
        ends: Instant::now() + streams::STREAM_LIFETIME,
    };
    if streams::wants_events(&headers) {
        let next = async |mut follower: StatusFollower| Some((follower.next().await?, follower));
        return Ok(streams::events(stream::unfold(follower, next)));
    }
    follower.poll(wait).await
}

impl StatusFollower {
    /// Answers once there is something to send, or after the timeout.
    async fn poll(&mut self, wait: Duration) -> Answer<Response> {
        let deadline = Instant::now() + wait;
        let waits_for_now = self.since.is_some() && wait.is_zero();
        loop {
            let update = self.update().await?;
            if !update.is_empty() || waits_for_now || Instant::now() >= deadline {
                return Ok(streams::polled(&update));
            }
            match self.wait(deadline).await {
                streams::WakeReason::Changed | streams::WakeReason::TimedOut => {}
                streams::WakeReason::Draining => return Err(Code::Draining.into()),
            }
        }
    }

    /// The next chunk of a stream; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if Instant::now() >= self.ends {
                return None;
            }
            // The client reconnects and gets the error then.
            let update = self.update().await.ok()?;
            if !update.is_empty() {
                let data = serde_json::to_string(&update).ok()?;
                let cursor = &update.cursor;
                let event = format!("id: {cursor}\nevent: status\ndata: {data}\n\n");
                return Some(event.into());
            }
            let until = Instant::now() + streams::HEARTBEAT_INTERVAL;
            match self.wait(until.min(self.ends)).await {
                streams::WakeReason::Changed => {}
                streams::WakeReason::Draining => return None,
                streams::WakeReason::TimedOut => return Some(streams::HEARTBEAT_COMMENT),
            }
        }
    }

    async fn wait(&mut self, until: Instant) -> streams::WakeReason {
        let changed = async {
            let changed = self.changes.changed().await;
            sleep(BATCH_DELAY).await;
            changed.is_ok()
        };
        streams::wait_for(self.parts.fleet.draining(), until, changed).await
    }

    /// Changes since the last update, or all states.
    async fn update(&mut self) -> Result<DeploymentStatusUpdate, StoreError> {
        self.changes.mark_unchanged();
        let run = self.parts.fleet.run_id();
        let known = self.since.filter(|it| it.run == run);
        let (caller, bundle) = (&self.caller, self.bundle.as_ref());
        let read = |fleet: &Fleet| {
            let sees = |view: &View, cluster: &Cluster| sees_cluster(view, caller, cluster);
            let cursor = DeploymentCursor {
                run,
                change: fleet.last_change(),
            };
            let changes = known.and_then(|it| fleet.changes_since(it.change, bundle, sees));
            let snapshot = changes.is_none();
            let changes = changes.unwrap_or_else(|| {
                let all = fleet.all_visible(bundle, sees);
                let all = all.iter().map(|it| fleet.deployment(it));
                ChangedDeployments {
                    changed: all.collect(),
                    gone: Vec::new(),
                }
            });
            (cursor, snapshot, changes)
        };
        let (cursor, snapshot, changes) = self.parts.fleet.read(read).await?;
        self.since = Some(cursor);
        Ok(DeploymentStatusUpdate {
            cursor: cursor.to_string(),
            snapshot,
            items: changes.changed,
            removed: changes.gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_parses_back_and_other_texts_are_rejected() {
        let cursor = DeploymentCursor {
            run: 0xcafe,
            change: 7,
        };
        assert_eq!(cursor.to_string(), "0000cafe-7");
        assert_eq!("0000cafe-7".parse::<DeploymentCursor>().unwrap(), cursor);
        for text in ["", "7", "cafe", "x-7", "cafe-7-1"] {
            assert!(text.parse::<DeploymentCursor>().is_err(), "{text}");
        }
    }
}
