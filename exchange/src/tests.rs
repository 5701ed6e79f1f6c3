mod answer_lines;
mod clients;
mod delivery;
mod hostile;
mod pool;
mod reference;
mod request_lines;
mod script;
mod serving;
mod upgrades;

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use fairlead_dialer::{CloseReason, Session, sync::lock};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::rig::{pair, until};

const PIPE_BYTES: usize = 64 * 1024;

fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    Body::new(body.map_err(|never| match never {}))
}

fn text(text: &str) -> Body {
    boxed(Full::from(text.to_owned()))
}

fn empty() -> Body {
    boxed(Empty::new())
}

fn get(path: &str) -> Request<Body> {
    Request::builder().uri(path).body(empty()).unwrap()
}

/// A body controlled by the test. An error in it is a source that breaks off.
fn fed() -> (mpsc::Sender<Result<Frame<Bytes>, BodyError>>, Body) {
    let (tx, rx) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(rx, |mut rx| async {
        rx.recv().await.map(|frame| (frame, rx))
    });
    (tx, Body::new(StreamBody::new(frames)))
}

fn data(bytes: &'static [u8]) -> Result<Frame<Bytes>, BodyError> {
    Ok(Frame::data(Bytes::from_static(bytes)))
}

async fn serve_all<H, F>(session: Session, handler: H)
where
    H: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    while let Some(stream) = session.accept().await {
        tasks.spawn(serve(stream, handler.clone()));
    }
}

/// A hub as the client of an agent that responds with `handler`.
async fn joined<H, F>(handler: H) -> (Exchanges, Session)
where
    H: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let (agent, hub) = pair(64, PIPE_BYTES).await;
    tokio::spawn(serve_all(agent.clone(), handler));
    (Exchanges::new(hub), agent)
}

async fn response(exchanges: &Exchanges, request: Request<Body>) -> Response<Body> {
    let answer = timeout(Duration::from_secs(10), exchanges.send(request)).await;
    match answer.expect("no answer").unwrap() {
        Answer::Response(response) => response,
        Answer::Upgraded(..) => panic!("an upgrade"),
    }
}

async fn whole(response: Response<Body>) -> String {
    let body = timeout(Duration::from_secs(10), response.into_body().collect()).await;
    let bytes = body.expect("no end").unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn sequential_requests_share_a_stream() {
    let (exchanges, _agent) = joined(|request| async move {
        Response::new(text(&format!("{} {}", request.method(), request.uri())))
    })
    .await;
    for n in 0..20 {
        let path = format!("/api/v1?n={n}");
        let answer = response(&exchanges, get(&path)).await;
        assert_eq!(whole(answer).await, format!("GET {path}"));
    }
    assert_eq!(exchanges.session().stats().streams_total, 1);
    // Also a body without a known end, and one that is not polled after its length.
    let post = Request::post("/").body(text("upload")).unwrap();
    let mut answer = response(&exchanges, post).await;
    answer.body_mut().frame().await.unwrap().unwrap();
    drop(answer);
    response(&exchanges, get("/")).await;
    assert_eq!(exchanges.session().stats().streams_total, 1);
}

#[tokio::test(start_paused = true)]
async fn absolute_target_is_sent_in_origin_form() {
    let (exchanges, _agent) =
        joined(|request| async move { Response::new(text(&request.uri().to_string())) }).await;
    let mut request = get("https://user.example/api?x=1");
    *request.version_mut() = http::Version::HTTP_2;
    let answer = response(&exchanges, request).await;
    assert_eq!(whole(answer).await, "/api?x=1");
}

#[tokio::test(start_paused = true)]
async fn heads_and_encoded_bodies_pass_unchanged() {
    let (exchanges, _agent) = joined(|request: Request<Body>| async move {
        match request.uri().path() {
            "/head" => Response::builder()
                .header(header::CONTENT_LENGTH, "1234")
                .body(empty())
                .unwrap(),
            "/304" => Response::builder()
                .status(304)
                .header(header::ETAG, "\"x\"")
                .body(empty())
                .unwrap(),
            "/left-out" => Response::new(text("of this length")),
            _ => Response::builder()
                .header(header::CONTENT_ENCODING, "gzip")
                .body(boxed(Full::from(vec![0x1f, 0x8b, 8, 0, 255])))
                .unwrap(),
        }
    })
    .await;
    for _ in 0..3 {
        let head = Request::head("/head").body(empty()).unwrap();
        let answer = response(&exchanges, head).await;
        assert_eq!(answer.headers()[header::CONTENT_LENGTH], "1234");
        assert_eq!(whole(answer).await, "");
        let head = Request::head("/left-out").body(empty()).unwrap();
        let answer = response(&exchanges, head).await;
        assert_eq!(answer.headers()[header::CONTENT_LENGTH], "14");
        assert_eq!(whole(answer).await, "");
        let answer = response(&exchanges, get("/304")).await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[header::ETAG]),
            (304, &"\"x\"".parse().unwrap())
        );
        assert_eq!(whole(answer).await, "");
        let answer = response(&exchanges, get("/gzip")).await;
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&bytes[..], [0x1f, 0x8b, 8, 0, 255]);
    }
    assert_eq!(exchanges.session().stats().streams_total, 1);
}

#[tokio::test(start_paused = true)]
async fn trailers_pass() {
    let (exchanges, _agent) = joined(|_| async move {
        let (tx, body) = fed();
        tokio::spawn(async move {
            tx.send(data(b"body")).await.unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "42".parse().unwrap());
            tx.send(Ok(Frame::trailers(trailers))).await.unwrap();
        });
        Response::builder()
            .header(header::TRAILER, "x-sum")
            .body(body)
            .unwrap()
    })
    .await;
    let mut request = get("/");
    request
        .headers_mut()
        .insert(header::TE, "trailers".parse().unwrap());
    let body = response(&exchanges, request).await.into_body();
    let collected = body.collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "42");
}

#[tokio::test(start_paused = true)]
async fn watch_head_and_events_arrive_at_once() {
    let (feed, feeds) = mpsc::channel::<()>(1);
    let feeds = Arc::new(tokio::sync::Mutex::new(feeds));
    let (exchanges, _agent) = joined(move |_| {
        let feeds = feeds.clone();
        async move {
            let (tx, body) = fed();
            tokio::spawn(async move {
                while feeds.lock().await.recv().await.is_some() {
                    tx.send(data(b"event")).await.unwrap();
                }
            });
            Response::new(body)
        }
    })
    .await;
    let mut answer = response(&exchanges, get("/watch")).await;
    for _ in 0..3 {
        feed.send(()).await.unwrap();
        let frame = timeout(Duration::from_secs(5), answer.body_mut().frame()).await;
        let event = frame.unwrap().unwrap().unwrap().into_data().unwrap();
        assert_eq!(event, "event");
    }
    drop(feed);
    assert!(answer.body_mut().frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn early_response_reaches_the_caller_and_drops_the_stream() {
    let (exchanges, _agent) = joined(|request: Request<Body>| async move {
        let early = request.uri().path() == "/early";
        let body = if early { "too large" } else { "ok" };
        if !early {
            drop(request.into_body().collect().await);
        }
        Response::new(text(body))
    })
    .await;
    let (tx, body) = fed();
    let post = Request::post("/early").body(body).unwrap();
    tx.send(data(b"begun")).await.unwrap();
    let answer = response(&exchanges, post).await;
    assert_eq!(whole(answer).await, "too large");
    // The rest of the upload is dropped.
    timeout(Duration::from_secs(5), tx.closed()).await.unwrap();
    let answer = response(&exchanges, get("/next")).await;
    assert_eq!(whole(answer).await, "ok");
    assert_eq!(exchanges.session().stats().streams_total, 2);
}

#[tokio::test(start_paused = true)]
async fn truncated_body_is_an_error_in_both_directions() {
    let uploads = Arc::new(Mutex::new(Vec::new()));
    let seen = uploads.clone();
    let (exchanges, _agent) = joined(move |request: Request<Body>| {
        let seen = seen.clone();
        async move {
            if request.method() == Method::POST {
                // The request is dropped before the sender learns of it.
                let mut outcome = UploadOutcome(seen, None);
                outcome.1 = Some(request.into_body().collect().await.is_ok());
                drop(outcome);
                return Response::new(empty());
            }
            let (tx, body) = fed();
            tokio::spawn(async move {
                tx.send(data(b"half")).await.unwrap();
                tx.send(Err("the API server is gone".into())).await.unwrap();
            });
            let mut answer = Response::new(body);
            if request.uri().path() == "/sized" {
                let length = "1000".parse().unwrap();
                answer.headers_mut().insert(header::CONTENT_LENGTH, length);
            }
            answer
        }
    })
    .await;
    for path in ["/chunked", "/sized"] {
        let answer = response(&exchanges, get(path)).await;
        let end = timeout(Duration::from_secs(5), answer.into_body().collect()).await;
        assert!(end.unwrap().is_err(), "{path} ended cleanly");
    }
    let (tx, body) = fed();
    tx.send(data(b"half")).await.unwrap();
    let post = Request::post("/").body(body).unwrap();
    let sent = tokio::spawn({
        let exchanges = exchanges.clone();
        async move { exchanges.send(post).await }
    });
    tx.send(Err("the user is gone".into())).await.unwrap();
    let error = timeout(Duration::from_secs(5), sent)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(error.err(), Some(ExchangeError::Request(_))));
    until(|| lock(&uploads).len() == 1).await;
    assert_ne!(lock(&uploads)[0], Some(true), "the upload ended cleanly");
    until(|| exchanges.session().stats().streams_open == 0).await;
}

struct UploadOutcome(Arc<Mutex<Vec<Option<bool>>>>, Option<bool>);

impl Drop for UploadOutcome {
    fn drop(&mut self) {
        lock(&self.0).push(self.1);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_request_ends_at_the_server() {
    let gone = CancellationToken::new();
    let held = gone.clone();
    let (exchanges, agent) = joined(move |request: Request<Body>| {
        let guard = held.clone().drop_guard();
        async move {
            if request.uri().path() == "/head" {
                std::future::pending::<()>().await;
            }
            let (tx, body) = fed();
            tokio::spawn(async move {
                let _guard = guard;
                tx.send(data(b"event")).await.unwrap();
                tx.closed().await;
            });
            Response::new(body)
        }
    })
    .await;
    // While the head is outstanding.
    let kind = timeout(Duration::from_millis(100), exchanges.send(get("/head"))).await;
    assert!(kind.is_err());
    timeout(Duration::from_secs(5), gone.cancelled())
        .await
        .unwrap();
    until(|| agent.stats().streams_open == 0).await;
    // While the body is being read.
    let mut answer = response(&exchanges, get("/watch")).await;
    answer.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(agent.stats().streams_open, 1);
    drop(answer);
    until(|| agent.stats().streams_open == 0).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_request_drops_its_unread_upload() {
    let (exchanges, agent) = joined(|request: Request<Body>| async move {
        let _unread = request;
        std::future::pending().await
    })
    .await;
    let (tx, body) = fed();
    let post = Request::post("/").body(body).unwrap();
    let kind = exchanges.clone();
    let in_flight = tokio::spawn(async move { kind.send(post).await.is_ok() });
    tokio::spawn(async move { while tx.send(data(&[0; 4096])).await.is_ok() {} });
    until(|| agent.stats().unread > 64 * 1024).await;
    in_flight.abort();
    until(|| agent.stats().unread == 0).await;
}

#[tokio::test(start_paused = true)]
async fn missing_head_times_out_only_with_a_deadline() {
    let (exchanges, _agent) = joined(|_| async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        Response::new(empty())
    })
    .await;
    let hurried = exchanges.clone().with_head_timeout(Duration::from_secs(5));
    let failed = hurried.send(get("/")).await;
    assert!(matches!(failed.err(), Some(ExchangeError::Timeout(_))));
    assert!(exchanges.send(get("/")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn expected_100_is_awaited_and_refused_bodies_are_not_read() {
    let (exchanges, _agent) = joined(|request: Request<Body>| async move {
        if request.uri().path() == "/refuse" {
            let mut answer = Response::new(text("no"));
            *answer.status_mut() = StatusCode::EXPECTATION_FAILED;
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(boxed(Full::from(body)))
    })
    .await;
    let expecting = |path: &str, kind: Arc<Mutex<Option<Duration>>>| {
        let since = tokio::time::Instant::now();
        let mut left = Some(Bytes::from_static(b"upload"));
        let frames = futures_util::stream::poll_fn(move |_| {
            lock(&kind).get_or_insert(since.elapsed());
            Poll::Ready(left.take().map(|bytes| Ok(Frame::data(bytes))))
        });
        Request::put(path)
            .header(header::EXPECT, "100-continue")
            .body(Body::new(StreamBody::new(frames)))
            .unwrap()
    };
    let kind = Arc::new(Mutex::new(None));
    let answer = response(&exchanges, expecting("/take", kind.clone())).await;
    assert_eq!(whole(answer).await, "upload");
    let waited = lock(&kind).unwrap();
    assert!(
        waited >= Duration::from_millis(300) && waited < Duration::from_secs(1),
        "{waited:?}"
    );

    let kind = Arc::new(Mutex::new(None));
    let answer = response(&exchanges, expecting("/refuse", kind.clone())).await;
    assert_eq!(answer.status(), StatusCode::EXPECTATION_FAILED);
    assert_eq!(whole(answer).await, "no");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*lock(&kind), None);
}

#[tokio::test(start_paused = true)]
async fn oversized_head_is_refused_before_the_handler() {
    let (exchanges, _agent) = joined(|_| async { Response::new(text("reached")) }).await;
    let mut many = get("/");
    for n in 0..101 {
        let name: header::HeaderName = format!("x-{n}").parse().unwrap();
        many.headers_mut().insert(name, "1".parse().unwrap());
    }
    let mut large = get("/");
    let value = "v".repeat(70_000).parse().unwrap();
    large.headers_mut().insert("x-large", value);
    for request in [many, large] {
        match exchanges.send(request).await {
            Ok(Answer::Response(answer)) => {
                assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
            }
            Ok(Answer::Upgraded(..)) => panic!("an upgrade"),
            Err(error) => assert!(matches!(error, ExchangeError::Broken(_))),
        }
    }
    assert_eq!(whole(response(&exchanges, get("/")).await).await, "reached");
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_get_their_own_responses() {
    let (exchanges, _agent) = joined(|request: Request<Body>| async move {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut answer = Response::new(boxed(Full::from(body)));
        answer.headers_mut().insert("x-path", path.parse().unwrap());
        answer
    })
    .await;
    let mut tasks = JoinSet::new();
    for n in 0..48_usize {
        let exchanges = exchanges.clone();
        tasks.spawn(async move {
            for round in 0..10 {
                let sent = vec![n as u8; n * 4096 + round];
                let path = format!("/{n}/{round}");
                let post = Request::post(path.as_str())
                    .body(boxed(Full::from(sent.clone())))
                    .unwrap();
                let answer = response(&exchanges, post).await;
                assert_eq!(answer.headers()["x-path"], path.as_str());
                let got = answer.into_body().collect().await.unwrap().to_bytes();
                assert!(got == sent);
            }
        });
    }
    tasks.join_all().await;
    assert!(exchanges.session().stats().streams_total <= 64);
}
