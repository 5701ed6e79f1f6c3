//! Reading and writing of heads (RFC 9112, 2 to 6). httparse splits the lines. Input that it
//! accepts but another parser may read differently is refused here: bare LF, two lengths, a coding
//! other than `chunked`, anything but one Host. Names and values are slices of the input.

use std::{fmt::Write, mem::MaybeUninit};

use bytes::{BufMut, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
};

use crate::{
    chunked::Chunked,
    date::write_date,
    error::{HttpError, malformed},
    fields::{FramingFields, MAX_HEADERS, field, fields},
    framing::{BodyDecoder, BodyEncoder},
    policy::HeadForm,
};

/// Header that a sender adds to a request. None of them frames the body.
pub(crate) type AddedField<'a> = (&'a HeaderName, &'a HeaderValue);

type Slots<'a> = [MaybeUninit<httparse::Header<'a>>; MAX_HEADERS];

/// Head of a request, and its consequences for the stream.
#[derive(Debug)]
pub(crate) struct RequestHead<R = Request<()>> {
    pub(crate) request: R,
    pub(crate) kind: RequestKind,
    pub(crate) body: BodyDecoder,
    pub(crate) expects_continue: bool,
    pub(crate) takes_trailers: bool,
    pub(crate) close: bool,
}

/// Longest target that `http::Uri` takes, in bytes.
const MAX_TARGET: usize = u16::MAX as usize - 1;

impl<R> RequestHead<R> {
    /// The same head in another form.
    pub(crate) fn map<T>(self, form: impl FnOnce(R) -> T) -> RequestHead<T> {
        RequestHead {
            request: form(self.request),
            kind: self.kind,
            body: self.body,
            expects_continue: self.expects_continue,
            takes_trailers: self.takes_trailers,
            close: self.close,
        }
    }
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
    pub(crate) fn of(head: &WrittenHead<'_>) -> Self {
        RequestKind {
            head: head.request.method == Method::HEAD,
            connect: head.request.method == Method::CONNECT,
            upgrade: head.has(&header::UPGRADE),
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
pub(crate) struct ResponseHead<R = Response<()>> {
    pub(crate) response: R,
    pub(crate) body: BodyDecoder,
    pub(crate) close: bool,
}

impl<R> ResponseHead<R> {
    /// The same head in another form.
    pub(crate) fn map<T>(self, form: impl FnOnce(R) -> T) -> ResponseHead<T> {
        ResponseHead {
            response: form(self.response),
            body: self.body,
            close: self.close,
        }
    }
}

/// Length of the first head in `bytes`, if complete. Bytes before `from` were checked already.
pub(crate) fn end(bytes: &[u8], from: usize, max: usize) -> Result<Option<usize>, HttpError> {
    let fresh = bytes.get(from..).unwrap_or_default();
    for at in memchr::memchr_iter(b'\n', fresh) {
        let line = bytes.get(..=from + at).unwrap_or_default();
        if !line.ends_with(b"\r\n") {
            return malformed("a line of the head does not end with CRLF");
        }
        if line.len() == 2 {
            return malformed("an empty line precedes the head");
        }
        if line.len() > max {
            return Err(HttpError::TooLarge);
        }
        if line.ends_with(b"\r\n\r\n") {
            return Ok(Some(line.len()));
        }
    }
    if bytes.len() > max {
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

/// Parses a complete head of a request. `spare` is an empty map for its fields.
pub(crate) fn request(
    head: &Bytes,
    form: HeadForm,
    spare: HeaderMap,
) -> Result<RequestHead, HttpError> {
    let mut slots: Slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    parsed
        .parse_with_uninit_headers(head, &mut slots)
        .map_err(refused)?;
    let (Some(method), Some(path), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return malformed("the first line is not HTTP/1.1");
    };
    let old = version == 0;
    if old && !form.is_of_client {
        return malformed("the first line is not HTTP/1.1");
    }
    let method =
        Method::from_bytes(method.as_bytes()).or_else(|_| malformed("the method is invalid"))?;
    let path = head.slice_ref(path.as_bytes());
    let uri = match form.is_of_client {
        true => target_of_client(path)?,
        false => target(&method, path)?,
    };
    let (headers, framing) = fields(head, parsed.headers, spare)?;
    if framing.hosts != 1 && !form.is_of_client {
        return malformed("the head must have exactly one Host");
    }
    if old && framing.chunked {
        return malformed("chunked is not allowed in HTTP/1.0");
    }
    if method == Method::CONNECT && !form.is_of_client {
        connect_fields(&uri, &headers, &framing)?;
    }
    let body = BodyDecoder::of_request(framing.chunked, framing.length);
    let connect = method == Method::CONNECT;
    let upgrade = connect || (framing.upgrade && headers.contains_key(header::UPGRADE));
    let kind = RequestKind {
        head: method == Method::HEAD,
        connect,
        upgrade: upgrade && body.is_ended() && !old,
    };
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    if old {
        *request.version_mut() = Version::HTTP_10;
    }
    Ok(RequestHead {
        request,
        kind,
        expects_continue: framing.expects_continue && !body.is_ended() && !old,
        body,
        takes_trailers: framing.trailers,
        close: framing.close || old,
    })
}

/// Each form of a target (RFC 9112, section 3.2), for the caller to judge.
fn target_of_client(target: Bytes) -> Result<Uri, HttpError> {
    if target.len() > MAX_TARGET {
        return Err(HttpError::TooLarge);
    }
    if target.contains(&b'#') {
        return malformed("the target has a fragment");
    }
    Uri::from_maybe_shared(target).or_else(|_| malformed("the target is invalid"))
}

/// Origin form, or authority form for CONNECT. Other forms do not occur between two proxies.
pub(crate) fn target(method: &Method, target: Bytes) -> Result<Uri, HttpError> {
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

/// True for a request whose sender waits before its body.
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
    let (headers, framing) = fields(head, parsed.headers, HeaderMap::new())?;
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

/// Head of a request to be written: `added`, then those of its own headers that are `kept`.
pub(crate) struct WrittenHead<'a> {
    pub(crate) request: &'a http::request::Parts,
    pub(crate) added: &'a [AddedField<'a>],
    pub(crate) kept: &'a dyn Fn(&HeaderName) -> bool,
}

impl WrittenHead<'_> {
    /// True if a field of this name is written.
    pub(crate) fn has(&self, name: &HeaderName) -> bool {
        self.added.iter().any(|(added, _)| *added == name) || self.keeps(name)
    }

    /// True if an own field of this name is written.
    pub(crate) fn keeps(&self, name: &HeaderName) -> bool {
        self.request.headers.contains_key(name) && (self.kept)(name)
    }

    /// Writes it in origin form. The authority is the Host if there is none.
    pub(crate) fn write(&self, body: &BodyEncoder, out: &mut BytesMut) {
        let (method, uri) = (&self.request.method, &self.request.uri);
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        let target = match uri.path_and_query() {
            _ if *method == Method::CONNECT => authority,
            None => "/",
            Some(path) => path.as_str(),
        };
        let added_bytes =
            (self.added.iter()).fold(0, |sum, (name, value)| sum + field_bytes(name, value));
        out.reserve(room(&self.request.headers) + added_bytes + target.len() + authority.len());
        out.put_slice(method.as_str().as_bytes());
        out.put_slice(b" ");
        // The path of `https://host?query` is empty.
        if !target.starts_with('/') && *method != Method::CONNECT {
            out.put_slice(b"/");
        }
        out.put_slice(target.as_bytes());
        out.put_slice(b" HTTP/1.1\r\n");
        if !self.has(&header::HOST) {
            field(out, "host", authority.as_bytes());
        }
        for (name, value) in self.added {
            field(out, name.as_str(), value.as_bytes());
        }
        write_fields(&self.request.headers, self.kept, body, out);
    }
}

/// Parts of the head of a response that its handler does not set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResponseForm {
    /// For a client of HTTP/1.0.
    pub(crate) old: bool,
    /// Adds `Connection: close`.
    pub(crate) adds_close: bool,
    /// Adds `Date`, unless the handler has set one.
    pub(crate) adds_date: bool,
}

/// Bytes of the fields that a [`ResponseForm`] adds.
const ADDED_BYTES: usize = 64;

/// Writes the head of a response.
pub(crate) fn write_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &BodyEncoder,
    form: ResponseForm,
    out: &mut BytesMut,
) {
    out.reserve(room(headers) + ADDED_BYTES + body.copied_bytes());
    status_line(status, form.old, out);
    if form.adds_close {
        field(out, "connection", b"close");
    }
    if form.adds_date && !headers.contains_key(header::DATE) {
        write_date(out);
    }
    write_fields(headers, &|_| true, body, out);
}

/// Begins the head of a response; `old` for HTTP/1.0.
pub(crate) fn status_line(status: StatusCode, old: bool, out: &mut BytesMut) {
    out.put_slice(match old {
        true => b"HTTP/1.0 ",
        false => b"HTTP/1.1 ",
    });
    out.put_slice(status.as_str().as_bytes());
    out.put_slice(b" ");
    out.put_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.put_slice(b"\r\n");
}

fn room(headers: &HeaderMap) -> usize {
    let fields = headers.iter();
    fields.fold(96, |sum, (name, value)| sum + field_bytes(name, value))
}

fn field_bytes(name: &HeaderName, value: &HeaderValue) -> usize {
    name.as_str().len() + value.len() + 4
}

fn write_fields(
    headers: &HeaderMap,
    kept: &dyn Fn(&HeaderName) -> bool,
    body: &BodyEncoder,
    out: &mut BytesMut,
) {
    for (name, value) in headers {
        let frames = *name == header::TRANSFER_ENCODING
            || (*name == header::CONTENT_LENGTH && *body != BodyEncoder::Nothing);
        if !frames && kept(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
    end_fields(body, out);
}

/// Writes the field that frames the body, and the end of the head.
pub(crate) fn end_fields(body: &BodyEncoder, out: &mut BytesMut) {
    match body {
        BodyEncoder::Nothing | BodyEncoder::ToEnd => {}
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
            let head = WrittenHead {
                request: &parts,
                added,
                kept: &|_| true,
            };
            head.write(&BodyEncoder::Nothing, &mut out);
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

    #[test]
    fn header_that_is_not_kept_is_neither_written_nor_asked_for() {
        let request = Request::get("/b")
            .header("host", "a")
            .header("upgrade", "h2c");
        let (parts, ()) = request
            .header("accept", "*/*")
            .body(())
            .unwrap()
            .into_parts();
        let head = WrittenHead {
            request: &parts,
            added: &[],
            kept: &|name| *name != header::UPGRADE,
        };
        let mut out = BytesMut::new();
        head.write(&BodyEncoder::Nothing, &mut out);
        assert_eq!(
            String::from_utf8(out.to_vec()).unwrap(),
            "GET /b HTTP/1.1\r\nhost: a\r\naccept: */*\r\n\r\n"
        );
        assert!(!RequestKind::of(&head).upgrade);
        let upgraded = WrittenHead {
            kept: &|_| true,
            ..head
        };
        assert!(RequestKind::of(&upgraded).upgrade);
    }
}
