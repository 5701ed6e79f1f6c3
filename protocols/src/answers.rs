//! Last message of a streamed answer that the hub ends: an event of a watch, or a line of a log.
//!
//! The message goes between two messages of the server, which are followed for that and not changed.

use bytes::Bytes;
use fairlead_api::{Failure, Reason, resources::RequestKind, status};
use http::{Response, StatusCode, header};

use crate::cbor::{self, CborSequence};

/// Content type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";

/// Position in a streamed answer, by its format.
#[derive(Debug)]
pub enum StreamFormat {
    /// Events of a watch as JSON, one per line.
    JsonEvents {
        /// Content type of the answer.
        content_type: String,
        /// Last byte so far.
        last: u8,
    },
    /// Events of a watch as protobuf, each after its length.
    ProtobufEvents {
        /// Content type of the answer.
        content_type: String,
        /// Position in the events.
        frames: LengthFrames,
    },
    /// Events of a watch as a sequence of CBOR items.
    CborEvents(CborEvents),
    /// Server-sent events, with an empty line after each.
    ServerSentEvents {
        /// Last two bytes so far.
        last: [u8; 2],
    },
    /// Lines of a log.
    Log {
        /// Last byte so far.
        last: u8,
    },
    /// No message can be added.
    Opaque,
}

/// Position in a watch as CBOR.
#[derive(Debug, Default)]
pub struct CborEvents(CborSequence);

/// Position in messages of which each begins with its length, 32 bits in network order.
#[derive(Debug, Default)]
pub struct LengthFrames {
    head: [u8; 4],
    known: usize,
    body: u64,
}

impl LengthFrames {
    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.body > 0 {
                let now = usize::try_from(self.body).map_or(bytes.len(), |it| it.min(bytes.len()));
                self.body -= now as u64;
                bytes = bytes.get(now..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.head.get_mut(self.known) {
                *place = first;
                self.known += 1;
            }
            if self.known == self.head.len() {
                self.known = 0;
                self.body = u32::from_be_bytes(self.head).into();
            }
            bytes = rest;
        }
    }
}

impl StreamFormat {
    /// The format of an answer to a request of this kind.
    #[must_use]
    pub fn of<B>(kind: RequestKind, response: &Response<B>) -> Self {
        if response.status() != StatusCode::OK {
            return StreamFormat::Opaque;
        }
        let mut content_type = None;
        for (name, value) in response.headers() {
            if *name == header::CONTENT_ENCODING || *name == header::CONTENT_LENGTH {
                return StreamFormat::Opaque;
            }
            if *name == header::CONTENT_TYPE {
                content_type = content_type.or(Some(value));
            }
        }
        let content_type = content_type.and_then(|it| it.to_str().ok());
        let content_type = content_type.unwrap_or_default();
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match (kind, media) {
            (_, EVENT_STREAM) => StreamFormat::ServerSentEvents { last: *b"\n\n" },
            (RequestKind::Watch, "application/json") => StreamFormat::JsonEvents {
                content_type: content_type.to_owned(),
                last: b'\n',
            },
            (RequestKind::Watch, "application/vnd.kubernetes.protobuf") => {
                StreamFormat::ProtobufEvents {
                    content_type: content_type.to_owned(),
                    frames: LengthFrames::default(),
                }
            }
            (RequestKind::Watch, "application/cbor-seq") => {
                StreamFormat::CborEvents(CborEvents::default())
            }
            (RequestKind::Log, "text/plain") => StreamFormat::Log { last: b'\n' },
            _ => StreamFormat::Opaque,
        }
    }

    /// Advances by data of the server.
    pub fn follow(&mut self, data: &[u8]) {
        match self {
            StreamFormat::JsonEvents { last, .. } | StreamFormat::Log { last } => {
                *last = data.last().copied().unwrap_or(*last);
            }
            StreamFormat::ProtobufEvents { frames, .. } => frames.follow(data),
            StreamFormat::CborEvents(CborEvents(sequence)) => sequence.follow(data),
            StreamFormat::ServerSentEvents { last } => match data {
                [.., one, two] => *last = [*one, *two],
                [one] => *last = [last[1], *one],
                [] => {}
            },
            StreamFormat::Opaque => {}
        }
    }

    /// True between two messages of the server.
    #[must_use]
    pub fn is_at_boundary(&self) -> bool {
        match self {
            StreamFormat::JsonEvents { last, .. } => *last == b'\n',
            StreamFormat::ProtobufEvents { frames, .. } => frames.known == 0 && frames.body == 0,
            StreamFormat::CborEvents(CborEvents(sequence)) => sequence.is_at_boundary(),
            StreamFormat::ServerSentEvents { last } => last == b"\n\n",
            StreamFormat::Log { .. } | StreamFormat::Opaque => true,
        }
    }

    /// The last message; `None` if the answer can only break.
    #[must_use]
    pub fn last_message(&self, failure: &Failure) -> Option<Bytes> {
        match self {
            StreamFormat::JsonEvents { content_type, .. }
            | StreamFormat::ProtobufEvents { content_type, .. } => {
                status::watch_error(content_type, failure).map(Bytes::from)
            }
            StreamFormat::CborEvents(_) => {
                cbor::watch_error(&status::status_json(failure)).map(Bytes::from)
            }
            StreamFormat::ServerSentEvents { .. } => {
                let mut event = b"event: error\ndata: ".to_vec();
                event.extend_from_slice(Reason::from(failure).to_json().as_ref());
                event.extend_from_slice(b"\n\n");
                Some(event.into())
            }
            StreamFormat::Log { last } => {
                let start = if *last == b'\n' { "" } else { "\n" };
                let line = format!("{start}fairlead: {}\n", status::sentence(failure));
                Some(line.into())
            }
            StreamFormat::Opaque => None,
        }
    }

    /// True if the answer breaks after its last message: a log has no other form of an error.
    #[must_use]
    pub fn breaks(&self) -> bool {
        matches!(self, StreamFormat::Log { .. } | StreamFormat::Opaque)
    }
}

#[cfg(test)]
mod tests;
