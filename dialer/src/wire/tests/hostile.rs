//! Third parties cannot harm a session.

use bytes::BufMut;

use super::{
    super::{handle::SessionHandle, hello, resume::Exchange},
    rig::{WireEnd, answer, begin, limits, resume, session, socket},
};
use crate::{
    CloseReason,
    link::{
        InvalidCount, LinkEnd,
        frame::{self, Frame, SessionId},
    },
    websocket::{self, SocketRole},
    wire::{Resumable, Socket, VERSIONS, Wire, offer},
};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

/// Sends HELLO for a session, then the answer that `proof` makes of the challenge.
async fn forge(
    io: DuplexStream,
    id: SessionId,
    proof: impl FnOnce(Exchange) -> Frame<'static>,
) -> Socket {
    let mut socket = socket(io, SocketRole::Agent);
    let agreed = offer(&mut socket, VERSIONS, &limits(), Some(id))
        .await
        .unwrap();
    assert_eq!(agreed.session, id);
    let &Ok(Frame::Challenge(hub)) = &frame::decode(socket.receive().await.unwrap()) else {
        panic!("no challenge");
    };
    let exchange = Exchange {
        session: id,
        hub,
        agent: [7; 32],
    };
    hello::send_frame(&mut socket, &proof(exchange))
        .await
        .unwrap();
    socket
}

fn proof(
    exchange: Exchange,
    by: &SessionHandle,
    role: SocketRole,
    received: u64,
    said: u64,
) -> Frame<'static> {
    Frame::Proof {
        nonce: exchange.agent,
        received: said,
        mac: exchange.prove(by.secret(), role, received),
    }
}

/// The session still works over its old link.
async fn unharmed(agent: &WireEnd, hub: &WireEnd, so_far: usize) {
    assert!(agent.is_up() && hub.is_up());
    agent.put(b"x");
    hub.put(b"y");
    assert_eq!(hub.got(so_far + 1).await.last(), Some(&b'x'));
    assert_eq!(agent.got(so_far + 1).await.last(), Some(&b'y'));
}

#[tokio::test]
async fn forged_resumption_is_refused_without_harm() {
    let known = Resumable::default();
    let (agent, hub) = session(&known, &limits(), usize::MAX, 1000).await;
    let (other, _other_hub) = session(&known, &limits(), usize::MAX, 1000).await;
    let (handle, theirs) = (agent.handle(), other.handle());
    let count = line_count(&agent).await;
    type Forgery = Box<dyn FnOnce(Exchange) -> Frame<'static>>;
    let nonce = [7; 32];
    let (l, t) = (&handle, &theirs);
    let table: Vec<(&str, Forgery)> = vec![
        (
            "zeros",
            Box::new(move |_| Frame::Proof {
                nonce,
                received: count,
                mac: [0; 32],
            }),
        ),
        ("another session's secret", {
            let t = t.clone();
            Box::new(move |e| proof(e, &t, SocketRole::Agent, count, count))
        }),
        ("the hub's role", {
            let l = l.clone();
            Box::new(move |e| proof(e, &l, SocketRole::Hub, count, count))
        }),
        ("another count than was proved", {
            let l = l.clone();
            Box::new(move |e| proof(e, &l, SocketRole::Agent, count, count + 1))
        }),
        ("the proof of an earlier challenge", {
            let l = l.clone();
            Box::new(move |e| {
                proof(
                    Exchange { hub: [0; 32], ..e },
                    &l,
                    SocketRole::Agent,
                    count,
                    count,
                )
            })
        }),
        ("another session's name in the proof", {
            let (l, id) = (l.clone(), t.id());
            Box::new(move |e| {
                proof(
                    Exchange { session: id, ..e },
                    &l,
                    SocketRole::Agent,
                    count,
                    count,
                )
            })
        }),
    ];
    for (n, (what, forgery)) in table.into_iter().enumerate() {
        let (a, h) = duplex(8 * 1024);
        let (_socket, at_hub) = tokio::join!(forge(a, handle.id(), forgery), answer(h, &known));
        assert_eq!(at_hub, Err(LinkEnd::Unproved), "{what}");
        unharmed(&agent, &hub, n).await;
    }
    // Another message in place of a proof.
    for (n, wrong) in [
        Frame::Probe(0),
        Frame::Challenge([1; 32]),
        Frame::Data(b"GET /"),
    ]
    .into_iter()
    .enumerate()
    {
        let (a, h) = duplex(8 * 1024);
        let (_socket, at_hub) =
            tokio::join!(forge(a, handle.id(), move |_| wrong), answer(h, &known));
        assert!(matches!(at_hub, Err(LinkEnd::Protocol(_))), "{at_hub:?}");
        unharmed(&agent, &hub, 6 + n).await;
    }
}

/// Bytes received by the agent so far, so that only the forged value is wrong.
async fn line_count(agent: &WireEnd) -> u64 {
    agent.count()
}

#[tokio::test]
async fn invalid_count_with_a_valid_proof_is_refused() {
    let known = Resumable::default();
    let (agent, hub) = session(&known, &limits(), usize::MAX, 1000).await;
    let handle = agent.handle();
    hub.put(b"y");
    agent.got(1).await;
    let sent = line_count(&agent).await;
    for (n, (count, wrong)) in [
        (sent + 1, InvalidCount::AboveSent),
        (u64::MAX, InvalidCount::AboveSent),
        (sent - 1, InvalidCount::WithinMessage),
    ]
    .into_iter()
    .enumerate()
    {
        let (a, h) = duplex(8 * 1024);
        let handle = handle.clone();
        let forgery = move |e| proof(e, &handle, SocketRole::Agent, count, count);
        let (_socket, at_hub) =
            tokio::join!(forge(a, agent.handle().id(), forgery), answer(h, &known));
        assert_eq!(at_hub, Err(LinkEnd::InvalidCount(wrong)));
        // One more byte for the agent.
        agent.put(b"x");
        assert_eq!(hub.got(n + 1).await.len(), n + 1);
        assert!(agent.is_up() && hub.is_up());
    }
}

#[tokio::test]
async fn unknown_session_name_gets_a_new_session() {
    let known = Resumable::default();
    let (a, h) = duplex(8 * 1024);
    let limits = limits();
    let (mut agent, mut hub) = (socket(a, SocketRole::Agent), socket(h, SocketRole::Hub));
    let (at_agent, at_hub) = tokio::join!(
        offer(&mut agent, VERSIONS, &limits, Some([3; 16])),
        hello::choose(
            &mut hub,
            VERSIONS,
            &limits,
            Some(|id: &SessionId| known.get(id).is_some())
        )
    );
    let (at_agent, at_hub) = (at_agent.unwrap(), at_hub.unwrap());
    assert_eq!(at_agent.session, at_hub.session);
    assert_ne!(at_agent.session, [3; 16]);
}

#[tokio::test]
async fn hub_without_a_valid_proof_gets_no_session() {
    let known = Resumable::default();
    let (agent, _hub) = session(&known, &limits(), 0, 1000).await;
    agent.down().await;
    let (a, h) = duplex(8 * 1024);
    let handle = agent.handle();
    let at_agent = async {
        let mut socket = socket(a, SocketRole::Agent);
        let agreed = offer(&mut socket, VERSIONS, &limits(), Some(handle.id())).await?;
        handle.resume(socket, &agreed).await
    };
    let at_hub = async {
        let mut socket = socket(h, SocketRole::Hub);
        let all = |_: &SessionId| true;
        hello::choose(&mut socket, VERSIONS, &limits(), Some(all))
            .await
            .unwrap();
        hello::send_frame(&mut socket, &Frame::Challenge([1; 32]))
            .await
            .unwrap();
        socket.receive().await.unwrap();
        let forged = Frame::Resumed {
            received: 0,
            mac: [2; 32],
        };
        hello::send_frame(&mut socket, &forged).await.unwrap();
        socket
    };
    let (at_agent, _socket) = tokio::join!(at_agent, at_hub);
    assert_eq!(at_agent, Err(LinkEnd::Unproved));
    assert!(!agent.is_up());
    // The real one still gets it.
    let (a, h) = duplex(8 * 1024);
    let (at_agent, at_hub) = resume(a, h, &handle, &known).await;
    assert_eq!((at_agent, at_hub), (Ok(()), Ok(())));
}

#[tokio::test(start_paused = true)]
async fn one_of_two_concurrent_resumptions_wins_without_loss() {
    let known = Resumable::default();
    let (agent, hub) = session(&known, &limits(), 0, 1000).await;
    agent.down().await;
    hub.put(&[5; 50_000]);
    let handle = agent.handle();
    let pipes = [duplex(4096), duplex(4096)];
    let [one, two] = pipes.map(|(a, h)| resume(a, h, &handle, &known));
    let ((first, _), (second, _)) = tokio::join!(one, two);
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    // If the hub preferred the link that the agent gave up, the agent dials again.
    if tokio::time::timeout(std::time::Duration::from_secs(1), agent.got(50_000))
        .await
        .is_err()
    {
        agent.down().await;
        let (a, h) = duplex(4096);
        let (again, _) = resume(a, h, &handle, &known).await;
        assert_eq!(again, Ok(()));
    }
    assert_eq!(agent.got(50_000).await, [5; 50_000]);
}

/// A wire whose peer's link is controlled by the test.
pub(super) async fn by_hand() -> (Wire, DuplexStream) {
    let (a, h) = duplex(64 * 1024);
    let (near, far) = duplex(64 * 1024);
    let (known, limits) = (Resumable::default(), limits());
    let (agent, _) = begin(a, h, (&limits, &limits), &known).await;
    let mut agent = agent.unwrap();
    let link = super::WireLink::new(
        socket(near, SocketRole::Agent),
        &agent.retransmit,
        1 << 20,
        SocketRole::Agent,
    );
    agent.state = super::WireState::Up(Box::new(link));
    (agent, far)
}

pub(super) fn message(frame: &Frame<'_>) -> Vec<u8> {
    let body = frame.encode();
    let mut encoder = websocket::Encoder::new(SocketRole::Hub);
    let frame = encoder.frame(websocket::Opcode::Binary, body.len(), |out| {
        out.put_slice(&body)
    });
    frame.unwrap().to_vec()
}

#[tokio::test]
async fn violation_of_the_link_protocol_ends_the_session() {
    let hello = frame::LinkHello {
        lowest: 2,
        highest: 2,
        session: [0; 16],
        received: 0,
        max_message: 65_536,
        max_streams: 1,
    };
    for wrong in [
        message(&Frame::Hello(hello)),
        message(&Frame::Probe(u64::MAX)),
        message(&Frame::ProbeAck(u64::MAX)),
        message(&Frame::Challenge([0; 32])),
        message(&Frame::Resumed {
            received: 0,
            mac: [0; 32],
        }),
        vec![0x82, 2, 77, 1],
        vec![0x82, 0],
    ] {
        let (wire, mut far) = by_hand().await;
        far.write_all(&wrong).await.unwrap();
        let end = WireEnd::drive(wire, 1000).end().await;
        assert!(matches!(end, LinkEnd::Protocol(_)), "{end}");
    }
}

#[tokio::test]
async fn forged_data_ends_the_session() {
    let (wire, mut far) = by_hand().await;
    let forged = message(&Frame::Data(&[
        23, 3, 3, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]));
    far.write_all(&forged).await.unwrap();
    let end = WireEnd::drive(wire, 1000).end().await;
    assert_eq!(end, LinkEnd::Secure(rustls::Error::DecryptError));
}

/// Data that follows the handshake or a resumption in the same piece is read, even if nothing comes
/// after it.
#[tokio::test]
async fn data_read_ahead_is_kept() {
    let (wire, _far) = by_hand().await;
    let close = message(&Frame::Close(CloseReason::Draining.code()));
    let (quiet, _open) = duplex(64);
    let ahead = Socket::new(quiet, &close, SocketRole::Agent);
    let mut wire = wire;
    let link = super::WireLink::new(ahead, &wire.retransmit, 1 << 20, SocketRole::Agent);
    wire.state = super::WireState::Up(Box::new(link));
    let end = WireEnd::drive(wire, 1000);
    end.down().await;
}

/// A middlebox that gives up may send data of its own.
#[tokio::test]
async fn invalid_websocket_frame_ends_the_link_only() {
    for garbage in [
        &b"HTTP/1.1 502 Bad Gateway\r\n\r\n"[..],
        b"\x88\x00",
        b"\x81\x02hi",
    ] {
        let (wire, mut far) = by_hand().await;
        far.write_all(garbage).await.unwrap();
        let end = WireEnd::drive(wire, 1000);
        end.down().await;
        assert_eq!(*end.ended.borrow(), None);
    }
}

/// It is outside of the inner TLS, so anybody on the path may have sent it.
#[tokio::test]
async fn close_of_a_link_is_a_cut_whatever_its_reason() {
    for code in 0..=9 {
        let (wire, mut far) = by_hand().await;
        far.write_all(&message(&Frame::Close(code))).await.unwrap();
        let end = WireEnd::drive(wire, 1000);
        end.down().await;
        assert_eq!(*end.ended.borrow(), None, "{code}");
    }
}
