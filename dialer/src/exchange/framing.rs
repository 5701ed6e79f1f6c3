//! Where a body ends: read by its length, in chunks, or to the end of the stream; written by its length or in chunks.
//! A body that is shorter or longer than was said is an error on either side, never an end.

use std::fmt::Write;

use bytes::{BufMut, Bytes};
use http::{HeaderMap, HeaderName, header};
use http_body::{Body as _, SizeHint};

use super::{
    Body, BodyError,
    chunked::{Chunked, Piece},
    error::{HttpError, malformed},
    outgoing::Outgoing,
};

/// How the body that is being read ends.
#[derive(Debug)]
pub(super) enum Decoder {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
    /// With the stream, which must end cleanly for that.
    ToEnd,
    Ended,
    /// What came was refused.
    Broken(&'static str),
}

impl Decoder {
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Decoder::Length(left) => *left == 0,
            Decoder::Chunked(chunked) => chunked.is_done(),
            Decoder::ToEnd | Decoder::Broken(_) => false,
            Decoder::Ended => true,
        }
    }

    /// Takes the next piece of body off `input`.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Piece, HttpError> {
        match self {
            Decoder::Length(0) | Decoder::Ended => Ok(Piece::End),
            Decoder::Broken(reason) => malformed(reason),
            Decoder::Chunked(chunked) => chunked.next(input),
            _ if input.is_empty() => Ok(Piece::More),
            Decoder::Length(left) => {
                let whole = usize::try_from(*left).unwrap_or(usize::MAX);
                let data = input.split_to(whole.min(input.len()));
                *left -= data.len() as u64;
                Ok(Piece::Data(data))
            }
            Decoder::ToEnd => Ok(Piece::Data(std::mem::take(input))),
        }
    }

    /// The stream has ended cleanly.
    pub(super) fn end(&mut self) -> Result<(), HttpError> {
        match self {
            Decoder::ToEnd => {
                *self = Decoder::Ended;
                Ok(())
            }
            _ if self.is_ended() => Ok(()),
            _ => Err(HttpError::Cut),
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Decoder::Length(left) => SizeHint::with_exact(*left),
            Decoder::Ended => SizeHint::with_exact(0),
            Decoder::Chunked(_) | Decoder::ToEnd | Decoder::Broken(_) => SizeHint::default(),
        }
    }
}

/// How the body that is being written is framed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Encoder {
    /// No body, whatever length the head may give (HEAD, 304); or the whole of it was written.
    Nothing,
    Length(u64),
    /// With the trailers that the head announced.
    Chunked(Vec<HeaderName>),
}

impl Encoder {
    pub(super) fn data(&mut self, data: Bytes, out: &mut Outgoing) -> Result<(), BodyError> {
        match self {
            _ if data.is_empty() => {}
            Encoder::Nothing => return Err("there is a body where none may be".into()),
            Encoder::Length(left) => {
                let left_now = left.checked_sub(data.len() as u64);
                *left = left_now.ok_or("the body is longer than its head says")?;
                out.push(data);
            }
            Encoder::Chunked(_) => {
                let _never = write!(out.tail(), "{:x}\r\n", data.len());
                out.push(data);
                out.tail().put_slice(b"\r\n");
            }
        }
        Ok(())
    }

    /// Trailers that were not announced are left out, as they are where the body has a length.
    pub(super) fn trailers(&mut self, trailers: &HeaderMap, out: &mut Outgoing) {
        if let Encoder::Chunked(announced) = self {
            let tail = out.tail();
            tail.put_slice(b"0\r\n");
            for name in announced.iter() {
                for value in trailers.get_all(name) {
                    super::head::field(tail, name.as_str(), value.as_bytes());
                }
            }
            tail.put_slice(b"\r\n");
            *self = Encoder::Nothing;
        }
    }

    /// The body's source has ended.
    pub(super) fn end(&mut self, out: &mut Outgoing) -> Result<(), BodyError> {
        match self {
            Encoder::Length(1..) => return Err("the body is shorter than its head says".into()),
            Encoder::Chunked(_) => out.tail().put_slice(b"0\r\n\r\n"),
            Encoder::Nothing | Encoder::Length(0) => {}
        }
        *self = Encoder::Nothing;
        Ok(())
    }

    /// Whether nothing can follow: whoever gave a length need not be asked for an end.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Encoder::Nothing | Encoder::Length(0))
    }
}

/// How a request's body goes out: as long as its head or its source says, else in chunks.
pub(super) fn of_request(headers: &HeaderMap, body: &Body) -> Result<Encoder, BodyError> {
    match (is_empty(body), declared(headers)?) {
        (true, None | Some(0)) => Ok(Encoder::Nothing),
        (true, Some(_)) => Err("the body is shorter than its head says".into()),
        (false, declared) => Ok(with_body(declared, headers, body, true)),
    }
}

/// How an answer's body goes out. `trailers`: whoever asked takes them.
pub(super) fn of_response(
    headers: &HeaderMap,
    body: &Body,
    trailers: bool,
) -> Result<Encoder, BodyError> {
    match (is_empty(body), declared(headers)?) {
        (true, None | Some(0)) => Ok(Encoder::Length(0)),
        (true, Some(_)) => Err("the body is shorter than its head says".into()),
        (false, declared) => Ok(with_body(declared, headers, body, trailers)),
    }
}

/// For the answer to a HEAD: the length of the body that is left out, where the head does not give one.
pub(super) fn tell_length(headers: &mut HeaderMap, body: &Body) {
    if let Some(length @ 1..) = body.size_hint().exact()
        && !headers.contains_key(header::CONTENT_LENGTH)
    {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
}

fn is_empty(body: &Body) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}

fn with_body(declared: Option<u64>, headers: &HeaderMap, body: &Body, trailers: bool) -> Encoder {
    if let Some(length) = declared.or(body.size_hint().exact()) {
        return Encoder::Length(length);
    }
    if !trailers {
        return Encoder::Chunked(Vec::new());
    }
    let lines = headers.get_all(header::TRAILER).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let names = names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    Encoder::Chunked(names.filter(may_trail).collect())
}

/// Not what says where a message ends or to whom it goes.
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

/// The Content-Length that the caller put into a head.
fn declared(headers: &HeaderMap) -> Result<Option<u64>, BodyError> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => Ok(Some(length(one.as_bytes())?)),
        _ => Err("it has more than one Content-Length".into()),
    }
}

/// A Content-Length: digits, and nothing else.
pub(super) fn length(value: &[u8]) -> Result<u64, HttpError> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| digits);
    match number.and_then(|number| number.parse().ok()) {
        Some(length) => Ok(length),
        None => malformed("its Content-Length is no number"),
    }
}
