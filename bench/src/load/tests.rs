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
        let plan = Plan {
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
        };
        measure(target.unwrap(), plan).await.unwrap()
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
