//! Common parts of feeds like `/v1/changes` and `/v1/status`: long polls, and server-sent events on request.

use std::{convert::Infallible, future::Future, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use fairlead_routes::{InvalidValue, Query, QueryParameter, invalid};
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::registry::Registry;

/// Upper limit of a long poll, below the gateway's deadline for modules.
const MAX_WAIT_SECONDS: u64 = 25;
/// Interval of heartbeat comments, so that proxies keep the stream open.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// A stream ends after this time; its client reconnects.
pub const STREAM_LIFETIME: Duration = Duration::from_secs(600);
/// Heartbeat comment.
pub const HEARTBEAT_COMMENT: Bytes = Bytes::from_static(b": nothing new\n\n");

/// Parameter of [`since_of`], with the schema of the route's positions.
pub(crate) fn since_parameter(schema: Value) -> QueryParameter {
    QueryParameter::new(
        "since",
        "End of the previous response: a revision, or `first` for all retained changes (default: now); for status, its \
         cursor (default: all)",
        schema,
    )
}

/// Parameter of [`wait_of`].
pub fn wait_parameter() -> QueryParameter {
    QueryParameter::integer(
        "wait",
        "Longest time to wait for a change, in seconds",
        0..=MAX_WAIT_SECONDS,
    )
}

/// Requested duration of a poll.
///
/// # Errors
/// `FL-4109`
pub fn wait_of(query: &Query) -> Result<Duration, InvalidValue> {
    let Some(wait) = query.one("wait")? else {
        return Ok(Duration::ZERO);
    };
    let wait = wait.parse().ok().filter(|wait| *wait <= MAX_WAIT_SECONDS);
    let wait =
        wait.ok_or_else(|| invalid(format_args!("wait: it is 0 to {MAX_WAIT_SECONDS} seconds")))?;
    Ok(Duration::from_secs(wait))
}

/// Position to resume from: the query, or the last event id of a broken stream.
///
/// # Errors
/// `FL-4109`
pub fn since_of<'a>(
    query: &'a Query,
    headers: &'a HeaderMap,
) -> Result<Option<&'a str>, InvalidValue> {
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    last.map_or_else(|| query.one("since"), |last| Ok(Some(last)))
}

/// True if the client accepts server-sent events.
pub fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter();
    let mut accepts = accepts.filter_map(|it| it.to_str().ok());
    accepts.any(|it| it.contains("text/event-stream"))
}

/// Reason for waking up.
pub enum WakeReason {
    /// Something has changed.
    Changed,
    /// The timeout expired.
    TimedOut,
    /// The hub drains; waiting requests must not delay it.
    Draining,
}

/// Like [`wait_for`], until the process of the registry drains.
pub(crate) async fn wait_for_change(
    registry: &Registry,
    until: Instant,
    changed: impl Future<Output = bool>,
) -> WakeReason {
    wait_for(registry.draining(), until, changed).await
}

/// Waits until `changed` completes; false means that no further change can occur. The gateway ends a request without
/// access.
pub async fn wait_for(
    draining: impl Future<Output = ()>,
    until: Instant,
    changed: impl Future<Output = bool>,
) -> WakeReason {
    tokio::select! {
        changed = timeout_at(until, changed) => match changed {
            Ok(true) => WakeReason::Changed,
            Ok(false) => WakeReason::Draining,
            Err(_) => WakeReason::TimedOut,
        },
        () = draining => WakeReason::Draining,
    }
}

/// Response of a poll.
pub fn polled<T: Serialize>(answer: &T) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    ([(header::CACHE_CONTROL, no_store)], Json(answer)).into_response()
}

/// Response of a stream of events.
pub fn events(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, Body::from_stream(chunks.map(Ok::<_, Infallible>))).into_response()
}
