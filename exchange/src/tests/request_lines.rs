//! Requests in lines compared with requests in maps: the same requests are refused, and the same bytes are written.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Uri};
use proptest::prelude::*;

use super::{
    script::{Script, ScriptEnd},
    *,
};
use crate::{PreparedRequest, ReceivedRequest, WrittenLines, serve_lines, serve_on};

static ADDED: HeaderName = HeaderName::from_static("authorization");
static CREDENTIAL: HeaderValue = HeaderValue::from_static("Bearer x");

/// Names that do not pass, in the spirit of a proxy.
fn passes(name: &str) -> bool {
    let hop = ["te", "transfer-encoding", "expect", "connection", "upgrade"];
    !hop.contains(&name) && !["host", "authorization"].contains(&name) && !name.starts_with("x-")
}

/// The target below the base path of the other server.
fn based(target: &Uri) -> Uri {
    let path = target.path_and_query().map_or("/", |it| it.as_str());
    format!("/base{path}").parse().unwrap()
}

/// One request on its way to another server.
fn whole(mut request: Request<Body>) -> Result<PreparedRequest, ExchangeError> {
    if request.method() != Method::CONNECT {
        *request.uri_mut() = based(request.uri());
    }
    let kept = |name: &HeaderName| passes(name.as_str());
    let host = HeaderValue::from_static("api");
    let added = [(&header::HOST, &host), (&ADDED, &CREDENTIAL)];
    PreparedRequest::filtered(request, &added, &kept)
}

/// As [`whole`], from lines; `None` for a repeated name, which a map groups.
fn in_lines(
    request: &RequestLines,
    body: Body,
) -> Result<Result<PreparedRequest, ExchangeError>, Body> {
    let mut kept = LineSet::default();
    let mut buffer = NameBuffer::default();
    for line in request.lines().iter() {
        let name = line.lower_name(&mut buffer);
        if passes(name) && request.lines().has_name(kept, &line) {
            return Err(body);
        }
        if passes(name) {
            kept.insert(line.index);
        }
    }
    let mut written = WrittenLines::begin(request, &based(request.uri()), kept, 64);
    written.add("host", b"api");
    written.add(ADDED.as_str(), CREDENTIAL.as_bytes());
    Ok(PreparedRequest::of_lines(written, body))
}

/// Bytes that a server gets for a request, with its answer to it.
async fn relayed(prepared: Result<PreparedRequest, ExchangeError>) -> Result<Vec<u8>, String> {
    let prepared = prepared.map_err(|error| format!("{error:?}"))?;
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    let (script, tape) = Script::new(&[answer], ScriptEnd::Silence);
    let client = Client::new(1);
    let connect = || async { Ok::<_, BodyError>(script) };
    let sent = client.send_prepared(prepared, connect).await;
    let answer = sent.map_err(|error| format!("{error:?}"))?;
    let Answer::Response(answer) = answer else {
        panic!("an upgrade")
    };
    let _ = answer.into_body().collect().await;
    let written = lock(&tape).written.clone();
    Ok(written)
}

/// Bytes of one relayed request, or the reason for none.
type Relayed = Result<Vec<u8>, String>;

/// Requests that a server relays from these bytes, each with its head in the log; and its bytes and end.
async fn served(sent: &[u8], lines: Option<&AtomicUsize>) -> (Vec<Relayed>, String) {
    let (script, tape) = Script::new(&[sent], ScriptEnd::Clean);
    let all = Arc::new(Mutex::new(Vec::new()));
    let note = |relayed: Relayed| {
        lock(&all).push(relayed);
        Response::new(empty())
    };
    let end = match lines {
        None => {
            serve_on(script, |request| async {
                note(relayed(whole(request)).await)
            })
            .await
        }
        Some(count) => {
            let handler = |received| async {
                let prepared = match received {
                    ReceivedRequest::Whole(request) => whole(request),
                    ReceivedRequest::Lines(request, body) => match in_lines(&request, body) {
                        Ok(prepared) => {
                            count.fetch_add(1, Ordering::Relaxed);
                            prepared
                        }
                        Err(body) => whole(request.into_request(body)),
                    },
                };
                (Reply::Map(note(relayed(prepared).await)), ())
            };
            serve_lines(script, handler).await
        }
    };
    let answers = lock(&tape).written.clone();
    let end = format!("{end:?} {}", String::from_utf8_lossy(&answers));
    let relayed = std::mem::take(&mut *lock(&all));
    (relayed, end)
}

/// Both ways over the same bytes; returns the requests that were relayed in lines.
async fn compared(sent: &[u8]) -> usize {
    let count = AtomicUsize::new(0);
    let maps = served(sent, None).await;
    let lines = served(sent, Some(&count)).await;
    assert_eq!(lines, maps, "of {:?}", String::from_utf8_lossy(sent));
    count.into_inner()
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => (0..9_u8).prop_map(|n| format!("content-length: {n}\r\n")),
        1 => Just("Content-Length: 00\r\n".to_owned()),
        2 => Just("transfer-encoding: chunked\r\n".to_owned()),
        1 => Just("Transfer-Encoding: Chunked\r\n".to_owned()),
        1 => Just("transfer-encoding: gzip, chunked\r\n".to_owned()),
        1 => Just("host: a\r\n".to_owned()),
        1 => Just("Connection: close\r\n".to_owned()),
        1 => Just("connection: Upgrade\r\nupgrade: x\r\n".to_owned()),
        1 => Just("upgrade: x\r\n".to_owned()),
        1 => Just("trailer: t\r\n".to_owned()),
        2 => prop_oneof!["te: (trailers|gzip)(, trailers)?\r\n", "expect: 100-[cC]ontinue\r\n"],
        6 => "(accept|Accept|user-agent|Audit-Id|x-one|X-Two|authorization):[ \t]?[ -~\t]{0,12}[ \t]?\r\n",
        2 => "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,70}:[ \t]{0,2}[ -~\t]{0,12}[ \t]?\r\n",
        1 => "[a-z]{1,4}[ \t:]{0,2}[\\x00-\\x7f]{0,6}(\r\n|\n|\r)",
        1 => Just("x: 1\r\n y\r\n".to_owned()),
        1 => Just("x: \u{e4}\r\n".to_owned()),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let line = proptest::sample::select(vec![
        "GET /a?b=c HTTP/1.1\r\nhost: a\r\n",
        "GET / HTTP/1.1\r\nHost:a\r\n",
        "POST /x%2fy HTTP/1.1\r\nhost: a\r\n",
        "HEAD /x HTTP/1.1\r\nhost: a\r\n",
        "DELETE //x/../y HTTP/1.1\r\nhost: \r\n",
        "PATCH /\u{e4} HTTP/1.1\r\nhost: a\r\n",
        "OTHER /x HTTP/1.1\r\nhost: a\r\n",
        "GET /x#y HTTP/1.1\r\nhost: a\r\n",
        "GET * HTTP/1.1\r\nhost: a\r\n",
        "GET http://b/ HTTP/1.1\r\nhost: a\r\n",
        "GET / HTTP/1.0\r\nhost: a\r\n",
        "GET / HTTP/1.1\r\n",
        "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n",
        "GET / HTTP/1.1\nhost: a\r\n",
    ]);
    let few = proptest::collection::vec(field(), 0..6);
    let many = proptest::collection::vec("x?[a-z]{5}: [ -~]{0,3}\r\n", 22..34);
    let more = proptest::collection::vec(Just("x-a: b\r\n".to_owned()), 96..101);
    let fields = prop_oneof![12 => few, 1 => many, 1 => more];
    let body = prop_oneof![
        "[a-z]{0,9}",
        "([1-3]\r\nab\r\n)?(2\r\nab\r\n){0,2}0\r\n\r\n"
    ];
    let noise = proptest::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    (line, fields, body, noise).prop_map(|(line, fields, body, noise)| {
        let mut message = format!("{line}{}\r\n{body}", fields.concat()).into_bytes();
        if let Some((at, byte)) = noise {
            let at = at.index(message.len());
            message[at] = byte;
        }
        message
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn request_in_lines_is_relayed_as_in_a_map(messages in proptest::collection::vec(message(), 1..3)) {
        block_on(compared(&messages.concat()));
    }
}

#[tokio::test(start_paused = true)]
async fn ordinary_requests_are_read_in_lines() {
    let get = "GET /api/v1/pods?limit=500 HTTP/1.1\r\nhost: c\r\nuser-agent: kubectl\r\naccept: */*\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: c\r\nContent-Type: a\r\nContent-Length: 2\r\nte: trailers\r\n\r\nab";
    let chunked = "PUT / HTTP/1.1\r\nhost: c\r\ntransfer-encoding: chunked\r\nx: \r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let expects = "PUT / HTTP/1.1\r\nhost: c\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\na";
    for sent in [get, post, chunked, expects] {
        assert_eq!(compared(sent.as_bytes()).await, 1, "{sent}");
    }
    let many = |fields: usize| {
        let fields = (1..fields).map(|n| format!("n{n}: {n}\r\n"));
        format!(
            "GET / HTTP/1.1\r\nhost: c\r\n{}\r\n",
            fields.collect::<String>()
        )
    };
    assert_eq!(compared(many(MAX_LINES).as_bytes()).await, 1);
    for fields in [MAX_LINES + 1, 100, 101] {
        assert_eq!(compared(many(fields).as_bytes()).await, 0, "{fields}");
    }
}

#[tokio::test(start_paused = true)]
async fn unusual_requests_are_read_in_maps() {
    for fields in [
        "connection: close\r\n",
        "connection: keep-alive, x\r\nx: 1\r\n",
        "Upgrade: h2c\r\n",
        "trailer: x\r\n",
        "accept: a\r\naccept: b\r\n",
        "accept: a\r\nAccept: b\r\n",
    ] {
        let sent = format!("GET / HTTP/1.1\r\nhost: c\r\n{fields}\r\n");
        assert_eq!(compared(sent.as_bytes()).await, 0, "{fields}");
    }
    for (gap, in_lines) in [(254, 1), (255, 0)] {
        let spaces = " ".repeat(gap);
        let sent = format!("GET / HTTP/1.1\r\nhost: c\r\na:{spaces}b\r\n\r\n");
        assert_eq!(compared(sent.as_bytes()).await, in_lines, "{gap}");
    }
    let long = "n".repeat(65);
    let sent = format!("GET / HTTP/1.1\r\nhost: c\r\n{long}: 1\r\n\r\n");
    assert_eq!(compared(sent.as_bytes()).await, 0);
    let largest = "v".repeat(64 * 1024 - 38);
    let sent = format!("GET / HTTP/1.1\r\nhost: c\r\nlast: {largest}\r\n\r\n");
    assert!(sent.len() <= 64 * 1024);
    assert_eq!(compared(sent.as_bytes()).await, 1);
}
