//! Probes of idle sessions, and of sessions in use.

use std::time::Duration;

use fairlead_api::resources::ClusterState;
use tokio::time::Instant;

use crate::{
    client::{head, open, status},
    rig::{PausedClock, Rig},
    silent::{is, pass_until},
};
use fairlead_testkit::agent::FakeAgent;

/// Interval of probes of a session in use, with the delay until it is known to be.
const MAX_INTERVAL_IN_USE: Duration = Duration::from_secs(11);

fn probes(agent: &FakeAgent) -> usize {
    agent.probes.watches.borrow().len()
}

/// An agent whose last probe has announced that the next one comes late.
async fn idle(rig: &Rig) -> FakeAgent {
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(rig, ClusterState::Connected).await;
    agent
}

async fn pass_until_watching(agent: &FakeAgent) {
    pass_until(|| agent.probes.watches.borrow().last() == Some(&Some(30))).await;
}

#[tokio::test]
async fn idle_session_is_probed_every_half_minute() {
    let rig = Rig::start();
    let agent = idle(&rig).await;
    let _clock = PausedClock::start();
    pass_until_watching(&agent).await;
    let (before, begun) = (probes(&agent), Instant::now());
    pass_until(|| probes(&agent) > before).await;
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(20), "{took:?}");
    assert!(took < Duration::from_secs(32), "{took:?}");
}

#[tokio::test]
async fn reported_change_is_probed_at_once_and_counts_from_then() {
    let rig = Rig::start();
    let agent = idle(&rig).await;
    let _clock = PausedClock::start();
    pass_until_watching(&agent).await;
    let (before, begun) = (probes(&agent), Instant::now());
    pass_until(|| begun.elapsed() >= Duration::from_secs(18)).await;
    assert_eq!(probes(&agent), before);
    *agent.probes.answer.lock().unwrap() = (503, Some(("FL-1502", "down")));
    agent.report_change().await;
    let reported = Instant::now();
    pass_until(is(&rig, ClusterState::ApiUnreachable)).await;
    // The agent found it ready five seconds before, and a probe is good for fifteen.
    let took = reported.elapsed();
    assert!(took >= Duration::from_secs(9), "{took:?}");
    assert!(took <= Duration::from_secs(17), "{took:?}");
    // From now on the hub probes often, until it is ready again.
    let watches = agent.probes.watches.borrow().clone();
    assert!(watches.len() >= before + 3, "{watches:?}");
    assert_eq!(watches.last(), Some(&None));
    *agent.probes.answer.lock().unwrap() = (200, None);
    pass_until(is(&rig, ClusterState::Connected)).await;
    pass_until_watching(&agent).await;
}

#[tokio::test]
async fn session_in_use_is_probed_often() {
    let rig = Rig::start();
    let agent = idle(&rig).await;
    let clock = PausedClock::start();
    pass_until_watching(&agent).await;
    drop(clock);
    let _asked = open(&rig, &head("GET", "/silent", "content-length: 0\r\n")).await;
    agent.saw("GET /silent").await;
    let _clock = PausedClock::start();
    let (before, begun) = (probes(&agent), Instant::now());
    pass_until(|| probes(&agent) >= before + 3).await;
    let took = begun.elapsed();
    assert!(took <= 3 * MAX_INTERVAL_IN_USE, "{took:?}");
    assert_eq!(agent.probes.watches.borrow().last(), Some(&None));
}
