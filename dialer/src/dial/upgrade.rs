//! One HTTP/1.1 request that is to change what a connection speaks: CONNECT at a proxy, the WebSocket upgrade at the
//! hub (RFC 6455). hyper parses; what comes back is the connection itself.

use std::time::SystemTime;

use bytes::Bytes;
use fairlead_api::{Code, HubUrl};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

use super::{DialError, Stage};
use crate::accept::{CONNECT_PATH, SUBPROTOCOL, has_token};

const MAX_HEADERS: usize = 100;
const MAX_HEAD: usize = 64 * 1024;
/// How much of a refusal's body is looked at for a cause.
const MAX_CAUSE: usize = 1024;

/// A connection that has changed its protocol.
pub(crate) struct Switched<IO> {
    pub(crate) io: IO,
    /// What came behind the head.
    pub(crate) read: Bytes,
    pub(crate) headers: HeaderMap,
}

/// Why it has not.
pub(crate) enum NotSwitched {
    /// The answer, and the beginning of its body if that is text.
    Refused(StatusCode, String),
    /// What answered does not speak HTTP/1.1, or ended.
    Broken(hyper::Error),
}

/// Sends `request` and switches if the answer is `wanted`.
pub(crate) async fn switch<IO>(
    io: IO,
    request: Request<Empty<Bytes>>,
    wanted: StatusCode,
) -> Result<Switched<IO>, NotSwitched>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD)
        .handshake(TokioIo::new(io))
        .await
        .map_err(NotSwitched::Broken)?;
    let ask = async move {
        let mut answer = sender
            .send_request(request)
            .await
            .map_err(NotSwitched::Broken)?;
        if answer.status() != wanted {
            return Err(NotSwitched::Refused(answer.status(), cause(answer).await));
        }
        let upgraded = hyper::upgrade::on(&mut answer)
            .await
            .map_err(NotSwitched::Broken)?;
        Ok((upgraded, answer.headers().clone()))
    };
    // The connection's own error comes out of the request as well.
    let (outcome, _) = tokio::join!(ask, connection.with_upgrades());
    let (upgraded, headers) = outcome?;
    match upgraded.downcast::<TokioIo<IO>>() {
        Ok(parts) => Ok(Switched {
            io: parts.io.into_inner(),
            read: parts.read_buf,
            headers,
        }),
        Err(_) => Err(NotSwitched::Refused(
            wanted,
            "another connection came back".to_owned(),
        )),
    }
}

async fn cause(answer: Response<Incoming>) -> String {
    let body = Limited::new(answer.into_body(), MAX_CAUSE).collect();
    let bytes = body.await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let first = text.lines().next().unwrap_or_default().trim();
    // A page of some proxy says nothing in one line.
    if first.starts_with('<') {
        return String::new();
    }
    first
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect()
}

/// The hub's side of the connection as a WebSocket's raw bytes.
pub(super) struct Upgraded<IO> {
    pub(super) io: IO,
    pub(super) read: Bytes,
    pub(super) clock_offset: Option<i64>,
}

/// Asks the hub for the WebSocket.
pub(super) async fn upgrade<IO>(io: IO, hub: &HubUrl) -> Result<Upgraded<IO>, DialError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let wrong = |cause: &str| DialError::new(Stage::Upgrade, Code::DialProtocol, cause);
    let key = generate_key();
    let authority = hub.authority();
    let host = authority.strip_suffix(":443").unwrap_or(&authority);
    let request = Request::builder()
        .method(Method::GET)
        .uri(CONNECT_PATH)
        .header(header::HOST, host)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL)
        .header(
            header::USER_AGENT,
            concat!("fairlead/", env!("CARGO_PKG_VERSION")),
        )
        .body(Empty::new())
        .map_err(|error| wrong(&error.to_string()))?;
    let switched = switch(io, request, StatusCode::SWITCHING_PROTOCOLS)
        .await
        .map_err(refused)?;
    let headers = &switched.headers;
    let one = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if !has_token(headers, header::UPGRADE, "websocket")
        || !has_token(headers, header::CONNECTION, "upgrade")
    {
        return Err(wrong("what answered upgrades to something else"));
    }
    if one(header::SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err(wrong("what answered has not read the WebSocket's key"));
    }
    if one(header::SEC_WEBSOCKET_PROTOCOL) != Some(SUBPROTOCOL) {
        let cause = format!("what answered does not speak {SUBPROTOCOL}");
        return Err(wrong(&cause));
    }
    if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        return Err(wrong("what answered uses an extension that nobody offered"));
    }
    let clock_offset = one(header::DATE).and_then(offset);
    Ok(Upgraded {
        io: switched.io,
        read: switched.read,
        clock_offset,
    })
}

fn refused(why: NotSwitched) -> DialError {
    match why {
        NotSwitched::Refused(status, cause) => {
            let text = match cause.as_str() {
                "" => format!("the answer was {status}"),
                cause => format!("the answer was {status}: {cause}"),
            };
            DialError::new(Stage::Upgrade, Code::DialUpgrade, text).with_status(status)
        }
        NotSwitched::Broken(error) if error.is_parse() => {
            let cause = format!("what answered does not speak HTTP/1.1: {error}");
            DialError::new(Stage::Upgrade, Code::DialProtocol, cause)
        }
        NotSwitched::Broken(error) => {
            DialError::new(Stage::Upgrade, Code::SessionBroke, spelled(&error))
        }
    }
}

/// An error with its causes.
pub(crate) fn spelled(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The other clock minus ours, in seconds.
fn offset(date: &str) -> Option<i64> {
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    let theirs = seconds(httpdate::parse_http_date(date).ok()?)?;
    Some(theirs - seconds(SystemTime::now())?)
}
