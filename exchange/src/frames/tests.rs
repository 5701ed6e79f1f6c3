use super::*;

/// Frames of either end: text, extended lengths of both sizes, masked, without a body.
fn websockets() -> Vec<Vec<u8>> {
    let mut long = vec![0x82, 126, 1, 44];
    long.resize(4 + 300, 0x89);
    let mut longest = vec![0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0];
    longest.resize(10 + 65536, 0);
    vec![
        b"\x81\x02hi".to_vec(),
        vec![0x82, 0],
        long,
        longest,
        b"\x81\x83\x01\x02\x03\x04abc".to_vec(),
    ]
}

/// A SYN_STREAM, data, data without a body, a ping.
fn spdys() -> Vec<Vec<u8>> {
    let mut data = vec![0, 0, 0, 1, 0, 1, 0, 2];
    data.resize(8 + 65538, 0x80);
    vec![
        b"\x80\x03\x00\x01\x01\x00\x00\x03abc".to_vec(),
        data,
        vec![0, 0, 0, 1, 1, 0, 0, 0],
        b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01".to_vec(),
    ]
}

#[test]
fn frame_begins_only_after_the_end_of_another() {
    for (protocol, frames) in [
        (Protocol::WebSocket, websockets()),
        (Protocol::Spdy, spdys()),
    ] {
        let mut said = Frames::new(protocol);
        for frame in &frames {
            for (at, byte) in frame.iter().enumerate() {
                assert!(said.may_begin() == (at == 0), "{:?} at {at}", &frame[..2]);
                said.follow(&[*byte]);
            }
        }
        said.follow(&frames.concat());
        assert!(said.may_begin(), "{protocol:?}");
    }
    let mut said = Frames::new(Protocol::WebSocket);
    said.follow(&[0x88, 2, 3, 232]);
    assert!(!said.may_begin(), "it is closed");
}

#[test]
fn rest_of_a_frame_never_exceeds_it() {
    for (protocol, frames) in [
        (Protocol::WebSocket, websockets()),
        (Protocol::Spdy, spdys()),
    ] {
        for frame in frames {
            let mut said = Frames::new(protocol);
            let mut rest = frame.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(said.rest());
                said.follow(now);
                rest = later;
            }
            assert!(said.may_begin(), "{:?}", &frame[..2]);
        }
    }
}

#[test]
fn ping_is_found_only_at_a_frame_boundary() {
    let ping = b"\x89\x80\x01\x02\x03\x04";
    let before = websockets().concat();
    let said = Frames::new(Protocol::WebSocket);
    let bytes = [&before[..], ping].concat();
    assert_eq!(said.before_ping(&bytes), before.len());
    assert_eq!(said.before_ping(&before), before.len());

    let ping = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01";
    let before = spdys()[..3].concat();
    let said = Frames::new(Protocol::Spdy);
    for known in 1..=ping.len() {
        let bytes = [&before[..], &ping[..known]].concat();
        assert_eq!(said.before_ping(&bytes), before.len(), "{known}");
    }
    // By its first byte, a SETTINGS frame may be a ping.
    assert_eq!(said.before_ping(&[0x80]), 0);
    assert_eq!(said.before_ping(&[0x80, 3, 0, 4]), 4);
}

#[test]
fn ping_is_answered_as_by_its_server() {
    let masked = b"\x89\x83\x01\x02\x03\x04\x60\x60\x60";
    for known in 0..masked.len() {
        assert_eq!(
            Protocol::WebSocket.pong(&masked[..known]),
            Pong::Unknown,
            "{known}"
        );
    }
    assert_eq!(
        Protocol::WebSocket.pong(masked),
        Pong::Whole(b"\x8a\x03abc".to_vec())
    );
    let ping = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07";
    for known in 0..ping.len() {
        assert_eq!(
            Protocol::Spdy.pong(&ping[..known]),
            Pong::Unknown,
            "{known}"
        );
    }
    assert_eq!(Protocol::Spdy.pong(ping), Pong::Whole(ping.to_vec()));
}

#[test]
fn other_frames_have_no_pong() {
    // A pong, an unmasked ping, an oversized ping.
    for frame in [&[0x8a, 0x80][..], &[0x89, 0x00], &[0x89, 0xfe]] {
        assert_eq!(Protocol::WebSocket.pong(frame), Pong::None, "{frame:?}");
    }
    // Another version; a length that no ping has.
    for frame in [
        &b"\x80\x02"[..],
        b"\x80\x03\x00\x06\x00\x00\x00\x08\x00\x00\x00\x01",
    ] {
        assert_eq!(Protocol::Spdy.pong(frame), Pong::None, "{frame:?}");
    }
}

#[test]
fn protocol_is_read_from_the_upgrade_header() {
    let of = |name: &'static str| Protocol::of(&HeaderValue::from_static(name));
    assert_eq!(of("WebSocket"), Some(Protocol::WebSocket));
    assert_eq!(of("spdy/3.1"), Some(Protocol::Spdy));
    assert_eq!(of("SPDY/3"), None);
}
