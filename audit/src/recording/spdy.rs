//! Streams of a remote command over SPDY/3.1, from pieces of its bytes.
//!
//! The client names the type of each stream in the headers of its `SYN_STREAM`. All headers of a direction are one zlib
//! stream. Bytes that Kubernetes' own server could read differently are an error, because a session must not pass unseen.

mod headers;

use std::{collections::BTreeMap, io};

use super::frames::Direction;
use headers::HeaderReader;

/// Length of the head of each frame in bytes.
const HEAD_BYTES: usize = 8;
/// Limit of one frame with headers in bytes, compressed; those of kubectl have about 100.
const MAX_HEADER_FRAME_BYTES: usize = 16 << 10;
/// Streams of one session; kubectl opens five.
const MAX_STREAMS: usize = 64;
/// Version of the frames of SPDY/3.1.
const SPDY_VERSION: u16 = 3;
const STREAM_TYPE: &[u8] = b"streamtype";

/// Types of control frames.
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const HEADERS_FRAME: u16 = 8;
/// `SETTINGS` is 4, `PING` 6, `GOAWAY` 7, `WINDOW_UPDATE` 9, `CREDENTIAL` 10; 5 was `NOOP`.
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
        let (Some(&first), Some(&[_, high, middle, low])) =
            (head.first_chunk::<4>(), head.last_chunk::<4>())
        else {
            return Err(invalid("a head is too short"));
        };
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.left = usize::try_from(length).unwrap_or(usize::MAX);
        let word = u32::from_be_bytes(first);
        if word >> 31 == 0 {
            self.frame = Frame::Data { stream: word };
            return Ok(());
        }
        let [version_high, version_low, kind_high, kind_low] = first;
        let version = u16::from_be_bytes([version_high & 0x7f, version_low]);
        let kind = u16::from_be_bytes([kind_high, kind_low]);
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

fn invalid(cause: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

#[cfg(test)]
pub(super) mod tests {
    use miniz_oxide::deflate::core::{
        CompressorOxide, TDEFLFlush, compress, create_comp_flags_from_zip_params,
    };

    use super::*;

    /// Writer of the frames of a client, as `spdystream` of Kubernetes writes them.
    pub(crate) struct Client {
        compressor: CompressorOxide,
        is_begun: bool,
    }

    impl Client {
        pub(crate) fn new() -> Self {
            let flags = create_comp_flags_from_zip_params(6, 0, 0);
            Client {
                compressor: CompressorOxide::new(flags),
                is_begun: false,
            }
        }

        fn block(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
            let mut plain = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
            for text in headers.iter().flat_map(|(name, value)| [name, value]) {
                plain.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                plain.extend(text.as_bytes());
            }
            let mut block = Vec::new();
            if !std::mem::replace(&mut self.is_begun, true) {
                block.extend(headers::ZLIB_HEAD);
            }
            let mut out = vec![0; 4096];
            let (_, _, written) =
                compress(&mut self.compressor, &plain, &mut out, TDEFLFlush::Sync);
            block.extend(&out[..written]);
            block
        }

        pub(crate) fn open(&mut self, stream: u32, kind: &str) -> Vec<u8> {
            let block = self.block(&[("streamtype", kind), ("x-padding", "streamtype")]);
            let payload = [&stream.to_be_bytes()[..], &[0; 6], &block].concat();
            control(SYN_STREAM, &payload)
        }
    }

    fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
        let head = 0x8003_0000 | u32::from(kind);
        let length = u32::try_from(payload.len()).unwrap();
        [&head.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
    }

    pub(crate) fn data(stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap();
        [&stream.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
    }

    fn pieces(
        streams: &mut SpdyStreams,
        direction: Direction,
        bytes: &[u8],
        size: usize,
    ) -> io::Result<BTreeMap<u8, String>> {
        let mut found = BTreeMap::<u8, String>::new();
        for piece in bytes.chunks(size) {
            streams.follow(direction, piece, |channel, data| {
                let text = std::str::from_utf8(data).unwrap();
                found.entry(channel).or_default().push_str(text);
            })?;
        }
        Ok(found)
    }

    #[test]
    fn streams_are_told_apart_by_their_headers_in_pieces_of_any_size() {
        for size in [1, 2, 7, 8, 9, 64, 4096] {
            let (mut client, mut streams) = (Client::new(), SpdyStreams::default());
            let mut sent = client.open(1, "error");
            sent.extend(client.open(3, "stdin"));
            sent.extend(control(6, &[0, 0, 0, 1]));
            sent.extend(client.open(5, "stdout"));
            sent.extend(client.open(7, "stderr"));
            sent.extend(client.open(9, "resize"));
            sent.extend(data(3, b"ls\n"));
            sent.extend(data(9, b"{\"Width\":80}"));
            let found = pieces(&mut streams, Direction::ToServer, &sent, size).unwrap();
            assert_eq!(found[&0], "ls\n", "{size}");
            assert_eq!(found[&4], "{\"Width\":80}", "{size}");
            let mut answer = control(SYN_REPLY, &[1; 20]);
            answer.extend(data(5, b"out"));
            answer.extend(data(1, b"status"));
            answer.extend(data(7, b"err"));
            answer.extend(data(5, b""));
            answer.extend(data(5, b"put"));
            let found = pieces(&mut streams, Direction::ToClient, &answer, size).unwrap();
            assert_eq!(found.len(), 2, "{size}");
            assert_eq!((&*found[&1], &*found[&2]), ("output", "err"), "{size}");
        }
    }

    #[test]
    fn sessions_that_cannot_be_followed_are_errors() {
        let begun = || {
            let (mut client, mut streams) = (Client::new(), SpdyStreams::default());
            let opened = client.open(1, "stdout");
            streams
                .follow(Direction::ToServer, &opened, |_, _| {})
                .unwrap();
            (client, streams)
        };
        let (mut client, mut streams) = begun();
        for bytes in [
            data(3, b"x"),
            client.open(1, "stdout"),
            control(11, b""),
            [0x80, 2, 0, 6, 0, 0, 0, 0].to_vec(),
            [0x80, 3, 0, 1, 0, 0xff, 0, 0].to_vec(),
            control(SYN_STREAM, &[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7]),
            control(HEADERS_FRAME, &[0]),
        ] {
            let followed = streams.follow(Direction::ToServer, &bytes, |_, _| {});
            assert!(followed.is_err(), "{bytes:?}");
            (client, streams) = begun();
        }
        // A second header block behind the first: the server would take it for that of the next stream.
        let two = client.block(&[("streamtype", "error")]);
        let two = [two, client.block(&[("streamtype", "stdout")])].concat();
        let payload = [&5_u32.to_be_bytes()[..], &[0; 6], &two].concat();
        let smuggled = control(SYN_STREAM, &payload);
        let followed = streams.follow(Direction::ToServer, &smuggled, |_, _| {});
        assert!(followed.is_err());
    }
}
