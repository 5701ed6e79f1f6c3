//! Two ends without I/O: output of one is input of the other, whole or in pieces.

mod hostile;
mod interop;
mod model;

use std::{
    io::{self, ErrorKind},
    pin::Pin,
};

use futures_util::task::noop_waker_ref;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::limits::Limits;

const BYTES_PER_KIB: usize = 1024;

fn limits(max_streams: usize) -> Limits {
    Limits {
        max_streams,
        ..Limits::default()
    }
}

fn pair(max_streams: usize) -> (Arc<Mux>, Arc<Mux>) {
    let limits = limits(max_streams);
    (
        Mux::new(Side::Agent, &limits, max_streams),
        Mux::new(Side::Hub, &limits, max_streams),
    )
}

fn cx() -> Context<'static> {
    Context::from_waker(noop_waker_ref())
}

fn message(from: &Mux, bulk: bool) -> Bytes {
    let mut out = BytesMut::new();
    from.fill(&mut out, bulk, &mut Vec::new());
    assert!(out.len() <= 16_320);
    out.freeze()
}

/// Moves all output of one end to the other.
fn carry(from: &Mux, to: &Mux) {
    while from.has_output(true) {
        to.receive(message(from, true), &mut Vec::new()).unwrap();
    }
}

fn exchange(one: &Mux, other: &Mux) {
    while one.has_output(true) || other.has_output(true) {
        carry(one, other);
        carry(other, one);
    }
}

fn accept(mux: &Arc<Mux>) -> Option<Stream> {
    match mux.poll_accept(&mut cx()) {
        Poll::Ready(stream) => stream,
        Poll::Pending => None,
    }
}

/// A stream opened by the first end.
fn opened(from: &Arc<Mux>, to: &Arc<Mux>) -> (Stream, Stream) {
    let here = from.open().unwrap();
    exchange(from, to);
    (here, accept(to).unwrap())
}

/// Number of bytes written until there was no capacity.
fn write(stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        match Pin::new(&mut *stream).poll_write(&mut cx(), &bytes[taken..]) {
            Poll::Ready(some) => taken += some?,
            Poll::Pending => break,
        }
    }
    Ok(taken)
}

fn finish(stream: &mut Stream) {
    assert!(matches!(stream.poll_finish(&mut cx()), Poll::Ready(Ok(()))));
}

#[derive(Debug, PartialEq, Eq)]
enum Read {
    Bytes(Vec<u8>),
    End,
    Reset,
    Nothing,
}

fn read(stream: &mut Stream, most: usize) -> Read {
    let mut room = vec![0; most];
    let mut room = ReadBuf::new(&mut room);
    match Pin::new(stream).poll_read(&mut cx(), &mut room) {
        Poll::Ready(Ok(())) if room.filled().is_empty() => Read::End,
        Poll::Ready(Ok(())) => Read::Bytes(room.filled().to_vec()),
        Poll::Ready(Err(error)) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            Read::Reset
        }
        Poll::Pending => Read::Nothing,
    }
}

/// No stream left anything behind.
fn assert_empty(mux: &Mux) {
    let state = lock(&mux.state);
    assert_eq!((state.live, state.streams.len()), (0, 0));
    assert!(state.accepts.is_empty() && state.control.is_empty());
}

#[test]
fn stream_passes_through_its_life_cycle() {
    let (agent, hub) = pair(8);
    let mut here = agent.open().unwrap();
    assert_eq!(
        message(&agent, false)[..],
        [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]
    );
    drop(here);
    assert_eq!(
        message(&agent, false)[..],
        [0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0]
    );

    let mut there;
    (here, there) = opened(&hub, &agent);
    assert!(here.is_idle() && there.is_idle());
    assert_eq!(write(&mut here, b"hello").unwrap(), 5);
    assert!(!here.is_idle());
    exchange(&agent, &hub);
    assert!(here.is_idle() && !there.is_idle());
    assert_eq!(read(&mut there, 3), Read::Bytes(b"hel".to_vec()));
    assert_eq!(read(&mut there, 9), Read::Bytes(b"lo".to_vec()));
    assert_eq!(read(&mut there, 9), Read::Nothing);
    finish(&mut here);
    exchange(&agent, &hub);
    assert_eq!(read(&mut there, 9), Read::End);
    assert!(!here.is_idle() && !there.is_idle());
    finish(&mut there);
    exchange(&agent, &hub);
    assert_eq!(read(&mut here, 9), Read::End);
    let over = |total| Counts {
        open: 0,
        total,
        unread: 0,
    };
    assert_eq!((agent.counts(), hub.counts()), (over(2), over(1)));
    drop((here, there));
    assert!(!agent.has_output(true) && !hub.has_output(true));
    assert_empty(&agent);
    assert_empty(&hub);
}

#[test]
fn several_small_frames_share_a_message_and_control_goes_first() {
    let (agent, hub) = pair(8);
    let mut streams: Vec<_> = (0..3).map(|_| opened(&agent, &hub)).collect();
    for (here, _) in &mut streams {
        write(here, b"1234").unwrap();
    }
    let _late = agent.open().unwrap();
    let all = message(&agent, true);
    assert!(!agent.has_output(true));
    assert_eq!(all.len(), 12 + 3 * (12 + 4));
    assert_eq!(all[..4], [0, 1, 0, 1]);
}

#[test]
fn full_frame_fills_a_message_and_bulk_waits_for_permission() {
    let (agent, hub) = pair(8);
    let (mut bulk, _there) = opened(&agent, &hub);
    let (mut small, _too) = opened(&agent, &hub);
    let sent = write(&mut bulk, &[7; 1 << 20]).unwrap();
    assert_eq!(sent, 8 * (16_320 - 12));
    // It counts as small until it has sent 64 KiB.
    let mut messages = 0;
    while agent.has_output(false) {
        assert_eq!(message(&agent, false).len(), 16_320);
        messages += 1;
    }
    assert_eq!(messages, 5);
    write(&mut small, b"ping").unwrap();
    assert!(agent.has_output(false));
    assert_eq!(message(&agent, false).len(), 12 + 4);
    assert!(!agent.has_output(false) && agent.has_output(true));
    assert_eq!(message(&agent, true).len(), 16_320);
}

/// True if its output waits for the permission to send bulk.
fn is_bulk(stream: &mut Stream, mux: &Mux) -> bool {
    assert!(!mux.has_output(true));
    write(stream, &[1; BYTES_PER_KIB]).unwrap();
    let bulk = !mux.has_output(false);
    message(mux, true);
    bulk
}

#[tokio::test(start_paused = true)]
async fn stream_is_bulk_by_its_unanswered_bytes_for_a_time() {
    let (agent, hub) = pair(8);
    let (mut here, mut there) = opened(&agent, &hub);
    // In pieces that the wire takes at once: the outbox runs empty each time.
    for _ in 0..64 {
        assert!(!is_bulk(&mut here, &agent));
    }
    assert!(is_bulk(&mut here, &agent));
    tokio::time::advance(std::time::Duration::from_millis(100)).await;
    assert!(!is_bulk(&mut here, &agent));

    // Sparse acknowledgements change little; a conversation is not bulk.
    for round in 0..100 {
        write(&mut there, &[1; 100]).unwrap();
        carry(&hub, &agent);
        assert!(round < 10 || !is_bulk(&mut here, &agent));
    }
    for _ in 0..80 {
        is_bulk(&mut here, &agent);
    }
    write(&mut there, &[1; 16]).unwrap();
    carry(&hub, &agent);
    assert!(is_bulk(&mut here, &agent));
}

#[tokio::test(start_paused = true)]
async fn slow_stream_is_never_bulk() {
    let (agent, hub) = pair(8);
    let (mut here, _there) = opened(&agent, &hub);
    for _ in 0..200 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        assert!(!is_bulk(&mut here, &agent));
    }
}

#[test]
fn bulk_gets_turns_beside_busy_small_streams() {
    let (agent, hub) = pair(8);
    let (mut bulk, _there) = opened(&agent, &hub);
    let (mut small, mut other) = opened(&agent, &hub);
    write(&mut bulk, &[7; 128 * BYTES_PER_KIB]).unwrap();
    for _ in 0..5 {
        hub.receive(message(&agent, true), &mut Vec::new()).unwrap();
    }
    let before = lock(&agent.state).streams[&bulk.id()].outbox.len();
    for _ in 0..40 {
        // More than fits beside a bulk frame.
        write(&mut small, &[1; 16_308]).unwrap();
        hub.receive(message(&agent, true), &mut Vec::new()).unwrap();
        while let Read::Bytes(_) = read(&mut other, 32 * BYTES_PER_KIB) {}
        carry(&hub, &agent);
        let state = &mut lock(&agent.state);
        let entry = state.streams.get_mut(&small.id()).unwrap();
        // A stream with this much output would be bulk itself; pretend that others take its place.
        entry.run = 0;
    }
    let after = lock(&agent.state).streams[&bulk.id()].outbox.len();
    assert!(after < before, "bulk was starved");
}

#[test]
fn stopped_reader_holds_its_window_only() {
    let (agent, hub) = pair(8);
    let (mut stopped, mut never_read) = opened(&agent, &hub);
    let mut sent = 0;
    loop {
        let taken = write(&mut stopped, &[0; 64 * BYTES_PER_KIB]).unwrap();
        exchange(&agent, &hub);
        sent += taken;
        if taken == 0 {
            break;
        }
    }
    assert_eq!(sent, 256 * BYTES_PER_KIB + state::OUTBOX_BYTES);
    assert_eq!(
        lock(&hub.state).streams[&1].inbox.len(),
        256 * BYTES_PER_KIB
    );
    let (mut other, mut there) = opened(&agent, &hub);
    write(&mut other, b"ping").unwrap();
    exchange(&agent, &hub);
    assert_eq!(read(&mut there, 9), Read::Bytes(b"ping".to_vec()));
    // Continues as soon as something is read.
    let mut got = 0;
    while let Read::Bytes(bytes) = read(&mut never_read, 64 * BYTES_PER_KIB) {
        got += bytes.len();
        exchange(&agent, &hub);
    }
    assert_eq!(got, sent);
}

#[tokio::test(start_paused = true)]
async fn fast_reader_that_stops_holds_at_most_a_mebibyte() {
    let (agent, hub) = pair(8);
    hub.register_driver(noop_waker_ref(), Some(Duration::from_micros(200)));
    let (mut here, mut there) = opened(&agent, &hub);
    for _ in 0..100 {
        write(&mut here, &[0; 64 * BYTES_PER_KIB]).unwrap();
        exchange(&agent, &hub);
        while let Read::Bytes(_) = read(&mut there, 64 * BYTES_PER_KIB) {}
        exchange(&agent, &hub);
    }
    while write(&mut here, &[0; 64 * BYTES_PER_KIB]).unwrap() > 0 {
        exchange(&agent, &hub);
    }
    let held = lock(&hub.state).streams[&1].inbox.len();
    assert!(
        (512 * BYTES_PER_KIB..=1024 * BYTES_PER_KIB).contains(&held),
        "{held}"
    );
}

#[test]
fn reset_differs_from_an_end_and_follows_the_data() {
    let (agent, hub) = pair(8);
    let (mut here, mut there) = opened(&agent, &hub);
    write(&mut here, b"some").unwrap();
    drop(here);
    exchange(&agent, &hub);
    assert_empty(&agent);
    assert_eq!(read(&mut there, 9), Read::Bytes(b"some".to_vec()));
    assert_eq!(read(&mut there, 9), Read::Reset);
    assert!(write(&mut there, b"x").is_err());
    assert_eq!(hub.counts().open, 0);
    drop(there);
    assert_empty(&hub);

    // Data beyond the peer's window is not kept.
    let (mut here, mut there) = opened(&agent, &hub);
    let mut sent = 0;
    for _ in 0..3 {
        sent += write(&mut here, &[1; 100 * BYTES_PER_KIB]).unwrap();
        carry(&agent, &hub);
    }
    sent += write(&mut here, &[1; 100 * BYTES_PER_KIB]).unwrap();
    assert!(sent > 300 * BYTES_PER_KIB);
    drop(here);
    exchange(&agent, &hub);
    assert_empty(&agent);
    let mut got = 0;
    while let Read::Bytes(bytes) = read(&mut there, 64 * BYTES_PER_KIB) {
        got += bytes.len();
    }
    assert_eq!(got, 256 * BYTES_PER_KIB);
    assert_eq!(read(&mut there, 9), Read::Reset);
    drop(there);

    // Finished, then dropped: all data, then a reset for the peer's writes.
    let (mut here, mut there) = opened(&agent, &hub);
    write(&mut here, b"all of it").unwrap();
    finish(&mut here);
    drop(here);
    exchange(&agent, &hub);
    assert_empty(&agent);
    assert_eq!(read(&mut there, 99), Read::Bytes(b"all of it".to_vec()));
    assert_eq!(read(&mut there, 99), Read::End);
    assert!(write(&mut there, b"x").is_err());
}

#[test]
fn unaccepted_reset_stream_is_dropped_and_a_finished_one_is_kept() {
    let (agent, hub) = pair(8);
    drop(agent.open().unwrap());
    exchange(&agent, &hub);
    assert!(accept(&hub).is_none());
    assert_empty(&hub);
    let mut brief = agent.open().unwrap();
    write(&mut brief, b"note").unwrap();
    finish(&mut brief);
    drop(brief);
    exchange(&agent, &hub);
    let mut note = accept(&hub).unwrap();
    assert_eq!(read(&mut note, 9), Read::Bytes(b"note".to_vec()));
    assert_eq!(read(&mut note, 9), Read::End);
}

#[test]
fn streams_beyond_the_cap_are_refused_and_ended_ones_do_not_count() {
    let (agent, hub) = pair(4);
    let mut held: Vec<_> = (0..4).map(|_| opened(&agent, &hub)).collect();
    assert!(matches!(agent.open(), Err(OpenError::Full)));
    assert!(matches!(hub.open(), Err(OpenError::Full)));
    // Finished both ways, reset by either side: still held, not counted.
    let (here, there) = &mut held[0];
    finish(here);
    finish(there);
    exchange(&agent, &hub);
    held.push(opened(&agent, &hub));
    let (_, there) = held.remove(1);
    drop(there);
    exchange(&agent, &hub);
    held.push(opened(&hub, &agent));
    assert_eq!((agent.counts().open, hub.counts().open), (4, 4));
    assert!(matches!(hub.open(), Err(OpenError::Full)));
    held.clear();
    exchange(&agent, &hub);
    assert_empty(&agent);

    // Both open the remaining streams at once: each refuses those beyond its limit, and only these
    // streams end.
    let ours: Vec<_> = (0..4).map(|_| agent.open().unwrap()).collect();
    let mut theirs: Vec<_> = (0..4).map(|_| hub.open().unwrap()).collect();
    exchange(&agent, &hub);
    assert!(
        theirs
            .iter_mut()
            .all(|stream| read(stream, 9) == Read::Reset)
    );
    drop((ours, theirs));
    exchange(&agent, &hub);
    opened(&agent, &hub);
}

#[test]
fn writer_is_woken_when_half_of_its_bytes_are_sent() {
    let (agent, hub) = pair(4);
    let (mut here, _there) = opened(&agent, &hub);
    write(&mut here, &[0; 1 << 20]).unwrap();
    let mut wakes = Vec::new();
    let mut out = BytesMut::new();
    for _ in 0..3 {
        agent.fill(&mut out, true, &mut wakes);
    }
    assert!(wakes.is_empty());
    agent.fill(&mut out, true, &mut wakes);
    assert_eq!(wakes.len(), 1);
}

#[test]
fn session_end_breaks_streams_but_keeps_complete_and_queued_data() {
    let (agent, hub) = pair(8);
    let (mut whole, mut read_late) = opened(&agent, &hub);
    let (mut open, mut broken) = opened(&agent, &hub);
    write(&mut open, b"part").unwrap();
    write(&mut whole, b"whole").unwrap();
    finish(&mut whole);
    exchange(&agent, &hub);
    write(&mut read_late, b"the answer").unwrap();
    finish(&mut read_late);
    let mut wakes = Vec::new();
    hub.end(SessionError::Here(CloseReason::Draining), &mut wakes);
    assert_eq!(read(&mut read_late, 9), Read::Bytes(b"whole".to_vec()));
    assert_eq!(read(&mut read_late, 9), Read::End);
    assert_eq!(read(&mut broken, 9), Read::Bytes(b"part".to_vec()));
    assert_eq!(read(&mut broken, 9), Read::Reset);
    assert!(matches!(hub.open(), Err(OpenError::Closed(_))));
    assert!(matches!(hub.poll_accept(&mut cx()), Poll::Ready(None)));
    drop((read_late, broken));
    carry(&hub, &agent);
    hub.go_away(CloseReason::Draining);
    let last = agent.receive(message(&hub, true), &mut Vec::new());
    assert_eq!(last, Err(Stop::GoAway(CloseReason::Draining)));
    assert_eq!(read(&mut whole, 99), Read::Bytes(b"the answer".to_vec()));
    assert_eq!(read(&mut whole, 99), Read::End);
    assert_eq!(read(&mut open, 99), Read::Nothing);
}
