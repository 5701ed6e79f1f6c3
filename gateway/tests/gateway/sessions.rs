//! Begin and end of sessions, and the requests of agents over them.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::{ClusterId, Code, resources::ClusterState};
use fairlead_dialer::{CloseReason, SessionError};
use fairlead_exchange::{Answer as Exchanged, Exchanges};
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{Instant, timeout};

use crate::{
    client::{ROOT, all_back_to_zero, head, open, read_until, status, until},
    rig::{HUB, PausedClock, Rig, TEST_DEADLINE},
};
use fairlead_testkit::{
    agent::{AgentHello, FakeAgent, data, hello},
    wait::soon,
};

#[tokio::test]
async fn session_decides_the_status_of_its_cluster() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    let connected = status(&rig, ClusterState::Connected).await;
    assert_eq!(connected.last_error, None);
    let good = connected.last_good_probe;
    assert!(good.is_some() && connected.last_seen == good);
    agent.session.close(CloseReason::Done);
    let lost = status(&rig, ClusterState::Lost).await;
    assert_eq!(lost.last_error.unwrap().code, Code::SessionBroke);
    assert!(lost.last_good_probe >= good && lost.last_seen >= good);
    let answer = rig.get(HUB, &format!("{ROOT}/api?timeout=100ms"), "").await;
    assert_eq!((answer.status, answer.code()), (503, "FL-1402"));
    assert!(
        answer.text().contains("last error FL-3112"),
        "{}",
        answer.text()
    );
    all_back_to_zero(&rig).await;
}

#[tokio::test]
async fn changed_configuration_triggers_a_probe() {
    let rig = Rig::start();
    let agent = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, None)).await;
    status(&rig, ClusterState::Connected).await;
    assert_eq!(*agent.probes.desired_revision.borrow(), None);
    let _clock = PausedClock::start();
    let begun = Instant::now();
    for revision in ["one", "two", "three"] {
        named(&rig, &agent, revision).await;
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waits for nothing");
}

#[tokio::test]
async fn answers_to_probes_report_the_applied_configuration() {
    let rig = Rig::start();
    let agent = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, None)).await;
    status(&rig, ClusterState::Connected).await;
    assert!(rig.modules.applied.borrow().is_empty());
    let unready = (502, Some(("FL-1502", "/readyz answered 500")));
    for (revision, answer) in [("one", (200, None)), ("two", unready)] {
        *agent.probes.applied_revision.lock().unwrap() = Some(revision);
        *agent.probes.answer.lock().unwrap() = answer;
        named(&rig, &agent, revision).await;
        let mut applied = rig.modules.applied.subscribe();
        let expected = ("c-a".parse().unwrap(), revision.to_owned());
        let is_reported = applied.wait_for(|applied| applied.last() == Some(&expected));
        drop(soon(is_reported).await.unwrap());
    }
}

/// Waits until a probe has sent the revision to the agent.
async fn named(rig: &Rig, agent: &FakeAgent, revision: &str) {
    let mut wanted = agent.probes.desired_revision.subscribe();
    *rig.modules.wanted.lock().unwrap() = Some(revision.into());
    rig.modules.wanting.send("c-a".parse().unwrap()).unwrap();
    let is_named = wanted.wait_for(|wanted| wanted.as_deref() == Some(revision));
    drop(is_named.await.unwrap());
}

#[tokio::test]
async fn changed_configuration_interrupts_a_hanging_probe() {
    let rig = Rig::start();
    let agent = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, None)).await;
    status(&rig, ClusterState::Connected).await;
    let _clock = PausedClock::start();
    agent.probes.hangs.store(true, SeqCst);
    let begun = Instant::now();
    named(&rig, &agent, "one").await;
    named(&rig, &agent, "two").await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waits for no answer");
}

#[tokio::test]
async fn presence_lists_the_sessions_of_a_cluster() {
    let rig = Rig::start();
    let presence = rig.modules.presence.get().unwrap();
    let cluster: ClusterId = "c-a".parse().unwrap();
    assert_eq!(presence.sessions(&cluster), []);
    let _agent = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, None)).await;
    status(&rig, ClusterState::Connected).await;
    let sessions = presence.sessions(&cluster);
    let [session] = sessions.as_slice() else {
        panic!("{sessions:?}");
    };
    assert!(session.up && session.requests == 0);
    assert!(session.last_good_probe.is_some() && session.opened < session.certificate_expires);
}

#[tokio::test]
async fn unready_api_server_is_reported_with_the_agents_cause() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    // The next session begins with a bad probe.
    drop(agent);
    let key = FakeAgent::of(rig.access(), "c-b").await;
    *key.probes.answer.lock().unwrap() = (502, Some(("FL-1502", "connection refused")));
    let answer = rig.get(HUB, "/k8s/clusters/c-b/own", "").await;
    assert_eq!((answer.status, answer.code()), (502, "FL-1502"));
    assert!(
        answer.text().contains("connection refused"),
        "{}",
        answer.text()
    );
    let foreign = rig.get(HUB, "/k8s/clusters/c-b/foreign", "").await;
    assert_eq!((foreign.status, foreign.code()), (502, "FL-1404"));
}

#[tokio::test]
async fn replaced_session_finishes_its_requests() {
    let rig = Rig::start();
    let old = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, None)).await;
    status(&rig, ClusterState::Connected).await;
    let events = old.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    events.send(data("one")).await.unwrap();
    read_until(&mut watch, "one\r\n").await;

    let new = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, None)).await;
    assert_eq!(rig.get(HUB, &format!("{ROOT}/who"), "").await.status, 200);
    new.saw("GET /who").await;
    events.send(data("two")).await.unwrap();
    read_until(&mut watch, "two\r\n").await;
    drop(events);
    read_until(&mut watch, "0\r\n\r\n").await;
    let ended = timeout(TEST_DEADLINE, old.session.closed()).await.unwrap();
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Replaced)),
        "{ended:?}"
    );
    assert_eq!(rig.get(HUB, &format!("{ROOT}/who"), "").await.status, 200);
    until(async || rig.metric("fairlead_sessions", &[]) == 1.0).await;
}

#[tokio::test]
async fn without_an_identity_nothing_but_enrolment_and_adoption_answers() {
    let rig = Rig::start();
    let stranger = FakeAgent::without_identity(rig.access()).await;
    let exchanges = Exchanges::new(stranger.session.clone());
    for (method, path, status, code) in [
        ("POST", "/agent/v1/enroll", 200, "none"),
        ("GET", "/agent/v1/enroll", 403, "FL-2106"),
        // This hub has no module for adoptions.
        ("POST", "/agent/v1/adopt", 404, "FL-1305"),
        ("GET", "/agent/v1/adopt", 403, "FL-2106"),
        ("POST", "/agent/v1/adopt/more", 403, "FL-2106"),
        ("CONNECT", "git.example:22", 403, "FL-2106"),
        ("POST", "/agent/v1/renew", 403, "FL-2106"),
        ("GET", "/agent/v1/catalog", 403, "FL-2106"),
        ("POST", "/agent/v1/../v1/enroll", 400, "FL-1303"),
        ("GET", "/v1/whoami", 403, "FL-2106"),
    ] {
        assert_eq!(
            ask(&exchanges, method, path).await,
            (status, code.to_owned()),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn bootstrap_token_guesses_are_rate_limited_over_all_sessions() {
    let rig = Rig::start();
    let one = FakeAgent::without_identity(rig.access()).await;
    let other = FakeAgent::without_identity(rig.access()).await;
    let exchanges = [&one, &other].map(|it| Exchanges::new(it.session.clone()));
    let guess = "/agent/v1/enroll?wrong";
    let spent = "/agent/v1/enroll?spent";
    for n in 0..30 {
        let [one, other] = &exchanges;
        let by = if n % 2 == 0 { one } else { other };
        assert_eq!(ask(by, "POST", guess).await, (401, "FL-2101".to_owned()));
        // A spent token of this hub is no guess.
        assert_eq!(ask(by, "POST", spent).await.1, "FL-2103");
    }
    for exchanges in &exchanges {
        let more = ask(exchanges, "POST", guess).await;
        assert_eq!(more, (429, "FL-1104".to_owned()));
        assert_eq!(ask(exchanges, "POST", spent).await.1, "FL-2103");
        let right = ask(exchanges, "POST", "/agent/v1/enroll").await;
        assert_eq!(right, (200, "none".to_owned()));
    }
    let front = rig
        .get(HUB, "/v1/whoami", "authorization: Bearer wrong\r\n")
        .await;
    assert_eq!(front.code(), "FL-1104", "it is one count");
}

#[tokio::test]
async fn agent_reaches_only_the_routes_for_agents() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    let exchanges = Exchanges::new(agent.session.clone());
    for (method, path, status, code) in [
        ("GET", "/agent/v1/catalog", 200, "none"),
        ("POST", "/agent/v1/renew", 200, "none"),
        ("GET", "/v1/whoami", 404, "FL-1305"),
        ("DELETE", "/agent/v1/catalog", 405, "FL-1307"),
    ] {
        assert_eq!(
            ask(&exchanges, method, path).await,
            (status, code.to_owned()),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn session_ends_with_its_certificate_unless_renewed() {
    let rig = Rig::start();
    // Long enough for the renewal at this machine's present speed: the clock of a certificate cannot be paused.
    let begun = Instant::now();
    let first = FakeAgent::of(rig.access(), "c-a").await;
    assert_eq!(
        ask(&first.exchanges, "POST", "/agent/v1/renew").await.0,
        200
    );
    let left = Duration::from_secs(10) + 20 * begun.elapsed();
    let renewing = FakeAgent::expiring(rig.access(), "c-a", left).await;
    let exchanges = Exchanges::new(renewing.session.clone());
    assert_eq!(ask(&exchanges, "POST", "/agent/v1/renew").await.0, 200);

    let careless = FakeAgent::expiring(rig.access(), "c-b", left).await;
    let ended = timeout(left + TEST_DEADLINE, careless.session.closed());
    let ended = ended.await.unwrap();
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Expired)),
        "{ended:?}"
    );
    // The first certificate has expired before that.
    assert_eq!(ask(&exchanges, "GET", "/agent/v1/catalog").await.0, 200);
}

#[tokio::test]
async fn expired_identity_may_only_be_renewed() {
    let rig = Rig::start();
    let hour = Duration::from_mins(59);
    let lapsed = FakeAgent::expired(rig.access(), "c-a", hour, AgentHello::Omitted).await;
    let exchanges = Exchanges::new(lapsed.session.clone());
    for (method, path, status, code) in [
        ("POST", "/agent/v1/hello", 401, "FL-2110"),
        ("GET", "/agent/v1/catalog", 401, "FL-2110"),
        ("POST", "/agent/v1/enroll", 401, "FL-2110"),
        ("POST", "/agent/v1/renew", 200, "none"),
        ("POST", "/agent/v1/hello", 401, "FL-2110"),
    ] {
        assert_eq!(
            ask(&exchanges, method, path).await,
            (status, code.to_owned()),
            "{method} {path}"
        );
    }
    assert_eq!(
        rig.metric("fairlead_sessions", &[]),
        0.0,
        "it serves nobody"
    );
    let answer = rig.get(HUB, &format!("{ROOT}/api?timeout=0s"), "").await;
    assert_eq!((answer.status, answer.code()), (503, "FL-1401"));
}

async fn ask(exchanges: &Exchanges, method: &str, path: &str) -> (u16, String) {
    // The Host of a CONNECT is its target.
    let host = if method == "CONNECT" { path } else { "hub" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host)
        .body(Empty::new().map_err(|never| match never {}).boxed_unsync())
        .unwrap();
    match exchanges.send(request).await.unwrap() {
        Exchanged::Upgraded(..) => panic!("upgraded"),
        Exchanged::Response(response) => {
            let code = response.headers().get("fairlead-code").cloned();
            let code = code.map_or("none".to_owned(), |c| c.to_str().unwrap().to_owned());
            (response.status().as_u16(), code)
        }
    }
}

#[tokio::test]
async fn request_over_the_limit_is_asked_to_retry() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let connect = async || {
        let tls = rig.connect(HUB, "h2").await;
        let (sender, connection) =
            http2::handshake::<_, _, Empty<bytes::Bytes>>(TokioExecutor::new(), TokioIo::new(tls))
                .await
                .unwrap();
        tokio::spawn(connection);
        sender
    };
    let mut sender = connect().await;
    let mut watches = Vec::new();
    let refused = loop {
        assert!(watches.len() < 600, "there is no cap");
        if watches.len() % 100 == 99 {
            sender = connect().await;
        }
        let events = agent.next_stream();
        let request = Request::builder()
            .uri(format!("https://{HUB}{ROOT}/stream"))
            .header(header::AUTHORIZATION, "Bearer good")
            .body(Empty::new())
            .unwrap();
        let response = sender.clone().send_request(request).await.unwrap();
        if response.status() != 200 {
            break response;
        }
        watches.push((events, response.into_body()));
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["fairlead-code"], "FL-1403");
    assert_eq!(refused.headers()["retry-after"], "1");
    for (events, body) in &mut watches {
        events.send(data("on")).await.unwrap();
        assert_eq!(
            body.frame().await.unwrap().unwrap().into_data().unwrap(),
            "on"
        );
    }
}

#[tokio::test]
async fn watches_of_one_caller_leave_capacity_to_others() {
    let rig = Rig::with(|config| config.limits.max_requests_per_caller = 2);
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let mut watches = Vec::new();
    for _ in 0..2 {
        let events = agent.next_stream();
        let mut watch = open(&rig, &head("GET", "/stream", "")).await;
        read_until(&mut watch, "\r\n\r\n").await;
        watches.push((events, watch));
    }
    let get = head("GET", "/api", "");
    let refused = read_until(&mut open(&rig, &get).await, "\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("fairlead-code: FL-1407"), "{refused}");
    let other = get.replace("Bearer good", "Bearer another");
    let other = read_until(&mut open(&rig, &other).await, "\r\n\r\n").await;
    assert!(other.starts_with("HTTP/1.1 200 "), "{other}");

    let (events, mut watch) = watches.pop().unwrap();
    drop(events);
    read_until(&mut watch, "0\r\n\r\n").await;
    let again = read_until(&mut open(&rig, &get).await, "\r\n\r\n").await;
    assert!(again.starts_with("HTTP/1.1 200 "), "{again}");
}

#[tokio::test]
async fn drain_finishes_requests_and_then_closes_the_session() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let events = agent.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    read_until(&mut watch, "\r\n\r\n").await;
    rig.process.start_drain();
    events.send(data("late")).await.unwrap();
    read_until(&mut watch, "late\r\n").await;
    drop(events);
    read_until(&mut watch, "0\r\n\r\n").await;
    let ended = timeout(TEST_DEADLINE, agent.session.closed())
        .await
        .unwrap();
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Draining)),
        "{ended:?}"
    );
    all_back_to_zero(&rig).await;
}

#[tokio::test]
async fn memory_of_all_sessions_is_a_metric() {
    let rig = Rig::with(|config| config.limits.session_memory = 5 << 20);
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    let told = |name| rig.metric(name, &[]);
    assert_eq!(told("fairlead_session_memory_limit_bytes"), 5_242_880.0);
    assert_eq!(told("fairlead_session_memory_bytes"), 0.0);
}
