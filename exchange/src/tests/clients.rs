//! The server for clients that are strangers.

mod reference;

use std::{cell::RefCell, io, pin::pin};

use tokio::time::Instant;

use super::{
    script::{Script, ScriptEnd, Tape},
    *,
};

const GET: &[u8] = b"GET /one HTTP/1.1\r\nhost: a\r\n\r\n";
const HEAD_TIMEOUT: Duration = Duration::from_secs(100);
const SETTINGS: ClientSettings = ClientSettings {
    max_head_bytes: 1024,
    head_timeout: HEAD_TIMEOUT,
    refusal,
};

fn refusal(error: &HttpError) -> Bytes {
    format!("refused: {error}").into()
}

/// Written bytes without the dates.
fn written(tape: &Mutex<Tape>) -> String {
    let written = String::from_utf8(lock(tape).written.clone()).unwrap();
    let lines = written.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

/// Serves a script with responses that repeat path and body.
async fn echoed(script: Script) -> io::Result<()> {
    let shutdown = ConnectionShutdown::default();
    serve_clients(script, &SETTINGS, &shutdown, echo).await
}

async fn echo(request: Request<Body>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match request.into_body().collect().await {
        Ok(body) => Response::new(text(&format!(
            "{path} {}",
            String::from_utf8_lossy(&body.to_bytes())
        ))),
        Err(error) => {
            let mut response = Response::new(text(&error.to_string()));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        }
    }
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test(start_paused = true)]
async fn requests_before_an_answer_are_answered_in_their_order() {
    let post = b"POST /two HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    let last = b"GET /three HTTP/1.1\r\nhost: a\r\n\r\n";
    let all = [GET, post, last].concat();
    for cut in [0, 10, GET.len(), GET.len() + 5, all.len() - 2] {
        let (first, second) = all.split_at(cut);
        let (script, tape) = Script::new(&[first, second], ScriptEnd::Silence);
        let shutdown = ConnectionShutdown::default();
        let serving = serve_clients(script, &SETTINGS, &shutdown, |request| async {
            // The later requests arrive meanwhile.
            tokio::time::sleep(Duration::from_secs(1)).await;
            echo(request).await
        });
        serving.await.unwrap();
        let expected = ["/one ", "/two abc", "/three "].map(ok).concat();
        assert_eq!(written(&tape), expected, "{cut}");
        assert!(lock(&tape).finished);
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_leaves_drops_the_handler() {
    for end in [ScriptEnd::Reset, ScriptEnd::Clean] {
        let (script, tape) = Script::new(&[GET], end);
        let shutdown = ConnectionShutdown::default();
        let held = Arc::new(());
        let outcome = serve_clients(script, &SETTINGS, &shutdown, |_| {
            let guard = held.clone();
            async move {
                let _guard = guard;
                std::future::pending::<Response<Body>>().await
            }
        });
        assert!(outcome.await.is_err());
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(written(&tape).is_empty() && !lock(&tape).finished);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connection_and_unfinished_head_end_in_time() {
    for sent in [&b""[..], b"GET / HTTP/1.1\r\nhost:", b"\r\n\r\n", GET] {
        let (script, tape) = Script::new(&[sent], ScriptEnd::Silence);
        let begin = Instant::now();
        echoed(script).await.unwrap();
        assert!(begin.elapsed() >= HEAD_TIMEOUT && begin.elapsed() < 2 * HEAD_TIMEOUT);
        assert!(lock(&tape).finished, "it ends cleanly");
        assert_eq!(written(&tape).is_empty(), sent != GET);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connection_ends_at_once_when_the_shutdown_begins() {
    for sent in [&b""[..], GET] {
        let (script, tape) = Script::new(&[sent], ScriptEnd::Silence);
        let shutdown = ConnectionShutdown::default();
        let mut serving = pin!(serve_clients(script, &SETTINGS, &shutdown, echo));
        let begin = Instant::now();
        let waited = timeout(Duration::from_secs(1), serving.as_mut()).await;
        assert!(waited.is_err(), "it waits for the next head");
        shutdown.begin();
        serving.await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(2) && lock(&tape).finished);
    }
}

#[tokio::test(start_paused = true)]
async fn running_request_is_the_last_one_after_the_shutdown() {
    let next = b"GET /two HTTP/1.1\r\nhost: a\r\n\r\n";
    // The second request is behind the first one already, or never comes.
    for sent in [GET, &[GET, next].concat()] {
        let (script, tape) = Script::new(&[sent], ScriptEnd::Silence);
        let shutdown = ConnectionShutdown::default();
        let mut serving = pin!(serve_clients(script, &SETTINGS, &shutdown, |request| {
            async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                echo(request).await
            }
        }));
        let waited = timeout(Duration::from_secs(1), serving.as_mut()).await;
        assert!(waited.is_err());
        shutdown.begin();
        serving.await.unwrap();
        let expected = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\n/one ";
        assert_eq!(written(&tape), expected);
        assert!(lock(&tape).finished);
    }
}

#[tokio::test(start_paused = true)]
async fn refused_head_gets_the_answer_of_the_settings() {
    let large = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "v".repeat(1024));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: 1\r\n".repeat(101));
    let target = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "t".repeat(65_535));
    for (head, reason) in [
        (large, "the head is too large"),
        (many, "the head is too large"),
        (target, "the head is too large"),
        ("\x16\x03\x01".to_owned(), "the first line is invalid"),
        (
            "GET / HTTP/1.1\nhost: a\n\n".to_owned(),
            "a line of the head does not end with CRLF",
        ),
    ] {
        // As the first head, and behind an answer.
        for before in [&b""[..], GET] {
            let sent = [before, head.as_bytes()].concat();
            let (script, tape) = Script::new(&[&sent, b"more"], ScriptEnd::Silence);
            assert!(echoed(script).await.is_err());
            let answered = if before.is_empty() {
                String::new()
            } else {
                ok("/one ")
            };
            assert_eq!(written(&tape), format!("{answered}refused: {reason}"));
            assert!(lock(&tape).finished, "the client can read the answer");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answer_is_complete_before_the_end_with_an_unread_body() {
    let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
    let part = [b'x'; 1000];
    let (script, tape) = Script::new(&[head, &part, &part], ScriptEnd::Silence);
    let shutdown = ConnectionShutdown::default();
    let outcome = serve_clients(script, &SETTINGS, &shutdown, |_| async {
        Response::new(text("early"))
    });
    outcome.await.unwrap();
    assert_eq!(written(&tape), ok("early"));
    assert!(lock(&tape).finished);
}

#[tokio::test(start_paused = true)]
async fn invalid_body_is_answered_by_the_handler_as_the_last_request() {
    let head = b"POST /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxy\r\n";
    let (script, tape) = Script::new(&[head, GET], ScriptEnd::Silence);
    echoed(script).await.unwrap();
    let written = written(&tape);
    let (head, _) = written.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n"),
        "{head}"
    );
    assert_eq!(written.matches("HTTP/1.1").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn client_of_http_1_0_gets_one_answer_to_the_end_of_its_connection() {
    let request = b"GET /one HTTP/1.0\r\nconnection: keep-alive\r\nupgrade: x\r\n\r\n";
    let (script, tape) = Script::new(&[request, GET], ScriptEnd::Silence);
    let shutdown = ConnectionShutdown::default();
    let outcome = serve_clients(script, &SETTINGS, &shutdown, |request| async move {
        assert_eq!(request.version(), http::Version::HTTP_10);
        let (tx, body) = fed();
        tokio::spawn(async move {
            tx.send(data(b"in ")).await.unwrap();
            tx.send(data(b"pieces")).await.unwrap();
        });
        Response::new(body)
    });
    outcome.await.unwrap();
    assert_eq!(written(&tape), "HTTP/1.0 200 OK\r\n\r\nin pieces");
    assert!(lock(&tape).finished);
}

#[tokio::test(start_paused = true)]
async fn body_that_breaks_is_never_finished() {
    for request in [GET, b"GET /one HTTP/1.0\r\n\r\n"] {
        let (script, tape) = Script::new(&[request], ScriptEnd::Silence);
        let shutdown = ConnectionShutdown::default();
        let outcome = serve_clients(script, &SETTINGS, &shutdown, |_| async {
            let (tx, body) = fed();
            tokio::spawn(async move {
                tx.send(data(b"begin")).await.unwrap();
                tx.send(Err("broken".into())).await.unwrap();
            });
            Response::new(body)
        });
        assert!(outcome.await.is_err());
        assert!(written(&tape).contains("begin") && !lock(&tape).finished);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_behind_an_upgrade_are_the_first_ones_of_the_raw_connection() {
    let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nearly";
    let upgrade = RefCell::new(None);
    let (script, tape) = Script::new(&[request], ScriptEnd::Silence);
    let shutdown = ConnectionShutdown::default();
    let outcome = serve_clients(script, &SETTINGS, &shutdown, |mut request| {
        *upgrade.borrow_mut() = Some(OnUpgrade::take(&mut request));
        let mut response = Response::new(empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        async { response }
    });
    outcome.await.unwrap();
    assert_eq!(written(&tape), "HTTP/1.1 101 Switching Protocols\r\n\r\n");
    let mut raw = upgrade.take().unwrap().await.unwrap();
    let mut read = String::new();
    raw.read_to_string(&mut read).await.unwrap();
    assert_eq!(read, "early");
}

#[tokio::test(start_paused = true)]
async fn connect_with_a_body_never_becomes_a_tunnel() {
    let request = b"CONNECT b:1 HTTP/1.1\r\nhost: b:1\r\ncontent-length: 2\r\n\r\nhi";
    let (script, tape) = Script::new(&[request, GET], ScriptEnd::Silence);
    let error = echoed(script).await.unwrap_err().to_string();
    assert!(error.contains("a CONNECT has a body"), "{error}");
    assert!(written(&tape).is_empty() && !lock(&tape).finished);
}

#[tokio::test]
async fn raw_connection_has_its_own_type_again() {
    let (near, _far) = tokio::io::duplex(64);
    let raw = Upgraded::new(near, Bytes::from_static(b"early"));
    let raw = raw.downcast::<tokio::net::TcpStream>().err().unwrap();
    let (_near, read) = raw.downcast::<tokio::io::DuplexStream>().ok().unwrap();
    assert_eq!(read, "early");
}

#[tokio::test]
async fn upgrade_of_a_request_without_one_fails() {
    assert!(OnUpgrade::take(&mut get("/")).await.is_err());
}
