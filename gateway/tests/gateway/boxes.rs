//! Boxes between agent and hub that open the outer TLS: a CLOSE of theirs is a cut of the link, for each reason.

use fairlead_api::resources::ClusterState;
use fairlead_dialer::{CloseReason, Redialed};
use fairlead_testkit::{
    agent::{FakeAgent, data},
    opened::{OpeningBox, Towards},
};
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::{
    client::{head, open, read_until, status, until},
    rig::{HUB, Rig, TEST_DEADLINE},
};

/// Close codes of WebSockets: normal, going away, protocol error, policy violation, server error, one of a program.
const WEBSOCKET_CODES: [u16; 6] = [1000, 1001, 1002, 1008, 1011, 4000];
/// Reasons that the peers of a session treat specially.
const REASONS: [CloseReason; 9] = [
    CloseReason::Draining,
    CloseReason::Replaced,
    CloseReason::Deleted,
    CloseReason::Expired,
    CloseReason::Protocol,
    CloseReason::Done,
    CloseReason::Cloned,
    CloseReason::Revoked,
    CloseReason::Busy,
];
const BINARY_OPCODE: u8 = 0x82;
const CLOSE_OPCODE: u8 = 0x88;
/// Tag of a link's CLOSE.
const LINK_CLOSE_TAG: u8 = 5;

/// A whole WebSocket frame. Frames to the server are masked, with zeros.
fn frame(opcode: u8, body: &[u8], towards: Towards) -> Vec<u8> {
    let length = u8::try_from(body.len()).unwrap();
    let mut frame = vec![opcode];
    match towards {
        Towards::Server => frame.extend([0x80 | length, 0, 0, 0, 0]),
        Towards::Client => frame.push(length),
    }
    frame.extend(body);
    frame
}

fn closes(towards: Towards) -> Vec<Vec<u8>> {
    let links = REASONS.iter().map(|reason| {
        let [high, low] = reason.code().to_be_bytes();
        frame(BINARY_OPCODE, &[LINK_CLOSE_TAG, high, low], towards)
    });
    let websockets = WEBSOCKET_CODES.iter().map(|code| {
        let body = [&code.to_be_bytes()[..], b"go away"].concat();
        frame(CLOSE_OPCODE, &body, towards)
    });
    let end = Vec::new();
    links.chain(websockets).chain([end]).collect()
}

#[tokio::test]
async fn close_of_a_box_is_a_cut_whatever_its_reason() {
    let rig = Rig::start();
    let names = [HUB, "localhost"].map(str::to_owned);
    let leaf = rig.authority.issue_front(&names, OffsetDateTime::now_utc());
    let tls = fairlead_certs::front_server(&leaf.unwrap()).unwrap();
    let opening = OpeningBox::to(rig.plain, tls).await;
    let access = || rig.access_by(opening.port());
    let agent = FakeAgent::of(access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let events = agent.next_stream();
    let mut stream = open(&rig, &head("GET", "/stream", "")).await;
    read_until(&mut stream, "\r\n\r\n").await;
    for towards in [Towards::Client, Towards::Server] {
        for close in closes(towards) {
            opening.inject(towards, &close);
            agent.link_lost().await;
            let again = timeout(TEST_DEADLINE, agent.redial(access())).await;
            let again = again.unwrap();
            let resumed = matches!(again, Ok(Redialed::Resumed { .. }));
            assert!(resumed, "{towards:?} {close:?}: {:?}", again.err());
            events.send(data("still there")).await.unwrap();
            read_until(&mut stream, "still there\r\n").await;
        }
    }
    assert_eq!(rig.metric("fairlead_sessions_ended_total", &[]), 0.0);
    assert_eq!(rig.metric("fairlead_violations_total", &[]), 0.0);
    // The same reason inside of the inner TLS ends the session.
    agent.session.close(CloseReason::Done);
    until(async || rig.metric("fairlead_sessions_ended_total", &["done"]) == 1.0).await;
}
