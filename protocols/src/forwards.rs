//! Open streams of a port-forward over SPDY/3.1, so that the hub can send its reason on the error streams.
//!
//! kubectl opens an error stream and a data stream per local connection. It prints a message on the error stream once the
//! data stream has ended.

mod carrier;

use std::collections::BTreeMap;

use crate::spdy::{
    self, HEAD_BYTES, HEADERS_FRAME, Head, HeadKind, HeaderReader, MAX_HEADER_FRAME_BYTES,
    RST_STREAM, STREAM_TYPE, SYN_REPLY, SYN_STREAM,
};
use carrier::{Carrier, Key};

/// Maximum number of streams that are followed.
const MAX_STREAMS: usize = 1024;
/// Maximum number of error streams that get the reason: kubectl ends after the first.
const MAX_REASONS: usize = 16;

/// Carrier of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tunnel {
    /// None: the frames follow each other on the connection.
    Direct,
    /// Binary messages of a WebSocket (KEP-4006).
    WebSocket,
}

/// Type of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamType {
    Error,
    Data,
}

/// Open streams, from the bytes of both directions.
pub struct ForwardStreams {
    to_server: Direction,
    to_client: Direction,
    headers: HeaderReader,
    open: BTreeMap<u32, StreamType>,
    /// The client's frames are malformed: its streams are unknown.
    is_lost: bool,
}

struct Direction {
    carrier: Carrier,
    frames: FrameReader,
}

/// Position in the frames of one direction.
#[derive(Default)]
struct FrameReader {
    head: Vec<u8>,
    /// Bytes of the payload that are still to come.
    left: usize,
    /// Type and payload of a control frame that is read.
    control: Option<(u16, Vec<u8>)>,
}

enum FrameEvent {
    /// Complete control frame.
    Control(u16, Vec<u8>),
    /// Head of the last data of a stream.
    LastData(u32),
    Malformed,
}

impl ForwardStreams {
    /// No streams yet.
    #[must_use]
    pub fn new(tunnel: Tunnel) -> Self {
        let direction = || Direction {
            carrier: Carrier::new(tunnel),
            frames: FrameReader::default(),
        };
        ForwardStreams {
            to_server: direction(),
            to_client: direction(),
            headers: HeaderReader::default(),
            open: BTreeMap::new(),
            is_lost: false,
        }
    }

    /// Advances by bytes of the client.
    pub fn follow_client(&mut self, bytes: &[u8]) {
        if self.is_lost {
            return;
        }
        let Direction { carrier, frames } = &mut self.to_server;
        let (headers, open) = (&mut self.headers, &mut self.open);
        let mut is_good = true;
        carrier.follow(bytes, |payload, key| {
            frames.follow(payload, key, |event| match event {
                FrameEvent::Control(RST_STREAM, payload) => {
                    stream_of(&payload).map(|it| open.remove(&it));
                }
                FrameEvent::Control(number, payload) => {
                    let begun = begun(headers, number, &payload);
                    is_good &= begun.is_some();
                    if let Some(Some((stream, kind))) = begun
                        && open.len() < MAX_STREAMS
                    {
                        open.insert(stream, kind);
                    }
                }
                // The client ends its error streams at once.
                FrameEvent::LastData(_) => {}
                FrameEvent::Malformed => is_good = false,
            });
        });
        self.is_lost = !is_good;
    }

    /// Advances by bytes of the server.
    pub fn follow_server(&mut self, bytes: &[u8]) {
        let Direction { carrier, frames } = &mut self.to_client;
        let (open, is_lost) = (&mut self.open, &mut self.is_lost);
        carrier.follow(bytes, |payload, key| {
            frames.follow(payload, key, |event| match event {
                FrameEvent::Control(RST_STREAM, payload) => {
                    stream_of(&payload).map(|it| open.remove(&it));
                }
                FrameEvent::Control(..) => {}
                FrameEvent::LastData(stream) => {
                    open.remove(&stream);
                }
                FrameEvent::Malformed => *is_lost = true,
            });
        });
    }

    /// True within a frame of the server.
    #[must_use]
    pub fn is_within_frame(&self) -> bool {
        let frames = &self.to_client.frames;
        !self.is_lost && (frames.left > 0 || !frames.head.is_empty())
    }

    /// Frames that end the streams with the reason; `None` if no error stream is open, or within a frame of the server.
    #[must_use]
    pub fn last_frames(&self, reason: &str) -> Option<Vec<u8>> {
        if self.is_lost || self.is_within_frame() {
            return None;
        }
        let of = |kind| {
            let open = self.open.iter().filter(move |it| *it.1 == kind);
            open.map(|(stream, _)| *stream)
        };
        let errors = of(StreamType::Error).take(MAX_REASONS);
        let mut frames: Vec<u8> = errors
            .filter_map(|it| spdy::last_data(it, reason.as_bytes()))
            .flatten()
            .collect();
        let has_reason = !frames.is_empty();
        frames.extend(of(StreamType::Data).flat_map(spdy::reset));
        has_reason.then_some(frames)
    }
}

/// The stream that a control frame opens, if any; `None` if its headers cannot be read.
fn begun(
    headers: &mut HeaderReader,
    number: u16,
    payload: &[u8],
) -> Option<Option<(u32, StreamType)>> {
    let fixed = if number == SYN_STREAM { 10 } else { 4 };
    let (_, block) = payload.split_at_checked(fixed)?;
    let headers = headers.read(block).ok()?;
    if number != SYN_STREAM {
        return Some(None);
    }
    let kind = headers.iter().find(|(name, _)| name == STREAM_TYPE);
    let kind = match kind.map(|(_, value)| value.as_slice()) {
        Some(b"error") => StreamType::Error,
        Some(b"data") => StreamType::Data,
        _ => return Some(None),
    };
    Some(Some((stream_of(payload)?, kind)))
}

/// Number of the stream, which comes first.
fn stream_of(payload: &[u8]) -> Option<u32> {
    let number = payload.first_chunk().copied().map(u32::from_be_bytes);
    number.map(|it| it & 0x7fff_ffff)
}

impl FrameReader {
    fn follow(&mut self, mut bytes: &[u8], key: Key, mut each: impl FnMut(FrameEvent)) {
        let mut key = key;
        while !bytes.is_empty() {
            if self.left == 0 {
                let missing = HEAD_BYTES - self.head.len();
                let (head, rest) = bytes.split_at(missing.min(bytes.len()));
                self.head.extend(key.open(head));
                bytes = rest;
                if let Ok(head) = self.head.as_slice().try_into() {
                    self.head.clear();
                    self.begin(Head::of(head), &mut each);
                }
            } else {
                let (payload, rest) = bytes.split_at(self.left.min(bytes.len()));
                bytes = rest;
                self.left -= payload.len();
                match &mut self.control {
                    Some((_, whole)) => whole.extend(key.open(payload)),
                    None => key.skip(payload.len()),
                }
            }
            if self.left == 0
                && let Some((number, payload)) = self.control.take()
            {
                each(FrameEvent::Control(number, payload));
            }
        }
    }

    fn begin(&mut self, head: Head, each: &mut impl FnMut(FrameEvent)) {
        self.left = head.length;
        match head.kind {
            HeadKind::Data { stream } if head.is_last => each(FrameEvent::LastData(stream)),
            HeadKind::Data { .. } => {}
            HeadKind::Control { version, .. } if version != spdy::SPDY_VERSION => {
                each(FrameEvent::Malformed);
            }
            HeadKind::Control { number, .. } => match number {
                SYN_STREAM | SYN_REPLY | RST_STREAM | HEADERS_FRAME
                    if head.length <= MAX_HEADER_FRAME_BYTES =>
                {
                    self.control = Some((number, Vec::new()));
                }
                SYN_STREAM | SYN_REPLY | RST_STREAM | HEADERS_FRAME => each(FrameEvent::Malformed),
                _ => {}
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
