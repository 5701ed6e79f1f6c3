//! Raw streams over real sessions.

use http::StatusCode;

use super::*;

/// The agent's end of an upgrade: responds 101 and joins the stream to `far`.
async fn upgrading(
    mut request: Request<Body>,
    far: Arc<Mutex<Option<tokio::io::DuplexStream>>>,
) -> Response<Body> {
    let mut answer = Response::new(empty());
    if request.uri().path() == "/refuse" {
        *answer.status_mut() = StatusCode::FORBIDDEN;
        *answer.body_mut() = text("not for you");
        return answer;
    }
    let upgrade = request.extensions_mut().remove::<OnUpgrade>().unwrap();
    let far = lock(&far).take().unwrap();
    tokio::spawn(async move {
        let io = upgrade.await.unwrap();
        let _ = splice(io, far).await;
    });
    if request.method() != Method::CONNECT {
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(header::CONNECTION, "Upgrade".parse().unwrap());
        headers.insert(header::UPGRADE, "SPDY/3.1".parse().unwrap());
    }
    answer
}

fn exec() -> Request<Body> {
    Request::post("/exec")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "SPDY/3.1")
        .body(empty())
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn upgrades_are_spliced_with_half_close_in_both_directions() {
    let connect = || Request::connect("db.local:5432").body(empty()).unwrap();
    let requests: [fn() -> Request<Body>; 2] = [exec, connect];
    for request in requests {
        let (far, mut container) = tokio::io::duplex(1024);
        let far = Arc::new(Mutex::new(Some(far)));
        let (exchanges, agent) = joined(move |request| upgrading(request, far.clone())).await;
        let Ok(Answer::Upgraded(head, mut raw)) = exchanges.send(request()).await else {
            panic!("no upgrade");
        };
        assert!(head.status() == 101 || head.status() == 200);
        raw.write_all(b"stdin").await.unwrap();
        raw.shutdown().await.unwrap();
        let mut got = String::new();
        container.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "stdin");
        // Standard input has ended; the output continues.
        container.write_all(&[7; 100]).await.unwrap();
        let mut part = [0; 100];
        raw.read_exact(&mut part).await.unwrap();
        container.shutdown().await.unwrap();
        assert_eq!(raw.read(&mut [0]).await.unwrap(), 0);
        drop(raw);
        until(|| agent.stats().streams_open == 0).await;
        until(|| exchanges.session().stats().streams_open == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_upgrade_passes_unchanged() {
    let (exchanges, _agent) =
        joined(|request| upgrading(request, Arc::new(Mutex::new(None)))).await;
    let mut request = exec();
    *request.uri_mut() = "/refuse".parse().unwrap();
    let answer = response(&exchanges, request).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert_eq!(whole(answer).await, "not for you");
}

#[tokio::test(start_paused = true)]
async fn spliced_stream_of_a_broken_session_ends_with_an_error() {
    let (far, mut container) = tokio::io::duplex(1024);
    let far = Arc::new(Mutex::new(Some(far)));
    let (exchanges, agent) = joined(move |request| upgrading(request, far.clone())).await;
    let Ok(Answer::Upgraded(_, mut raw)) = exchanges.send(exec()).await else {
        panic!("no upgrade");
    };
    container.write_all(b"half").await.unwrap();
    let mut got = [0; 4];
    raw.read_exact(&mut got).await.unwrap();
    agent.close(CloseReason::Draining);
    assert!(raw.read(&mut [0]).await.is_err());
    let failed = exchanges.send(get("/")).await;
    assert!(matches!(failed.err(), Some(ExchangeError::Open(_))));
}
