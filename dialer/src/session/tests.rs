mod outlive;

use std::{collections::HashSet, future::poll_fn, io::ErrorKind, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::*;
use crate::{
    accept,
    mux::Stop,
    rig::{OURS, agent_wire, hub_inner, limits, pair, sessions, until},
};

const PIPE_BYTES: usize = 64 * 1024;

/// Echoes each stream, half-close included.
async fn echo(session: Session) {
    let mut tasks = JoinSet::new();
    while let Some(stream) = session.accept().await {
        tasks.spawn(async move {
            let (mut read, mut write) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut read, &mut write).await;
            let _ = write.shutdown().await;
        });
    }
}

async fn opened(from: &Session, to: &Session) -> (Stream, Stream) {
    let (here, there) = tokio::join!(from.open(), to.accept());
    (here.unwrap(), there.unwrap())
}

#[tokio::test(start_paused = true)]
async fn bytes_come_back_whole_both_ways_with_half_close() {
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;
    for (from, to) in [(&agent, &hub), (&hub, &agent)] {
        let echo = tokio::spawn(echo(to.clone()));
        let stream = from.open().await.unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
        let (mut read, mut write) = tokio::io::split(stream);
        let mut got = Vec::new();
        let (wrote, done) = tokio::join!(
            async {
                write.write_all(&sent).await?;
                write.shutdown().await
            },
            read.read_to_end(&mut got)
        );
        wrote.unwrap();
        done.unwrap();
        assert!(got == sent);
        echo.abort();
    }
    let stats = agent.stats();
    assert_eq!(stats.streams_total, 2);
    assert!(stats.bytes_in > 6_000_000 && stats.bytes_out > 6_000_000);
    until(|| agent.stats().rtt.is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn streams_yield_and_take_bytes() {
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;
    let (mut here, mut there) = opened(&agent, &hub).await;
    let mut data = Bytes::from(vec![7; 100_000]);
    poll_fn(|cx| here.poll_write_bytes(cx, &mut data))
        .await
        .unwrap();
    assert!(data.is_empty());
    poll_fn(|cx| here.poll_finish(cx)).await.unwrap();
    let mut got = 0;
    while let Some(part) = poll_fn(|cx| there.poll_read_bytes(cx)).await.unwrap() {
        assert!(!part.is_empty() && part.iter().all(|&b| b == 7));
        got += part.len();
    }
    assert_eq!(got, 100_000);
}

#[tokio::test(start_paused = true)]
async fn at_the_cap_one_more_is_refused_and_the_rest_go_on() {
    let (agent, hub) = pair(&limits(8), PIPE_BYTES).await;
    let served = tokio::spawn(echo(agent.clone()));
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(hub.open().await.unwrap());
    }
    assert!(matches!(hub.open().await, Err(OpenError::Full)));
    for stream in &mut streams {
        stream.write_all(b"on").await.unwrap();
        let mut back = [0; 2];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"on");
    }
    let mut last = streams.pop().unwrap();
    last.shutdown().await.unwrap();
    assert_eq!(last.read(&mut [0]).await.unwrap(), 0);
    drop(last);
    until(|| hub.stats().streams_open == 7 && agent.stats().streams_open == 7).await;
    let mut again = hub.open().await.unwrap();
    again.write_all(b"!").await.unwrap();
    assert_eq!(again.read_u8().await.unwrap(), b'!');
    served.abort();
}

/// Both sides open at the same time, so that each counts streams unknown to the other.
#[tokio::test(start_paused = true)]
async fn a_peer_over_our_cap_gets_resets_and_keeps_the_session() {
    let (agent, hub) = pair(&limits(8), PIPE_BYTES).await;
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let session = if n % 2 == 0 { &agent } else { &hub }.clone();
        tasks.spawn(async move { session.open().await });
    }
    let opened: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert!(opened.len() > 8, "{} were opened", opened.len());
    let mut reset = 0;
    for mut stream in opened {
        // A stream that the peer accepted is still silent.
        let read = timeout(Duration::from_millis(20), stream.read_u8()).await;
        reset += usize::from(matches!(read, Ok(Err(_))));
    }
    assert!(reset > 0);
    while timeout(Duration::from_millis(20), agent.accept())
        .await
        .is_ok()
    {}
    while timeout(Duration::from_millis(20), hub.accept())
        .await
        .is_ok()
    {}
    until(|| hub.stats().streams_open == 0 && agent.stats().streams_open == 0).await;
    let (mut here, mut there) = super::tests::opened(&agent, &hub).await;
    here.write_all(b"x").await.unwrap();
    assert_eq!(there.read_u8().await.unwrap(), b'x');
}

#[tokio::test(start_paused = true)]
async fn unused_streams_beyond_256_do_not_stall() {
    let (agent, hub) = pair(&limits(512), PIPE_BYTES).await;
    let mut streams = Vec::new();
    for _ in 0..400 {
        let open = timeout(Duration::from_secs(5), hub.open()).await;
        streams.push(open.expect("it stalls").unwrap());
    }
    let mut accepted = Vec::new();
    for _ in 0..400 {
        accepted.push(agent.accept().await.unwrap());
    }
    streams[399].write_all(b"last").await.unwrap();
    let mut got = [0; 4];
    accepted[399].read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"last");
}

#[tokio::test(start_paused = true)]
async fn unaccepted_streams_are_bounded_and_the_session_lives() {
    let (agent, hub) = pair(&limits(4), PIPE_BYTES).await;
    let held: Vec<_> = [hub.open().await, hub.open().await].into_iter().collect();
    assert!(held.iter().all(Result::is_ok));
    drop(held);
    for _ in 0..32 {
        drop(hub.open().await);
        tokio::task::yield_now().await;
    }
    // A late `accept` finds no more streams than the cap, all reset.
    while let Ok(Some(mut stream)) = timeout(Duration::from_millis(50), agent.accept()).await {
        assert!(stream.read(&mut [0]).await.is_err());
    }
    until(|| hub.stats().streams_open == 0).await;
    let (mut here, mut there) = opened(&hub, &agent).await;
    here.write_all(b"x").await.unwrap();
    assert_eq!(there.read_u8().await.unwrap(), b'x');
}

async fn read_error(stream: &mut Stream) -> ErrorKind {
    let read = timeout(Duration::from_secs(5), async {
        loop {
            match stream.read(&mut [0; 1024]).await {
                Ok(0) => panic!("a clean end"),
                Ok(_) => {}
                Err(error) => return error.kind(),
            }
        }
    });
    read.await.expect("no end at all")
}

#[tokio::test(start_paused = true)]
async fn dropped_stream_is_reset_in_any_half_closed_state() {
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;

    // Nothing was finished.
    let (mut here, mut there) = opened(&agent, &hub).await;
    here.write_all(b"some").await.unwrap();
    drop(here);
    assert_eq!(read_error(&mut there).await, ErrorKind::ConnectionReset);
    drop(there);

    // The peer had finished its direction; yamux sends a FIN here.
    let (mut here, mut there) = opened(&agent, &hub).await;
    there.shutdown().await.unwrap();
    assert_eq!(here.read(&mut [0]).await.unwrap(), 0);
    here.write_all(b"half of it").await.unwrap();
    drop(here);
    assert_eq!(read_error(&mut there).await, ErrorKind::ConnectionReset);
    drop(there);

    // Our direction was finished, the peer's was not; yamux sends nothing here. Our data arrives
    // with its end, and the peer's writes fail.
    let (mut here, mut there) = opened(&agent, &hub).await;
    here.write_all(b"all of it").await.unwrap();
    here.shutdown().await.unwrap();
    drop(here);
    let mut got = Vec::new();
    there.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"all of it");
    let failed = timeout(Duration::from_secs(5), async {
        loop {
            if let Err(error) = there.write_all(&[0; 1024]).await {
                return error.kind();
            }
        }
    });
    assert_eq!(failed.await.unwrap(), ErrorKind::ConnectionReset);
    drop(there);

    // As above, with the FIN on the wire long before the drop.
    let (mut here, mut there) = opened(&agent, &hub).await;
    here.shutdown().await.unwrap();
    assert_eq!(there.read(&mut [0]).await.unwrap(), 0);
    drop(here);
    let failed = timeout(Duration::from_secs(5), async {
        while there.write_all(&[0; 1024]).await.is_ok() {}
    });
    failed.await.unwrap();
    drop(there);
    until(|| agent.stats().streams_open == 0 && hub.stats().streams_open == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_finished_both_ways_leaves_nothing_behind() {
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;
    for _ in 0..50 {
        let (mut here, mut there) = opened(&agent, &hub).await;
        here.shutdown().await.unwrap();
        there.shutdown().await.unwrap();
        assert_eq!(here.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(there.read(&mut [0]).await.unwrap(), 0);
    }
    until(|| agent.stats().streams_open == 0 && hub.stats().streams_open == 0).await;
    assert_eq!(hub.stats().streams_total, 50);
}

#[tokio::test(start_paused = true)]
async fn broken_session_resets_its_streams_and_reports_the_reason() {
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;
    let (mut here, mut there) = opened(&agent, &hub).await;
    here.write_all(b"begun").await.unwrap();
    hub.close(CloseReason::Draining);
    hub.close(CloseReason::Deleted);
    let (one, two) = tokio::join!(agent.closed(), agent.closed());
    assert!(matches!(one, SessionError::Peer(CloseReason::Draining)));
    assert!(matches!(two, SessionError::Peer(CloseReason::Draining)));
    assert!(matches!(
        hub.closed().await,
        SessionError::Here(CloseReason::Draining)
    ));
    assert_eq!(read_error(&mut here).await, ErrorKind::ConnectionReset);
    assert_eq!(read_error(&mut there).await, ErrorKind::ConnectionReset);
    assert!(here.write_all(b"x").await.is_err());
    assert!(agent.accept().await.is_none());
    assert!(matches!(agent.open().await, Err(OpenError::Closed(_))));
    drop((here, there));
    assert_eq!(agent.stats().streams_open, 0);
}

#[tokio::test(start_paused = true)]
async fn data_finished_before_a_close_arrives() {
    let (agent, hub) = pair(&limits(16), 1 << 20).await;
    let (mut here, mut there) = opened(&hub, &agent).await;
    here.write_all(&[1; 50_000]).await.unwrap();
    here.shutdown().await.unwrap();
    hub.close(CloseReason::Done);
    let mut got = Vec::new();
    there.read_to_end(&mut got).await.unwrap();
    assert_eq!(got.len(), 50_000);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_dropped_ends_the_session() {
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;
    drop(agent);
    let ended = timeout(Duration::from_secs(5), hub.closed()).await.unwrap();
    assert!(matches!(ended, SessionError::Peer(CloseReason::Done)));
}

#[tokio::test(start_paused = true)]
async fn stopped_reader_blocks_no_other_stream() {
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;
    let (mut stopped, _never_read) = opened(&hub, &agent).await;
    // Until the window is full.
    let filled = timeout(Duration::from_millis(300), async {
        loop {
            stopped.write_all(&[0; 16_384]).await.unwrap();
        }
    });
    assert!(filled.await.is_err());
    let served = tokio::spawn(echo(agent.clone()));
    let mut other = hub.open().await.unwrap();
    for _ in 0..100 {
        other.write_all(b"ping").await.unwrap();
        let mut back = [0; 4];
        other.read_exact(&mut back).await.unwrap();
    }
    served.abort();
}

/// Much more data than all buffers hold, through four streams and a small pipe: each bounded queue
/// fills up and must be polled again when it drains.
#[tokio::test(start_paused = true)]
async fn back_pressure_loses_no_wakeup() {
    let (agent, hub) = pair(&limits(16), 4096).await;
    let served = tokio::spawn(echo(agent.clone()));
    let mut tasks = JoinSet::new();
    for n in 0..4_u8 {
        let stream = hub.open().await.unwrap();
        tasks.spawn(async move {
            let (mut read, mut write) = tokio::io::split(stream);
            let sent = vec![n; 4 << 20];
            let mut got = Vec::new();
            let (a, b) = tokio::join!(
                async {
                    write.write_all(&sent).await?;
                    write.shutdown().await
                },
                read.read_to_end(&mut got)
            );
            a.and(b.map(drop)).unwrap();
            assert!(got == sent);
        });
    }
    let all = timeout(Duration::from_secs(60), tasks.join_all()).await;
    all.expect("a wake-up was lost");
    served.abort();
}

/// Both ends write as much as they can through a pipe of one message: neither may wait for its own
/// writes before it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_both_ways_through_a_narrow_pipe_completes() {
    const BYTES_EACH: usize = 1 << 20;
    let (agent, hub) = pair(&limits(64), 16 * 1024).await;
    let mut tasks = JoinSet::new();
    for (from, to) in [(&agent, &hub), (&hub, &agent)] {
        for _ in 0..8 {
            let (mut here, mut there) = opened(from, to).await;
            tasks.spawn(async move {
                here.write_all(&vec![0; BYTES_EACH]).await.unwrap();
                here.shutdown().await.unwrap();
                assert_eq!(here.read(&mut [0]).await.unwrap(), 0);
            });
            tasks.spawn(async move {
                let mut got = Vec::new();
                there.read_to_end(&mut got).await.unwrap();
                assert_eq!(got.len(), BYTES_EACH);
                there.shutdown().await.unwrap();
            });
        }
    }
    let all = timeout(Duration::from_secs(60), tasks.join_all()).await;
    all.expect("it stopped for good");
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_round_share_a_record() {
    const STREAM_COUNT: usize = 4;
    let (agent, hub) = pair(&limits(16), PIPE_BYTES).await;
    let mut pairs = Vec::new();
    for _ in 0..STREAM_COUNT {
        pairs.push(opened(&agent, &hub).await);
    }
    let before = agent.stats().bytes_out;
    for (here, _) in &mut pairs {
        here.write_all(&[1; 10]).await.unwrap();
    }
    for (_, there) in &mut pairs {
        there.read_exact(&mut [0; 10]).await.unwrap();
    }
    // A TLS record adds 22 bytes, a frame 12.
    let expected = 22 + STREAM_COUNT * (12 + 10);
    assert_eq!(agent.stats().bytes_out - before, expected as u64);
}

#[tokio::test(start_paused = true)]
async fn protocol_violation_ends_its_session_only_with_a_reason() {
    let (_other_agent, other) = pair(&limits(16), PIPE_BYTES).await;
    let (agent, hub) = duplex(PIPE_BYTES);
    let bounds = limits(16);
    let at_agent = agent_wire(agent, &bounds);
    let at_hub = accept(hub, hub_inner(&OURS), limits(16));
    let (mut wire, hub) = tokio::join!(at_agent, at_hub);
    let hub = hub.unwrap().session;

    // Data for a stream that was never opened.
    wire.seal(Instant::now(), &mut |out| {
        out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4, 1, 2, 3, 4])
    });
    poll_fn(|cx| wire.poll_flush(cx, Instant::now()))
        .await
        .unwrap();
    let mux = Mux::new(Side::Agent, &limits(16), 16);
    // Probes come in between.
    let told = loop {
        if let Some(piece) = wire.next().unwrap() {
            break mux.receive(piece, &mut Vec::new());
        }
        poll_fn(|cx| wire.poll_fill(cx, Instant::now()))
            .await
            .unwrap();
    };
    assert_eq!(told, Err(Stop::GoAway(CloseReason::Protocol)));

    let ended = hub.closed().await;
    assert!(
        matches!(
            ended,
            SessionError::Violation {
                rule: "stream_never_opened",
                ..
            }
        ),
        "{ended}"
    );
    assert!(other.open().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn silent_peer_is_dropped_after_eleven_seconds() {
    let (agent_io, middle) = duplex(PIPE_BYTES);
    let (mut far, hub_io) = duplex(PIPE_BYTES);
    let (cut, mut is_cut) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let mut middle = middle;
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut middle, &mut far) => {}
            _ = &mut is_cut => {}
        }
        // Both sockets stay open and carry nothing.
        std::future::pending::<()>().await;
        drop((middle, far));
    });
    let (agent, hub) = sessions(agent_io, hub_io, &limits(16), &limits(16)).await;
    // Alive as long as probes are acknowledged.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(timeout(Duration::from_secs(1), hub.closed()).await.is_err());
    cut.send(()).unwrap();
    let since = Instant::now();
    let (a, h) = tokio::join!(agent.closed(), hub.closed());
    assert!(matches!(a, SessionError::Silent(_)), "{a}");
    assert!(matches!(h, SessionError::Silent(_)), "{h}");
    let took = since.elapsed();
    assert!(
        took >= Duration::from_millis(3800) && took <= Duration::from_secs(11),
        "{took:?}"
    );
}

#[test]
fn close_reasons_keep_their_codes() {
    use CloseReason::*;
    let all = [Draining, Replaced, Deleted, Expired, Protocol, Done, Cloned];
    let codes: HashSet<u16> = all.iter().map(|reason| reason.code()).collect();
    assert_eq!(codes.len(), all.len());
    for reason in all {
        assert_eq!(CloseReason::from_code(reason.code()), reason);
    }
    assert_eq!(CloseReason::from_code(999), Done);
}

#[tokio::test(start_paused = true)]
async fn limits_below_the_minimum_of_yamux_still_make_a_session() {
    let poor = Limits {
        max_streams: 4,
        receive_budget: 0,
        ..Limits::default()
    };
    let (agent, hub) = pair(&poor, PIPE_BYTES).await;
    let (mut here, mut there) = opened(&hub, &agent).await;
    here.write_all(b"x").await.unwrap();
    assert_eq!(there.read_u8().await.unwrap(), b'x');
}
