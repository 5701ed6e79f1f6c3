use serde_json::json;

use super::*;

fn line(event: &Value) -> Vec<u8> {
    let mut line = event.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": "7"}, "data": {"a": "ä\n"}})
}

/// All events of pieces that arrive one after the other.
fn events(pieces: &[&[u8]]) -> Result<Vec<WatchEvent>, KubeError> {
    let mut buffer = EventBuffer::default();
    let mut events = Vec::new();
    for piece in pieces {
        buffer.push(piece)?;
        while let Some(event) = buffer.next()? {
            events.push(event);
        }
    }
    buffer.finish()?;
    Ok(events)
}

#[test]
fn events_are_the_same_wherever_the_stream_is_cut() {
    let bookmark = json!({"kind": "ConfigMap", "metadata": {
        "resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"},
    }});
    let mut stream = Vec::new();
    stream.extend(line(&json!({"type": "ADDED", "object": config_map("a")})));
    stream.extend(b"\r\n");
    stream.extend(line(&json!({"type": "BOOKMARK", "object": bookmark})));
    stream.extend(line(
        &json!({"type": "MODIFIED", "object": config_map("b")}),
    ));
    stream.extend(line(&json!({"type": "DELETED", "object": config_map("a")})));
    let expected = vec![
        WatchEvent::Added(config_map("a")),
        WatchEvent::Bookmark {
            resource_version: "9".to_owned(),
            initial_end: true,
        },
        WatchEvent::Modified(config_map("b")),
        WatchEvent::Deleted(config_map("a")),
    ];
    for cut in 0..=stream.len() {
        let (first, second) = stream.split_at(cut);
        assert_eq!(events(&[first, second]).unwrap(), expected, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(events(&bytes).unwrap(), expected);
}

#[test]
fn bookmark_without_the_annotation_is_no_end_of_the_initial_objects() {
    let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}});
    let expected = WatchEvent::Bookmark {
        resource_version: "9".to_owned(),
        initial_end: false,
    };
    assert_eq!(events(&[&line(&bookmark)]).unwrap(), [expected]);
}

#[test]
fn error_event_has_the_status_of_its_object() {
    let error = |object: Value| {
        let event = json!({"type": "ERROR", "object": object});
        events(&[&line(&event)]).unwrap_err()
    };
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    assert_eq!(error(expired).status(), Some(410));
    for odd in [json!({}), json!({"code": 70_000}), json!("x")] {
        assert_eq!(error(odd).status(), Some(500));
    }
}

#[test]
fn garbage_ends_the_watch() {
    for garbage in [
        &b"<html>\n"[..],
        b"{\"type\": \"ADDED\"\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"{\"type\": \"ADOPTED\", \"object\": {}}\n",
        b"{\"type\": 1}\n",
        b"1 2\n",
    ] {
        let text = String::from_utf8_lossy(garbage);
        assert!(events(&[garbage]).is_err(), "{text}");
    }
}

#[test]
fn event_without_its_object_ends_the_watch() {
    for event in [
        json!({"type": "ADDED"}),
        json!({"type": "DELETED", "object": null}),
    ] {
        assert!(events(&[&line(&event)]).is_err(), "{event}");
    }
}

#[test]
fn end_within_an_event_is_no_clean_end() {
    let whole = line(&json!({"type": "ADDED", "object": config_map("a")}));
    let (half, _) = whole.split_at(20);
    assert!(events(&[half]).is_err());
    assert!(events(&[&whole, half]).is_err());
    assert!(events(&[&whole, b" \r"]).is_ok());
}

#[test]
fn event_has_a_limit() {
    let piece = vec![b'x'; MAX_EVENT_BYTES / 2];
    assert!(events(&[&piece, &piece, b"x"]).is_err());
    let mut end = vec![b'x'; MAX_EVENT_BYTES / 2];
    end.push(b'\n');
    assert!(events(&[&piece, &piece, &end]).is_err());
}
