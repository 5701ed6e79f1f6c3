//! Comparison of the server for clients with hyper's: accepted requests are read as by hyper, those that hyper refuses are
//! refused, and responses are the same.

use std::convert::Infallible;

use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::duplex;

use super::{
    super::{
        hostile::framings,
        reference::{comparable, message, runtime, served_by_hyper},
        script::ReadMessage,
    },
    *,
};

const REQUEST_LINES: &[&str] = &[
    "GET / HTTP/1.1\r\nhost: a\r\n",
    "POST /x HTTP/1.1\r\nhost: a\r\nhost: b\r\n",
    "PUT /x?y HTTP/1.1\r\n",
    "GET / HTTP/1.0\r\n",
    "POST / HTTP/1.0\r\nhost: a\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n",
    "GET http://b/ HTTP/1.1\r\nhost: a\r\n",
    "OPTIONS * HTTP/1.1\r\nhost: a\r\n",
    "GET a/b HTTP/1.1\r\nhost: a\r\n",
    "CONNECT b:1 HTTP/1.1\r\nhost: a\r\n",
    "HEAD /y HTTP/1.1\nhost: a\r\n",
    "GET /y HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n",
];

/// Requests that are accepted from these bytes.
async fn served(sent: &[u8]) -> Vec<ReadMessage> {
    let (script, _) = Script::new(&[sent], ScriptEnd::Clean);
    let (shutdown, seen) = (ConnectionShutdown::default(), Mutex::new(Vec::new()));
    let outcome = serve_clients(script, &SETTINGS, &shutdown, |request| async {
        let (parts, body) = request.into_parts();
        let line = format!("{} {}", parts.method, parts.uri);
        let message = ReadMessage::read(line, parts.headers, body).await;
        lock(&seen).push(message);
        Response::new(empty())
    });
    drop(outcome.await);
    seen.into_inner().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn accepted_requests_of_clients_are_read_as_by_hyper(
        messages in proptest::collection::vec(message(REQUEST_LINES), 1..3),
    ) {
        let sent = messages.concat();
        runtime().block_on(async {
            let ours = served(&sent).await;
            let theirs = served_by_hyper(&sent).await;
            let mut theirs = theirs.into_iter().map(comparable);
            for message in ours.into_iter().filter(|message| message.body.is_some()) {
                assert_eq!(Some(comparable(message)), theirs.next(), "of {:?}", String::from_utf8_lossy(&sent));
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn framing_with_two_readings_is_refused_from_clients() {
    let heads = framings();
    assert!(heads.len() >= 30);
    for (head, reason) in heads {
        let sent = format!("POST / HTTP/1.1\r\nhost: a\r\n{head}");
        let (script, tape) = Script::new(&[sent.as_bytes()], ScriptEnd::Silence);
        assert!(echoed(script).await.is_err(), "{sent:?}");
        let written = written(&tape);
        assert!(
            written.starts_with("refused: ") && written.contains(reason),
            "{sent:?}: {written}"
        );
    }
    let sent = b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n";
    let (script, tape) = Script::new(&[sent], ScriptEnd::Silence);
    assert!(echoed(script).await.is_err());
    assert!(written(&tape).contains("not allowed in HTTP/1.0"));
}

fn in_pieces(trailer: bool) -> Body {
    let mut trailers = HeaderMap::new();
    trailers.insert("x", "1".parse().unwrap());
    let frames = [data(b"in "), data(b""), data(b"pieces")];
    let last = trailer.then_some(Ok(Frame::trailers(trailers)));
    let frames = frames.into_iter().chain(last);
    Body::new(StreamBody::new(futures_util::stream::iter(frames)))
}

/// Response to a request with this number.
fn response(number: usize) -> Response<Body> {
    let with = |status: u16, fields: &[(&'static str, &'static str)], body| {
        let builder = Response::builder().status(status);
        let with = |it: http::response::Builder, (name, value): &(_, _)| it.header(*name, *value);
        let builder = fields.iter().fold(builder, with);
        builder.body(body).unwrap()
    };
    match number {
        0 => with(200, &[], text("whole")),
        1 => with(200, &[], empty()),
        2 => with(204, &[], empty()),
        3 => with(304, &[("etag", "a"), ("content-length", "9")], empty()),
        4 => with(200, &[], in_pieces(false)),
        5 => with(200, &[("trailer", "x")], in_pieces(true)),
        6 => with(200, &[], in_pieces(true)),
        7 => with(200, &[("content-length", "9")], in_pieces(false)),
        8 => with(404, &[("connection", "close")], text("none")),
        9 => with(200, &[("date", "then"), ("a", "1"), ("a", "2")], text("x")),
        10 => with(200, &[], text(&"long".repeat(10_000))),
        _ => with(299, &[("content-length", "5")], text("exact")),
    }
}

const RESPONSE_COUNT: usize = 12;

/// First line, sorted fields and body.
fn parsed(written: &[u8]) -> (String, Vec<String>, String) {
    let text = String::from_utf8(written.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.split("\r\n").map(|line| match line.split_once(": ") {
        Some(("date", value)) if value != "then" => "date".to_owned(),
        // hyper writes this for a status without a name.
        _ => line.trim_end().trim_end_matches(" <none>").to_owned(),
    });
    let first = lines.next().unwrap();
    let mut fields: Vec<_> = lines.collect();
    // hyper omits it without chunks.
    if !fields.iter().any(|it| it == "transfer-encoding: chunked") {
        fields.retain(|it| !it.starts_with("trailer: "));
    }
    fields.sort();
    (first, fields, body.to_owned())
}

async fn written_by_hyper(sent: &[u8], number: usize) -> Vec<u8> {
    let (mut near, far) = duplex(1 << 20);
    near.write_all(sent).await.unwrap();
    let service =
        service_fn(
            move |_: Request<Incoming>| async move { Ok::<_, Infallible>(response(number)) },
        );
    let builder = hyper::server::conn::http1::Builder::new();
    let serving = builder.serve_connection(TokioIo::new(far), service);
    let _ = timeout(Duration::from_secs(1), serving).await;
    let mut written = Vec::new();
    near.read_to_end(&mut written).await.unwrap();
    written
}

#[tokio::test(start_paused = true)]
async fn responses_to_clients_are_those_of_hyper() {
    for request in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi",
        "GET / HTTP/1.0\r\nhost: a\r\n\r\n",
        "HEAD / HTTP/1.0\r\nhost: a\r\n\r\n",
    ] {
        for number in 0..RESPONSE_COUNT {
            let (script, tape) = Script::new(&[request.as_bytes()], ScriptEnd::Silence);
            let shutdown = ConnectionShutdown::default();
            let handler = |_| async move { response(number) };
            let outcome = serve_clients(script, &SETTINGS, &shutdown, handler).await;
            outcome.unwrap();
            let theirs = written_by_hyper(request.as_bytes(), number).await;
            let ours = lock(&tape).written.clone();
            assert_eq!(parsed(&ours), parsed(&theirs), "{request:?} {number}");
        }
    }
}
