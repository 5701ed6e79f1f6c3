//! Requests in flight on a session that gives no answer: reads move to another session, and all others are told the
//! truth.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::resources::ClusterState;
use fairlead_dialer::CloseReason;
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    client::{all_back_to_zero, head, open, status, until},
    rig::{PausedClock, RawAnswer, Rig},
    silent::{EMPTY, answered, is, pass_until},
};
use fairlead_testkit::agent::FakeAgent;

/// Deadline of a read's answer after its arrival.
const READ_DEADLINE: Duration = Duration::from_secs(20);
const READS: [&str; 2] = ["/who", "/who?watch=1"];

/// A request that has reached this agent, and its answer.
async fn in_flight(
    rig: &Rig,
    agent: &FakeAgent,
    method: &str,
    path: &str,
) -> JoinHandle<RawAnswer> {
    let mut asked = open(rig, &head(method, path, EMPTY)).await;
    agent.saw(&format!("{method} {path}")).await;
    tokio::spawn(async move { RawAnswer::read(&mut asked).await.unwrap() })
}

/// An agent of a connected cluster with an API server that answers nothing.
async fn hanging(rig: &Rig) -> FakeAgent {
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(rig, ClusterState::Connected).await;
    agent.api.hangs.store(true, SeqCst);
    agent
}

#[tokio::test]
async fn read_moves_to_another_agent_and_a_write_does_not() {
    let rig = Rig::start();
    let frozen = hanging(&rig).await;
    let mut reads = Vec::new();
    for path in READS {
        reads.push(in_flight(&rig, &frozen, "GET", path).await);
    }
    let write = in_flight(&rig, &frozen, "POST", "/who").await;
    let delete = in_flight(&rig, &frozen, "DELETE", "/who").await;
    let other = FakeAgent::of(rig.access(), "c-a").await;
    let (presence, cluster) = (rig.modules.presence.get().unwrap(), "c-a".parse().unwrap());
    until(async || {
        let sessions = presence.sessions(&cluster);
        sessions.len() == 2 && sessions.iter().all(|it| it.last_good_probe.is_some())
    })
    .await;
    let _clock = PausedClock::start();
    frozen.probes.hangs.store(true, SeqCst);
    let begun = Instant::now();
    pass_until(|| reads.iter().all(JoinHandle::is_finished)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(12),
        "{:?}",
        begun.elapsed()
    );
    for read in reads {
        assert_eq!(read.await.unwrap().status, 200);
    }
    assert_eq!(rig.metric("fairlead_reads_moved_total", &[]), 2.0);
    pass_until(|| write.is_finished() && delete.is_finished()).await;
    for write in [write, delete] {
        let answer = write.await.unwrap();
        assert_eq!((answer.status, answer.code()), (504, "FL-1405"));
        assert!(
            answer.text().contains("may have been carried out"),
            "{}",
            answer.text()
        );
    }
    let received = other.api.received.lock().unwrap().len();
    assert_eq!(received, READS.len(), "only the reads");
}

#[tokio::test]
async fn read_without_a_link_is_answered_twenty_seconds_after_its_arrival() {
    for (method, path, age) in [
        ("GET", "/silent", 0),
        ("GET", "/silent", 12),
        ("GET", "/silent?watch=1", 0),
        ("GET", "/silent", 19),
    ] {
        let rig = Rig::start();
        let relay = rig.relay().await;
        let agent = FakeAgent::of(rig.access_by(relay.address().port()), "c-a").await;
        status(&rig, ClusterState::Connected).await;
        let _clock = PausedClock::start();
        let arrived = Instant::now();
        let answer = in_flight(&rig, &agent, method, path).await;
        pass_until(|| arrived.elapsed() >= Duration::from_secs(age)).await;
        relay.stop();
        let (answer, _) = answered(&rig, 0.0, answer).await;
        let took = arrived.elapsed();
        assert_eq!(
            (answer.status, answer.code()),
            (503, "FL-1402"),
            "{path} {age}"
        );
        let deadline = READ_DEADLINE.max(Duration::from_secs(age + 2));
        assert!(
            took <= deadline && took >= Duration::from_secs(19),
            "{path} {age}: {took:?}"
        );
    }
}

#[tokio::test]
async fn read_moves_when_its_session_ends_and_a_write_fails_with_the_truth() {
    let rig = Rig::start();
    let first = hanging(&rig).await;
    let read = in_flight(&rig, &first, "GET", "/who").await;
    let write = in_flight(&rig, &first, "DELETE", "/who").await;
    first.session.close(CloseReason::Done);
    let answer = write.await.unwrap();
    assert_eq!((answer.status, answer.code()), (502, "FL-1404"));
    assert!(
        answer.text().contains("may have been carried out"),
        "{}",
        answer.text()
    );
    // The read waits for the next agent, as a new request does.
    let next = FakeAgent::of(rig.access(), "c-a").await;
    assert_eq!(read.await.unwrap().status, 200);
    drop((first, next));
    all_back_to_zero(&rig).await;
}

#[tokio::test]
async fn request_avoids_a_session_whose_agent_is_silent() {
    let rig = Rig::start();
    let frozen = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let clock = PausedClock::start();
    frozen.probes.hangs.store(true, SeqCst);
    pass_until(is(&rig, ClusterState::Lost)).await;
    drop(clock);
    assert!(frozen.session.is_up(), "the link is there");
    let other = FakeAgent::of(rig.access(), "c-a").await;
    for _ in 0..8 {
        let mut asked = open(&rig, &head("POST", "/who", EMPTY)).await;
        assert_eq!(RawAnswer::read(&mut asked).await.unwrap().status, 200);
    }
    assert_eq!(frozen.api.received.lock().unwrap().len(), 0);
    assert_eq!(other.api.received.lock().unwrap().len(), 8);
}
