//! Requests to a cluster with a silent agent or a silent API server.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::resources::ClusterState;
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    client::{head, open, read_until, status},
    rig::{PausedClock, RawAnswer, Rig},
};
use fairlead_testkit::agent::{FakeAgent, data};
pub(crate) use fairlead_testkit::clock::pass_until;

/// Deadline of every answer once a cluster is `Lost`.
const LOST_DEADLINE: Duration = Duration::from_secs(2);
pub(crate) const EMPTY: &str = "content-length: 0\r\n";

/// A cluster that was connected, with an agent that answers nothing from now on.
async fn stopped(rig: &Rig) -> FakeAgent {
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(rig, ClusterState::Connected).await;
    agent.probes.hangs.store(true, SeqCst);
    agent
}

pub(crate) fn is(rig: &Rig, state: ClusterState) -> impl Fn() -> bool {
    let (reported, cluster) = (rig.modules.reported.subscribe(), "c-a".parse().unwrap());
    move || {
        reported
            .borrow()
            .get(&cluster)
            .is_some_and(|it| it.state == state)
    }
}

/// Number of requests with unfinished answers.
pub(crate) fn under_way(rig: &Rig) -> f64 {
    rig.metric("fairlead_requests_open", &[])
}

/// Waits for bytes in flight, while the clock is paused.
pub(crate) async fn spin_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

/// The answer to a request, and the hub's time for it by the test's clock.
async fn timed(rig: &Rig, method: &str, path: &str) -> (RawAnswer, Duration) {
    let before = under_way(rig);
    let mut asked = open(rig, &head(method, path, EMPTY)).await;
    spin_until(|| under_way(rig) > before).await;
    let answer = tokio::spawn(async move { RawAnswer::read(&mut asked).await.unwrap() });
    answered(rig, before, answer).await
}

pub(crate) async fn answered(
    rig: &Rig,
    before: f64,
    answer: JoinHandle<RawAnswer>,
) -> (RawAnswer, Duration) {
    let begun = Instant::now();
    pass_until(|| under_way(rig) <= before).await;
    let took = begun.elapsed();
    spin_until(|| answer.is_finished()).await;
    (answer.await.unwrap(), took)
}

#[tokio::test]
async fn lost_cluster_answers_new_requests_within_two_seconds() {
    let rig = Rig::start();
    let agent = stopped(&rig).await;
    let _clock = PausedClock::start();
    pass_until(is(&rig, ClusterState::Lost)).await;
    assert!(
        agent.session.is_up(),
        "the link is there, the agent does not answer"
    );
    // Neither request was sent.
    for method in ["GET", "POST"] {
        let (answer, took) = timed(&rig, method, "/silent").await;
        assert_eq!((answer.status, answer.code()), (503, "FL-1402"), "{method}");
        assert!(took <= LOST_DEADLINE, "{method}: {took:?}");
    }

    // The agent answers again, and all works as before.
    agent.probes.hangs.store(false, SeqCst);
    pass_until(is(&rig, ClusterState::Connected)).await;
    let (answer, _) = timed(&rig, "GET", "/who").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn request_in_flight_is_answered_within_two_seconds_of_the_loss() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let events = agent.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    events.send(data("one")).await.unwrap();
    read_until(&mut watch, "one\r\n").await;
    for (method, code) in [("GET", "FL-1402"), ("POST", "FL-1405")] {
        let mut asked = open(&rig, &head(method, "/silent", EMPTY)).await;
        agent.saw(&format!("{method} /silent")).await;
        let answer = tokio::spawn(async move { RawAnswer::read(&mut asked).await.unwrap() });
        let _clock = PausedClock::start();
        agent.probes.hangs.store(true, SeqCst);
        pass_until(is(&rig, ClusterState::Lost)).await;
        let (answer, took) = answered(&rig, 1.0, answer).await;
        assert_eq!(answer.code(), code, "{method}");
        assert!(took <= LOST_DEADLINE, "{method}: {took:?}");
        agent.probes.hangs.store(false, SeqCst);
        pass_until(is(&rig, ClusterState::Connected)).await;
    }
    // An answer that has its head continues.
    events.send(data("two")).await.unwrap();
    read_until(&mut watch, "two\r\n").await;
}

#[tokio::test]
async fn reads_of_a_hanging_api_server_fail_early() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    *agent.probes.answer.lock().unwrap() = (504, Some(("FL-1504", "/readyz did not answer")));
    let _clock = PausedClock::start();
    pass_until(is(&rig, ClusterState::ApiUnreachable)).await;
    let (answer, took) = timed(&rig, "GET", "/silent").await;
    assert_eq!((answer.status, answer.code()), (504, "FL-1504"));
    assert!(took <= LOST_DEADLINE, "{took:?}");
    // A request that is answered all the same passes.
    let (answer, _) = timed(&rig, "GET", "/who").await;
    assert_eq!(answer.status, 200);
}
