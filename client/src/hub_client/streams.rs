//! Requests with large or endless bodies: uploads, downloads, and server-sent events. Silence of the peer is bounded, the whole
//! transfer is not.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use fairlead_api::{Code, Failure};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::Response;
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{
    HubClient, HubError,
    calls::{error_response, from_json, is_about_token, read_whole},
    events::{EventParser, ServerEvent},
};

/// Limit until the head of an answer arrives, for requests without a large body.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// Limit between two pieces of a body. The hub sends a comment into idle streams of events more often.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// Slowest accepted rate of an upload, in bytes per second.
const MIN_UPLOAD_RATE: u64 = 16 * 1024;
/// Header that continues a stream of events (HTML Living Standard, server-sent events).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A request whose answer is read piece by piece, or becomes another protocol.
pub(super) struct Opening<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) deadline: Duration,
}

/// Body that arrives piece by piece.
pub struct ByteStream<'a> {
    hub: &'a HubClient,
    response: Response,
}

/// Stream of server-sent events.
pub struct EventStream<'a> {
    bytes: ByteStream<'a>,
    parser: EventParser,
    queue: VecDeque<ServerEvent>,
}

impl HubClient {
    /// Posts bytes of this type, and reads the JSON response.
    ///
    /// # Errors
    /// [`HubError`]; [`HubError::Unreachable`] also for a rate below 16 KiB per second.
    pub async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<T, HubError> {
        let transfer = Duration::from_secs(body.len() as u64 / MIN_UPLOAD_RATE);
        let content_type = HeaderValue::from_static(content_type);
        let opening = Opening {
            method: Method::POST,
            path,
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]),
            body,
            deadline: HEAD_DEADLINE + transfer,
        };
        let mut response = self.open(opening).await?;
        let body = timeout(SILENCE_LIMIT, read_whole(&mut response)).await;
        match body {
            Ok(Ok(body)) => from_json(&body),
            Ok(Err(error)) => Err(self.failed(error.as_ref()).into()),
            Err(_) => Err(self.silent(SILENCE_LIMIT)),
        }
    }

    /// Gets a body from this byte on; `None` at its end.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn download(
        &self,
        path: &str,
        from: u64,
    ) -> Result<Option<ByteStream<'_>>, HubError> {
        let mut headers = HeaderMap::new();
        if from > 0
            && let Ok(range) = HeaderValue::try_from(format!("bytes={from}-"))
        {
            headers.insert(header::RANGE, range);
        }
        let response = self.respond(get(path, headers)).await?;
        if from > 0 && response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(None);
        }
        let response = self.accepted(response).await?;
        let is_partial = response.status() == StatusCode::PARTIAL_CONTENT;
        let mut stream = ByteStream {
            hub: self,
            response,
        };
        if from > 0 && !is_partial {
            stream.skip(from).await?;
        }
        Ok(Some(stream))
    }

    /// Opens a stream of server-sent events, after the event with this id.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn events(
        &self,
        path: &str,
        last_id: Option<&str>,
    ) -> Result<EventStream<'_>, HubError> {
        let mut headers = HeaderMap::new();
        let accept = HeaderValue::from_static("text/event-stream");
        headers.insert(header::ACCEPT, accept);
        if let Some(Ok(id)) = last_id.map(HeaderValue::from_str) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let response = self.open(get(path, headers)).await?;
        let bytes = ByteStream {
            hub: self,
            response,
        };
        Ok(EventStream {
            bytes,
            parser: EventParser::default(),
            queue: VecDeque::new(),
        })
    }

    /// Sends a request, and returns a successful response with its body unread.
    async fn open(&self, opening: Opening<'_>) -> Result<Response, HubError> {
        let response = self.respond(opening).await?;
        self.accepted(response).await
    }

    pub(super) async fn respond(&self, opening: Opening<'_>) -> Result<Response, HubError> {
        let token = self.token().await?;
        let url = self.at(opening.path);
        let url = url.map_err(|error| self.failed(error.as_ref()))?;
        let mut request = self.http.request(opening.method, url);
        request = request.headers(opening.headers).body(opening.body);
        if let Some(token) = token {
            request = request.bearer_auth(token.expose_secret());
        }
        match timeout(opening.deadline, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.failed(self.cause_of(error).await.as_ref()).into()),
            Err(_) => Err(self.silent(opening.deadline)),
        }
    }

    /// The response if it is successful, else the failure in its body.
    pub(super) async fn accepted(&self, mut response: Response) -> Result<Response, HubError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = timeout(SILENCE_LIMIT, read_whole(&mut response)).await;
        let body = match body {
            Ok(Ok(body)) => body,
            // The status alone decides.
            Ok(Err(_)) | Err(_) => Bytes::new(),
        };
        Err(self.refusal(status, &body).into())
    }

    /// Failure in a response of the hub.
    pub(super) fn refusal(&self, status: StatusCode, body: &[u8]) -> Failure {
        let failure = error_response(status, body);
        match &self.new_token_step {
            Some(step) if is_about_token(failure.code) => failure.next(step.to_string()),
            _ => failure,
        }
    }

    pub(super) fn silent(&self, limit: Duration) -> HubError {
        let cause = format!("no answer within {} s", limit.as_secs());
        self.unreachable(&cause).into()
    }
}

fn get(path: &str, headers: HeaderMap) -> Opening<'_> {
    Opening {
        method: Method::GET,
        path,
        headers,
        body: Bytes::new(),
        deadline: HEAD_DEADLINE,
    }
}

impl ByteStream<'_> {
    /// Next piece; `None` at the end.
    ///
    /// # Errors
    /// [`HubError::Unreachable`] for a broken connection, and for a minute of silence.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HubError> {
        match timeout(SILENCE_LIMIT, self.response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                let cause = self.hub.cause_of(error).await;
                Err(self.hub.failed(cause.as_ref()).into())
            }
            Err(_) => Err(self.hub.silent(SILENCE_LIMIT)),
        }
    }

    /// Reads and drops bytes that a server sends although a range was requested.
    async fn skip(&mut self, mut bytes: u64) -> Result<(), HubError> {
        while bytes > 0 {
            let Some(piece) = self.next().await? else {
                break;
            };
            let length = piece.len() as u64;
            if length > bytes {
                let cause = "it ignores the requested range of bytes";
                return Err(Failure::because(Code::HubUnreachable, cause).into());
            }
            bytes -= length;
        }
        Ok(())
    }
}

impl EventStream<'_> {
    /// Next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`HubError::Unreachable`] for a broken connection, a minute of silence, and an event beyond its limit.
    pub async fn next(&mut self) -> Result<Option<ServerEvent>, HubError> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(Some(event));
            }
            let Some(piece) = self.bytes.next().await? else {
                return Ok(None);
            };
            let parsed = self.parser.feed(&piece);
            let too_long = |error| Failure::because(Code::HubUnreachable, error);
            self.queue.extend(parsed.map_err(too_long)?);
        }
    }
}
