//! Answers in lines compared with answers in maps: the same ones are refused, and the same fields and bodies are relayed.

use http::HeaderName;
use proptest::prelude::*;

use super::{
    script::{Script, ScriptEnd},
    *,
};
use crate::{PreparedRequest, serve_lines, serve_on};

/// Names that do not pass, in the spirit of a proxy.
fn passes(name: &str) -> bool {
    !["connection", "transfer-encoding", "upgrade", "keep-alive"].contains(&name)
        && !name.starts_with("x-")
}

fn in_map(mut answer: Response<Body>) -> Response<Body> {
    let names: Vec<HeaderName> = answer.headers().keys().cloned().collect();
    for name in names.iter().filter(|name| !passes(name.as_str())) {
        answer.headers_mut().remove(name);
    }
    answer.headers_mut().insert("x-took", 7.into());
    answer
}

fn in_lines(answer: ResponseLines, body: Body) -> Reply {
    let mut kept = LineSet::default();
    let mut buffer = NameBuffer::default();
    for line in answer.lines().iter() {
        if passes(line.lower_name(&mut buffer)) {
            kept.insert(line.index);
        }
    }
    let relayed = RelayedResponse::new(answer, kept);
    Reply::Lines(relayed.with_number("x-took", 7), body)
}

/// Answer of a proxy: bytes with the fields of its head in the order of their names, and its end.
#[derive(Debug, PartialEq, Eq)]
struct Relayed {
    status: String,
    fields: Vec<String>,
    body: Vec<u8>,
    end: String,
    is_pooled: bool,
}

/// Relays the answer `sent` to a request of this method.
async fn relayed(method: &str, sent: &[u8], lines: Option<&AtomicUsize>) -> Relayed {
    let request = format!("{method} / HTTP/1.1\r\nhost: a\r\nte: trailers\r\n\r\n");
    let (hub, hub_tape) = Script::new(&[request.as_bytes()], ScriptEnd::Silence);
    let (server, server_tape) = Script::new(&[sent], ScriptEnd::Clean);
    let server = Mutex::new(Some(server));
    let client = Client::new(1);
    let connect = || async { lock(&server).take().ok_or(BodyError::from("one request")) };
    let prepare = |request: Request<()>| PreparedRequest::new(request.map(|()| empty())).unwrap();
    let refused = |error: SendError<BodyError>| Response::new(text(&format!("{error:?}")));
    let head = |method| Request::builder().method(method).uri("/").body(()).unwrap();
    let serving = async {
        match lines {
            None => {
                let handler = |_| async {
                    let sent = client.send_prepared(prepare(head(method)), connect).await;
                    match sent {
                        Ok(Answer::Response(answer)) => in_map(answer),
                        Ok(Answer::Upgraded(..)) => panic!("an upgrade"),
                        Err(error) => refused(error),
                    }
                };
                serve_on(hub, handler).await
            }
            Some(count) => {
                let handler = |_| async {
                    let request = prepare(head(method));
                    let reply = match client.send_for_lines(request, connect).await {
                        Ok(LinesAnswer::Lines(answer, body)) => {
                            count.fetch_add(1, Ordering::Relaxed);
                            in_lines(answer, body)
                        }
                        Ok(LinesAnswer::Map(Answer::Response(answer))) => {
                            Reply::Map(in_map(answer))
                        }
                        Ok(LinesAnswer::Map(Answer::Upgraded(..))) => panic!("an upgrade"),
                        Err(error) => Reply::Map(refused(error)),
                    };
                    (reply, ())
                };
                serve_lines(hub, handler).await
            }
        }
    };
    // The hub is silent after its request, so a served answer never ends.
    let end = timeout(Duration::from_secs(60), serving).await;
    let written = lock(&hub_tape).written.clone();
    let head_bytes = memchr::memmem::find(&written, b"\r\n\r\n").map_or(0, |at| at + 4);
    let (head, body) = written.split_at(head_bytes);
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n").map(str::to_owned);
    let status = lines.next().unwrap_or_default();
    let mut fields: Vec<String> = lines.collect();
    // Repeated fields keep their order.
    fields.sort_by_key(|field| field.split(':').next().map(str::to_owned));
    let is_pooled = !lock(&server_tape).dropped;
    Relayed {
        status,
        fields,
        body: body.to_vec(),
        end: format!("{end:?}"),
        is_pooled,
    }
}

/// Both ways for the same answer; returns true if it was relayed in lines.
async fn compared(method: &str, sent: &[u8]) -> bool {
    let count = AtomicUsize::new(0);
    let map = relayed(method, sent, None).await;
    let lines = relayed(method, sent, Some(&count)).await;
    assert_eq!(lines, map, "of {:?}", String::from_utf8_lossy(sent));
    count.into_inner() > 0
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (0..9_u8).prop_map(|n| format!("Content-Length: {n}\r\n")),
        3 => Just("transfer-encoding: chunked\r\n".to_owned()),
        1 => Just("Transfer-Encoding: gzip, chunked\r\n".to_owned()),
        1 => Just("Connection: close\r\n".to_owned()),
        1 => Just("connection: x-hop, accept\r\n".to_owned()),
        1 => Just("upgrade: x\r\n".to_owned()),
        1 => Just("Trailer: t\r\n".to_owned()),
        1 => Just("host: a\r\n".to_owned()),
        8 => "(Audit-Id|warning|Warning|Content-Type|X-Took|x-one|Keep-Alive|accept):[ \t]?[ -~\t]{0,12}[ \t]?\r\n",
        2 => "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,70}:[ \t]{0,2}[ -~\t]{0,12}[ \t]?\r\n",
        1 => "[a-z]{1,4}[ \t:]{0,2}[\\x00-\\x7f]{0,6}(\r\n|\n|\r)",
        1 => Just("x: \u{e4}\r\n".to_owned()),
    ]
}

fn answer() -> impl Strategy<Value = Vec<u8>> {
    let line = proptest::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 \r\n",
        "HTTP/1.1 201 Other\r\n",
        "HTTP/1.1 404 Not Found\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 304 Not Modified\r\n",
        "HTTP/1.1 599 Own\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 103 Early\r\na: b\r\n\r\nHTTP/1.1 200\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 101 Switching\r\n",
        "HTTP/1.1 099 Low\r\n",
        "HTTP/1.1 200 OK\n",
    ]);
    let few = proptest::collection::vec(field(), 0..6);
    let many = proptest::collection::vec("x?[a-z]{5}: [ -~]{0,3}\r\n", 22..34);
    let fields = prop_oneof![12 => few, 1 => many];
    let body = prop_oneof![
        "[a-z]{0,9}",
        "([1-3]\r\nab\r\n)?(2\r\nab\r\n){0,2}0\r\n(t: 1\r\n)?\r\n",
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn answer_in_lines_is_relayed_as_in_a_map(
        method in proptest::sample::select(vec!["GET", "HEAD", "POST"]),
        answer in answer(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(compared(method, &answer));
    }
}

#[tokio::test(start_paused = true)]
async fn ordinary_answers_are_read_in_lines() {
    for sent in [
        "HTTP/1.1 200 OK\r\nAudit-Id: 1\r\nContent-Type: a\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nWarning: a\r\nDate: now\r\nWarning: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nto the end",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
    ] {
        assert!(compared("GET", sent.as_bytes()).await, "{sent}");
    }
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    assert!(compared("HEAD", head).await);
}

#[tokio::test(start_paused = true)]
async fn unusual_answers_are_read_in_maps() {
    for fields in [
        "Connection: close\r\n",
        "Upgrade: h2c\r\n",
        "Trailer: t\r\n",
        &"a: b\r\n".repeat(MAX_LINES),
    ] {
        let sent = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n");
        assert!(!compared("GET", sent.as_bytes()).await, "{fields}");
    }
    assert!(!compared("GET", b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n").await);
}
