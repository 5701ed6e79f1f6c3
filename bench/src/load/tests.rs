use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::{
    proxy,
    serve::{Ready, Server, ready_file},
    upstream,
};
use hyper::service::service_fn;

const WINDOW_LENGTH: Duration = Duration::from_millis(200);

/// Upstream and proxy on loopback, in this process.
struct Rig {
    dir: TempDir,
    roles: JoinSet<anyhow::Result<()>>,
}

impl Rig {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let mut roles = JoinSet::new();
        let answers = upstream::UpstreamAnswers::default();
        let server = Server::start("upstream", dir.path()).unwrap();
        let answered = service_fn(move |request| upstream::answer(answers.clone(), request));
        roles.spawn(server.serve(answered.clone(), answered));

        let upstream = ready("upstream", dir.path());
        let tls = crate::tls::client(&upstream.ca_file).unwrap();
        let secure = proxy::pool(&upstream.url.parse().unwrap(), Some(tls)).unwrap();
        let plain = proxy::pool(&upstream.plain_url.parse().unwrap(), None).unwrap();
        let server = Server::start("proxy", dir.path()).unwrap();
        roles.spawn(server.serve(
            service_fn(move |request| proxy::answer(secure.clone(), request)),
            service_fn(move |request| proxy::answer(plain.clone(), request)),
        ));
        Self { dir, roles }
    }

    async fn measure(
        &self,
        role: &str,
        path: &str,
        upload: Option<usize>,
        expect: Option<usize>,
    ) -> Outcome {
        let body = upload.map_or(Sent::Nothing, Sent::Bytes);
        self.ask(role, path, body, expect, Until::Answers(1)).await
    }

    async fn ask(
        &self,
        role: &str,
        path: &str,
        body: Sent,
        expect: Option<usize>,
        until: Until,
    ) -> Outcome {
        assert_eq!(self.roles.len(), 2);
        let ready = ready(role, self.dir.path());
        let target = Target::new(Wanted {
            url: &ready.url.parse().unwrap(),
            path,
            body,
            expect: expect.unwrap_or(0)..=expect.unwrap_or(usize::MAX),
            server_name: Some("localhost"),
            host: None,
            token: Some("t"),
            tls: Some(crate::tls::client(&ready.ca_file).unwrap()),
            via: None,
            echo: false,
        });
        measure(target.unwrap(), plan(until)).await.unwrap()
    }
}

fn plan(until: Until) -> Plan {
    Plan {
        connections: 4,
        rate: None,
        warmup: Duration::ZERO,
        window: WINDOW_LENGTH,
        answers: match until {
            Until::Answers(count) => count,
            Until::Cut => 0,
        },
        watched: Vec::new(),
        cut: until == Until::Cut,
        counted_at: None,
    }
}

/// End of the window. It does not depend on the speed of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Answers(u64),
    Cut,
}

fn ready(role: &str, dir: &Path) -> Ready {
    serde_json::from_slice(&std::fs::read(ready_file(role, dir)).unwrap()).unwrap()
}

#[tokio::test]
async fn small_answers_are_counted_without_errors_direct_and_through_the_proxy() {
    let rig = Rig::start();
    for role in ["upstream", "proxy"] {
        let outcome = rig
            .measure(role, "/bytes/1024", None, Some(upstream::SMALL_BODY_BYTES))
            .await;
        assert_eq!(
            (outcome.errors, outcome.first_error.as_deref()),
            (0, None),
            "{role}"
        );
        assert!(outcome.requests > 0, "{role}");
        // Requests in flight at either end of the window contribute bytes too, at most one per connection.
        let counted = outcome
            .bytes
            .abs_diff(outcome.requests * upstream::SMALL_BODY_BYTES as u64);
        assert!(
            counted <= 4 * upstream::SMALL_BODY_BYTES as u64,
            "{role}: {outcome:?}"
        );
        assert!(
            outcome.p50_us > 0.0 && outcome.p50_us <= outcome.p99_us,
            "{role}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn streams_of_one_http2_connection_are_counted_direct_and_through_the_proxy() {
    let rig = Rig::start();
    for role in ["upstream", "proxy"] {
        let ready = ready(role, rig.dir.path());
        let url = ready.url.parse().unwrap();
        let target = Target::new(Wanted {
            url: &url,
            path: "/bytes/1024",
            body: Sent::Nothing,
            expect: upstream::SMALL_BODY_BYTES..=upstream::SMALL_BODY_BYTES,
            server_name: Some("localhost"),
            host: None,
            token: Some("t"),
            tls: Some(crate::tls::client_of_http2(&ready.ca_file).unwrap()),
            via: None,
            echo: false,
        });
        let target = target.unwrap().over_http2(&url).unwrap();
        let outcome = measure(target, plan(Until::Answers(1))).await.unwrap();
        let failed = (outcome.errors, outcome.first_error.as_deref());
        assert_eq!(failed, (0, None), "{role}");
        assert!(outcome.requests > 0, "{role}");
    }
}

#[tokio::test]
async fn large_bodies_pass_both_ways_without_errors_direct_and_through_the_proxy() {
    let rig = Rig::start();
    for role in ["upstream", "proxy"] {
        let down = rig
            .measure(
                role,
                "/bytes/8388608",
                None,
                Some(upstream::LARGE_BODY_BYTES),
            )
            .await;
        assert_eq!(
            (down.errors, down.first_error.as_deref()),
            (0, None),
            "{role}"
        );
        assert!(down.bytes > 0, "{role}: {down:?}");
        let up = rig
            .measure(role, "/sink", Some(upstream::LARGE_BODY_BYTES), None)
            .await;
        assert_eq!((up.errors, up.first_error.as_deref()), (0, None), "{role}");
        assert!(up.bytes > 0, "{role}: {up:?}");
    }
}

#[tokio::test]
async fn answer_that_is_not_as_expected_is_an_error_and_no_request() {
    let rig = Rig::start();
    let ask = async |role, path, expect| {
        let none = Until::Answers(0);
        rig.ask(role, path, Sent::Nothing, expect, none).await
    };
    let wrong_size = ask("upstream", "/bytes/1024", Some(7)).await;
    assert_eq!(wrong_size.requests, 0);
    assert_eq!(
        wrong_size.first_error.as_deref(),
        Some("1024 bytes came instead of 7")
    );
    let not_found = ask("proxy", "/none", None).await;
    assert_eq!(not_found.requests, 0);
    assert!(not_found.first_error.unwrap().starts_with("404 Not Found"));
}

#[tokio::test]
async fn endless_bodies_are_aborted_without_errors() {
    let rig = Rig::start();
    for (path, body) in [("/endless", Sent::Nothing), ("/sink", Sent::Endless)] {
        let outcome = rig.ask("proxy", path, body, None, Until::Cut).await;
        let said = (outcome.errors, outcome.requests);
        assert_eq!(said, (0, 0), "{path}: {outcome:?}");
    }
}

#[tokio::test]
async fn work_over_raw_tcp_is_counted_without_errors() {
    let dir = TempDir::new().unwrap();
    let server = upstream::RawServer::start(dir.path()).unwrap();
    let received = Arc::<std::sync::atomic::AtomicU64>::default();
    drop(tokio::spawn(server.serve(received.clone())));
    let address = upstream::RawReady::read(dir.path()).unwrap().plain;
    for work in [TcpWork::Echo, TcpWork::Exchange] {
        let target = TcpTarget::new(address, work);
        let outcome = measure(target, plan(Until::Answers(1))).await.unwrap();
        let failed = (outcome.errors, outcome.first_error.as_deref());
        assert_eq!(failed, (0, None), "{work:?}");
        assert!(outcome.requests > 0 && outcome.bytes > 0, "{work:?}");
    }
    for work in [TcpWork::Down, TcpWork::Up] {
        let target = TcpTarget::new(address, work);
        let outcome = measure(target, plan(Until::Cut)).await.unwrap();
        assert_eq!((outcome.errors, outcome.requests), (0, 0), "{work:?}");
        assert_eq!(outcome.bytes > 0, work == TcpWork::Down, "{work:?}");
    }
    assert!(received.load(std::sync::atomic::Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn connection_that_ends_without_an_echo_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let refusing = tokio::spawn(async move { drop(listener.accept().await.unwrap()) });
    let target = TcpTarget::new(address, TcpWork::Exchange);
    assert!(target.once().await.is_err());
    refusing.await.unwrap();
}

#[tokio::test]
async fn upstream_reports_received_bytes_on_its_socket() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("count");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let telling = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let (mut asking, _) = listener.accept().await.unwrap();
        asking.write_all(b"42").await.unwrap();
    });
    assert_eq!(counted(Some(&socket)).await.unwrap(), Some(42));
    assert_eq!(counted(None).await.unwrap(), None);
    telling.await.unwrap();
}
