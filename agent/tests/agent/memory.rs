//! Memory budget shared by all sessions of an agent.

use bytes::Bytes;
use fairlead_api::{headers::PROBE_PATH, hello::LinkCount};
use fairlead_dialer::Resumable;
use fairlead_exchange::{Body, BodyError, Exchanges};
use fairlead_testkit::wait;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use tokio::task::JoinSet;

use crate::rig::{Agent, Rig, get, request, send, soon, text, until};

/// Budget of all sessions together.
const BUDGET_BYTES: usize = 2 << 20;
/// Size of a session's reservation.
const RESERVATION_BYTES: usize = 64 << 10;
/// All these answers together are three times the budget, besides the sessions' own allowances. Each is too
/// short to wait for the hub's acknowledgements.
const ANSWER_COUNT: usize = 60;
const ANSWER_BYTES: usize = 56_000;

fn taken(agent: &Agent) -> usize {
    agent.gauge("fairlead_agent_session_memory_bytes") as usize
}

#[tokio::test]
async fn links_share_the_budget_for_a_hub_that_reads_nothing() {
    let rig = Rig::new().await;
    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    let big = ("/big".to_owned(), (200, json!("x".repeat(ANSWER_BYTES))));
    rig.api.script.answers.lock().unwrap().extend([big]);
    let mut config = rig.config();
    config.links = Some(LinkCount::TWO);
    config.session_memory = BUDGET_BYTES;
    let agent = rig.start(config);
    let (one, two) = (rig.hub.next().await, rig.hub.next().await);
    until(|| agent.gauge("fairlead_agent_connected") == 2.0).await;
    let limit = agent.gauge("fairlead_agent_session_memory_limit_bytes");
    assert_eq!((taken(&agent), limit as usize), (0, BUDGET_BYTES));

    // Requests still arrive.
    rig.hub.script.relay.discard_input();
    let mut requests = JoinSet::new();
    for hub in [&one, &two] {
        for _ in 0..ANSWER_COUNT {
            let exchanges = hub.exchanges.clone();
            requests.spawn(async move { exchanges.send(get("/big")).await.is_ok() });
        }
    }
    until(|| {
        let taken = taken(&agent);
        assert!(taken <= BUDGET_BYTES, "{taken}");
        taken > BUDGET_BYTES - 2 * RESERVATION_BYTES
    })
    .await;
}

/// A reader that stopped leaves at least half of a 256 KiB window unread: these uploads exceed the budget.
const UPLOAD_COUNT: usize = 20;

fn unread(agent: &Agent) -> usize {
    agent.gauge("fairlead_agent_session_unread_bytes") as usize
}

/// Endless body.
fn endless() -> Body {
    let piece = || Ok::<_, BodyError>(Frame::data(Bytes::from_static(&[b'x'; RESERVATION_BYTES])));
    StreamBody::new(stream::repeat_with(piece)).boxed_unsync()
}

fn post(path: &str, body: Body) -> Request<Body> {
    request("POST", path).body(body).unwrap()
}

async fn uploaded(exchanges: &Exchanges) -> Response<Body> {
    send(exchanges, post("/upload", text("more"))).await
}

#[tokio::test]
async fn uploads_over_the_budget_are_rejected() {
    let rig = Rig::new().await;
    let mut config = rig.config();
    config.session_memory = BUDGET_BYTES;
    let agent = rig.start(config);
    let hub = rig.hub.next().await;
    until(|| agent.process.is_ready()).await;
    assert_eq!(uploaded(&hub.exchanges).await.status(), 200);
    let mut stuck = JoinSet::new();
    for _ in 0..UPLOAD_COUNT {
        let exchanges = hub.exchanges.clone();
        stuck.spawn(async move { exchanges.send(post("/silent", endless())).await.is_ok() });
    }
    until(|| unread(&agent) >= BUDGET_BYTES).await;
    // Data on its way to the sockets may reduce the usage again.
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
    // Reads use no budget.
    for harmless in [get("/version"), get(PROBE_PATH)] {
        assert_eq!(send(&hub.exchanges, harmless).await.status(), 200);
    }

    stuck.shutdown().await;
    // Data that the hub sent before its resets may use the budget up again.
    wait::until(async || uploaded(&hub.exchanges).await.status() == 200).await;
}
