//! Requests of agents over the socket.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::{
    contact::Contacts,
    frame, memory,
    refusal::Refusal,
    request::{RunKey, check_token},
    status::{Cause, RunStatus, RunnerInfo},
    table::Table,
    upload::Upload,
};

/// Bytes of one answer with output.
const MAX_OUTPUT_PIECE_BYTES: usize = 256 << 10;
const MAX_TOKEN_BYTES: usize = 64 << 10;
const MAX_OUTPUT_WAIT: Duration = Duration::from_secs(60);

/// Head of an answer with output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OutputHead {
    /// Offset of the first byte.
    pub(crate) offset: u64,
    /// State of the run, taken after the bytes.
    pub(crate) status: RunStatus,
}

/// State that all connections share.
pub(crate) struct Routes {
    pub(crate) table: Arc<Table>,
    pub(crate) contacts: Contacts,
    pub(crate) instance: String,
}

impl Routes {
    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let _contact = self.contacts.begin();
        match self.route(request).await {
            Ok(body) => response(StatusCode::OK, body),
            Err(refusal) => response(refusal.status(), frame::encode(&refusal, &[])),
        }
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Bytes, Refusal> {
        let (parts, body) = request.into_parts();
        let path: Vec<&str> = parts
            .uri
            .path()
            .trim_start_matches('/')
            .split('/')
            .collect();
        let query = parts.uri.query().unwrap_or_default();
        let unknown = || Err(Refusal::Invalid("no such call".into()));
        match (&parts.method, &path[..]) {
            (&Method::GET, ["v1", "info"]) => Ok(frame::encode(&self.info(), &[])),
            (&Method::GET, ["v1", "runs"]) => Ok(frame::encode(&self.table.statuses(), &[])),
            (method, ["v1", "runs", key, call @ ..]) => {
                let key: RunKey = key
                    .parse()
                    .map_err(|error| Refusal::Invalid(format!("{error}")))?;
                match (method, call) {
                    (&Method::PUT, []) => self.start(key, body).await,
                    (&Method::GET, []) => status(&self.table.get(&key)?.status()),
                    (&Method::DELETE, []) => {
                        self.table.acknowledge(&key)?;
                        Ok(Bytes::new())
                    }
                    (&Method::PUT, ["token"]) => self.replace_token(&key, body).await,
                    (&Method::POST, ["cancel"]) => {
                        let run = self.table.get(&key)?;
                        run.stop(Cause::Cancelled, query == "hard");
                        status(&run.status())
                    }
                    (&Method::GET, ["output"]) => self.output(&key, query).await,
                    _ => unknown(),
                }
            }
            _ => unknown(),
        }
    }

    fn info(&self) -> RunnerInfo {
        RunnerInfo {
            instance: self.instance.clone(),
            place: self.table.root().place().to_owned(),
            memory_limit: memory::limit(),
            replaces_memory_kill: self.table.root().was_killed_for_memory(),
            pid: std::process::id(),
            version: self.table.config().version.clone(),
            running: *self.table.running().borrow(),
        }
    }

    async fn start(&self, key: RunKey, body: Incoming) -> Result<Bytes, Refusal> {
        let mut upload = Upload::new(body);
        let work = async {
            let started = self.table.start(key, &mut upload).await;
            upload.drain().await;
            started
        };
        let late = |_| Refusal::Invalid("the request did not arrive in time".into());
        let started = timeout(self.table.config().limits.upload, work).await;
        status(&started.map_err(late)??)
    }

    async fn replace_token(&self, key: &RunKey, body: Incoming) -> Result<Bytes, Refusal> {
        let body = Limited::new(body, MAX_TOKEN_BYTES).collect().await;
        let body = body.map_err(|error| Refusal::Invalid(error.to_string()))?;
        let token = String::from_utf8(body.to_bytes().to_vec());
        let token = token.map_err(|_| Refusal::Invalid("the token is no text".into()))?;
        check_token(&token)?;
        let run = self.table.get(key)?;
        run.replace_token(&token)?;
        status(&run.status())
    }

    async fn output(&self, key: &RunKey, query: &str) -> Result<Bytes, Refusal> {
        let parse = || {
            let (from, wait) = query.split_once('&')?;
            let from: u64 = from.strip_prefix("from=")?.parse().ok()?;
            let wait = wait.strip_prefix("wait=")?.parse().ok()?;
            Some((from, Duration::from_millis(wait).min(MAX_OUTPUT_WAIT)))
        };
        let bad = || Refusal::Invalid("a call for output has an offset and a time".into());
        let (from, wait) = parse().ok_or_else(bad)?;
        let run = self.table.get(key)?;
        let piece = run.read(from, MAX_OUTPUT_PIECE_BYTES, wait).await?;
        let head = OutputHead {
            offset: piece.offset,
            status: run.status(),
        };
        Ok(frame::encode(&head, &piece.bytes))
    }
}

fn status(status: &RunStatus) -> Result<Bytes, Refusal> {
    Ok(frame::encode(status, &[]))
}

fn response(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}
