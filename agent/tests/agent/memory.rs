//! What all sessions of an agent hold together.

use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use fairlead_api::headers::PROBE_PATH;
use fairlead_dialer::{Body, BodyError, Exchanges, Resumable};
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use tokio::task::JoinSet;

use crate::rig::{Agent, Rig, get, request, send, soon, text, until};

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
    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    let big = ("/big".to_owned(), (200, json!("x".repeat(ANSWER))));
    rig.api.script.answers.lock().unwrap().extend([big]);
    let mut config = rig.config();
    config.links = "2".parse().unwrap();
    config.session_memory = LIMIT;
    let agent = rig.start(config);
    let (one, two) = (rig.hub.next().await, rig.hub.next().await);
    until(|| agent.gauge("fairlead_agent_connected") == 2.0).await;
    let limit = agent.gauge("fairlead_agent_session_memory_limit_bytes");
    assert_eq!((taken(&agent), limit as usize), (0, LIMIT));

    // What is asked still arrives.
    rig.hub.script.discards_input.store(true, SeqCst);
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

/// A window of 256 KiB has half of that unread at least when its reader has stopped for good: theirs are more than the limit.
const UPLOADS: usize = 20;

fn unread(agent: &Agent) -> usize {
    agent.gauge("fairlead_agent_session_unread_bytes") as usize
}

/// Of as much as anybody takes.
fn endless() -> Body {
    let piece = || Ok::<_, BodyError>(Frame::data(Bytes::from_static(&[b'x'; SHARE])));
    StreamBody::new(stream::repeat_with(piece)).boxed_unsync()
}

fn post(path: &str, body: Body) -> Request<Body> {
    request("POST", path).body(body).unwrap()
}

async fn uploaded(exchanges: &Exchanges) -> Response<Body> {
    send(exchanges, post("/upload", text("more"))).await
}

#[tokio::test]
async fn what_the_cluster_does_not_take_is_joined_by_no_more_once_it_is_all_that_may_be_held() {
    let rig = Rig::new().await;
    let mut config = rig.config();
    config.session_memory = LIMIT;
    let agent = rig.start(config);
    let hub = rig.hub.next().await;
    until(|| agent.process.is_ready()).await;
    assert_eq!(uploaded(&hub.exchanges).await.status(), 200);
    let mut stuck = JoinSet::new();
    for _ in 0..UPLOADS {
        let exchanges = hub.exchanges.clone();
        stuck.spawn(async move { exchanges.send(post("/silent", endless())).await.is_ok() });
    }
    until(|| unread(&agent) >= LIMIT).await;
    // On their way to the sockets there may be fewer again.
    let refused = async {
        loop {
            let answer = uploaded(&hub.exchanges).await;
            if answer.status() != 200 {
                break answer;
            }
        }
    };
    let refused = soon(refused).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["fairlead-code"], "FL-1506");
    // Who only looks adds nothing to it.
    for harmless in [get("/version"), get(PROBE_PATH)] {
        assert_eq!(send(&hub.exchanges, harmless).await.status(), 200);
    }

    stuck.shutdown().await;
    until(|| unread(&agent) < LIMIT).await;
    assert_eq!(uploaded(&hub.exchanges).await.status(), 200);
}
