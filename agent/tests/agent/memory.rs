//! What all sessions of an agent hold together.

use std::sync::atomic::Ordering::SeqCst;

use fairlead_dialer::Resumable;
use serde_json::json;
use tokio::task::JoinSet;

use crate::rig::{Agent, Rig, get, until};

/// Of all sessions together.
const LIMIT: usize = 2 << 20;
/// What a session takes of it at a time.
const SHARE: usize = 64 << 10;
/// All of these at once are three times the limit, beside what each session has for itself; and each is too short to wait for
/// the hub's acknowledgements.
const ANSWERS: usize = 60;
const ANSWER: usize = 56_000;

fn taken(agent: &Agent) -> usize {
    agent.gauge("fairlead_agent_session_memory_bytes") as usize
}

#[tokio::test]
async fn the_links_of_an_agent_share_what_it_keeps_for_a_hub_that_takes_nothing() {
    let rig = Rig::new().await;
    *rig.hub.story.resumable.lock().unwrap() = Some(Resumable::default());
    let big = ("/big".to_owned(), (200, json!("x".repeat(ANSWER))));
    rig.api.story.answers.lock().unwrap().extend([big]);
    let mut config = rig.config();
    config.links = "2".parse().unwrap();
    config.session_memory = LIMIT;
    let agent = rig.start(config);
    let (one, two) = (rig.hub.next().await, rig.hub.next().await);
    until(|| agent.gauge("fairlead_agent_connected") == 2.0).await;
    let limit = agent.gauge("fairlead_agent_session_memory_limit_bytes");
    assert_eq!((taken(&agent), limit as usize), (0, LIMIT));

    // What is asked still arrives.
    rig.hub.story.deaf.store(true, SeqCst);
    let mut asked = JoinSet::new();
    for hub in [&one, &two] {
        for _ in 0..ANSWERS {
            let exchanges = hub.exchanges.clone();
            asked.spawn(async move { exchanges.send(get("/big")).await.is_ok() });
        }
    }
    until(|| {
        let taken = taken(&agent);
        assert!(taken <= LIMIT, "{taken}");
        taken > LIMIT - 2 * SHARE
    })
    .await;
}
