//! Streams continue over another link, and are reset if none comes.

use std::collections::VecDeque;

use tokio::{
    io::{AsyncBufReadExt, BufReader, DuplexStream},
    task::AbortHandle,
    time::sleep,
};

use super::*;
use crate::{
    Arrival, accept_resumable,
    websocket::SocketRole,
    wire::{self, Resumable, SessionHandle, Socket},
};

/// A link that can be cut; data in flight is lost.
struct Cable {
    relay: AbortHandle,
}

impl Cable {
    fn new() -> (Self, DuplexStream, DuplexStream) {
        let (agent, mut near) = duplex(4096);
        let (mut far, hub) = duplex(4096);
        let relay = tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
        let relay = relay.abort_handle();
        (Cable { relay }, agent, hub)
    }

    fn cut(&self) {
        self.relay.abort();
    }
}

async fn begin(known: &Resumable, limits: &Limits) -> (Session, Session, Cable) {
    let (cable, a, h) = Cable::new();
    let at_agent = async { Session::start(agent_wire(a, limits).await, Side::Agent, limits) };
    let at_hub = accept_resumable(
        h,
        hub_inner(&OURS),
        limits.clone(),
        known,
        std::future::pending(),
    );
    let (agent, hub) = tokio::join!(at_agent, at_hub);
    let Ok(Arrival::New(hub)) = hub else {
        panic!("no new session");
    };
    (agent, hub.session, cable)
}

fn handle(session: &Session) -> &SessionHandle {
    session.resume_handle().expect("resumable")
}

async fn down(session: &Session) {
    let mut link = session.link();
    let down = |state: &LinkState| matches!(state, LinkState::Down { .. });
    drop(link.wait_for(down).await.unwrap());
}

async fn resume(agent: &Session, known: &Resumable) -> Cable {
    let (cable, a, h) = Cable::new();
    let limits = Limits::default();
    let at_agent = async {
        let mut socket = Socket::new(a, &[], SocketRole::Agent);
        let wanted = Some(handle(agent).id());
        let agreed = wire::offer(&mut socket, wire::VERSIONS, &limits, wanted).await?;
        handle(agent).resume(socket, &agreed).await
    };
    let at_hub = accept_resumable(
        h,
        hub_inner(&OURS),
        limits.clone(),
        known,
        std::future::pending(),
    );
    let (resumed, arrived) = tokio::join!(at_agent, at_hub);
    resumed.unwrap();
    assert!(matches!(arrived, Ok(Arrival::Resumed)));
    cable
}

/// Keystrokes and a bulk copy, while the link breaks fifty times.
#[tokio::test]
async fn streams_survive_fifty_cuts() {
    const LINE_COUNT: usize = 20_000;
    let known = Resumable::default();
    let (agent, hub, mut cable) = begin(&known, &limits(16)).await;
    let echo = tokio::spawn(echo(agent.clone()));
    let talk = |from: usize| {
        let hub = hub.clone();
        async move {
            let (read, mut write) = tokio::io::split(hub.open().await.unwrap());
            let ask = async {
                for n in from..from + LINE_COUNT {
                    write.write_all(format!("{n}\n").as_bytes()).await.unwrap();
                }
                write.shutdown().await.unwrap();
            };
            let listen = async {
                let mut lines = BufReader::new(read).lines();
                for n in from..from + LINE_COUNT {
                    let handle = lines.next_line().await.unwrap();
                    assert_eq!(handle, Some(n.to_string()));
                }
                assert_eq!(lines.next_line().await.unwrap(), None);
            };
            tokio::join!(ask, listen);
        }
    };
    let talking = async { tokio::join!(talk(0), talk(1_000_000), talk(2_000_000)) };
    let cuts = async {
        // After so many rounds of the runtime: no two cuts are alike.
        let mut rounds = VecDeque::from_iter((0..50).map(|n| (n * 7919) % 523));
        while let Some(rounds) = rounds.pop_front() {
            for _ in 0..rounds {
                tokio::task::yield_now().await;
            }
            cable.cut();
            down(&agent).await;
            cable = resume(&agent, &known).await;
        }
    };
    tokio::join!(talking, cuts);
    assert_eq!(hub.stats().streams_total, 3);
    assert_eq!(hub.stats().resumptions, 50);
    assert_eq!(agent.stats().resumptions, 50);
    for stats in [hub.stats(), agent.stats()] {
        assert!(stats.bytes_repeated <= stats.bytes_out, "{stats:?}");
    }
    echo.abort();
}

#[tokio::test(start_paused = true)]
async fn unresumed_session_ends_with_resets() {
    let known = Resumable::default();
    let (agent, hub, cable) = begin(&known, &limits(16)).await;
    let (mut here, mut there) = opened(&agent, &hub).await;
    here.write_all(b"so far").await.unwrap();
    let mut got = [0; 6];
    there.read_exact(&mut got).await.unwrap();
    cable.cut();
    down(&hub).await;
    let since = Instant::now();
    let (a, h) = tokio::join!(here.read_u8(), there.read_u8());
    for error in [a.unwrap_err(), h.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(since.elapsed().as_secs(), 60);
    assert!(matches!(agent.closed().await, SessionError::Broken(_)));
    assert!(matches!(hub.closed().await, SessionError::Broken(_)));
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_be_opened_while_the_link_is_down() {
    let known = Resumable::default();
    let (agent, hub, cable) = begin(&known, &limits(16)).await;
    let echo = tokio::spawn(echo(agent.clone()));
    cable.cut();
    down(&agent).await;
    let mut stream = hub.open().await.unwrap();
    stream.write_all(b"waiting").await.unwrap();
    sleep(Duration::from_secs(30)).await;
    let _cable = resume(&agent, &known).await;
    let mut back = [0; 7];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"waiting");
    let stats = hub.stats();
    assert_eq!(
        (stats.resumptions, stats.bytes_repeated),
        (1, 0),
        "nothing was sent before"
    );
    echo.abort();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_while_its_link_is_down_ends_at_once() {
    let known = Resumable::default();
    let (agent, hub, cable) = begin(&known, &limits(16)).await;
    cable.cut();
    down(&hub).await;
    hub.close(CloseReason::Deleted);
    let ended = hub.closed().await;
    assert!(matches!(ended, SessionError::Here(CloseReason::Deleted)));
    // An agent that comes back at once receives the reason; later the hub does not know the
    // session.
    sleep(Duration::from_secs(3)).await;
    assert!(known.get(&handle(&agent).id()).is_none());
}
