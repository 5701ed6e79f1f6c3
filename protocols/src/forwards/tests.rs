//! Tests of `forwards`.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, compress, create_comp_flags_from_zip_params,
};

use super::*;
use crate::spdy::ZLIB_HEAD;

/// Writer of the frames of a client, as `spdystream` of Kubernetes writes them.
struct Client {
    compressor: CompressorOxide,
    is_begun: bool,
}

impl Client {
    fn new() -> Self {
        let flags = create_comp_flags_from_zip_params(6, 0, 0);
        Client {
            compressor: CompressorOxide::new(flags),
            is_begun: false,
        }
    }

    fn open(&mut self, stream: u32, kind: &str) -> Vec<u8> {
        let texts = ["port", "80", "requestid", "0", "streamtype", kind];
        let mut plain = 3_u32.to_be_bytes().to_vec();
        for text in texts {
            plain.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            plain.extend(text.as_bytes());
        }
        let mut payload = [&stream.to_be_bytes()[..], &[0; 6]].concat();
        if !std::mem::replace(&mut self.is_begun, true) {
            payload.extend(ZLIB_HEAD);
        }
        let mut out = vec![0; 4096];
        let (_, _, written) = compress(&mut self.compressor, &plain, &mut out, TDEFLFlush::Sync);
        payload.extend(&out[..written]);
        let length = u32::try_from(payload.len()).unwrap();
        [
            &0x8003_0001_u32.to_be_bytes()[..],
            &length.to_be_bytes(),
            &payload,
        ]
        .concat()
    }
}

fn data(stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&stream.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
}

/// Messages of 5 bytes with a mask, and a ping between them.
fn tunnelled(bytes: &[u8], key: [u8; 4]) -> Vec<u8> {
    let mut messages = Vec::new();
    for piece in bytes.chunks(5) {
        let mask = if key == [0; 4] { 0 } else { 0x80 };
        messages.extend([0x82, mask | u8::try_from(piece.len()).unwrap()]);
        if mask != 0 {
            messages.extend(key);
        }
        messages.extend(
            piece
                .iter()
                .zip(key.iter().cycle())
                .map(|(it, key)| it ^ key),
        );
        messages.extend([0x89, 1, b'x']);
    }
    messages
}

/// Bytes of a client that has opened an error stream and a data stream.
pub(crate) fn opened(tunnel: Tunnel) -> Vec<u8> {
    let mut client = Client::new();
    let frames = [
        client.open(1, "error"),
        spdy::last_data(1, b"").unwrap(),
        client.open(3, "data"),
        data(3, b"GET /"),
    ];
    match tunnel {
        Tunnel::Direct => frames.concat(),
        Tunnel::WebSocket => tunnelled(&frames.concat(), [1, 2, 3, 4]),
    }
}

#[test]
fn reason_goes_to_open_error_streams_and_data_streams_are_reset() {
    for tunnel in [Tunnel::Direct, Tunnel::WebSocket] {
        let sent = opened(tunnel);
        for size in [1, 3, 8, 64, 4096] {
            let mut streams = ForwardStreams::new(tunnel);
            assert_eq!(streams.last_frames("ended"), None);
            for piece in sent.chunks(size) {
                streams.follow_client(piece);
            }
            let last = streams.last_frames("ended").unwrap();
            let error = [&[0, 0, 0, 1, 1, 0, 0, 5][..], b"ended"].concat();
            let reset = [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 5];
            assert_eq!(last, [&error[..], &reset].concat(), "{tunnel:?} {size}");
        }
    }
}

#[test]
fn ended_streams_get_nothing() {
    let begun = || {
        let mut streams = ForwardStreams::new(Tunnel::Direct);
        let mut client = Client::new();
        for (stream, kind) in [(1, "error"), (3, "data"), (5, "error"), (7, "data")] {
            streams.follow_client(&client.open(stream, kind));
        }
        streams
    };
    let streams_of =
        |streams: &ForwardStreams| -> Vec<u32> { streams.open.keys().copied().collect() };
    let mut streams = begun();
    assert_eq!(streams_of(&streams), [1, 3, 5, 7]);
    streams.follow_client(&spdy::reset(3));
    streams.follow_server(&spdy::last_data(1, b"gone").unwrap());
    streams.follow_server(&data(7, b"more"));
    assert_eq!(streams_of(&streams), [5, 7]);
    streams.follow_server(&spdy::reset(5));
    assert_eq!(streams_of(&streams), [7]);
    assert_eq!(streams.last_frames("ended"), None);
}

#[test]
fn nothing_begins_within_a_frame_of_the_server() {
    for tunnel in [Tunnel::Direct, Tunnel::WebSocket] {
        let mut streams = ForwardStreams::new(tunnel);
        streams.follow_client(&opened(tunnel));
        let whole = data(3, b"0123456789");
        let carried = match tunnel {
            Tunnel::Direct => whole.clone(),
            Tunnel::WebSocket => tunnelled(&whole, [0; 4]),
        };
        // The second message of the tunnel begins within the frame.
        let (first, rest) = carried.split_at(10);
        streams.follow_server(first);
        assert!(streams.is_within_frame());
        assert_eq!(streams.last_frames("ended"), None);
        streams.follow_server(rest);
        assert!(!streams.is_within_frame());
        assert!(streams.last_frames("ended").is_some());
    }
}

#[test]
fn malformed_frames_of_a_client_end_the_following() {
    let unreadable = [&[0x80, 3, 0, 1, 0, 0, 0, 12][..], &[0; 12]].concat();
    for bytes in [
        &unreadable[..],
        &[0x80, 2, 0, 1, 0, 0, 0, 0],
        &[0x80, 3, 0, 1, 0, 0xff, 0, 0],
        &[0x80, 3, 0, 8, 0, 0, 0, 0],
    ] {
        let mut streams = ForwardStreams::new(Tunnel::Direct);
        streams.follow_client(&opened(Tunnel::Direct));
        streams.follow_client(bytes);
        assert_eq!(streams.last_frames("ended"), None, "{bytes:x?}");
    }
}

#[test]
fn streams_that_are_followed_are_limited() {
    let mut streams = ForwardStreams::new(Tunnel::Direct);
    let mut client = Client::new();
    for stream in 0..1100 {
        streams.follow_client(&client.open(2 * stream + 1, "error"));
    }
    assert_eq!(streams.open.len(), MAX_STREAMS);
    let last = streams.last_frames("x").unwrap();
    assert_eq!(last.len(), MAX_REASONS * (HEAD_BYTES + 1));
}
