//! One HTTP/1.1 request that switches protocols: CONNECT at a proxy, the WebSocket upgrade at the
//! hub (RFC 6455). hyper parses; the result is the connection itself.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fairlead_api::{Code, HubUrl, error_chain, headers::AGENT_CODE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

use super::{
    error::{DialError, DialStage},
    trace::{RefusalEvidence, boxes},
};
use crate::upgrade::{CONNECT_PATH, SUBPROTOCOL, has_token};

const MAX_HEADERS: usize = 100;
const MAX_HEAD: usize = 64 * 1024;
/// Bytes of a refusal's body that are searched for a cause.
const MAX_CAUSE: usize = 1024;
/// Limit of a refusal's body, in bytes. A larger one ends the reading only.
const MAX_BODY: usize = 64 * 1024;
/// Time to wait for a refusal's body.
const BODY_DEADLINE: Duration = Duration::from_secs(2);
const PASS_UPGRADE: &str = "A box on the path removes the header `Upgrade`: let proxies and load balancers pass WebSockets on `/connect`.";
const NO_REDIRECT: &str = "Agents follow no redirect: dial the hub's own URL, and let no proxy or load balancer redirect `/connect`.";
const NO_PAGE: &str = "A page answers in the hub's place, such as the login page of a network: sign this machine in there, or have the hub's name exempted.";
const USER_AGENT: &str = concat!("fairlead/", env!("CARGO_PKG_VERSION"));

/// Connection after the protocol switch.
pub(crate) struct Switched<IO> {
    pub(crate) io: IO,
    /// Bytes received after the head.
    pub(crate) read: Bytes,
    pub(crate) headers: HeaderMap,
}

/// Reason for a failed switch.
pub(crate) enum NotSwitched {
    /// Head of the response, and the beginning of a text body.
    Refused {
        status: StatusCode,
        headers: HeaderMap,
        cause: String,
        evidence: Box<RefusalEvidence>,
    },
    /// The peer does not speak HTTP/1.1, or the connection ended.
    Broken(hyper::Error),
}

/// Sends `request` and switches if the response has the status `wanted`.
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
            return Err(refusal(answer).await);
        }
        let upgraded = hyper::upgrade::on(&mut answer)
            .await
            .map_err(NotSwitched::Broken)?;
        Ok((upgraded, answer.headers().clone()))
    };
    // The request reports the connection's error as well.
    let (outcome, _) = tokio::join!(ask, connection.with_upgrades());
    let (upgraded, headers) = outcome?;
    match upgraded.downcast::<TokioIo<IO>>() {
        Ok(parts) => Ok(Switched {
            io: parts.io.into_inner(),
            read: parts.read_buf,
            headers,
        }),
        Err(_) => Err(NotSwitched::Refused {
            status: wanted,
            headers: HeaderMap::new(),
            cause: "another connection came back".to_owned(),
            evidence: Box::new(RefusalEvidence::new(wanted, &HeaderMap::new(), &[])),
        }),
    }
}

async fn refusal(answer: Response<Incoming>) -> NotSwitched {
    let (head, body) = answer.into_parts();
    let bytes = beginning(body).await;
    NotSwitched::Refused {
        evidence: Box::new(RefusalEvidence::new(head.status, &head.headers, &bytes)),
        status: head.status,
        headers: head.headers,
        cause: cause(&bytes),
    }
}

/// First bytes of a body, also of one that breaks off or never ends.
async fn beginning(body: Incoming) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut body = Limited::new(body, MAX_BODY);
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data);
            }
            if bytes.len() >= MAX_CAUSE {
                return;
            }
        }
    };
    // The status alone is evidence enough.
    let _ = timeout(BODY_DEADLINE, reading).await;
    bytes.truncate(MAX_CAUSE);
    bytes
}

fn cause(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let first = text.lines().next().unwrap_or_default().trim();
    // The first line of a proxy's HTML page carries no cause.
    if first.starts_with('<') {
        return String::new();
    }
    first
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect()
}

/// The hub's side of the connection: raw bytes of a WebSocket.
pub(super) struct RawWebSocket<IO> {
    pub(super) io: IO,
    pub(super) read: Bytes,
    pub(super) clock_offset: Option<i64>,
    /// Boxes on the path that the answer names.
    pub(super) via: Option<String>,
}

/// Requests a WebSocket from the hub; returns the outcome and the key.
pub(super) async fn ask<IO>(io: IO, hub: &HubUrl) -> Result<(Switched<IO>, String), NotSwitched>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let key = generate_key();
    let authority = hub.authority();
    let host = authority.strip_suffix(":443").unwrap_or(&authority);
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::from_static(CONNECT_PATH);
    for (name, value) in [
        (header::HOST, host),
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_KEY, key.as_str()),
        (header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL),
        (header::USER_AGENT, USER_AGENT),
    ] {
        // All values are visible ASCII, the hub's URL included.
        if let Ok(value) = HeaderValue::from_str(value) {
            request.headers_mut().insert(name, value);
        }
    }
    let switched = switch(io, request, StatusCode::SWITCHING_PROTOCOLS).await?;
    Ok((switched, key))
}

/// Requests the WebSocket and validates the response.
pub(super) async fn upgrade<IO>(io: IO, hub: &HubUrl) -> Result<RawWebSocket<IO>, DialError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let wrong = |cause: &str| DialError::new(DialStage::Upgrade, Code::DialProtocol, cause);
    let (switched, key) = ask(io, hub).await.map_err(refused)?;
    let headers = &switched.headers;
    let one = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if !has_token(headers, header::UPGRADE, "websocket")
        || !has_token(headers, header::CONNECTION, "upgrade")
    {
        return Err(wrong("the peer upgraded to another protocol"));
    }
    if one(header::SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err(wrong("the response does not match the WebSocket's key"));
    }
    if one(header::SEC_WEBSOCKET_PROTOCOL) != Some(SUBPROTOCOL) {
        let cause = format!("the peer does not speak {SUBPROTOCOL}");
        return Err(wrong(&cause));
    }
    if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        return Err(wrong("the peer uses an extension that was not offered"));
    }
    let clock_offset = one(header::DATE).and_then(offset);
    Ok(RawWebSocket {
        via: boxes(headers),
        io: switched.io,
        read: switched.read,
        clock_offset,
    })
}

fn refused(why: NotSwitched) -> DialError {
    match why {
        NotSwitched::Refused {
            headers, evidence, ..
        } if let Some(code) = hub_code(&headers) => {
            let cause = format!("the hub refused the connection: {}", code.title());
            DialError::new(DialStage::Upgrade, code, cause).refused_with(evidence)
        }
        NotSwitched::Refused {
            status,
            cause,
            evidence,
            ..
        } => {
            let place = evidence.location.as_ref();
            let text = match (cause.as_str(), place) {
                (_, Some(place)) => format!("the answer was {status}, to {place}"),
                ("", None) => format!("the answer was {status}"),
                (cause, None) => format!("the answer was {status}: {cause}"),
            };
            let error = DialError::new(DialStage::Upgrade, Code::DialUpgrade, text);
            let error = match advice(status) {
                Some(advice) => error.next(advice),
                None => error,
            };
            error.refused_with(evidence)
        }
        NotSwitched::Broken(error) if error.is_parse() => {
            let cause = format!("the peer does not speak HTTP/1.1: {error}");
            DialError::new(DialStage::Upgrade, Code::DialProtocol, cause)
        }
        NotSwitched::Broken(error) => {
            DialError::new(DialStage::Upgrade, Code::SessionBroke, error_chain(&error))
        }
    }
}

/// Code of a hub that cannot take a connection now. Others are ignored: a box on the path can send any of them.
fn hub_code(headers: &HeaderMap) -> Option<Code> {
    let code: Code = headers.get(AGENT_CODE)?.to_str().ok()?.parse().ok()?;
    (1400..1500).contains(&code.number()).then_some(code)
}

/// Next step for a status that the hub itself never answers to an agent.
fn advice(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::UPGRADE_REQUIRED => Some(PASS_UPGRADE),
        status if status.is_redirection() => Some(NO_REDIRECT),
        status if status.is_success() => Some(NO_PAGE),
        _ => None,
    }
}

/// Remote clock minus local clock, in seconds.
pub(super) fn offset(date: &str) -> Option<i64> {
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    let theirs = seconds(httpdate::parse_http_date(date).ok()?)?;
    Some(theirs - seconds(SystemTime::now())?)
}
