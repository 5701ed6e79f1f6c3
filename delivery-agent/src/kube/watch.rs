//! Watches of collections: a stream of events.

use std::time::Duration;

use bytes::BytesMut;
use fairlead_api::percent;
use fairlead_apiserver::AnswerBody;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    client::{KubeClient, late},
    error::KubeError,
    list::Query,
};

const JSON_STREAM: &str = "application/json";
const METADATA_STREAM: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Deadline of the head of the answer.
const HEAD_DEADLINE: Duration = Duration::from_secs(40);
/// Time after which the API server ends a watch.
const WATCH_SECONDS: u64 = 290;
/// Silence after which a watch counts as lost: the API server ends it earlier.
const SILENCE_DEADLINE: Duration = Duration::from_secs(330);
/// Largest event, in bytes.
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// Event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// An object was made, or entered the selection.
    Added(Value),
    /// An object changed.
    Modified(Value),
    /// An object was deleted, or left the selection.
    Deleted(Value),
    /// Version from which a new watch goes on. `initial_end`: all initial objects have been sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// End of the initial objects.
        initial_end: bool,
    },
}

/// Open watch. Dropping it closes its connection.
pub struct ObjectWatch {
    body: AnswerBody,
    buffer: BytesMut,
    /// Bytes of the buffer without a line feed.
    searched: usize,
}

impl KubeClient {
    /// Watches a collection from a version on; `""` sends all objects first, and a bookmark after them.
    ///
    /// # Errors
    /// [`KubeError`]; status 410 if the version is too old.
    pub async fn watch(
        &self,
        path: &str,
        query: &Query,
        resource_version: &str,
    ) -> Result<ObjectWatch, KubeError> {
        let mut path =
            format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}");
        query.append(&mut path);
        if resource_version.is_empty() {
            path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        } else {
            let version = percent::encode(resource_version);
            path.push_str(&format!("&resourceVersion={version}"));
        }
        let accept = if query.metadata_only {
            METADATA_STREAM
        } else {
            JSON_STREAM
        };
        let opened = timeout(HEAD_DEADLINE, self.open_in_turn(&path, accept)).await;
        Ok(ObjectWatch {
            body: opened.map_err(|_| late())??.into_body(),
            buffer: BytesMut::new(),
            searched: 0,
        })
    }
}

impl ObjectWatch {
    /// Next event; `None` when the API server ends the watch.
    ///
    /// # Errors
    /// [`KubeError`]: an error event, or a broken connection. The watch is over then.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, KubeError> {
        loop {
            if let Some(line) = self.line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                let event = serde_json::from_slice(&line).map_err(KubeError::unusable)?;
                return parse(event).map(Some);
            }
            let frame = timeout(SILENCE_DEADLINE, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| late())? else {
                return Ok(None);
            };
            if let Ok(data) = frame.map_err(KubeError::unusable)?.into_data() {
                self.buffer.extend_from_slice(&data);
                if self.buffer.len() > MAX_EVENT_BYTES && !data.contains(&b'\n') {
                    return Err(KubeError::unusable("an event is too large"));
                }
            }
        }
    }

    fn line(&mut self) -> Option<BytesMut> {
        let unsearched = self.buffer.get(self.searched..)?;
        match unsearched.iter().position(|byte| *byte == b'\n') {
            None => {
                self.searched = self.buffer.len();
                None
            }
            Some(at) => {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                Some(line)
            }
        }
    }
}

fn parse(mut event: Value) -> Result<WatchEvent, KubeError> {
    let object = event.get_mut("object").map(Value::take);
    let object = object.unwrap_or(Value::Null);
    match event.get("type").and_then(Value::as_str) {
        Some("ADDED") => Ok(WatchEvent::Added(object)),
        Some("MODIFIED") => Ok(WatchEvent::Modified(object)),
        Some("DELETED") => Ok(WatchEvent::Deleted(object)),
        Some("BOOKMARK") => {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            let version = text("/metadata/resourceVersion").unwrap_or_default();
            Ok(WatchEvent::Bookmark {
                resource_version: version.to_owned(),
                initial_end: text("/metadata/annotations/k8s.io~1initial-events-end")
                    == Some("true"),
            })
        }
        Some("ERROR") => {
            let status = object.get("code").and_then(Value::as_u64);
            Err(KubeError::Status {
                status: status.and_then(|it| u16::try_from(it).ok()).unwrap_or(500),
                body: object,
            })
        }
        _ => Err(KubeError::unusable("the watch sent an unknown event")),
    }
}
