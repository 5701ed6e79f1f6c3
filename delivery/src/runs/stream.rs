//! Logs for people: bytes, and server-sent events that follow a run until it has ended.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use fairlead_api::{
    Code, Failure, RunId,
    delivery::{LOG_OFFSET_HEADER, RunState},
};
use fairlead_registry::allow_in;
use fairlead_routes::reply::{Answer, Authenticated, Path};
use fairlead_seam::refuse;
use fairlead_store::StoreError;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::{Runs, log::slice, no_such_run, record::StoredRun, routes::find};
use crate::{byte_range, rights::READ_LOGS};

pub(super) const SUMMARY: &str =
    "Get the log of a run: bytes, or with `Accept: text/event-stream` events that follow it";

/// Interval at which a follower reads what another hub has stored.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum time between two reads of a follower.
const READ_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of heartbeat comments, so that proxies keep the stream open.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// A stream ends after this time; its client resumes at the last offset.
const STREAM_LIFETIME: Duration = Duration::from_secs(600);

pub(super) async fn log(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let view = runs.parts.store.view();
    let run = find(&runs, (&view, &caller), &id).await?;
    let cluster = view.cluster(&run.cluster);
    let cluster = cluster.ok_or_else(|| no_such_run(&id))?;
    allow_in(&view, &caller, &cluster.value, READ_LOGS)?;
    runs.check_kept(&run).await?;
    let accepts = headers.get_all(header::ACCEPT).iter();
    let mut accepts = accepts.filter_map(|it| it.to_str().ok());
    if accepts.any(|it| it.contains("text/event-stream")) {
        let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
        let from = last.and_then(|it| it.parse().ok()).unwrap_or(0);
        return Ok(events(runs, run.id().clone(), from));
    }
    let (text, length) = runs.text(run.id(), 0).await?;
    let mut answer = bytes_answer(&text, &headers);
    let offset = HeaderValue::from(length);
    answer.headers_mut().insert(LOG_OFFSET_HEADER, offset);
    Ok(answer)
}

impl Runs {
    /// # Errors
    /// `FL-6508` for a log that was deleted.
    pub(super) async fn check_kept(&self, run: &StoredRun) -> Result<(), Failure> {
        let (id, bytes) = (run.id(), run.details.log_bytes);
        if bytes == 0 || self.parts.logs.length(id).await? > 0 {
            return Ok(());
        }
        let cause = format!("the log of {id} had {bytes} bytes, and is no longer kept");
        Err(Failure::with_cause(Code::LogForgotten, cause))
    }
}

/// The text, or the range of it that the request wants.
fn bytes_answer(text: &Bytes, request: &HeaderMap) -> Response {
    let total = text.len() as u64;
    let mut headers = HeaderMap::new();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, plain);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    match byte_range::wanted(request, total) {
        None => (StatusCode::OK, headers, text.clone()).into_response(),
        Some(Some(part)) => {
            headers.extend(byte_range::content_range(Some(&part), total));
            let part = slice(text, 0, &part);
            (StatusCode::PARTIAL_CONTENT, headers, part).into_response()
        }
        Some(None) => {
            let cause = format!("the log has {total} bytes now");
            let mut answer = refuse(Failure::with_cause(Code::LogRange, cause));
            let range = byte_range::content_range(None, total);
            answer.headers_mut().extend(range);
            answer
        }
    }
}

/// A follower of one log.
struct Follower {
    runs: Arc<Runs>,
    run: RunId,
    /// Offset of the next byte.
    at: u64,
    until: Instant,
    ended: bool,
}

/// Events with the offset after their text as id. The last one is `end`, with the state of the run.
fn events(runs: Arc<Runs>, run: RunId, from: u64) -> Response {
    let follower = Follower {
        runs,
        run,
        at: from,
        until: Instant::now() + STREAM_LIFETIME,
        ended: false,
    };
    let chunks = stream::unfold(follower, |mut follower| async move {
        let chunk = follower.next().await?;
        Some((chunk, follower))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, Body::from_stream(chunks.map(Ok::<_, Infallible>))).into_response()
}

impl Follower {
    /// The next event or comment; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut changes = self.runs.changes.subscribe();
        let mut draining = self.runs.draining.subscribe();
        let heartbeat = Instant::now() + HEARTBEAT_INTERVAL;
        loop {
            changes.mark_unchanged();
            match self.read().await {
                Ok(Some(event)) => return Some(event),
                Ok(None) => {}
                Err(error) => {
                    warn!(%error, run = %self.run, "log not read for a follower");
                    return None;
                }
            }
            let now = Instant::now();
            if now >= self.until || *draining.borrow() {
                return None;
            }
            if now >= heartbeat {
                return Some(Bytes::from_static(b": nothing new\n\n"));
            }
            let wake = (now + POLL_INTERVAL).min(heartbeat).min(self.until);
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => sleep(READ_INTERVAL).await,
                    Err(_) => return None,
                },
                _ = draining.changed() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// New text, or the end of the run.
    async fn read(&mut self) -> Result<Option<Bytes>, StoreError> {
        // The state is read before the text: nothing is appended after the end.
        let row = self.runs.parts.runs.get(&self.run).await?;
        let state = row.as_ref().map(StoredRun::of).transpose()?;
        let state = state.as_ref().map(StoredRun::state);
        let is_final = state.is_none_or(RunState::is_final);
        let (text, length) = self.runs.text(&self.run, self.at).await?;
        let cut = if is_final { 0 } else { incomplete_bytes(&text) };
        let whole = text.slice(..text.len() - cut);
        if !whole.is_empty() {
            self.at = length.saturating_sub(cut as u64);
            let data = json!({ "text": String::from_utf8_lossy(&whole) });
            let event = format!("id: {}\nevent: log\ndata: {data}\n\n", self.at);
            return Ok(Some(event.into()));
        }
        if !is_final {
            return Ok(None);
        }
        self.ended = true;
        let data = json!({ "state": state });
        let event = format!("id: {}\nevent: end\ndata: {data}\n\n", self.at);
        Ok(Some(event.into()))
    }
}

/// Number of bytes at the end that begin a character of UTF-8 and do not complete it.
fn incomplete_bytes(text: &[u8]) -> usize {
    let last = text.iter().rev().take(3).enumerate();
    for (behind, byte) in last {
        let length = match byte {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if length > behind + 1 { behind + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_characters_wait_for_their_rest() {
        for (text, expected) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("ä".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 2),
            ("€".as_bytes(), 0),
            (b"a\xf0\x9f\x98", 3),
            ("😀".as_bytes(), 0),
            (b"\xff", 0),
            (b"\x80\x80\x80\x80", 0),
        ] {
            assert_eq!(incomplete_bytes(text), expected, "{text:?}");
        }
    }
}
