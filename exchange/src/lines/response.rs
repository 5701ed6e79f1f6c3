//! Answers in lines, as a client receives them.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{Response, StatusCode};

use super::{LineSlots, Lines, MAX_LINES};
use crate::{
    answer::Answer,
    body::Body,
    chunked::Chunked,
    error::HttpError,
    framing::BodyDecoder,
    head::{self, RequestKind, ResponseHead},
    upgrade::Upgraded,
};

/// Head of an answer in lines. It has no `Connection`, `Upgrade` or `Trailer`, and switches no protocol.
#[derive(Debug)]
pub struct ResponseLines {
    status: StatusCode,
    length: Option<u64>,
    lines: Lines,
}

/// Outcome of a request whose answer is read in lines if possible.
pub enum LinesAnswer {
    /// With its fields in a map.
    Map(Answer),
    /// An ordinary answer with its fields in lines.
    Lines(ResponseLines, Body),
}

/// Outcome of a request, with a head in the form `R`.
pub(crate) enum Sent<R> {
    Response(R, Body),
    Upgraded(R, Upgraded),
}

/// Form in which a client reads the head of an answer.
pub(crate) trait ResponseForm: Sized {
    /// Parses a complete head.
    fn read(head: Bytes, kind: RequestKind) -> Result<ResponseHead<Self>, HttpError>;

    fn status(&self) -> StatusCode;
}

impl ResponseForm for Response<()> {
    fn read(head: Bytes, kind: RequestKind) -> Result<ResponseHead, HttpError> {
        head::response(&head, kind)
    }

    fn status(&self) -> StatusCode {
        Response::status(self)
    }
}

/// Head of a [`LinesAnswer`].
pub(crate) enum AnswerHead {
    Map(Response<()>),
    Lines(ResponseLines),
}

impl ResponseForm for AnswerHead {
    fn read(head: Bytes, kind: RequestKind) -> Result<ResponseHead<Self>, HttpError> {
        match ResponseLines::parse(&head, kind) {
            Some(mut parsed) => {
                parsed.response.lines.head = head;
                Ok(parsed.map(AnswerHead::Lines))
            }
            None => Ok(head::response(&head, kind)?.map(AnswerHead::Map)),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            AnswerHead::Map(response) => response.status(),
            AnswerHead::Lines(lines) => lines.status,
        }
    }
}

impl Answer {
    pub(crate) fn of(sent: Sent<Response<()>>) -> Self {
        match sent {
            Sent::Response(head, body) => Answer::Response(head.map(|()| body)),
            Sent::Upgraded(head, raw) => Answer::Upgraded(head, raw),
        }
    }
}

impl LinesAnswer {
    pub(crate) fn of(sent: Sent<AnswerHead>) -> Self {
        LinesAnswer::Map(Answer::of(match sent {
            Sent::Response(AnswerHead::Lines(lines), body) => {
                return LinesAnswer::Lines(lines, body);
            }
            Sent::Response(AnswerHead::Map(head), body) => Sent::Response(head, body),
            Sent::Upgraded(AnswerHead::Map(head), raw) => Sent::Upgraded(head, raw),
            Sent::Upgraded(AnswerHead::Lines(head), raw) => Sent::Upgraded(head.into_map(()), raw),
        }))
    }

    /// Status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            LinesAnswer::Map(answer) => answer.status(),
            LinesAnswer::Lines(lines, _) => lines.status,
        }
    }
}

impl ResponseLines {
    /// Status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Fields of the answer.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The same answer with its fields in a map.
    #[must_use]
    pub fn into_map<B>(self, body: B) -> Response<B> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.lines.to_map();
        response
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Parses a complete head, which its lines still need; `None` for one that is not read in lines, or is refused.
    fn parse(head: &Bytes, kind: RequestKind) -> Option<ResponseHead<ResponseLines>> {
        let mut slots: LineSlots = [const { MaybeUninit::uninit() }; MAX_LINES];
        let mut parsed = httparse::Response::new(&mut []);
        let parsing = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut parsed, head, &mut slots)
            .ok()?;
        let (Some(code), Some(1)) = (parsed.code, parsed.version) else {
            return None;
        };
        let status = StatusCode::from_u16(code).ok()?;
        if parsing.is_partial() || kind.is_switched_by(status) {
            return None;
        }
        // Unrequested, or with fields about its protocol.
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return None;
        }
        let (lines, framing) = Lines::of(head, parsed.headers)?;
        let body = match (framing.chunked, framing.length) {
            _ if kind.is_bodiless(status) => BodyDecoder::Ended,
            (true, _) => BodyDecoder::Chunked(Chunked::default()),
            (false, Some(length)) => BodyDecoder::Length(length),
            (false, None) => BodyDecoder::ToEnd,
        };
        Some(ResponseHead {
            response: ResponseLines {
                status,
                length: framing.length,
                lines,
            },
            close: matches!(body, BodyDecoder::ToEnd),
            body,
        })
    }
}
