//! The server between a request's head and the end of its response.

use http::Response;

use super::{
    script::{Script, ScriptEnd},
    *,
};
use crate::serve_on;

const POST: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n";
const NEXT: &[u8] = b"POST /next HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nsecret";
const EXPECTS: &[u8] =
    b"PUT / HTTP/1.1\r\nhost: a\r\nexpect: 100-Continue\r\ncontent-length: 5\r\n\r\n";

fn written(tape: &Mutex<super::script::Tape>) -> String {
    String::from_utf8(lock(tape).written.clone()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn peer_that_leaves_drops_the_handler() {
    for end in [ScriptEnd::Reset, ScriptEnd::Clean] {
        for reads in [true, false] {
            let (script, tape) = Script::new(&[POST], end);
            let held = Arc::new(());
            let guard = held.clone();
            let outcome = serve_on(script, move |request: Request<Body>| {
                let guard = guard.clone();
                async move {
                    if reads {
                        assert!(request.into_body().collect().await.is_err());
                    }
                    let _guard = guard;
                    std::future::pending().await
                }
            });
            assert!(outcome.await.is_err());
            assert_eq!(Arc::strong_count(&held), 1);
            assert!(lock(&tape).dropped && written(&tape).is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn body_read_by_another_task_ends_with_the_peer() {
    let (script, _) = Script::new(&[POST, b"two"], ScriptEnd::Reset);
    let (tx, mut rx) = mpsc::channel(1);
    let outcome = serve_on(script, move |request: Request<Body>| {
        let tx = tx.clone();
        async move {
            tokio::spawn(async move {
                let whole = request.into_body().collect().await;
                tx.send(whole.is_ok()).await.unwrap();
            });
            std::future::pending().await
        }
    });
    assert!(outcome.await.is_err());
    assert_eq!(rx.recv().await, Some(false));
}

#[tokio::test(start_paused = true)]
async fn held_body_does_not_hold_the_stream() {
    let (script, tape) = Script::new(&[POST], ScriptEnd::Silence);
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    let serving = tokio::spawn(serve_on(script, move |request: Request<Body>| {
        *lock(&keep) = Some(request.into_body());
        std::future::pending()
    }));
    until(|| lock(&kept).is_some()).await;
    let body = lock(&kept).take().unwrap();
    let reading = tokio::spawn(body.collect());
    tokio::task::yield_now().await;
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    assert!(lock(&tape).dropped);
    assert!(reading.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn body_that_outlives_its_exchange_reads_nothing_of_the_next() {
    let (script, _) = Script::new(&[POST, b"first", NEXT], ScriptEnd::Clean);
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    let outcome = serve_on(script.polite(0, 0), move |request: Request<Body>| {
        let keep = keep.clone();
        async move {
            if request.uri().path() == "/" {
                *lock(&keep) = Some(request.into_body());
                return Response::new(text("kept"));
            }
            let stale = lock(&keep).take().unwrap();
            assert!(stale.collect().await.is_err());
            let own = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(own, "secret");
            Response::new(text("own"))
        }
    });
    assert!(outcome.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn continue_is_sent_once_when_the_body_is_polled() {
    let (script, tape) = Script::new(&[EXPECTS, b"he", b"llo"], ScriptEnd::Clean);
    let outcome = serve_on(script.polite(0, 1), |request: Request<Body>| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(boxed(Full::from(body)))
    });
    outcome.await.unwrap();
    let framing = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(written(&tape), framing);
}

#[tokio::test(start_paused = true)]
async fn continue_is_not_sent_after_the_response() {
    let (script, tape) = Script::new(&[EXPECTS], ScriptEnd::Silence);
    let outcome = serve_on(script, |request: Request<Body>| async move {
        let (tx, body) = fed();
        tokio::spawn(async move {
            tx.send(data(b"early ")).await.unwrap();
            // Too late to request it.
            let late = timeout(Duration::from_secs(1), request.into_body().collect()).await;
            assert!(late.is_err());
            tx.send(data(b"answer")).await.unwrap();
        });
        Response::new(body)
    });
    assert!(outcome.await.is_err(), "the rest of the request never came");
    let written = written(&tape);
    assert!(!written.contains("100 Continue"), "{written}");
    assert!(written.ends_with("6\r\nearly \r\n6\r\nanswer\r\n0\r\n\r\n"));
}

#[tokio::test(start_paused = true)]
async fn last_request_of_a_transport_is_answered_before_its_end() {
    let closing = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let (script, tape) = Script::new(&[closing], ScriptEnd::Silence);
    let outcome = serve_on(script.narrow(3), |_| async { Response::new(text("bye")) });
    outcome.await.unwrap();
    assert!(written(&tape).ends_with("\r\n\r\nbye") && lock(&tape).finished);
}

#[tokio::test(start_paused = true)]
async fn invalid_response_resets_the_stream() {
    // An unrequested protocol, and an informational response.
    for status in [101, 100, 103] {
        let (script, tape) =
            Script::new(&[b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"], ScriptEnd::Silence);
        let outcome = serve_on(script, move |_| async move {
            let mut answer = Response::new(empty());
            *answer.status_mut() = status.try_into().unwrap();
            answer
        });
        assert!(outcome.await.is_err());
        assert!(lock(&tape).dropped && written(&tape).is_empty());
    }
}
