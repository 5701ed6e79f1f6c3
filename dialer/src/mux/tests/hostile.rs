//! Input from a malicious or broken peer: each row has the expected outcome. A violation ends this
//! session only.

use super::*;
use crate::mux::frame::{ACK_FLAG, FIN_FLAG, FrameType, RST_FLAG, SYN_FLAG};

/// Outcome for the session.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It continues, with this many streams open.
    GoesOn(usize),
    Ends(Stop),
}
use Fate::{Ends, GoesOn};

fn violation(violation: Violation) -> Fate {
    Ends(Stop::Violation(violation))
}

fn data(stream: u32, flags: u16, length: usize) -> Vec<u8> {
    let mut bytes = Header::data(stream, flags, length as u32).encode().to_vec();
    bytes.resize(12 + length, 0);
    bytes
}

/// Data frame with a false length.
fn claimed(stream: u32, flags: u16, length: u32) -> Vec<u8> {
    Header::data(stream, flags, length).encode().to_vec()
}

fn update(stream: u32, flags: u16, length: u32) -> Vec<u8> {
    Header::update(stream, flags, length).encode().to_vec()
}

fn of(kind: FrameType, flags: u16, stream: u32, length: u32) -> Vec<u8> {
    let header = Header {
        kind,
        flags,
        stream,
        length,
    };
    header.encode().to_vec()
}

fn go_away(code: u32) -> Vec<u8> {
    of(FrameType::GoAway, 0, 0, code)
}

fn raw(bytes: [u8; 12]) -> Vec<u8> {
    bytes.to_vec()
}

/// Stream 1 is open and accepted, stream 2 was opened here; streams 3 (reset here) and 5 (refused)
/// are gone.
fn hub() -> (Arc<Mux>, Vec<Stream>) {
    let hub = Mux::new(Side::Hub, &limits(3), 3);
    let send = |bytes: Vec<u8>| hub.receive(bytes.into(), &mut Vec::new()).unwrap();
    send(update(1, SYN_FLAG, 0));
    send(update(3, SYN_FLAG, 0));
    let mut held = vec![accept(&hub).unwrap()];
    let third = accept(&hub).unwrap();
    held.push(hub.open().unwrap());
    send(update(5, SYN_FLAG, 0));
    drop(third);
    while hub.has_output(true) {
        message(&hub, true);
    }
    (hub, held)
}

type HostileRow = (&'static str, Vec<Vec<u8>>, Fate);

#[allow(clippy::too_many_lines, reason = "it is a table")]
fn frames() -> Vec<HostileRow> {
    let window = 256 * 1024;
    vec![
        (
            "another version",
            vec![raw([1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])],
            violation(Violation::Version(1)),
        ),
        (
            "an unknown type",
            vec![raw([0, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])],
            violation(Violation::Kind(9)),
        ),
        (
            "unknown flags",
            vec![raw([0, 0, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0])],
            violation(Violation::Flags(0x8000)),
        ),
        (
            "data for the session",
            vec![claimed(0, 0, 5)],
            violation(Violation::Stream(0)),
        ),
        (
            "a window update for the session",
            vec![update(0, 0, 5)],
            violation(Violation::Stream(0)),
        ),
        (
            "a ping for a stream",
            vec![of(FrameType::Ping, SYN_FLAG, 1, 0)],
            violation(Violation::Stream(1)),
        ),
        (
            "a go-away for a stream",
            vec![of(FrameType::GoAway, 0, 1, 0)],
            violation(Violation::Stream(1)),
        ),
        (
            "a go-away",
            vec![go_away(0x102)],
            Ends(Stop::GoAway(CloseReason::Replaced)),
        ),
        (
            "a go-away with a reason of a later version",
            vec![go_away(u32::MAX)],
            Ends(Stop::GoAway(CloseReason::Done)),
        ),
        (
            "a stream with a number of ours",
            vec![update(4, SYN_FLAG, 0)],
            violation(Violation::Parity(4)),
        ),
        (
            "a stream of ours opened by the peer",
            vec![update(2, SYN_FLAG, 0)],
            violation(Violation::Parity(2)),
        ),
        (
            "a stream opened twice",
            vec![update(1, SYN_FLAG, 0)],
            violation(Violation::OpenedTwice(1)),
        ),
        (
            "a closed stream opened again",
            vec![update(3, SYN_FLAG, 0)],
            violation(Violation::OpenedTwice(3)),
        ),
        (
            "a refused stream opened again",
            vec![update(5, SYN_FLAG, 0)],
            violation(Violation::OpenedTwice(5)),
        ),
        (
            "a stream that begins later than a younger one",
            vec![update(9, SYN_FLAG, 0), update(7, SYN_FLAG, 0)],
            GoesOn(3),
        ),
        (
            "one that begins later, twice",
            vec![
                update(9, SYN_FLAG | RST_FLAG, 0),
                update(7, SYN_FLAG, 0),
                update(7, SYN_FLAG, 0),
            ],
            violation(Violation::OpenedTwice(7)),
        ),
        (
            "the highest number, and then an old one",
            vec![update(u32::MAX, SYN_FLAG, 0), update(7, SYN_FLAG, 0)],
            violation(Violation::OpenedTwice(7)),
        ),
        (
            "data for a stream that never was",
            vec![claimed(7, 0, 1)],
            violation(Violation::NeverOpened(7)),
        ),
        (
            "data for one that may still begin",
            vec![update(9, SYN_FLAG, 0), claimed(7, 0, 1)],
            violation(Violation::NeverOpened(7)),
        ),
        (
            "an update for one of ours that never was",
            vec![update(4, 0, 1)],
            violation(Violation::NeverOpened(4)),
        ),
        (
            "an end of a stream that never was",
            vec![update(7, FIN_FLAG, 0)],
            violation(Violation::NeverOpened(7)),
        ),
        (
            "an acknowledgement of one that never was",
            vec![update(4, ACK_FLAG, 0)],
            violation(Violation::NeverOpened(4)),
        ),
        (
            "a reset of a stream that never was",
            vec![update(7, RST_FLAG, 0), data(4, RST_FLAG, 3)],
            GoesOn(2),
        ),
        (
            "one byte beyond the window",
            vec![claimed(1, 0, window + 1)],
            violation(Violation::Window {
                stream: 1,
                length: window + 1,
                left: window,
            }),
        ),
        (
            "a window and one byte, in pieces",
            vec![data(1, 0, window as usize), claimed(1, 0, 1)],
            violation(Violation::Window {
                stream: 1,
                length: 1,
                left: 0,
            }),
        ),
        (
            "a stream that begins beyond its window",
            vec![claimed(7, SYN_FLAG, window + 1)],
            violation(Violation::Window {
                stream: 7,
                length: window + 1,
                left: window,
            }),
        ),
        (
            "a claim of 4 GiB",
            vec![claimed(2, 0, u32::MAX)],
            violation(Violation::Window {
                stream: 2,
                length: u32::MAX,
                left: window,
            }),
        ),
        (
            "a claim of 4 GiB for a closed stream",
            vec![claimed(3, 0, u32::MAX)],
            violation(Violation::Window {
                stream: 3,
                length: u32::MAX,
                left: 0,
            }),
        ),
        (
            "data for a stream that was closed here",
            vec![data(3, 0, 70_000), data(3, FIN_FLAG, 5), update(3, 0, 9)],
            GoesOn(2),
        ),
        (
            "data for a stream that was refused",
            vec![data(5, 0, 70_000), update(5, RST_FLAG, 0)],
            GoesOn(2),
        ),
        (
            "data behind the end",
            vec![data(1, FIN_FLAG, 4), claimed(1, 0, 1)],
            violation(Violation::BehindEnd(1)),
        ),
        (
            "the end twice",
            vec![update(1, FIN_FLAG, 0), data(1, FIN_FLAG, 0)],
            GoesOn(2),
        ),
        (
            "an update behind the end",
            vec![update(1, FIN_FLAG, 0), update(1, 0, 9)],
            GoesOn(2),
        ),
        (
            "data behind a reset",
            vec![
                update(1, RST_FLAG, 0),
                data(1, 0, 70_000),
                data(1, FIN_FLAG, 1),
            ],
            GoesOn(1),
        ),
        (
            "a reset twice",
            vec![update(1, RST_FLAG, 0), data(1, RST_FLAG, 10)],
            GoesOn(1),
        ),
        (
            "a reset with a body",
            vec![data(1, RST_FLAG, 1000), data(2, 0, 4)],
            GoesOn(1),
        ),
        (
            "credit beyond any number",
            vec![update(2, 0, u32::MAX)],
            violation(Violation::Credit(2)),
        ),
        (
            "a stream that begins with credit beyond any number",
            vec![update(7, SYN_FLAG, u32::MAX)],
            violation(Violation::Credit(7)),
        ),
        (
            "as much credit as a number says",
            vec![update(2, 0, u32::MAX - window)],
            GoesOn(2),
        ),
        (
            "credit for a closed stream",
            vec![update(3, 0, u32::MAX), update(3, 0, u32::MAX)],
            GoesOn(2),
        ),
        (
            "opened, ended and reset at once",
            vec![
                data(7, SYN_FLAG | FIN_FLAG, 10),
                update(9, SYN_FLAG | RST_FLAG, 0),
                data(11, SYN_FLAG | FIN_FLAG | RST_FLAG, 10),
            ],
            GoesOn(3),
        ),
        (
            "streams beyond the cap",
            (7..100)
                .step_by(2)
                .map(|id| data(id, SYN_FLAG, 100))
                .collect(),
            GoesOn(3),
        ),
        (
            "an answer to no ping",
            vec![of(FrameType::Ping, ACK_FLAG, 0, 77); 100],
            GoesOn(2),
        ),
        (
            "pings faster than it reads",
            vec![of(FrameType::Ping, SYN_FLAG, 0, 77); 17],
            violation(Violation::Pings),
        ),
        (
            "a few pings",
            vec![of(FrameType::Ping, SYN_FLAG, 0, 77); 16],
            GoesOn(2),
        ),
        (
            "a flood of empty data",
            vec![data(1, 0, 0); 5000],
            GoesOn(2),
        ),
        (
            "a flood of empty updates",
            vec![update(1, 0, 0); 5000],
            GoesOn(2),
        ),
        (
            "a flood of resets",
            vec![update(1, RST_FLAG, 0); 5000],
            GoesOn(1),
        ),
        ("half a header", vec![vec![0, 0, 0]], GoesOn(2)),
        (
            "a body that never comes",
            vec![claimed(1, 0, 1000)],
            GoesOn(2),
        ),
    ]
}

#[test]
fn hostile_input_ends_this_session_at_most() {
    for (name, frames, fate) in frames() {
        // As sent, as one piece, and byte by byte.
        let whole: Bytes = frames.concat().into();
        let single: Vec<Bytes> = whole.chunks(1).map(Bytes::copy_from_slice).collect();
        let frames: Vec<Bytes> = frames.into_iter().map(Bytes::from).collect();
        for pieces in [frames, vec![whole], single] {
            let (hub, _held) = hub();
            let mut outcome = Ok(());
            for piece in pieces {
                outcome = outcome.and_then(|()| hub.receive(piece, &mut Vec::new()));
            }
            let found = outcome.map_or_else(Ends, |()| GoesOn(hub.counts().open));
            assert_eq!(found, fate, "{name}");
            if fate == GoesOn(2) || fate == GoesOn(1) || fate == GoesOn(3) {
                // It still sends its output.
                while hub.has_output(true) {
                    message(&hub, true);
                }
            }
        }
    }
}

/// Bytes held by the table of streams, its queues and the pending responses.
fn held(mux: &Mux) -> usize {
    let unread = mux.counts().unread;
    let state = lock(&mux.state);
    let tables = state.streams.capacity() * 400
        + (state.accepts.capacity() + state.small.capacity() + state.bulk.capacity()) * 4
        + state.control.capacity() * 16
        + state.skipped.ranges() * 16;
    unread + tables
}

#[test]
fn open_reset_loop_causes_back_pressure() {
    let hub = Mux::new(Side::Hub, &limits(8), 8);
    let mut id = 1;
    while hub.accepts_input() {
        let round = [data(id, SYN_FLAG, 4000), update(id, RST_FLAG, 0)].concat();
        hub.receive(round.into(), &mut Vec::new()).unwrap();
        id += 2;
        assert!(id < 10_000, "no back-pressure");
    }
    assert!(held(&hub) < 64 * BYTES_PER_KIB, "{} bytes", held(&hub));
    assert_eq!(hub.counts().open, 0);
    // The output leaves, and input is read again.
    while hub.has_output(true) {
        message(&hub, true);
    }
    assert!(hub.accepts_input());
    assert!(accept(&hub).is_none());
}

/// Each frame skips as many numbers as are remembered; the ranges must stay few.
#[test]
fn skipped_numbers_are_kept_as_one_range() {
    let hub = Mux::new(Side::Hub, &limits(8), 8);
    for id in (1..40_000_000).step_by(4096) {
        let frame = update(id, SYN_FLAG | RST_FLAG, 0);
        hub.receive(frame.into(), &mut Vec::new()).unwrap();
        assert!(lock(&hub.state).skipped.ranges() <= 1);
    }
}

#[test]
fn refusal_loop_causes_back_pressure() {
    let hub = Mux::new(Side::Hub, &limits(1), 1);
    let mut id = 1;
    while hub.accepts_input() {
        hub.receive(update(id, SYN_FLAG, 0).into(), &mut Vec::new())
            .unwrap();
        id += 2;
        assert!(id < 10_000, "no back-pressure");
    }
    assert!(held(&hub) < 64 * BYTES_PER_KIB, "{} bytes", held(&hub));
}

/// Complete streams that are reset, without anyone to accept or read them: they do not count, but
/// their bytes do.
#[test]
fn unread_bytes_of_ended_streams_are_bounded() {
    let limits = Limits {
        max_streams: 8,
        receive_budget: 0,
        ..Limits::default()
    };
    let hub = Mux::new(Side::Hub, &limits, 8);
    let mut accepted = Vec::new();
    for id in (1..200).step_by(2) {
        hub.receive(
            data(id, SYN_FLAG, 256 * BYTES_PER_KIB).into(),
            &mut Vec::new(),
        )
        .unwrap();
        hub.receive(update(id, FIN_FLAG, 0).into(), &mut Vec::new())
            .unwrap();
        accepted.extend(accept(&hub));
        hub.receive(update(id, RST_FLAG, 0).into(), &mut Vec::new())
            .unwrap();
    }
    assert_eq!(hub.counts().open, 0);
    assert!(
        held(&hub) <= 8 * 256 * BYTES_PER_KIB + 64 * BYTES_PER_KIB,
        "{} bytes",
        held(&hub)
    );
    accepted.clear();
    assert_empty_but_for_answers(&hub);
    hub.receive(update(301, SYN_FLAG, 0).into(), &mut Vec::new())
        .unwrap();
    assert!(accept(&hub).is_some());
}

fn assert_empty_but_for_answers(mux: &Mux) {
    while mux.has_output(true) {
        message(mux, true);
    }
    assert_empty(mux);
}

#[test]
fn a_window_of_single_bytes_costs_no_more_than_a_window() {
    let (hub, _held) = hub();
    let byte: Bytes = data(1, 0, 1).into();
    for _ in 0..256 * BYTES_PER_KIB {
        hub.receive(byte.clone(), &mut Vec::new()).unwrap();
    }
    let state = lock(&hub.state);
    assert_eq!(state.streams[&1].inbox.len(), 256 * BYTES_PER_KIB);
    assert_eq!(state.streams[&1].inbox.pieces(), 1);
}
