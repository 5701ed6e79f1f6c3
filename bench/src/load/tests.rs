use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::{
    proxy,
    serve::{Ready, Server, ready_file},
    upstream,
};

const WINDOW: Duration = Duration::from_millis(200);

/// Upstream and proxy on loopback, inside the test.
struct Rig {
    dir: TempDir,
    roles: JoinSet<anyhow::Result<()>>,
}

impl Rig {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let mut roles = JoinSet::new();
        let answers = upstream::Answers::default();
        let server = Server::start("upstream", dir.path()).unwrap();
        let answered = move |request| upstream::answer(answers.clone(), request);
        roles.spawn(server.serve(answered.clone(), answered));

        let upstream = ready("upstream", dir.path());
        let tls = tls::client(&upstream.ca_file).unwrap();
        let secure = proxy::pool(&upstream.url.parse().unwrap(), Some(tls)).unwrap();
        let plain = proxy::pool(&upstream.plain_url.parse().unwrap(), None).unwrap();
        let server = Server::start("proxy", dir.path()).unwrap();
        roles.spawn(server.serve(
            move |request| proxy::answer(secure.clone(), request),
            move |request| proxy::answer(plain.clone(), request),
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
        assert_eq!(self.roles.len(), 2);
        let ready = ready(role, self.dir.path());
        let target = Target::new(Wanted {
            url: &ready.url.parse().unwrap(),
            path,
            upload,
            expect,
            server_name: Some("localhost"),
            host: None,
            token: Some("t"),
            tls: Some(tls::client(&ready.ca_file).unwrap()),
            via: None,
            echo: false,
        });
        let plan = Plan {
            connections: 4,
            rate: None,
            warmup: Duration::ZERO,
            window: WINDOW,
            watched: Vec::new(),
        };
        measure(target.unwrap(), plan).await.unwrap()
    }
}

fn ready(role: &str, dir: &Path) -> Ready {
    serde_json::from_slice(&std::fs::read(ready_file(role, dir)).unwrap()).unwrap()
}

#[tokio::test]
async fn small_answers_are_counted_without_errors_direct_and_through_the_proxy() {
    let rig = Rig::start();
    for role in ["upstream", "proxy"] {
        let outcome = rig
            .measure(role, "/bytes/1024", None, Some(upstream::SMALL))
            .await;
        assert_eq!(
            (outcome.errors, outcome.first_error.as_deref()),
            (0, None),
            "{role}"
        );
        assert!(outcome.requests > 0, "{role}");
        // Bytes of the requests under way at either end of the window belong to it too: at most one a connection.
        let counted = outcome
            .bytes
            .abs_diff(outcome.requests * upstream::SMALL as u64);
        assert!(counted <= 4 * upstream::SMALL as u64, "{role}: {outcome:?}");
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
            .measure(role, "/bytes/8388608", None, Some(upstream::LARGE))
            .await;
        assert_eq!(
            (down.errors, down.first_error.as_deref()),
            (0, None),
            "{role}"
        );
        assert!(down.bytes > 0, "{role}: {down:?}");
        let up = rig
            .measure(role, "/sink", Some(upstream::LARGE), None)
            .await;
        assert_eq!((up.errors, up.first_error.as_deref()), (0, None), "{role}");
        assert!(up.bytes > 0, "{role}: {up:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_as_expected_is_an_error_and_no_request() {
    let rig = Rig::start();
    let wrong_size = rig.measure("upstream", "/bytes/1024", None, Some(7)).await;
    assert_eq!(wrong_size.requests, 0);
    assert_eq!(
        wrong_size.first_error.as_deref(),
        Some("1024 bytes came instead of 7")
    );
    let not_found = rig.measure("proxy", "/none", None, None).await;
    assert_eq!(not_found.requests, 0);
    assert!(not_found.first_error.unwrap().starts_with("404 Not Found"));
}
