//! A scripted InfluxDB that records queries and accepted lines.

use std::{
    convert::Infallible,
    io::Read,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use fairlead_api::percent;
use flate2::read::GzDecoder;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use tokio::sync::watch;

use crate::server::TestServer;

/// Lines that contain this are rejected.
pub const REJECTED_LINE: &str = "wrong";

/// Behaviour of a fake InfluxDB, and a record of its requests.
pub struct InfluxScript {
    /// Accepted lines, in order.
    pub lines: watch::Sender<Vec<String>>,
    /// Queries, in order.
    pub queries: Mutex<Vec<String>>,
    /// Status and body of the answer to each query.
    pub query_answer: Mutex<(u16, String)>,
    /// Status of the answer to each write; without one, valid lines are accepted.
    pub write_error: Mutex<Option<u16>>,
    /// The answer to a write with a rejected line counts such lines, and the others are accepted.
    pub counts_rejected_lines: bool,
    base: &'static str,
    authorization: Option<&'static str>,
}

/// A fake InfluxDB without TLS on loopback, with the database `facts`. It stops when this is dropped.
pub struct FakeInfluxDb {
    /// Its behaviour and its record.
    pub script: Arc<InfluxScript>,
    server: TestServer,
}

impl FakeInfluxDb {
    /// Starts a server below the path `base`. Requests need this `Authorization` header, if there is one.
    #[must_use]
    pub fn start(base: &'static str, authorization: Option<&'static str>) -> Self {
        Self::with(base, authorization, true)
    }

    /// As [`FakeInfluxDb::start`], and rejects a write as a whole for one rejected line.
    #[must_use]
    pub fn all_or_nothing(base: &'static str, authorization: Option<&'static str>) -> Self {
        Self::with(base, authorization, false)
    }

    fn with(
        base: &'static str,
        authorization: Option<&'static str>,
        counts_rejected_lines: bool,
    ) -> Self {
        let script = Arc::new(InfluxScript {
            lines: watch::Sender::default(),
            queries: Mutex::default(),
            query_answer: Mutex::new((200, String::new())),
            write_error: Mutex::default(),
            counts_rejected_lines,
            base,
            authorization,
        });
        let served = script.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let script = served.clone();
            async move { Ok::<_, Infallible>(script.answer(request).await) }
        });
        Self {
            script,
            server: TestServer::http(service),
        }
    }

    /// Base URL of the HTTP API.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.server.url(), self.script.base)
    }

    /// Lines accepted since the last call.
    #[must_use]
    pub fn take_lines(&self) -> Vec<String> {
        self.script.lines.send_replace(Vec::new())
    }

    /// Waits for a line that starts with `start`.
    pub async fn accepted(&self, start: &str) -> bool {
        let mut lines = self.script.lines.subscribe();
        let found = lines.wait_for(|all| all.iter().any(|line| line.starts_with(start)));
        found.await.is_ok()
    }
}

impl InfluxScript {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        if self.authorization.is_some() && header(header::AUTHORIZATION) != self.authorization {
            return respond(
                401,
                r#"{"error":"unable to parse authentication credentials"}"#,
            );
        }
        let Ok(body) = body.collect().await else {
            return respond(400, r#"{"error":"incomplete body"}"#);
        };
        let body = body.to_bytes();
        let path = head.uri.path().strip_prefix(self.base).unwrap_or_default();
        match (path, head.uri.query()) {
            ("/write", Some("db=facts&precision=ms"))
                if header(header::CONTENT_ENCODING) == Some("gzip") =>
            {
                self.write(&body)
            }
            ("/query", None) => self.query(&body),
            (path, query) => respond(404, format!(r#"{{"error":"{path} {query:?}"}}"#)),
        }
    }

    fn write(&self, body: &[u8]) -> Response<Full<Bytes>> {
        if let Some(status) = *self.write_error.lock().unwrap() {
            return respond(status, r#"{"error":"not now"}"#);
        }
        let mut text = String::new();
        if GzDecoder::new(body).read_to_string(&mut text).is_err() || text.is_empty() {
            return respond(400, r#"{"error":"no lines"}"#);
        }
        let lines = text.lines().map(str::to_owned);
        let (rejected, good): (Vec<_>, Vec<_>) =
            lines.partition(|line| line.contains(REJECTED_LINE));
        if !rejected.is_empty() && !self.counts_rejected_lines {
            return respond(400, r#"{"error":"unable to parse something"}"#);
        }
        self.lines.send_modify(|lines| lines.extend(good));
        match rejected.len() {
            0 => respond(204, ""),
            count => respond(
                400,
                format!(r#"{{"error":"partial write: field type conflict dropped={count}"}}"#),
            ),
        }
    }

    fn query(&self, body: &[u8]) -> Response<Full<Bytes>> {
        let Some(query) = body.strip_prefix(b"db=facts&q=") else {
            return respond(400, r#"{"error":"no query"}"#);
        };
        self.queries.lock().unwrap().push(form_decoded(query));
        let (status, answer) = self.query_answer.lock().unwrap().clone();
        respond(status, answer)
    }
}

fn respond(status: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

/// A value of a form without its percent-encoding.
fn form_decoded(text: &[u8]) -> String {
    let text = std::str::from_utf8(text).unwrap().replace('+', " ");
    String::from_utf8(percent::decode(&text).unwrap()).unwrap()
}
