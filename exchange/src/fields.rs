//! Header fields: parsing with the fields that determine the framing, trailers, and writing.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::error::{HttpError, malformed};

/// Limit of the fields of a head.
pub(crate) const MAX_HEADERS: usize = 100;
/// Largest head, in bytes.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// Fields that the receiver of a head may add without another allocation.
const ADDED_FIELDS: usize = 4;

/// Framing fields of a head.
#[derive(Default)]
pub(crate) struct FramingFields {
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) hosts: usize,
    pub(crate) close: bool,
    /// `Connection` lists `Upgrade`.
    pub(crate) upgrade: bool,
    /// `TE` lists `trailers`.
    pub(crate) trailers: bool,
    pub(crate) expects_continue: bool,
}

/// Puts the fields of a head into `headers`, an empty map whose memory is used if they fit.
pub(crate) fn fields(
    head: &Bytes,
    parsed: &[httparse::Header<'_>],
    mut headers: HeaderMap,
) -> Result<(HeaderMap, FramingFields), HttpError> {
    if headers.capacity() < parsed.len() {
        headers.reserve(parsed.len() + ADDED_FIELDS);
    }
    let mut framing = FramingFields::default();
    for field in parsed {
        let Ok(name) = HeaderName::from_bytes(field.name.as_bytes()) else {
            return malformed("a header name is invalid");
        };
        framing.field(&name, field.value)?;
        let Ok(value) = HeaderValue::from_maybe_shared(head.slice_ref(field.value)) else {
            return malformed("a header value contains a control character");
        };
        headers.append(name, value);
    }
    if framing.chunked && framing.length.is_some() {
        return malformed("the head has both Content-Length and Transfer-Encoding");
    }
    Ok((headers, framing))
}

/// Fields that determine the framing, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FramingName {
    ContentLength,
    TransferEncoding,
    Host,
    Connection,
    Te,
    Expect,
    Other,
}

impl FramingName {
    fn of(name: &HeaderName) -> Self {
        match *name {
            header::CONTENT_LENGTH => FramingName::ContentLength,
            header::TRANSFER_ENCODING => FramingName::TransferEncoding,
            header::HOST => FramingName::Host,
            header::CONNECTION => FramingName::Connection,
            header::TE => FramingName::Te,
            header::EXPECT => FramingName::Expect,
            _ => FramingName::Other,
        }
    }
}

impl FramingFields {
    fn field(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), HttpError> {
        self.named(FramingName::of(name), value)
    }

    /// Notes the value of one field.
    pub(crate) fn named(&mut self, name: FramingName, value: &[u8]) -> Result<(), HttpError> {
        match name {
            FramingName::ContentLength if self.length.is_some() => {
                malformed("the head has more than one Content-Length")
            }
            FramingName::ContentLength => {
                self.length = Some(length(value)?);
                Ok(())
            }
            FramingName::TransferEncoding
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") =>
            {
                malformed("only the transfer coding chunked is supported")
            }
            FramingName::TransferEncoding => {
                self.chunked = true;
                Ok(())
            }
            FramingName::Host => {
                self.hosts += 1;
                Ok(())
            }
            FramingName::Connection => {
                for token in members(value) {
                    self.close |= token.eq_ignore_ascii_case(b"close");
                    self.upgrade |= token.eq_ignore_ascii_case(b"upgrade");
                }
                Ok(())
            }
            FramingName::Te => {
                self.trailers |= members(value).any(|it| it.eq_ignore_ascii_case(b"trailers"));
                Ok(())
            }
            FramingName::Expect => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                Ok(())
            }
            FramingName::Other => Ok(()),
        }
    }
}

/// Members of a line of a list.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Parses trailers, which must not change the framing.
pub(crate) fn trailers(lines: &Bytes) -> Result<HeaderMap, HttpError> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(lines, &mut slots)
    else {
        return malformed("the trailers are invalid");
    };
    let (trailers, framing) = fields(lines, parsed, HeaderMap::new())?;
    if framing.chunked || framing.length.is_some() || framing.hosts > 0 {
        return malformed("the trailers contain framing fields");
    }
    Ok(trailers)
}

/// Parses a Content-Length: digits only.
pub(crate) fn length(value: &[u8]) -> Result<u64, HttpError> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| digits);
    match number.and_then(|number| number.parse().ok()) {
        Some(length) => Ok(length),
        None => malformed("Content-Length is not a number"),
    }
}

/// Appends one field.
pub(crate) fn field(out: &mut BytesMut, name: impl AsRef<[u8]>, value: &[u8]) {
    out.extend_from_slice(name.as_ref());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
