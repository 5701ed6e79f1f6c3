//! Messages are the same however their bytes are cut, and a truncated message is never taken for a
//! whole one.

use std::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use http::{Method, Response, header};
use http_body::{Body as _, Frame, SizeHint};

use super::{
    script::{ReadMessage, Script, ScriptEnd, answered, kind, served},
    *,
};
use crate::server::serve_on;

const REQUESTS: [&str; 6] = [
    "GET /api?x=1 HTTP/1.1\r\nhost: a\r\naccept:  json \r\n\r\n",
    "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
    "POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0006;x=y\r\n world\r\n0\r\n\r\n",
    "PUT /c HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nx-sum: 1\r\n\r\n",
    "DELETE /d HTTP/1.1\r\nhost:\r\nx:\r\ncontent-length: 0\r\n\r\n",
    "POST /e HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
];

const ANSWERS: [&str; 7] = [
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "HTTP/1.1 404 \r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\nx-sum: 2\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\netag: \"x\"\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 418\r\ncontent-length: 1\r\n\r\nx",
];

async fn one_served(pieces: &[&[u8]], end: ScriptEnd) -> (Vec<ReadMessage>, bool) {
    let (script, _) = Script::new(pieces, end);
    let (seen, outcome) = served(script).await;
    (seen, outcome.is_ok())
}

#[tokio::test(start_paused = true)]
async fn request_is_the_same_however_it_is_split() {
    for sent in REQUESTS {
        let sent = sent.as_bytes();
        let (whole, ended) = one_served(&[sent], ScriptEnd::Clean).await;
        assert!(ended && whole.len() == 1 && whole[0].body.is_some());
        for at in 1..sent.len() {
            let (first, second) = sent.split_at(at);
            assert_eq!(
                one_served(&[first, second], ScriptEnd::Clean).await.0,
                whole
            );
        }
        let bytes: Vec<&[u8]> = sent.chunks(1).collect();
        assert_eq!(one_served(&bytes, ScriptEnd::Clean).await.0, whole);
    }
}

#[tokio::test(start_paused = true)]
async fn truncated_request_is_never_complete() {
    for sent in REQUESTS {
        for at in 1..sent.len() {
            for end in [ScriptEnd::Clean, ScriptEnd::Reset] {
                let (seen, ended) = one_served(&[&sent.as_bytes()[..at]], end).await;
                assert!(!ended, "{:?} ended well", &sent[..at]);
                assert!(seen.iter().all(|seen| seen.body.is_none()));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_follow_each_other_on_one_transport() {
    let all: Vec<&[u8]> = REQUESTS.iter().map(|sent| sent.as_bytes()).collect();
    let (script, tape) = Script::new(&all, ScriptEnd::Clean);
    let (seen, outcome) = served(script.narrow(7).polite(0, usize::MAX)).await;
    assert!(outcome.is_ok() && lock(&tape).finished);
    assert_eq!(seen.len(), REQUESTS.len());
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let written = String::from_utf8(lock(&tape).written.clone()).unwrap();
    assert_eq!(written, answer.repeat(REQUESTS.len()));
}

#[tokio::test(start_paused = true)]
async fn response_is_the_same_however_it_is_split() {
    for sent in ANSWERS {
        let sent = sent.as_bytes();
        let (script, _) = Script::new(&[sent], ScriptEnd::Silence);
        let whole = answered(kind(Method::GET), script).await.unwrap();
        assert!(whole.1, "the transport goes back");
        for at in 1..sent.len() {
            let (first, second) = sent.split_at(at);
            let (script, _) = Script::new(&[first, second], ScriptEnd::Silence);
            let split = answered(kind(Method::GET), script).await;
            assert_eq!(split.unwrap(), whole);
        }
        let bytes: Vec<&[u8]> = sent.chunks(1).collect();
        let (script, _) = Script::new(&bytes, ScriptEnd::Silence);
        assert_eq!(answered(kind(Method::GET), script).await.unwrap(), whole);
    }
}

#[tokio::test(start_paused = true)]
async fn truncated_response_is_an_error() {
    for sent in ANSWERS {
        for at in 0..sent.len() {
            for end in [ScriptEnd::Clean, ScriptEnd::Reset] {
                let (script, tape) = Script::new(&[&sent.as_bytes()[..at]], end);
                let cut = answered(kind(Method::POST), script).await;
                assert!(cut.is_err(), "{:?} was an answer", &sent[..at]);
                assert!(lock(&tape).dropped);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn body_to_the_end_of_the_transport_needs_a_clean_end() {
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"] {
        let sent = format!("{head}all of it");
        let (script, _) = Script::new(&[sent.as_bytes()], ScriptEnd::Clean);
        let (message, pooled) = answered(kind(Method::GET), script).await.unwrap();
        assert_eq!(message.body.unwrap().0, "all of it");
        assert!(!pooled);
        let (script, _) = Script::new(&[sent.as_bytes()], ScriptEnd::Reset);
        assert!(answered(kind(Method::GET), script).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn response_with_close_is_the_last_on_its_transport() {
    for sent in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nconnection: x, CLOSE\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n",
    ] {
        let (script, _) = Script::new(&[sent.as_bytes()], ScriptEnd::Silence);
        let (_, pooled) = answered(kind(Method::GET), script).await.unwrap();
        assert!(!pooled, "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_after_a_101_are_the_first_raw_bytes() {
    for (method, head) in [
        (
            Method::GET,
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        ),
        (Method::CONNECT, "HTTP/1.1 200 OK\r\n\r\n"),
        (
            Method::CONNECT,
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n",
        ),
    ] {
        let mut request = kind(method);
        if request.method() == Method::GET {
            let headers = request.headers_mut();
            headers.insert(header::CONNECTION, "upgrade".parse().unwrap());
            headers.insert(header::UPGRADE, "x".parse().unwrap());
        }
        let sent = format!("{head}hello raw");
        let (script, _) = Script::new(&[sent.as_bytes()], ScriptEnd::Silence);
        let (message, _) = answered(request, script).await.unwrap();
        assert!(message.line.ends_with("raw"));
        assert_eq!(message.body.unwrap().0, "hello raw");
    }
}

/// Yields data of a size whenever it is polled.
struct Endless(Arc<AtomicUsize>, usize);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.fetch_add(self.1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(vec![0; self.1].into()))))
    }
}

#[tokio::test]
async fn stopped_reader_stops_the_bodys_source() {
    for size in [1, 1000, 100_000] {
        let (agent, hub) = pair(4, PIPE_BYTES).await;
        let taken = Arc::new(AtomicUsize::new(0));
        let source = taken.clone();
        tokio::spawn(serve_all(agent, move |_| {
            let body = Body::new(Endless(source.clone(), size));
            async move { Response::new(body) }
        }));
        let exchanges = Exchanges::new(hub);
        let mut answer = response(&exchanges, get("/")).await;
        answer.body_mut().frame().await.unwrap().unwrap();
        // Neither turn nor size grows any more.
        let mut before = usize::MAX;
        while before != taken.load(Ordering::Relaxed) {
            before = taken.load(Ordering::Relaxed);
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
        }
        assert!(before < 2 * 1024 * 1024, "{before} bytes of {size}");
    }
}

#[test]
fn body_of_another_length_than_announced_is_an_error() {
    for (framing, is) in [
        ("5", "four"),
        ("3", "four"),
        ("5", ""),
        ("x", "four"),
        ("", "four"),
    ] {
        let mut request = kind(Method::POST);
        request
            .headers_mut()
            .insert(header::CONTENT_LENGTH, framing.parse().unwrap());
        *request.body_mut() = text(is);
        let (script, tape) = Script::new(&[], ScriptEnd::Silence);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        assert!(runtime.block_on(answered(request, script)).is_err());
        assert!(!lock(&tape).written.ends_with(b"four"));
        assert!(lock(&tape).dropped);
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_response_body_resets_the_stream() {
    for (framing, is) in [("5", "four"), ("3", "four"), ("5", "")] {
        let sent = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let (script, tape) = Script::new(&[sent.as_bytes()], ScriptEnd::Silence);
        let outcome = serve_on(script, |_| async move {
            let mut answer = Response::new(text(is));
            let length = framing.parse().unwrap();
            answer.headers_mut().insert(header::CONTENT_LENGTH, length);
            answer
        })
        .await;
        assert!(outcome.is_err());
        assert!(lock(&tape).dropped && !lock(&tape).finished);
    }
}

#[tokio::test(start_paused = true)]
async fn unread_rest_of_a_body_is_skipped() {
    let first = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n";
    let second = "GET /next HTTP/1.1\r\nhost: a\r\n\r\n";
    let (script, tape) = Script::new(
        &[first.as_bytes(), b"unr", b"ead ", b"ok", second.as_bytes()],
        ScriptEnd::Clean,
    );
    let outcome = serve_on(script, |request: Request<Body>| async move {
        Response::new(text(request.uri().path()))
    })
    .await;
    assert!(outcome.is_ok());
    assert!(
        lock(&tape)
            .written
            .ends_with(b"content-length: 5\r\n\r\n/next")
    );
    // But not forever.
    let (script, tape) = Script::new(&[first.as_bytes()], ScriptEnd::Silence);
    let outcome = serve_on(script, |_| async { Response::new(empty()) }).await;
    assert!(outcome.is_err() && lock(&tape).dropped);
}

#[test]
fn small_body_is_merged_with_its_head_and_a_large_one_is_not_copied() {
    let mut out = Outgoing::default();
    out.tail().extend_from_slice(b"head");
    out.push(Bytes::from_static(b"body"));
    assert_eq!(
        out.with_front(|front| front.split_to(8)).unwrap(),
        "headbody"
    );
    assert!(out.is_empty());
    let large = Bytes::from(vec![7; 100_000]);
    out.tail().extend_from_slice(b"head");
    out.push(large.clone());
    out.tail().extend_from_slice(b"\r\n");
    assert_eq!(out.len(), 100_006);
    let mut slices = [std::io::IoSlice::new(&[]); 8];
    assert_eq!(out.slices(&mut slices), 3);
    assert_eq!(slices[1].as_ptr(), large.as_ptr());
    out.advance(4 + 99_999);
    assert_eq!(out.with_front(std::mem::take).unwrap(), "\u{7}");
    out.advance(2);
    assert!(out.is_empty());
}

#[test]
fn known_size_is_announced() {
    let told = |decoder: crate::framing::BodyDecoder| decoder.size_hint();
    use crate::framing::BodyDecoder;
    assert_eq!(told(BodyDecoder::Length(7)).exact(), Some(7));
    assert_eq!(told(BodyDecoder::Ended).exact(), Some(0));
    assert_eq!(
        told(BodyDecoder::ToEnd).exact(),
        SizeHint::default().exact()
    );
    assert!(empty().is_end_stream());
}
