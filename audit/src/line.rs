//! Encoding of events, as they wait for the writer: everything behind the member `seq`, which only the writer knows.
//!
//! A request's event is encoded without values in between, where the request ends. Its bytes are those of
//! [`AuditEvent`]'s serialization.

use std::{
    cell::Cell,
    net::SocketAddr,
    ops::Range,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fairlead_runtime::plain_text::is_unescaped;
use serde::Serialize;
use time::OffsetDateTime;

use crate::{
    event::{
        AuditEvent, CallerNames, Decision, EVENT_VERSION, EventKind, RequestHead, RequestParty,
        RequestResult, decision,
    },
    request_info::{MAX_PATH_BYTES, ResourceParts, cut, decoded, harmless_query, verb_of},
};

/// Memory that an empty list of lines keeps, in bytes.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// Encoded events in their order.
#[derive(Debug, Default)]
pub(crate) struct EncodedEvents {
    bytes: Vec<u8>,
    /// End of each event in `bytes`.
    ends: Vec<usize>,
}

impl EncodedEvents {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Size of the encoded events in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push(&mut self, encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
        self.ends.push(self.bytes.len());
    }

    /// Encodes a documented event.
    pub(crate) fn push_event(&mut self, event: AuditEvent) {
        encode_event(event, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| {
            let encoded = self.bytes.get(begin..end).unwrap_or_default();
            begin = end;
            encoded
        })
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        if self.bytes.capacity() > MAX_KEPT_BYTES {
            *self = EncodedEvents::default();
        }
    }
}

/// Appends the members of a line before its encoded event.
pub(crate) fn begin_line(seq: u64, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"v\":");
    integer(u64::from(EVENT_VERSION), to);
    to.extend_from_slice(b",\"seq\":");
    integer(seq, to);
    to.push(b',');
}

/// Encodes an event, without its version, number and hash, and without the closing brace.
pub(crate) fn encode_event(mut event: AuditEvent, to: &mut Vec<u8>) {
    (event.v, event.seq, event.hash) = (EVENT_VERSION, 0, None);
    let begin = to.len();
    let mut head = Vec::new();
    begin_line(0, &mut head);
    // Only a failing writer causes an error, and a vector never fails.
    let _ = event.serialize(&mut serde_json::Serializer::new(&mut *to));
    to.pop(); // the closing brace
    to.drain(begin..(begin + head.len()).min(to.len()));
}

/// Encodes the event of a request, as [`encode_event`]. Returns the part that the other event of the request has as well.
pub(crate) fn encode_request(
    at: SystemTime,
    hub: &str,
    head: &RequestHead<'_>,
    party: &RequestParty<'_>,
    result: Option<&RequestResult>,
    to: &mut Vec<u8>,
) -> Range<usize> {
    encode_begin(at, hub, party.kind, result.is_some(), to);
    let begin = to.len();
    encode_common(head, party, to);
    let common = begin..to.len();
    encode_result(result, to);
    common
}

/// Encodes the end of a request whose start had this common part.
pub(crate) fn encode_end(
    at: SystemTime,
    hub: &str,
    common: &[u8],
    result: &RequestResult,
    to: &mut Vec<u8>,
) {
    encode_begin(at, hub, EventKind::Request, true, to);
    to.extend_from_slice(common);
    encode_result(Some(result), to);
}

/// Members before the common part.
fn encode_begin(at: SystemTime, hub: &str, kind: EventKind, is_end: bool, to: &mut Vec<u8>) {
    to.extend_from_slice(b"\"at\":\"");
    moment(at, to);
    to.extend_from_slice(match kind {
        EventKind::BreakGlass => b"\",\"kind\":\"break-glass\"",
        EventKind::Forwarded => b"\",\"kind\":\"forwarded\"",
        _ => b"\",\"kind\":\"request\"",
    });
    member("hub", hub, to);
    to.extend_from_slice(match is_end {
        false => b",\"stage\":\"start\"",
        true => b",\"stage\":\"end\"",
    });
}

/// Members from `id` to `query`.
fn encode_common(head: &RequestHead<'_>, party: &RequestParty<'_>, to: &mut Vec<u8>) {
    member("id", head.id, to);
    if let Some(caller) = &party.caller {
        encode_caller(caller, to);
    }
    optional("as", party.as_user, to);
    to.extend_from_slice(b",\"from\":\"");
    address(head.from, to);
    to.push(b'"');
    optional("cluster", party.cluster, to);
    optional("tenant", party.tenant, to);
    for (at, id) in party.access.iter().enumerate() {
        to.extend_from_slice(if at == 0 { b",\"access\":[" } else { b"," });
        string(id, to);
    }
    if !party.access.is_empty() {
        to.push(b']');
    }
    member("method", head.method, to);
    encode_target(head, party, to);
    if let Some(query) = head.query {
        let query = harmless_query(query);
        if !query.is_empty() {
            to.extend_from_slice(b",\"query\":");
            let _ = serde_json::to_writer(&mut *to, &query);
        }
    }
}

fn encode_caller(caller: &CallerNames<'_>, to: &mut Vec<u8>) {
    to.extend_from_slice(b",\"caller\":{\"name\":");
    string(caller.name, to);
    optional("token", caller.token, to);
    optional("issuer", caller.issuer, to);
    optional("subject", caller.subject, to);
    to.push(b'}');
}

/// Path, verb and resource.
fn encode_target(head: &RequestHead<'_>, party: &RequestParty<'_>, to: &mut Vec<u8>) {
    let path = party.api_path.unwrap_or(head.path);
    match path.len() > MAX_PATH_BYTES {
        true => {
            let mut path = path.to_owned();
            cut(&mut path, MAX_PATH_BYTES);
            member("path", &path, to);
        }
        false => member("path", path, to),
    }
    let is_api = party.cluster.is_some() && party.api_path.is_some();
    let decoded = decoded(if is_api { path } else { "" });
    let resource = ResourceParts::of(&decoded);
    member(
        "verb",
        verb_of(head.method, resource.as_ref(), head.query),
        to,
    );
    let Some(resource) = resource else { return };
    to.extend_from_slice(b",\"resource\":{");
    if !resource.group.is_empty() {
        to.extend_from_slice(b"\"group\":");
        string(resource.group, to);
        to.push(b',');
    }
    to.extend_from_slice(b"\"version\":");
    string(resource.version, to);
    member("resource", resource.resource, to);
    let more = [
        ("subresource", resource.subresource),
        ("namespace", resource.namespace),
        ("name", resource.name),
    ];
    for (name, value) in more.into_iter().filter(|(_, value)| !value.is_empty()) {
        member(name, value, to);
    }
    to.push(b'}');
}

fn encode_result(result: Option<&RequestResult>, to: &mut Vec<u8>) {
    let code = result.and_then(|it| it.code);
    to.extend_from_slice(match decision(code) {
        Decision::Allowed => b",\"decision\":\"allowed\"",
        Decision::Denied => b",\"decision\":\"denied\"",
        Decision::Failed => b",\"decision\":\"failed\"",
    });
    let Some(result) = result else { return };
    if let Some(status) = result.status {
        number("status", status.into(), to);
    }
    if let Some(code) = code {
        member("code", &format!("FL-{code:04}"), to);
    }
    member("outcome", result.outcome, to);
    number("bytesIn", result.bytes_in, to);
    number("bytesOut", result.bytes_out, to);
    let millis = u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX);
    number("millis", millis, to);
}

fn member(name: &str, value: &str, to: &mut Vec<u8>) {
    if is_unescaped(value) {
        return put(
            [b",\"", name.as_bytes(), b"\":\"", value.as_bytes(), b"\""],
            to,
        );
    }
    key(name, to);
    string(value, to);
}

/// Appends parts, which are short, with one growth at most.
#[inline]
fn put<const N: usize>(parts: [&[u8]; N], to: &mut Vec<u8>) {
    to.reserve(parts.iter().map(|it| it.len()).sum());
    for part in parts {
        to.extend_from_slice(part);
    }
}

fn optional(name: &str, value: Option<&str>, to: &mut Vec<u8>) {
    if let Some(value) = value {
        member(name, value, to);
    }
}

fn number(name: &str, value: u64, to: &mut Vec<u8>) {
    key(name, to);
    integer(value, to);
}

/// A comma, and a name that needs no escape.
fn key(name: &str, to: &mut Vec<u8>) {
    put([b",\"", name.as_bytes(), b"\":"], to);
}

fn integer(value: u64, to: &mut Vec<u8>) {
    to.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// A text with quotes. Nearly all need no escape.
fn string(text: &str, to: &mut Vec<u8>) {
    if !is_unescaped(text) {
        let _ = serde_json::to_writer(&mut *to, text);
        return;
    }
    to.push(b'"');
    to.extend_from_slice(text.as_bytes());
    to.push(b'"');
}

/// Address of a client; port 0 stands for one that is not known.
fn address(address: SocketAddr, to: &mut Vec<u8>) {
    let SocketAddr::V4(v4) = address else {
        let text = match address.port() {
            0 => address.ip().to_string(),
            _ => address.to_string(),
        };
        to.extend_from_slice(text.as_bytes());
        return;
    };
    for (at, octet) in v4.ip().octets().into_iter().enumerate() {
        if at > 0 {
            to.push(b'.');
        }
        integer(octet.into(), to);
    }
    if v4.port() != 0 {
        to.push(b':');
        integer(v4.port().into(), to);
    }
}

/// Length of `2026-11-24T02:30:00`.
const SECOND_BYTES: usize = 19;

/// Time as [`timestamp`](crate::timestamp) writes it. A thread keeps the text of its last second.
fn moment(at: SystemTime, to: &mut Vec<u8>) {
    thread_local! {
        static LAST_SECOND: Cell<(u64, [u8; SECOND_BYTES])> = const { Cell::new((u64::MAX, [0; SECOND_BYTES])) };
    }
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let last = LAST_SECOND.try_with(Cell::get).ok();
    let text = match last {
        Some((second, text)) if second == since.as_secs() => text,
        _ => {
            let text = second_text(since.as_secs());
            let _ = LAST_SECOND.try_with(|last| last.set((since.as_secs(), text)));
            text
        }
    };
    to.extend_from_slice(&text);
    let mut fraction = *b".000000Z";
    let mut rest = since.subsec_micros();
    for place in fraction.iter_mut().rev().skip(1).take(6) {
        *place += u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    to.extend_from_slice(&fraction);
}

fn second_text(second: u64) -> [u8; SECOND_BYTES] {
    let at = i64::try_from(second).unwrap_or_default();
    let at = OffsetDateTime::from_unix_timestamp(at).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let text = crate::event::timestamp(at);
    let mut bytes = [b'0'; SECOND_BYTES];
    for (place, byte) in bytes.iter_mut().zip(text.bytes()) {
        *place = byte;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::request_event;

    fn encoded(head: &RequestHead<'_>, party: &RequestParty<'_>, result: Option<&RequestResult>) {
        let at = UNIX_EPOCH + Duration::from_micros(1_795_487_400_000_123);
        let mut line = Vec::new();
        begin_line(7, &mut line);
        encode_request(at, "hub-\"a\"", head, party, result, &mut line);
        line.push(b'}');
        let event = AuditEvent {
            v: EVENT_VERSION,
            seq: 7,
            at: crate::timestamp(at.into()),
            hub: Some("hub-\"a\"".to_owned()),
            ..request_event(head, party, result)
        };
        let expected = serde_json::to_string(&event).unwrap();
        assert_eq!(String::from_utf8(line).unwrap(), expected);
        if let (Some(result), EventKind::Request) = (result, party.kind) {
            let mut start = Vec::new();
            let common = encode_request(at, "hub-\"a\"", head, party, None, &mut start);
            let mut line = Vec::new();
            begin_line(7, &mut line);
            encode_end(at, "hub-\"a\"", &start[common], result, &mut line);
            line.push(b'}');
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
        let mut tail = Vec::new();
        encode_event(event, &mut tail);
        assert!(expected.ends_with(&format!("{}}}", String::from_utf8(tail).unwrap())));
    }

    #[test]
    fn encoded_request_is_the_serialized_event() {
        let long = format!("/api/v1/namespaces/{}", "é".repeat(2000));
        let paths = [
            "/",
            "/version",
            "/api/v1/pods",
            "/apis/apps/v1/namespaces/a/deployments/d/scale",
            "/%61pi/v1/namespaces/\"a\\\u{1}/pods/p/exec",
            &long,
        ];
        let queries = [
            None,
            Some("watch=1&token=x"),
            Some("command=a%22b&container=c"),
            Some(""),
        ];
        let access: [Arc<str>; 2] = ["ar-1".into(), "ar-\n2".into()];
        let results = [
            None,
            Some(RequestResult::default()),
            Some(RequestResult {
                status: Some(403),
                code: Some(1201),
                outcome: "refused",
                bytes_in: u64::MAX,
                bytes_out: 12,
                took: Duration::from_micros(1_234_567),
            }),
        ];
        let caller = CallerNames {
            name: "ann \"a\" \u{7f}é",
            token: Some("tok-1"),
            issuer: None,
            subject: Some("s"),
        };
        for (number, path) in paths.into_iter().enumerate() {
            for query in queries {
                for from in [
                    "192.0.2.1:4000",
                    "10.200.0.9:0",
                    "[2001:db8::1]:1",
                    "[::1]:0",
                ] {
                    let head = RequestHead {
                        id: "00ff",
                        method: ["GET", "POST", "BREW"][number % 3],
                        path: "/k8s/clusters/c-a/x",
                        query,
                        from: from.parse().unwrap(),
                    };
                    let party = RequestParty {
                        caller: Some(caller),
                        as_user: Some("bob"),
                        cluster: Some("c-a"),
                        tenant: Some("t-a"),
                        access: &access[..number % 3],
                        kind: [EventKind::Request, EventKind::BreakGlass][number % 2],
                        api_path: Some(path),
                    };
                    for result in &results {
                        encoded(&head, &party, result.as_ref());
                        encoded(&head, &RequestParty::default(), result.as_ref());
                    }
                }
            }
        }
    }

    #[test]
    fn events_keep_their_order_and_bounds() {
        let mut events = EncodedEvents::default();
        events.push(b"one");
        events.push(b"");
        events.push(b"three");
        let all: Vec<_> = events.iter().collect();
        assert_eq!(all, [&b"one"[..], b"", b"three"]);
        events.push(&vec![b'x'; 2 * MAX_KEPT_BYTES]);
        events.clear();
        assert!(events.is_empty() && events.bytes.capacity() == 0);
    }
}
