//! Streams of a remote command over SPDY/3.1, from pieces of its bytes.
//!
//! The client names the type of each stream in the headers of its `SYN_STREAM`. All headers of a direction are one zlib
//! stream. Bytes that Kubernetes' own server could read differently are an error, because a session must not pass unseen.

use std::{collections::BTreeMap, io};

use fairlead_protocols::spdy::{
    HEAD_BYTES, HEADERS_FRAME, Head, HeadKind, HeaderReader, MAX_HEADER_FRAME_BYTES, SPDY_VERSION,
    STREAM_TYPE, SYN_REPLY, SYN_STREAM,
};

use super::frames::{Direction, invalid};

/// Streams of one session; kubectl opens five.
const MAX_STREAMS: usize = 64;
/// Highest type of a control frame: `SETTINGS` is 4, `PING` 6, `GOAWAY` 7, `WINDOW_UPDATE` 9, `CREDENTIAL` 10; 5 was `NOOP`.
const LAST_CONTROL_TYPE: u16 = 10;

/// Reader of both directions of a session.
#[derive(Default)]
pub(crate) struct SpdyStreams {
    to_server: FrameReader,
    to_client: FrameReader,
    headers: HeaderReader,
    /// Channel of each stream that has one, like that of a WebSocket.
    channels: BTreeMap<u32, Option<u8>>,
}

/// Position in the frames of one direction.
#[derive(Default)]
struct FrameReader {
    head: Vec<u8>,
    /// Bytes of the payload that are still to come.
    left: usize,
    frame: Frame,
}

/// Frame whose payload comes.
#[derive(Default)]
enum Frame {
    #[default]
    Skipped,
    Data {
        stream: u32,
    },
    /// Control frame with headers that are gathered.
    WithHeaders {
        kind: u16,
        payload: Vec<u8>,
    },
}

impl SpdyStreams {
    /// Calls `each` with channel and data of each piece.
    ///
    /// # Errors
    /// The bytes are no session of a remote command.
    pub(crate) fn follow(
        &mut self,
        direction: Direction,
        mut bytes: &[u8],
        mut each: impl FnMut(u8, &[u8]),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let reader = match direction {
                Direction::ToServer => &mut self.to_server,
                Direction::ToClient => &mut self.to_client,
            };
            if reader.left == 0 {
                let missing = HEAD_BYTES - reader.head.len();
                let (head, rest) = bytes.split_at(missing.min(bytes.len()));
                reader.head.extend_from_slice(head);
                bytes = rest;
                if reader.head.len() == HEAD_BYTES {
                    reader.read_head(direction)?;
                }
            } else {
                let (payload, rest) = bytes.split_at(reader.left.min(bytes.len()));
                bytes = rest;
                reader.left -= payload.len();
                match &mut reader.frame {
                    Frame::Skipped => {}
                    Frame::Data { stream } => {
                        let channel = self.channels.get(stream).copied();
                        let channel = channel.ok_or_else(|| invalid("data of an unknown stream"));
                        if let Some(channel) = channel? {
                            each(channel, payload);
                        }
                    }
                    Frame::WithHeaders { payload: whole, .. } => whole.extend_from_slice(payload),
                }
            }
            self.end_frame(direction)?;
        }
        Ok(())
    }

    /// Reads the headers of a frame that is complete.
    fn end_frame(&mut self, direction: Direction) -> io::Result<()> {
        let reader = match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        };
        if reader.left > 0 {
            return Ok(());
        }
        let Frame::WithHeaders { kind, payload } = std::mem::take(&mut reader.frame) else {
            return Ok(());
        };
        let fixed = if kind == SYN_STREAM { 10 } else { 4 };
        let (fixed, block) = payload
            .split_at_checked(fixed)
            .ok_or_else(|| invalid("a frame is too short"))?;
        let headers = self.headers.read(block)?;
        if kind != SYN_STREAM {
            return Ok(());
        }
        let stream = fixed.first_chunk().copied().map(u32::from_be_bytes);
        let stream = stream.unwrap_or_default() & 0x7fff_ffff;
        let types = headers.iter().filter(|(name, _)| name == STREAM_TYPE);
        let channel = types.map(|(_, value)| channel_of(value)).next().flatten();
        let is_known = self.channels.insert(stream, channel).is_some();
        if is_known || self.channels.len() > MAX_STREAMS {
            return Err(invalid("a stream was opened twice, or there are too many"));
        }
        Ok(())
    }
}

impl FrameReader {
    fn read_head(&mut self, direction: Direction) -> io::Result<()> {
        let head = std::mem::take(&mut self.head);
        let head = head.as_slice().try_into().map(Head::of);
        let head = head.map_err(|_| invalid("a head is too short"))?;
        self.left = head.length;
        let (version, kind) = match head.kind {
            HeadKind::Data { stream } => {
                self.frame = Frame::Data { stream };
                return Ok(());
            }
            HeadKind::Control { version, number } => (version, number),
        };
        self.frame = match kind {
            _ if version != SPDY_VERSION || kind == 0 || kind > LAST_CONTROL_TYPE => {
                return Err(invalid("a control frame of another protocol"));
            }
            // A server opens no streams, and its replies decide nothing.
            _ if direction == Direction::ToClient => Frame::Skipped,
            SYN_STREAM | SYN_REPLY | HEADERS_FRAME if self.left > MAX_HEADER_FRAME_BYTES => {
                return Err(invalid("a frame with headers is too long"));
            }
            SYN_STREAM | SYN_REPLY | HEADERS_FRAME => Frame::WithHeaders {
                kind,
                payload: Vec::with_capacity(self.left),
            },
            _ => Frame::Skipped,
        };
        Ok(())
    }
}

/// Number of the channel that a WebSocket has for this type of stream.
fn channel_of(kind: &[u8]) -> Option<u8> {
    match kind {
        b"stdin" => Some(0),
        b"stdout" => Some(1),
        b"stderr" => Some(2),
        b"resize" => Some(4),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests;
