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
    events: EventBuffer,
}

/// Events of a stream of JSON lines.
#[derive(Default)]
struct EventBuffer {
    bytes: BytesMut,
    /// Leading bytes without a line feed.
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
            events: EventBuffer::default(),
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
            if let Some(event) = self.events.next()? {
                return Ok(Some(event));
            }
            let frame = timeout(SILENCE_DEADLINE, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| late())? else {
                return self.events.finish().map(|()| None);
            };
            if let Ok(data) = frame.map_err(KubeError::unusable)?.into_data() {
                self.events.push(&data)?;
            }
        }
    }
}

impl EventBuffer {
    fn push(&mut self, data: &[u8]) -> Result<(), KubeError> {
        self.bytes.extend_from_slice(data);
        if self.bytes.len() > MAX_EVENT_BYTES && !data.contains(&b'\n') {
            return Err(KubeError::unusable("an event is too large"));
        }
        Ok(())
    }

    /// Next event; `None` if more bytes are needed.
    fn next(&mut self) -> Result<Option<WatchEvent>, KubeError> {
        while let Some(line) = self.line() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event = serde_json::from_slice(&line).map_err(KubeError::unusable)?;
            return parse(event).map(Some);
        }
        Ok(None)
    }

    /// Checks the end of the stream: an event without its end is a broken connection.
    fn finish(&self) -> Result<(), KubeError> {
        if self.bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        Err(KubeError::unusable("the watch ended within an event"))
    }

    fn line(&mut self) -> Option<BytesMut> {
        let unsearched = self.bytes.get(self.searched..)?;
        match unsearched.iter().position(|byte| *byte == b'\n') {
            None => {
                self.searched = self.bytes.len();
                None
            }
            Some(at) => {
                let line = self.bytes.split_to(self.searched + at + 1);
                self.searched = 0;
                Some(line)
            }
        }
    }
}

fn parse(mut event: Value) -> Result<WatchEvent, KubeError> {
    let object = event.get_mut("object").map(Value::take);
    let object = object.filter(|it| !it.is_null());
    let object = object.ok_or_else(|| KubeError::unusable("the watch sent no object"))?;
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

#[cfg(test)]
mod tests;
