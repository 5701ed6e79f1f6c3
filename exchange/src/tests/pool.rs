//! Idle transports and their reuse.

use http::{Response, header};

use super::{
    script::{Script, ScriptEnd, kind},
    *,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test(start_paused = true)]
async fn dead_pooled_stream_is_replaced_for_an_idempotent_request() {
    let (agent, hub) = pair(64, PIPE_BYTES).await;
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        while let Some(stream) = agent.accept().await {
            let count = count.clone();
            tasks.spawn(async move {
                let first = AtomicUsize::new(0);
                let done = CancellationToken::new();
                let kind = done.clone();
                let serving = serve(stream, move |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                    let second = first.fetch_add(1, Ordering::Relaxed) == 1;
                    let kind = kind.clone();
                    async move {
                        if second {
                            kind.cancel();
                            std::future::pending::<()>().await;
                        }
                        Response::new(text("fine"))
                    }
                });
                // Dies under the second request on the same stream.
                tokio::select! {
                    _ = serving => {}
                    () = done.cancelled() => {}
                }
            });
        }
    });
    let exchanges = Exchanges::new(hub);
    assert_eq!(whole(response(&exchanges, get("/")).await).await, "fine");
    assert_eq!(whole(response(&exchanges, get("/")).await).await, "fine");
    assert_eq!(served.load(Ordering::Relaxed), 3);
    // A request that is not idempotent is not repeated.
    let delete = Request::post("/").body(empty()).unwrap();
    let failed = exchanges.send(delete).await;
    assert!(matches!(failed.err(), Some(ExchangeError::Broken(_))));
    assert_eq!(served.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn idle_stream_is_dropped_after_a_minute() {
    let (exchanges, agent) = joined(|_| async { Response::new(empty()) }).await;
    drop(response(&exchanges, get("/")).await);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(agent.stats().streams_open, 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(agent.stats().streams_open, 0);
    assert_eq!(exchanges.session().stats().streams_open, 0);
}

#[tokio::test(start_paused = true)]
async fn idle_streams_make_room_for_a_new_one() {
    let (exchanges, _agent) = joined(|_| async { Response::new(text("fine")) }).await;
    let mut answers = Vec::new();
    for _ in 0..64 {
        answers.push(response(&exchanges, get("/")).await);
    }
    for answer in answers {
        whole(answer).await;
    }
    let stats = || exchanges.session().stats();
    assert_eq!((stats().streams_open, stats().streams_total), (64, 64));
    let mut upgrade = get("/");
    let headers = upgrade.headers_mut();
    headers.insert(header::CONNECTION, "upgrade".parse().unwrap());
    headers.insert(header::UPGRADE, "websocket".parse().unwrap());
    assert_eq!(whole(response(&exchanges, upgrade).await).await, "fine");
    assert_eq!(stats().streams_total, 65);
}

/// Sends, and reads the response to its end.
async fn sent<C>(
    client: &Client<Script>,
    request: Request<Body>,
    connect: impl FnOnce() -> C,
) -> Result<String, SendError<BodyError>>
where
    C: Future<Output = Result<Script, BodyError>>,
{
    match client.send(request, connect).await? {
        Answer::Response(response) => Ok(whole(response).await),
        Answer::Upgraded(..) => panic!("an upgrade"),
    }
}

async fn no_other() -> Result<Script, BodyError> {
    Err("there is no other transport".into())
}

#[tokio::test(start_paused = true)]
async fn idle_transport_that_ended_or_sent_data_is_never_used() {
    let unasked: [(&[&[u8]], ScriptEnd); 3] = [
        (&[OK], ScriptEnd::Clean),
        (&[OK], ScriptEnd::Reset),
        (
            &[OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n"],
            ScriptEnd::Silence,
        ),
    ];
    for (pieces, end) in unasked {
        let client = Client::new(4);
        let (first, _) = Script::new(pieces, end);
        let first = first.polite(0, 0);
        let first = sent(&client, kind(Method::GET), || async { Ok(first) }).await;
        assert_eq!(first.unwrap(), "ok");
        let (second, tape) = Script::new(&[OK], ScriptEnd::Silence);
        let post = sent(&client, kind(Method::POST), || async { Ok(second) }).await;
        assert_eq!(post.unwrap(), "ok");
        assert!(lock(&tape).written.starts_with(b"POST / HTTP/1.1\r\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn request_is_repeated_only_if_idempotent_and_unanswered() {
    // Second response on a pooled transport, and whether a GET is repeated.
    for (answer, end, again) in [
        ("", ScriptEnd::Clean, true),
        ("", ScriptEnd::Reset, true),
        ("HTTP/1.1 2", ScriptEnd::Clean, false),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", ScriptEnd::Reset, false),
        ("HTTP/1.0 nonsense\r\n\r\n", ScriptEnd::Silence, false),
    ] {
        for method in [Method::GET, Method::POST] {
            let client = Client::new(4);
            let (first, tape) = Script::new(&[OK, answer.as_bytes()], end);
            let first = first.polite(1, 2);
            let one = sent(&client, kind(Method::GET), || async { Ok(first) }).await;
            assert_eq!(one.unwrap(), "ok");
            let (fresh, _) = Script::new(&[OK], ScriptEnd::Silence);
            let two = sent(&client, kind(method.clone()), || async { Ok(fresh) }).await;
            let expected = again && method == Method::GET;
            assert_eq!(two.is_ok(), expected, "{method}, {answer:?}");
            assert!(lock(&tape).dropped);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn idle_transports_are_limited() {
    let client = Client::new(2);
    let mut tapes = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (transport, tape) = Script::new(&[OK], ScriptEnd::Silence);
        tapes.push(tape);
        let in_flight = client.send(kind(Method::GET), || async {
            Ok::<_, BodyError>(transport)
        });
        match in_flight.await.unwrap() {
            Answer::Response(response) => answers.push(response),
            Answer::Upgraded(..) => panic!("an upgrade"),
        }
    }
    for answer in answers {
        whole(answer).await;
    }
    let dropped: Vec<bool> = tapes.iter().map(|tape| lock(tape).dropped).collect();
    assert_eq!(dropped, [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn upgrade_gets_a_new_transport() {
    let client = Client::new(2);
    let (transport, _) = Script::new(&[OK], ScriptEnd::Silence);
    let first = sent(&client, kind(Method::GET), || async { Ok(transport) }).await;
    assert_eq!(first.unwrap(), "ok");
    let mut upgrade = kind(Method::GET);
    upgrade
        .headers_mut()
        .insert(header::UPGRADE, "x".parse().unwrap());
    let refused = sent(&client, upgrade, no_other).await;
    assert!(matches!(refused, Err(SendError::Connect(_))));
}

#[tokio::test(start_paused = true)]
async fn connection_closed_by_the_server_is_never_used() {
    let (near, mut far) = tokio::io::duplex(4096);
    let client = Client::new(2);
    let mut transports = vec![SocketTransport::new(near)];
    far.write_all(OK).await.unwrap();
    let mut ask = async || {
        let transport = transports.pop();
        let connect = || async { transport.ok_or_else(|| BodyError::from("there is no other")) };
        client.send(kind(Method::GET), connect).await
    };
    let Ok(Answer::Response(answer)) = ask().await else {
        panic!("no answer");
    };
    assert_eq!(whole(answer).await, "ok");
    drop(far);
    assert!(matches!(ask().await, Err(SendError::Connect(_))));
}
