//! Answers of a handler, with their fields in a map or in lines.

use std::fmt::Write;

use bytes::BytesMut;
use http::{HeaderMap, Response, StatusCode, header, response::Parts};
use http_body::Body as HttpBody;

use super::{LineSet, response::ResponseLines};
use crate::{
    body::{Body, BodyError},
    framing::{self, BodyEncoder},
    head::{self, ResponseForm},
};

/// Bytes of a written head beyond the received one: the added field and the framing.
const EXTRA_BYTES: usize = 160;

/// Answer of a handler.
pub enum Reply<B = Body> {
    /// With its fields in a map.
    Map(Response<B>),
    /// With fields of a received answer.
    Lines(RelayedResponse, B),
}

/// Head of an answer with some fields of a received one.
#[derive(Debug)]
pub struct RelayedResponse {
    received: ResponseLines,
    kept: LineSet,
    added: Option<(&'static str, u64)>,
    /// Length of the omitted body of an answer to a HEAD.
    omitted: Option<u64>,
}

impl RelayedResponse {
    /// An answer with the status of the received one, and with the fields that are `kept`.
    #[must_use]
    pub fn new(received: ResponseLines, kept: LineSet) -> Self {
        RelayedResponse {
            received,
            kept,
            added: None,
            omitted: None,
        }
    }

    /// Adds a number under a name in lower case, which no kept field has, and which does not frame the body.
    #[must_use]
    pub fn with_number(mut self, name: &'static str, value: u64) -> Self {
        self.added = Some((name, value));
        self
    }

    /// Status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.received.status()
    }

    fn declared(&self) -> Option<u64> {
        let lines = self.received.lines();
        let is_kept = lines.content_length.0 & self.kept.0 != 0;
        self.received.length().filter(|_| is_kept)
    }

    fn write(&self, body: &BodyEncoder, out: &mut BytesMut) {
        let lines = self.received.lines();
        out.reserve(lines.head_bytes() + EXTRA_BYTES + body.copied_bytes());
        head::status_line(self.status(), false, out);
        let length = (self.omitted).map(|length| (header::CONTENT_LENGTH.as_str(), length));
        for (name, value) in self.added.into_iter().chain(length) {
            let _never = write!(out, "{name}: {value}\r\n");
        }
        lines.end(self.kept, body, out);
    }
}

/// Head of a [`Reply`].
pub(crate) enum ReplyHead {
    Map(Parts),
    Lines(RelayedResponse),
}

impl<B> Reply<B> {
    /// Status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Reply::Map(response) => response.status(),
            Reply::Lines(head, _) => head.status(),
        }
    }

    pub(crate) fn into_parts(self) -> (ReplyHead, B) {
        match self {
            Reply::Map(response) => {
                let (parts, body) = response.into_parts();
                (ReplyHead::Map(parts), body)
            }
            Reply::Lines(head, body) => (ReplyHead::Lines(head), body),
        }
    }
}

impl ReplyHead {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            ReplyHead::Map(parts) => parts.status,
            ReplyHead::Lines(head) => head.status(),
        }
    }

    /// Sets the length of the omitted body on the answer to a HEAD, if it is missing.
    pub(crate) fn tell_length<B: HttpBody>(&mut self, body: &B) {
        match self {
            ReplyHead::Map(parts) => framing::tell_length(&mut parts.headers, body),
            ReplyHead::Lines(head) if head.declared().is_none() => {
                head.omitted = body.size_hint().exact().filter(|length| *length > 0);
            }
            ReplyHead::Lines(_) => {}
        }
    }

    /// Framing of the body. `trailers`: the client accepts them.
    pub(crate) fn framing<B: HttpBody>(
        &self,
        body: &B,
        trailers: bool,
    ) -> Result<BodyEncoder, BodyError> {
        match self {
            ReplyHead::Map(parts) => framing::of_response(&parts.headers, body, trailers),
            ReplyHead::Lines(head) => framing::of_response_lines(head.declared(), body),
        }
    }

    /// Removes the length of an answer without a body.
    pub(crate) fn forget_length(&mut self) {
        if let ReplyHead::Map(parts) = self {
            parts.headers.remove(header::CONTENT_LENGTH);
        }
    }

    /// The map of the fields, for another head.
    pub(crate) fn into_map(self) -> Option<HeaderMap> {
        match self {
            ReplyHead::Map(parts) => Some(parts.headers),
            ReplyHead::Lines(_) => None,
        }
    }

    /// Writes the head. Answers in lines go to peers only, whose form is the usual one.
    pub(crate) fn write(&self, body: &BodyEncoder, form: ResponseForm, out: &mut BytesMut) {
        match self {
            ReplyHead::Map(parts) => {
                head::write_response(parts.status, &parts.headers, body, form, out);
            }
            ReplyHead::Lines(head) => head.write(body, out),
        }
    }

    /// True for the last answer of its stream. No answer in lines has `Connection`.
    pub(crate) fn closes(&self) -> bool {
        match self {
            ReplyHead::Map(parts) => closes(&parts.headers),
            ReplyHead::Lines(_) => false,
        }
    }
}

fn closes(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
}
