//! Framing of bodies: read by length, in chunks, or to the end of the stream; written by length or
//! in chunks. A body with a wrong length is an error on either side, never an end.

use std::fmt::Write;

use bytes::{BufMut, Bytes};
use http::{HeaderMap, HeaderName, header};
use http_body::{Body as HttpBody, SizeHint};

use crate::{
    body::{Body, BodyError},
    chunked::{Chunked, Piece},
    error::{HttpError, malformed},
    fields::{field, length},
    outgoing::{MAX_COPIED_BYTES, Outgoing},
};

/// Framing of the body that is being read.
#[derive(Debug)]
pub(crate) enum BodyDecoder {
    /// Remaining bytes.
    Length(u64),
    Chunked(Chunked),
    /// To the end of the stream, which must be clean.
    ToEnd,
    Ended,
    /// The input was refused.
    Broken(&'static str),
}

impl BodyDecoder {
    /// Decoder of a request's body, which ends with its head unless the head says otherwise.
    pub(crate) fn of_request(chunked: bool, length: Option<u64>) -> Self {
        match (chunked, length) {
            (true, _) => BodyDecoder::Chunked(Chunked::default()),
            (false, Some(length)) => BodyDecoder::Length(length),
            (false, None) => BodyDecoder::Ended,
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        match self {
            BodyDecoder::Length(left) => *left == 0,
            BodyDecoder::Chunked(chunked) => chunked.is_done(),
            BodyDecoder::ToEnd | BodyDecoder::Broken(_) => false,
            BodyDecoder::Ended => true,
        }
    }

    /// Takes the next piece of the body from `input`.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Result<Piece, HttpError> {
        match self {
            BodyDecoder::Length(0) | BodyDecoder::Ended => Ok(Piece::End),
            BodyDecoder::Broken(reason) => malformed(reason),
            BodyDecoder::Chunked(chunked) => chunked.next(input),
            _ if input.is_empty() => Ok(Piece::More),
            BodyDecoder::Length(left) => {
                let whole = usize::try_from(*left).unwrap_or(usize::MAX);
                let data = input.split_to(whole.min(input.len()));
                *left -= data.len() as u64;
                Ok(Piece::Data(data))
            }
            BodyDecoder::ToEnd => Ok(Piece::Data(std::mem::take(input))),
        }
    }

    /// Handles a clean end of the stream.
    pub(crate) fn end(&mut self) -> Result<(), HttpError> {
        match self {
            BodyDecoder::ToEnd => {
                *self = BodyDecoder::Ended;
                Ok(())
            }
            _ if self.is_ended() => Ok(()),
            _ => Err(HttpError::Cut),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            BodyDecoder::Length(left) => SizeHint::with_exact(*left),
            BodyDecoder::Ended => SizeHint::with_exact(0),
            BodyDecoder::Chunked(_) | BodyDecoder::ToEnd | BodyDecoder::Broken(_) => {
                SizeHint::default()
            }
        }
    }
}

/// Framing of the body that is being written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyEncoder {
    /// No body, even if the head gives a length (HEAD, 304), or completely written.
    Nothing,
    Length(u64),
    /// With the trailers announced by the head.
    Chunked(Vec<HeaderName>),
    /// To the end of the connection, for a client of HTTP/1.0.
    ToEnd,
}

impl BodyEncoder {
    pub(crate) fn data(&mut self, data: Bytes, out: &mut Outgoing) -> Result<(), BodyError> {
        match self {
            _ if data.is_empty() => {}
            BodyEncoder::Nothing => return Err("unexpected body".into()),
            BodyEncoder::Length(left) => {
                let left_now = left.checked_sub(data.len() as u64);
                *left = left_now.ok_or("the body is longer than announced")?;
                out.push(data);
            }
            BodyEncoder::Chunked(_) => {
                let _never = write!(out.tail(), "{:x}\r\n", data.len());
                out.push(data);
                out.tail().put_slice(b"\r\n");
            }
            BodyEncoder::ToEnd => out.push(data),
        }
        Ok(())
    }

    /// Unannounced trailers are dropped, as are those of a body with a length.
    pub(crate) fn trailers(&mut self, trailers: &HeaderMap, out: &mut Outgoing) {
        if let BodyEncoder::Chunked(announced) = self {
            let tail = out.tail();
            tail.put_slice(b"0\r\n");
            for name in announced.iter() {
                for value in trailers.get_all(name) {
                    field(tail, name, value.as_bytes());
                }
            }
            tail.put_slice(b"\r\n");
            *self = BodyEncoder::Nothing;
        }
    }

    /// Handles the end of the body's source.
    pub(crate) fn end(&mut self, out: &mut Outgoing) -> Result<(), BodyError> {
        match self {
            BodyEncoder::Length(1..) => return Err("the body is shorter than announced".into()),
            BodyEncoder::Chunked(_) => out.tail().put_slice(b"0\r\n\r\n"),
            BodyEncoder::Nothing | BodyEncoder::Length(0) | BodyEncoder::ToEnd => {}
        }
        *self = BodyEncoder::Nothing;
        Ok(())
    }

    /// Bytes of a body that is copied behind its head.
    pub(crate) fn copied_bytes(&self) -> usize {
        match self {
            BodyEncoder::Length(length) => match usize::try_from(*length) {
                Ok(length) if length <= MAX_COPIED_BYTES => length,
                _ => 0,
            },
            _ => 0,
        }
    }

    /// True if nothing can follow. A source with a known length is not polled for its end.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, BodyEncoder::Nothing | BodyEncoder::Length(0))
    }
}

/// Framing of a request's body: by the length of its head or its source, else in chunks. `trailers`: its head announces them.
pub(crate) fn of_request(
    headers: &HeaderMap,
    body: &Body,
    trailers: bool,
) -> Result<BodyEncoder, BodyError> {
    match (is_empty(body), declared(headers)?) {
        (true, None | Some(0)) => Ok(BodyEncoder::Nothing),
        (true, Some(_)) => Err("the body is shorter than announced".into()),
        (false, declared) => Ok(with_body(declared, headers, body, trailers)),
    }
}

/// Framing of the body of a request in lines, which announces no trailers, as [`of_request`].
pub(crate) fn of_request_lines(
    declared: Option<u64>,
    body: &Body,
) -> Result<BodyEncoder, BodyError> {
    match (is_empty(body), declared) {
        (true, None | Some(0)) => Ok(BodyEncoder::Nothing),
        (true, Some(_)) => Err("the body is shorter than announced".into()),
        (false, declared) => Ok(without_trailers(declared, body)),
    }
}

/// Framing of a response's body. `trailers`: the client accepts them.
pub(crate) fn of_response<B: HttpBody>(
    headers: &HeaderMap,
    body: &B,
    trailers: bool,
) -> Result<BodyEncoder, BodyError> {
    match (is_empty(body), declared(headers)?) {
        (true, None | Some(0)) => Ok(BodyEncoder::Length(0)),
        (true, Some(_)) => Err("the body is shorter than announced".into()),
        (false, declared) => Ok(with_body(declared, headers, body, trailers)),
    }
}

/// Framing of the body of a response in lines, which announces no trailers, as [`of_response`].
pub(crate) fn of_response_lines<B: HttpBody>(
    declared: Option<u64>,
    body: &B,
) -> Result<BodyEncoder, BodyError> {
    match (is_empty(body), declared) {
        (true, None | Some(0)) => Ok(BodyEncoder::Length(0)),
        (true, Some(_)) => Err("the body is shorter than announced".into()),
        (false, declared) => Ok(without_trailers(declared, body)),
    }
}

/// Sets the length of the omitted body on the response to a HEAD, if it is missing.
pub(crate) fn tell_length<B: HttpBody>(headers: &mut HeaderMap, body: &B) {
    if let Some(length @ 1..) = body.size_hint().exact()
        && !headers.contains_key(header::CONTENT_LENGTH)
    {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
}

fn is_empty<B: HttpBody>(body: &B) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}

fn with_body<B: HttpBody>(
    declared: Option<u64>,
    headers: &HeaderMap,
    body: &B,
    trailers: bool,
) -> BodyEncoder {
    let framing = without_trailers(declared, body);
    if !trailers || framing != BodyEncoder::Chunked(Vec::new()) {
        return framing;
    }
    let lines = headers.get_all(header::TRAILER).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let names = names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    BodyEncoder::Chunked(names.filter(may_trail).collect())
}

fn without_trailers<B: HttpBody>(declared: Option<u64>, body: &B) -> BodyEncoder {
    match declared.or(body.size_hint().exact()) {
        Some(length) => BodyEncoder::Length(length),
        None => BodyEncoder::Chunked(Vec::new()),
    }
}

/// Excludes fields about framing, routing and authentication.
fn may_trail(name: &HeaderName) -> bool {
    !matches!(
        *name,
        header::CONTENT_LENGTH
            | header::TRANSFER_ENCODING
            | header::TRAILER
            | header::HOST
            | header::TE
            | header::CONNECTION
            | header::AUTHORIZATION
    )
}

/// Content-Length set by the caller.
fn declared(headers: &HeaderMap) -> Result<Option<u64>, BodyError> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => Ok(Some(length(one.as_bytes())?)),
        _ => Err("the head has more than one Content-Length".into()),
    }
}
