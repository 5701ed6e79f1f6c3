//! Tests of `farewell`.

use fairlead_api::Code;

use super::*;

fn farewell(
    kind: RequestKind,
    protocol: &'static str,
    name: &'static str,
    of: &'static str,
) -> Farewell {
    let mut answer = HeaderMap::new();
    answer.insert(name, HeaderValue::from_static(of));
    let query = Some("pretty=1&ports=80,81&ports=7");
    Farewell::of(kind, query, &HeaderValue::from_static(protocol), &answer)
}

fn message(farewell: Farewell, failure: &Failure) -> Vec<u8> {
    let last = farewell.bytes(failure, None).unwrap();
    assert_eq!(last.close, None);
    last.message
}

#[test]
fn form_follows_from_the_subprotocol() {
    let websocket = |kind, of| farewell(kind, "websocket", "sec-websocket-protocol", of);
    let spdy = |kind, of| farewell(kind, "SPDY/3.1", "x-stream-protocol-version", of);
    use RequestKind::{Attach, Exec, Other, PortForward};
    assert_eq!(websocket(Exec, "v5.channel.k8s.io"), Farewell::Channels);
    assert_eq!(websocket(Attach, "v4.channel.k8s.io"), Farewell::Channels);
    assert_eq!(websocket(Exec, "base64.channel.k8s.io"), Farewell::Close);
    assert_eq!(
        websocket(PortForward, "SPDY/3.1+portforward.k8s.io"),
        Farewell::ForwardStreams(Tunnel::WebSocket)
    );
    assert_eq!(
        websocket(PortForward, "v4.channel.k8s.io"),
        Farewell::ForwardChannels { ports: 3 }
    );
    assert_eq!(
        websocket(PortForward, "v4.base64.channel.k8s.io"),
        Farewell::Close
    );
    assert_eq!(websocket(Other, "v4.channel.k8s.io"), Farewell::Close);
    assert_eq!(spdy(Exec, "v4.channel.k8s.io"), Farewell::SpdyErrorStream);
    assert_eq!(spdy(Exec, "v1.channel.k8s.io"), Farewell::Reset);
    assert_eq!(
        spdy(PortForward, "portforward.k8s.io"),
        Farewell::ForwardStreams(Tunnel::Direct)
    );
    assert_eq!(spdy(Other, "portforward.k8s.io"), Farewell::Reset);
}

#[test]
fn status_goes_to_the_error_channel_before_a_normal_close() {
    let failure = Failure::new(Code::AccessEnded);
    let bytes = message(Farewell::Channels, &failure);
    let status = status::status_json(&failure);
    let [0x82, 126, high, low, 3, rest @ ..] = &bytes[..] else {
        panic!("{bytes:x?}");
    };
    assert_eq!(
        usize::from(u16::from_be_bytes([*high, *low])),
        status.len() + 1
    );
    let (body, close) = rest.split_at(status.len());
    assert_eq!(body, status);
    assert_eq!(close, [0x88, 2, 0x03, 0xe8]);
}

#[test]
fn close_has_a_reason_of_limited_length() {
    let failure = Failure::because(Code::AccessEnded, "\u{20ac}".repeat(100));
    let bytes = message(Farewell::Close, &failure);
    let [0x88, length, 0x03, 0xf0, reason @ ..] = &bytes[..] else {
        panic!("{bytes:x?}");
    };
    assert_eq!(usize::from(*length), reason.len() + 2);
    assert!(reason.len() <= MAX_REASON_BYTES);
    assert!(std::str::from_utf8(reason).is_ok());
}

#[test]
fn spdy_error_stream_ends_with_the_status() {
    let failure = Failure::new(Code::AccessEnded);
    let bytes = message(Farewell::SpdyErrorStream, &failure);
    let [0, 0, 0, 1, 1, a, b, c, body @ ..] = &bytes[..] else {
        panic!("{bytes:x?}");
    };
    assert_eq!(u32::from_be_bytes([0, *a, *b, *c]) as usize, body.len());
    assert_eq!(body, status::status_json(&failure));
}

#[test]
fn each_port_gets_the_reason_on_its_error_channel() {
    let failure = Failure::new(Code::AccessEnded);
    let bytes = message(Farewell::ForwardChannels { ports: 2 }, &failure);
    let reason = status::sentence(&failure);
    let length = u8::try_from(reason.len() + 1).unwrap();
    let frame = |channel| [&[0x82, 126, 0, length, channel][..], reason.as_bytes()].concat();
    let expected = [frame(1), frame(3), message(Farewell::Close, &failure)].concat();
    assert_eq!(bytes, expected);
}

#[test]
fn open_error_streams_get_the_reason_before_the_close() {
    let failure = Failure::new(Code::AccessEnded);
    for (tunnel, close) in [
        (Tunnel::Direct, Vec::new()),
        (Tunnel::WebSocket, message(Farewell::Close, &failure)),
    ] {
        let form = Farewell::ForwardStreams(tunnel);
        let mut streams = form.streams().unwrap();
        let idle = form.bytes(&failure, Some(&streams));
        assert_eq!(idle.is_some(), tunnel == Tunnel::WebSocket);
        let opened = crate::forwards::tests::opened(tunnel);
        streams.follow_client(&opened);
        let last = form.bytes(&failure, Some(&streams)).unwrap();
        let reason = status::sentence(&failure);
        assert!(
            last.message
                .windows(reason.len())
                .any(|it| it == reason.as_bytes())
        );
        assert_eq!(last.close, Some(close));
    }
}
