//! Several sessions of one cluster: several agents, several links of each, and clones.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::{Code, resources::ClusterState};
use fairlead_dialer::{CloseReason, SessionError};
use tokio::time::{Instant, timeout};

use crate::{
    client::{ROOT, head, open, read_until, rest, status, until},
    rig::{HUB, PausedClock, RawAnswer, Rig, TEST_DEADLINE},
};
use fairlead_testkit::agent::{AgentHello, FakeAgent, data, hello};

const HOME: Option<&str> = Some("uid-1");
const ELSEWHERE: Option<&str> = Some("uid-2");

async fn get(rig: &Rig) -> RawAnswer {
    rig.get(HUB, &format!("{ROOT}/who"), "").await
}

/// Number of requests since the last call.
async fn asked(agent: &FakeAgent) -> usize {
    let mut requests = agent.requests.lock().await;
    let mut count = 0;
    while requests.try_recv().is_ok() {
        count += 1;
    }
    count
}

/// Waits until the agent gets a request.
async fn serves(rig: &Rig, agent: &FakeAgent) {
    let asking = async {
        while asked(agent).await == 0 {
            assert_eq!(get(rig).await.status, 200);
        }
    };
    timeout(TEST_DEADLINE, asking).await.unwrap();
}

async fn ended(agent: &FakeAgent) -> SessionError {
    timeout(TEST_DEADLINE, agent.session.closed())
        .await
        .unwrap()
}

#[tokio::test]
async fn two_agents_of_one_cluster_serve_and_the_end_of_one_touches_its_own_streams_alone() {
    let rig = Rig::start();
    // No time passes, so both are equally near.
    let clock = PausedClock::start();
    let one = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, HOME)).await;
    status(&rig, ClusterState::Connected).await;
    let events = one.next_stream();
    let mut its_own = open(&rig, &head("GET", "/stream", "")).await;
    events.send(data("one")).await.unwrap();
    read_until(&mut its_own, "one\r\n").await;
    let two = FakeAgent::with_hello(rig.access(), "c-a", hello(2, 0, HOME)).await;
    serves(&rig, &two).await;
    drop(clock);
    assert_eq!(rig.metric("fairlead_sessions", &[]), 2.0);

    // The load of the first session grows until the second one is chosen.
    let (others, mut busy) = (two.next_stream(), Vec::new());
    let mut beside = loop {
        let ones = one.next_stream();
        let mut stream = open(&rig, &head("GET", "/stream", "")).await;
        read_until(&mut stream, "\r\n\r\n").await;
        if asked(&two).await > 0 {
            break stream;
        }
        busy.push((ones, stream));
    };
    others.send(data("two")).await.unwrap();
    read_until(&mut beside, "two\r\n").await;
    one.session.close(CloseReason::Done);
    assert!(
        rest(&mut its_own).await.1.is_err(),
        "its running requests are reset"
    );
    for _ in 0..20 {
        assert_eq!(get(&rig).await.status, 200);
    }
    others.send(data("three")).await.unwrap();
    read_until(&mut beside, "three\r\n").await;
    let reported = rig.modules.reported.borrow().clone();
    let cluster = "c-a".parse().unwrap();
    assert_eq!(reported[&cluster].state, ClusterState::Connected);

    drop((others, beside));
    two.session.close(CloseReason::Done);
    status(&rig, ClusterState::Lost).await;
}

#[tokio::test]
async fn two_links_of_one_agent_share_the_work() {
    let rig = Rig::start();
    // No time passes, so both are equally near. Requests one after the other all go to the nearer one.
    let _clock = PausedClock::start();
    let one = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, HOME)).await;
    let two = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 1, HOME)).await;
    serves(&rig, &one).await;
    serves(&rig, &two).await;
}

/// While the first agent's session waits for its agent, its requests wait too; other sessions serve.
#[tokio::test]
async fn request_without_a_link_goes_to_the_first_session_with_one() {
    let rig = Rig::start();
    let relay = rig.relay().await;
    let gone = FakeAgent::with_hello(
        rig.access_by(relay.address().port()),
        "c-a",
        hello(1, 0, HOME),
    )
    .await;
    status(&rig, ClusterState::Connected).await;
    relay.stop();
    status(&rig, ClusterState::Lost).await;
    let comes = FakeAgent::with_hello(rig.access(), "c-a", hello(2, 0, HOME));
    let (answer, came) = tokio::join!(get(&rig), comes);
    assert_eq!(answer.status, 200);
    assert_eq!((asked(&gone).await, asked(&came).await), (0, 1));
    status(&rig, ClusterState::Connected).await;
}

#[tokio::test]
async fn agent_serves_only_after_its_hello() {
    let rig = Rig::start();
    let silent = FakeAgent::with_hello(rig.access(), "c-a", AgentHello::Omitted).await;
    let answer = get(&rig).await;
    assert_eq!((answer.status, answer.code()), (503, "FL-1401"));
    assert_eq!(silent.send_hello(hello(1, 0, None)).await, 200);
    assert_eq!(get(&rig).await.status, 200);
    assert_eq!(
        silent.send_hello(hello(2, 0, None)).await,
        400,
        "another name"
    );
    assert_eq!(
        silent.send_hello(hello(1, 0, HOME)).await,
        200,
        "more is known"
    );
}

#[tokio::test]
async fn clone_is_rejected_without_effect_on_the_original() {
    let rig = Rig::start();
    let original = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, HOME)).await;
    status(&rig, ClusterState::Connected).await;
    let events = original.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    events.send(data("one")).await.unwrap();
    read_until(&mut watch, "one\r\n").await;
    // Even with the same name: a rejected session replaces none.
    let clone = FakeAgent::with_hello(rig.access(), "c-a", AgentHello::Omitted).await;
    assert_eq!(clone.send_hello(hello(1, 0, ELSEWHERE)).await, 403);
    let end = ended(&clone).await;
    assert!(
        matches!(end, SessionError::Peer(CloseReason::Cloned)),
        "{end:?}"
    );
    assert_eq!(asked(&clone).await, 0);
    events.send(data("two")).await.unwrap();
    read_until(&mut watch, "two\r\n").await;
    assert_eq!(rig.metric("fairlead_clones_refused_total", &[]), 1.0);
    until(async || rig.metric("fairlead_sessions_ended_total", &["cloned"]) == 1.0).await;
    let reported = rig.modules.reported.borrow().clone();
    assert_eq!(
        reported[&"c-a".parse().unwrap()].state,
        ClusterState::Connected
    );
}

#[tokio::test]
async fn late_detected_clone_stops_serving() {
    let rig = Rig::start();
    let original = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, HOME)).await;
    let clone = FakeAgent::with_hello(rig.access(), "c-a", hello(2, 0, None)).await;
    for _ in 0..10 {
        assert_eq!(get(&rig).await.status, 200);
    }
    assert_eq!(asked(&original).await, 10, "the known agent goes first");
    assert_eq!(clone.send_hello(hello(2, 0, ELSEWHERE)).await, 403);
    ended(&clone).await;
    assert_eq!(asked(&clone).await, 0);
}

#[tokio::test]
async fn cluster_served_by_a_clone_alone_is_lost_with_it() {
    let rig = Rig::start();
    let clone = FakeAgent::with_hello(rig.access(), "c-a", hello(2, 0, None)).await;
    status(&rig, ClusterState::Connected).await;
    *rig.modules.uid.lock().unwrap() = HOME.map(|uid| uid.parse().unwrap());
    assert_eq!(clone.send_hello(hello(2, 0, ELSEWHERE)).await, 403);
    let lost = status(&rig, ClusterState::Lost).await;
    assert_eq!(lost.last_error.unwrap().code, Code::IdentityCloned);
    assert!(lost.last_seen.is_some());
}

#[tokio::test]
async fn enrolment_elsewhere_evicts_the_old_sessions() {
    let rig = Rig::start();
    let old = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, HOME)).await;
    status(&rig, ClusterState::Connected).await;
    *rig.modules.uid.lock().unwrap() = None;
    let new = FakeAgent::with_hello(rig.access(), "c-a", hello(2, 0, ELSEWHERE)).await;
    ended(&old).await;
    serves(&rig, &new).await;
    assert_eq!(asked(&old).await, 0);
}

#[tokio::test]
async fn oldest_session_is_evicted_at_the_limit() {
    let rig = Rig::start();
    let mut agents = Vec::new();
    for instance in 0..17 {
        agents.push(FakeAgent::with_hello(rig.access(), "c-a", hello(instance, 0, HOME)).await);
    }
    let end = ended(&agents[0]).await;
    assert!(
        matches!(end, SessionError::Peer(CloseReason::Replaced)),
        "{end:?}"
    );
    for other in &agents[1..] {
        assert!(
            timeout(Duration::ZERO, other.session.closed())
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn oldest_of_33_sessions_without_a_hello_is_ended_before_its_deadline() {
    let rig = Rig::start();
    // The deadline does not pass, however long the handshakes take.
    let _clock = PausedClock::start();
    let begun = Instant::now();
    let mut agents = Vec::new();
    for _ in 0..33 {
        agents.push(FakeAgent::with_hello(rig.access(), "c-a", AgentHello::Omitted).await);
    }
    let end = ended(&agents[0]).await;
    assert!(
        matches!(end, SessionError::Peer(CloseReason::Protocol)),
        "{end:?}"
    );
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waits for nothing");
    for other in &agents[1..] {
        let open = timeout(Duration::ZERO, other.session.closed()).await;
        assert!(open.is_err());
    }
}

#[tokio::test]
async fn agent_with_a_failing_api_server_is_chosen_last() {
    let rig = Rig::start();
    let sick = FakeAgent::with_hello(rig.access(), "c-a", AgentHello::Omitted).await;
    *sick.probes.answer.lock().unwrap() = (502, Some(("FL-1502", "refused")));
    assert_eq!(sick.send_hello(hello(1, 0, HOME)).await, 200);
    status(&rig, ClusterState::ApiUnreachable).await;
    let well = FakeAgent::with_hello(rig.access(), "c-a", hello(2, 0, HOME)).await;
    status(&rig, ClusterState::Connected).await;
    asked(&sick).await;
    for _ in 0..10 {
        assert_eq!(get(&rig).await.status, 200);
    }
    assert_eq!((asked(&sick).await, asked(&well).await), (0, 10));
    well.session.close(CloseReason::Done);
    let reported = status(&rig, ClusterState::ApiUnreachable).await;
    assert_eq!(reported.last_error.unwrap().code, Code::ApiUnreachable);
}

#[tokio::test]
async fn drain_is_announced_while_requests_run() {
    let rig = Rig::start();
    let agent = FakeAgent::with_hello(rig.access(), "c-a", hello(1, 0, HOME)).await;
    status(&rig, ClusterState::Connected).await;
    let events = agent.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    events.send(data("one")).await.unwrap();
    read_until(&mut watch, "one\r\n").await;
    assert!(!agent.probes.draining.load(SeqCst));
    rig.process.start_drain();
    until(async || agent.probes.draining.load(SeqCst)).await;
    events.send(data("two")).await.unwrap();
    read_until(&mut watch, "two\r\n").await;
}
