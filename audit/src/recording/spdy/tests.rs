//! Tests of SPDY/3.1, and a writer of its frames.

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
            block.extend(fairlead_protocols::spdy::ZLIB_HEAD);
        }
        let mut out = vec![0; 4096];
        let (_, _, written) = compress(&mut self.compressor, &plain, &mut out, TDEFLFlush::Sync);
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
