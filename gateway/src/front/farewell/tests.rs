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
    Farewell::of(kind, &HeaderValue::from_static(protocol), &answer)
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
        Farewell::Close
    );
    assert_eq!(websocket(Other, "v4.channel.k8s.io"), Farewell::Close);
    assert_eq!(spdy(Exec, "v4.channel.k8s.io"), Farewell::SpdyErrorStream);
    assert_eq!(spdy(Exec, "v1.channel.k8s.io"), Farewell::Reset);
    assert_eq!(spdy(PortForward, "portforward.k8s.io"), Farewell::Reset);
}

#[test]
fn status_goes_to_the_error_channel_before_a_normal_close() {
    let failure = Failure::new(Code::AccessEnded);
    let bytes = Farewell::Channels.bytes(&failure).unwrap();
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
    let bytes = Farewell::Close.bytes(&failure).unwrap();
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
    let bytes = Farewell::SpdyErrorStream.bytes(&failure).unwrap();
    let [0, 0, 0, 1, 1, a, b, c, body @ ..] = &bytes[..] else {
        panic!("{bytes:x?}");
    };
    assert_eq!(u32::from_be_bytes([0, *a, *b, *c]) as usize, body.len());
    assert_eq!(body, status::status_json(&failure));
}
