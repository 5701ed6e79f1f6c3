//! Tests of `ending`.

use fairlead_api::Code;
use http::HeaderValue;

use super::*;

fn format(kind: RequestKind, content_type: &'static str) -> StreamFormat {
    let mut response = Response::new(());
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    StreamFormat::of(kind, &response)
}

#[test]
fn json_event_begins_on_a_line_of_its_own() {
    let mut json = format(RequestKind::Watch, "application/json");
    assert!(json.is_at_boundary());
    json.follow(b"{\"type\":");
    assert!(!json.is_at_boundary());
    json.follow(b"\"ADDED\"}\n");
    assert!(json.is_at_boundary());
    let last = json.last_message(&Code::AccessEnded.into()).unwrap();
    assert!(last.starts_with(b"{\"type\":\"ERROR\"") && last.ends_with(b"}\n"));
    assert!(!json.breaks());
}

#[test]
fn protobuf_event_follows_a_whole_one() {
    let mut protobuf = format(
        RequestKind::Watch,
        "application/vnd.kubernetes.protobuf;stream=watch",
    );
    for (data, at_boundary) in [
        (&b"\0\0"[..], false),
        (b"\0\x03ab", false),
        (b"c", true),
        (b"\0\0\0\0", true),
        (b"\0\0\0\x01x\0\0\0\x01", false),
        (b"y", true),
    ] {
        protobuf.follow(data);
        assert_eq!(protobuf.is_at_boundary(), at_boundary, "{data:?}");
    }
}

#[test]
fn cbor_event_follows_a_whole_one() {
    let mut cbor = format(RequestKind::Watch, "application/cbor-seq");
    assert!(cbor.is_at_boundary());
    cbor.follow(&[0xd9, 0xd9, 0xf7, 0xa1]);
    assert!(!cbor.is_at_boundary());
    cbor.follow(&[0x44, b't', b'y', b'p', b'e', 0x40]);
    assert!(cbor.is_at_boundary());
    let last = cbor.last_message(&Code::AccessEnded.into()).unwrap();
    assert!(last.starts_with(&[0xd9, 0xd9, 0xf7, 0xa2]));
    assert!(last.windows(7).any(|it| it == b"FL-1205"));
    assert!(!cbor.breaks());
}

#[test]
fn server_sent_event_follows_an_empty_line() {
    let mut events = format(RequestKind::Other, "text/event-stream");
    assert!(events.is_at_boundary());
    events.follow(b"data: x\n");
    assert!(!events.is_at_boundary());
    events.follow(b"\n");
    assert!(events.is_at_boundary());
    let last = events.last_message(&Code::Locked.into()).unwrap();
    let last = std::str::from_utf8(&last).unwrap();
    assert!(last.starts_with("event: error\ndata: {") && last.ends_with("}\n\n"));
    assert!(last.contains("FL-1203"), "{last}");
}

#[test]
fn log_ends_with_a_line_and_breaks() {
    let mut log = format(RequestKind::Log, "text/plain");
    log.follow(b"half a line");
    let last = log.last_message(&Code::AccessEnded.into()).unwrap();
    assert!(last.starts_with(b"\nfairlead: ") && last.ends_with(b"(FL-1205)\n"));
    assert!(log.breaks());
}

#[test]
fn other_answers_can_only_break() {
    for (kind, content_type) in [
        (RequestKind::Other, "application/json"),
        (RequestKind::Watch, "application/yaml"),
    ] {
        let other = format(kind, content_type);
        assert!(other.last_message(&Code::AccessEnded.into()).is_none());
        assert!(other.breaks());
    }
}
