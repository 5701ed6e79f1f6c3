//! Headers that pass between client and agent. Ambiguous ones and attempts to impersonate are rejected. Headers of one
//! hop and headers for the gateway are removed.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use fairlead_api::headers::{AUDIT_ID, PREFIX, is_hop_by_hop};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header};

use crate::http::{
    error::RequestError,
    lookup::{all, first, remove},
};

/// Limit of a head in bytes: names, values and path together.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// Limit of header fields. An agent takes 100, and the gateway adds some.
pub(crate) const MAX_FIELDS: usize = 90;
/// Header of `kubectl --as`.
static IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
/// WebSocket subprotocol by which a browser sends a bearer token to the API server.
const TOKEN_PROTOCOL: &[u8] = b"base64url.bearer.authorization.k8s.io.";

/// Rejects heads that no request may have, to any destination.
///
/// # Errors
/// `FL-1306`, `FL-1304`.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), RequestError> {
    let (headers, version) = (request.headers(), request.version());
    let path = request
        .uri()
        .path_and_query()
        .map_or(0, |p| p.as_str().len());
    let (mut size, mut hosts) = (path, 0);
    let (mut has_framing, mut has_connection) = (false, false);
    for (name, value) in headers {
        size += name.as_str().len() + value.len() + 4;
        hosts += usize::from(*name == header::HOST);
        has_framing |= *name == header::CONTENT_LENGTH || *name == header::TRANSFER_ENCODING;
        has_connection |= *name == header::CONNECTION;
    }
    if headers.len() > MAX_FIELDS || size > MAX_HEAD {
        return Err(RequestError::HeadTooLarge);
    }
    if hosts > 1 || (hosts == 0 && version == Version::HTTP_11) {
        return Err(malformed("it must have exactly one Host"));
    }
    if has_framing {
        framing(headers)?;
    }
    if !has_connection {
        return Ok(());
    }
    for token in listed(headers) {
        if matters(&token) {
            return Err(malformed("Connection lists a header that it may not"));
        }
    }
    Ok(())
}

const fn malformed(detail: &'static str) -> RequestError {
    RequestError::Malformed(detail)
}

fn framing(headers: &HeaderMap) -> Result<(), RequestError> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let length = lengths.next();
    if lengths.next().is_some() {
        return Err(malformed("it has more than one Content-Length"));
    }
    let digits =
        |value: &HeaderValue| !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
    if length.is_some_and(|value| !digits(value)) {
        return Err(malformed("its Content-Length is not a number"));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return Ok(());
    };
    if length.is_some() {
        return Err(malformed(
            "it has both Content-Length and Transfer-Encoding",
        ));
    }
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(malformed("its Transfer-Encoding is not just chunked"));
    }
    Ok(())
}

/// The names that `Connection` lists, in lower case.
fn listed(headers: &HeaderMap) -> Vec<String> {
    all(headers, &header::CONNECTION)
        .flat_map(|value| value.as_bytes().split(|&b| b == b','))
        .map(|token| String::from_utf8_lossy(token.trim_ascii()).to_ascii_lowercase())
        .collect()
}

/// Headers that `Connection` may not list: their removal would make this request and the forwarded one differ in
/// meaning.
fn matters(listed: &str) -> bool {
    matches!(
        listed,
        "authorization" | "host" | "content-length" | "transfer-encoding" | "cookie" | "expect"
    ) || impersonates(listed)
        || listed.starts_with(PREFIX)
}

/// In any spelling: some servers take `_` for `-`.
fn impersonates(name: &str) -> bool {
    name.starts_with("impersonate")
}

/// The user of `kubectl --as`. All other forms of impersonation are rejected.
///
/// # Errors
/// `FL-1202`, `FL-1304`.
pub(crate) fn impersonated(headers: &HeaderMap) -> Result<Option<HeaderValue>, RequestError> {
    let is_about_users =
        |name: &HeaderName| impersonates(name.as_str()) || *name == header::SEC_WEBSOCKET_PROTOCOL;
    if !headers.keys().any(is_about_users) {
        return Ok(None);
    }
    let mut users = headers.get_all(&IMPERSONATE_USER).iter();
    let user = match (users.next(), users.next()) {
        (None, _) => None,
        (Some(user), None) if !user.is_empty() => Some(user.clone()),
        _ => return Err(RequestError::NoImpersonation),
    };
    let other = |name: &HeaderName| impersonates(name.as_str()) && *name != IMPERSONATE_USER;
    if headers.keys().any(other) {
        return Err(RequestError::NoImpersonation);
    }
    let token = |value: &HeaderValue| {
        value
            .as_bytes()
            .split(|&b| b == b',')
            .any(|protocol| protocol.trim_ascii().starts_with(TOKEN_PROTOCOL))
    };
    if headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .any(token)
    {
        return Err(malformed(
            "it carries a bearer token as a WebSocket subprotocol",
        ));
    }
    Ok(user)
}

/// The one protocol that the client wants to upgrade to, if Kubernetes uses it.
///
/// Others are not forwarded: `h2c` would open a second, unchecked connection inside this one.
pub(crate) fn requested_upgrade<B>(request: &Request<B>) -> Option<HeaderValue> {
    if request.version() != Version::HTTP_11
        || first(request.headers(), &header::UPGRADE).is_none()
        || !listed(request.headers())
            .iter()
            .any(|token| token == "upgrade")
    {
        return None;
    }
    let mut wanted = request.headers().get_all(header::UPGRADE).iter();
    let (first, None) = (wanted.next()?, wanted.next()) else {
        return None;
    };
    let known = |name: &[u8]| first.as_bytes().eq_ignore_ascii_case(name);
    (known(b"websocket") || known(b"SPDY/3.1")).then(|| first.clone())
}

/// True for a WebSocket over HTTP/2: a CONNECT with this protocol (RFC 8441, section 5).
pub(crate) fn is_websocket_connect<B>(request: &Request<B>) -> bool {
    let protocol = request.extensions().get::<hyper::ext::Protocol>();
    request.version() == Version::HTTP_2
        && request.method() == Method::CONNECT
        && protocol.is_some_and(|it| it.as_str() == "websocket")
}

/// Removes request headers of this hop, for the gateway, or reserved for it.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let listed = listed(headers);
    let trailers =
        all(headers, &header::TE).any(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    remove(headers, |name| {
        is_hop_by_hop(name.as_str())
            || ours(name)
            || impersonates(name.as_str())
            || listed.iter().any(|token| token == name.as_str())
    });
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Sets the headers of an upgrade.
pub(crate) fn set_upgrade(headers: &mut HeaderMap, protocol: &HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol.clone());
}

/// Removes request headers of this hop, and those between hub and agent, for the target of a named service.
pub(crate) fn strip_for_service(headers: &mut HeaderMap) {
    let listed = listed(headers);
    remove(headers, |name| {
        is_hop_by_hop(name.as_str())
            || name.as_str().starts_with(PREFIX)
            || listed.iter().any(|token| token == name.as_str())
    });
}

/// As [`strip_answer`], for an answer of a named service: it may set cookies and policies of its own host.
pub(crate) fn strip_service_answer(headers: &mut HeaderMap, upgraded: bool) {
    let listed = listed(headers);
    remove(headers, |name| {
        if upgraded && (name == header::CONNECTION || name == header::UPGRADE) {
            return false;
        }
        let text = name.as_str();
        is_hop_by_hop(text)
            || text.starts_with(PREFIX)
            || text.starts_with("x-accel-")
            || listed.iter().any(|token| token == text)
    });
}

/// Reports the client to the target of a named service, in the place of what the client itself claims.
pub(crate) fn describe_client(
    headers: &mut HeaderMap,
    address: HeaderValue,
    host: Option<HeaderValue>,
) {
    remove(headers, |name| {
        name == header::FORWARDED || name.as_str().starts_with("x-forwarded") || name == "x-real-ip"
    });
    headers.insert("x-forwarded-for", address);
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    if let Some(host) = host {
        headers.insert("x-forwarded-host", host.clone());
        headers.insert(header::HOST, host);
    }
}

/// Takes the token of a request to a named service: a bearer token, or the password of Basic as a browser sends it. The
/// target never sees it. Two headers are no token.
pub(crate) fn take_token(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let token = match (given.next(), given.next()) {
        (Some(only), None) => Some(bearer_of(only).unwrap_or_else(|| only.clone())),
        _ => None,
    };
    headers.remove(header::AUTHORIZATION);
    token
}

/// The password of Basic (RFC 7617) as a bearer token.
fn bearer_of(basic: &HeaderValue) -> Option<HeaderValue> {
    let (scheme, encoded) = basic.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (_, password) = text.split_once(':')?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {password}")).ok()?;
    bearer.set_sensitive(true);
    Some(bearer)
}

/// Removes headers that an answer may not contain. `Connection` and `Upgrade` stay in an upgrade's answer.
pub(crate) fn strip_answer(headers: &mut HeaderMap, upgraded: bool) {
    let listed = listed(headers);
    remove(headers, |name| {
        if name.as_str().starts_with(PREFIX) {
            return true;
        }
        if upgraded && (name == header::CONNECTION || name == header::UPGRADE) {
            return false;
        }
        is_hop_by_hop(name.as_str())
            || is_for_the_hub(name.as_str())
            || listed.iter().any(|token| token == name.as_str())
    });
}

/// Headers of an answer by which a browser would change its view of the whole hub, or a web server before the hub would
/// send another file or location. A cluster may not set them.
fn is_for_the_hub(name: &str) -> bool {
    name.starts_with("x-accel-")
        || matches!(
            name,
            "set-cookie"
                | "alt-svc"
                | "strict-transport-security"
                | "clear-site-data"
                | "content-security-policy-report-only"
                | "refresh"
                | "x-sendfile"
                | "x-lighttpd-send-file"
        )
}

/// Removes trailers that the checks of the head cover: trailers arrive after every check.
pub(crate) fn strip_trailers(trailers: &mut HeaderMap) {
    remove(trailers, |name| {
        is_hop_by_hop(name.as_str())
            || ours(name)
            || impersonates(name.as_str())
            || name == header::CONTENT_LENGTH
    });
}

/// Headers that only the gateway sets, and those about the path to it.
fn ours(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(
        name,
        "authorization" | "cookie" | "host" | "forwarded" | "x-real-ip" | AUDIT_ID
    ) || name.starts_with(PREFIX)
        || ["x-forwarded", "x_forwarded", "x-remote", "x_remote"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
