//! Reading and writing of heads (RFC 9112, 2 to 6). httparse splits the lines. Input that it
//! accepts but another parser may read differently is refused here: bare LF, two lengths, a coding
//! other than `chunked`, anything but one Host. Names and values are slices of the input.

use std::{fmt::Write, mem::MaybeUninit};

use bytes::{BufMut, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};

use crate::{
    chunked::Chunked,
    error::{HttpError, malformed},
    fields::{FramingFields, MAX_HEAD, MAX_HEADERS, field, fields},
    framing::{BodyDecoder, BodyEncoder},
};

/// Header that a sender adds to a request. None of them frames the body.
pub(crate) type AddedField<'a> = (&'a HeaderName, &'a HeaderValue);

type Slots<'a> = [MaybeUninit<httparse::Header<'a>>; MAX_HEADERS];

/// Head of a request, and its consequences for the stream.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) request: Request<()>,
    pub(crate) kind: RequestKind,
    pub(crate) body: BodyDecoder,
    pub(crate) expects_continue: bool,
    pub(crate) takes_trailers: bool,
    pub(crate) close: bool,
}

/// Properties of a request that the response's framing depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestKind {
    pub(crate) head: bool,
    pub(crate) connect: bool,
    /// A protocol upgrade, or a CONNECT.
    pub(crate) upgrade: bool,
}

impl RequestKind {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        RequestKind {
            head: request.method() == Method::HEAD,
            connect: request.method() == Method::CONNECT,
            upgrade: request.headers().contains_key(header::UPGRADE),
        }
    }

    /// True if this response makes the stream raw: 101, or 2xx to CONNECT except 204, which has no
    /// content.
    pub(crate) fn is_switched_by(self, status: StatusCode) -> bool {
        (self.upgrade && status == StatusCode::SWITCHING_PROTOCOLS)
            || (self.connect && status.is_success() && status != StatusCode::NO_CONTENT)
    }

    /// True for a response without a body, whatever its head says.
    pub(crate) fn is_bodiless(self, status: StatusCode) -> bool {
        self.head
            || status.is_informational()
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED
    }
}

#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) response: Response<()>,
    pub(crate) body: BodyDecoder,
    pub(crate) close: bool,
}

/// Length of the first head in `bytes`, if complete. Bytes before `from` were checked already.
pub(crate) fn end(bytes: &[u8], from: usize) -> Result<Option<usize>, HttpError> {
    let fresh = bytes.get(from..).unwrap_or_default();
    for at in memchr::memchr_iter(b'\n', fresh) {
        let line = bytes.get(..=from + at).unwrap_or_default();
        if !line.ends_with(b"\r\n") {
            return malformed("a line of the head does not end with CRLF");
        }
        if line.len() == 2 {
            return malformed("an empty line precedes the head");
        }
        if line.len() > MAX_HEAD {
            return Err(HttpError::TooLarge);
        }
        if line.ends_with(b"\r\n\r\n") {
            return Ok(Some(line.len()));
        }
    }
    if bytes.len() > MAX_HEAD {
        return Err(HttpError::TooLarge);
    }
    Ok(None)
}

fn refused(error: httparse::Error) -> HttpError {
    HttpError::Malformed(match error {
        httparse::Error::TooManyHeaders => return HttpError::TooLarge,
        httparse::Error::HeaderName => "a header name is invalid",
        httparse::Error::HeaderValue => "a header value contains a control character",
        httparse::Error::NewLine => "the head has a misplaced line break",
        httparse::Error::Status => "the status is invalid",
        httparse::Error::Token => "the first line is invalid",
        httparse::Error::Version => "the version is not HTTP/1",
    })
}

/// Parses a complete head of a request.
pub(crate) fn request(head: &Bytes) -> Result<RequestHead, HttpError> {
    let mut slots: Slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    parsed
        .parse_with_uninit_headers(head, &mut slots)
        .map_err(refused)?;
    let (Some(method), Some(path), Some(1)) = (parsed.method, parsed.path, parsed.version) else {
        return malformed("the first line is not HTTP/1.1");
    };
    let method =
        Method::from_bytes(method.as_bytes()).or_else(|_| malformed("the method is invalid"))?;
    let uri = target(&method, head.slice_ref(path.as_bytes()))?;
    let (headers, framing) = fields(head, parsed.headers)?;
    if framing.hosts != 1 {
        return malformed("the head must have exactly one Host");
    }
    if method == Method::CONNECT {
        connect_fields(&uri, &headers, &framing)?;
    }
    let body = match (framing.chunked, framing.length) {
        (true, _) => BodyDecoder::Chunked(Chunked::default()),
        (false, Some(length)) => BodyDecoder::Length(length),
        (false, None) => BodyDecoder::Ended,
    };
    let connect = method == Method::CONNECT;
    let upgrade = connect || (framing.upgrade && headers.contains_key(header::UPGRADE));
    let kind = RequestKind {
        head: method == Method::HEAD,
        connect,
        upgrade: upgrade && body.is_ended(),
    };
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(RequestHead {
        request,
        kind,
        expects_continue: framing.expects_continue && !body.is_ended(),
        body,
        takes_trailers: framing.trailers,
        close: framing.close,
    })
}

/// Origin form, or authority form for CONNECT. Other forms do not occur between two proxies.
fn target(method: &Method, target: Bytes) -> Result<Uri, HttpError> {
    let connect = *method == Method::CONNECT;
    if target.contains(&b'#') || (target.first() == Some(&b'/')) == connect {
        return malformed("the target is not in origin form");
    }
    let Ok(uri) = Uri::from_maybe_shared(target) else {
        return malformed("the target is not a path");
    };
    if connect && (uri.port_u16().is_none() || uri.path_and_query().is_some()) {
        return malformed("the target is not a host and port");
    }
    if !connect && uri.authority().is_some() {
        return malformed("the target is not in origin form");
    }
    Ok(uri)
}

/// A CONNECT has no body: its bytes could also be the tunnel's. Its Host is its target (RFC 9112, section 3.2).
fn connect_fields(
    target: &Uri,
    headers: &HeaderMap,
    framing: &FramingFields,
) -> Result<(), HttpError> {
    if framing.chunked || framing.length.is_some() {
        return malformed("a CONNECT has a body");
    }
    let authority = target.authority().map(|it| it.as_str().as_bytes());
    match headers.get(header::HOST).map(HeaderValue::as_bytes) == authority {
        true => Ok(()),
        false => malformed("Host differs from the target"),
    }
}

pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    headers
        .get(header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Parses a complete head of a response.
pub(crate) fn response(head: &Bytes, kind: RequestKind) -> Result<ResponseHead, HttpError> {
    let mut slots: Slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, head, &mut slots)
        .map_err(refused)?;
    let (Some(code), Some(version)) = (parsed.code, parsed.version) else {
        return malformed("the first line is invalid");
    };
    let status = StatusCode::from_u16(code).or_else(|_| malformed("the status is invalid"))?;
    let (headers, framing) = fields(head, parsed.headers)?;
    let old = version == 0;
    if old && framing.chunked {
        return malformed("chunked is not allowed in HTTP/1.0");
    }
    if status == StatusCode::SWITCHING_PROTOCOLS && !kind.upgrade {
        return malformed("unrequested protocol upgrade");
    }
    let body = match (framing.chunked, framing.length) {
        _ if kind.is_bodiless(status) || kind.is_switched_by(status) => BodyDecoder::Ended,
        (true, _) => BodyDecoder::Chunked(Chunked::default()),
        (false, Some(length)) => BodyDecoder::Length(length),
        (false, None) => BodyDecoder::ToEnd,
    };
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(ResponseHead {
        response,
        close: old || framing.close || matches!(body, BodyDecoder::ToEnd),
        body,
    })
}

/// Writes the head of a request in origin form: `added`, then its own headers. The authority is the Host if both have
/// none.
pub(crate) fn write_request(
    request: &http::request::Parts,
    added: &[AddedField<'_>],
    body: &BodyEncoder,
    out: &mut BytesMut,
) {
    let uri = &request.uri;
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let target = match uri.path_and_query() {
        _ if request.method == Method::CONNECT => authority,
        None => "/",
        Some(path) => path.as_str(),
    };
    let added_bytes = added
        .iter()
        .fold(0, |sum, (name, value)| sum + field_bytes(name, value));
    out.reserve(room(&request.headers) + added_bytes + target.len() + authority.len());
    out.put_slice(request.method.as_str().as_bytes());
    out.put_slice(b" ");
    // The path of `https://host?query` is empty.
    if !target.starts_with('/') && request.method != Method::CONNECT {
        out.put_slice(b"/");
    }
    out.put_slice(target.as_bytes());
    out.put_slice(b" HTTP/1.1\r\n");
    let adds_host = added.iter().any(|(name, _)| **name == header::HOST);
    if !adds_host && !request.headers.contains_key(header::HOST) {
        field(out, "host", authority.as_bytes());
    }
    for (name, value) in added {
        field(out, name.as_str(), value.as_bytes());
    }
    write_fields(&request.headers, body, out);
}

/// Writes the head of a response.
pub(crate) fn write_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &BodyEncoder,
    out: &mut BytesMut,
) {
    out.reserve(room(headers) + body.copied_bytes());
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_slice(b" ");
    out.put_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.put_slice(b"\r\n");
    write_fields(headers, body, out);
}

fn room(headers: &HeaderMap) -> usize {
    let fields = headers.iter();
    fields.fold(96, |sum, (name, value)| sum + field_bytes(name, value))
}

fn field_bytes(name: &HeaderName, value: &HeaderValue) -> usize {
    name.as_str().len() + value.len() + 4
}

fn write_fields(headers: &HeaderMap, body: &BodyEncoder, out: &mut BytesMut) {
    for (name, value) in headers {
        let frames = *name == header::TRANSFER_ENCODING
            || (*name == header::CONTENT_LENGTH && *body != BodyEncoder::Nothing);
        if !frames {
            field(out, name.as_str(), value.as_bytes());
        }
    }
    match body {
        BodyEncoder::Nothing => {}
        BodyEncoder::Length(length) => {
            let _never = write!(out, "content-length: {length}\r\n");
        }
        BodyEncoder::Chunked(_) => field(out, "transfer-encoding", b"chunked"),
    }
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_host_takes_the_place_of_the_authority() {
        let written = |added: &[AddedField<'_>]| {
            let request = Request::get("http://a.test/b").header("accept", "*/*");
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let mut out = BytesMut::new();
            write_request(&parts, added, &BodyEncoder::Nothing, &mut out);
            String::from_utf8(out.to_vec()).unwrap()
        };
        assert_eq!(
            written(&[]),
            "GET /b HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\n\r\n"
        );
        let host = HeaderValue::from_static("c.test");
        assert_eq!(
            written(&[(&header::HOST, &host)]),
            "GET /b HTTP/1.1\r\nhost: c.test\r\naccept: */*\r\n\r\n"
        );
    }
}
