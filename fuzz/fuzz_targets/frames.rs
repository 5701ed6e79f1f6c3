//! The hub's frame finder for upgraded connections, on arbitrary bytes.
//!
//! It finds the same frames however the bytes are split, agrees with our own WebSocket decoder, inserts a
//! ping only between frames, and answers only complete pings.
#![no_main]

use fairlead_dialer::websocket::{Decoder, Event, SocketRole};
use fairlead_exchange::frames::{Frames, Pong, Protocol};
use libfuzzer_sys::fuzz_target;

/// Longest input, in bytes. Longer ones only take more time.
const MAX_FRAME_BYTES: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let [step, bytes @ ..] = bytes else { return };
    let bytes = &bytes[..bytes.len().min(MAX_FRAME_BYTES)];
    for protocol in [Protocol::WebSocket, Protocol::Spdy] {
        cut(protocol, bytes, usize::from(*step).max(1));
        pings(protocol, bytes);
        pong(protocol, bytes);
    }
    beside_our_own(bytes);
});

fn stands(frames: &Frames) -> (bool, usize) {
    (frames.may_begin(), frames.rest())
}

fn after(protocol: Protocol, pieces: impl IntoIterator<Item: AsRef<[u8]>>) -> Frames {
    let mut frames = Frames::new(protocol);
    for piece in pieces {
        frames.follow(piece.as_ref());
    }
    frames
}

fn cut(protocol: Protocol, bytes: &[u8], step: usize) {
    let (whole, cut) = (
        after(protocol, [bytes]),
        after(protocol, bytes.chunks(step)),
    );
    assert_eq!(stands(&whole), stands(&cut));
}

/// The first place at which a ping may begin is found, and no earlier one is missed.
fn pings(protocol: Protocol, bytes: &[u8]) {
    let found = Frames::new(protocol).before_ping(bytes);
    let mut frames = Frames::new(protocol);
    for at in 0..bytes.len() {
        let may = frames.may_begin() && protocol.may_be_ping(&bytes[at..]);
        assert_eq!(may && at <= found, at == found, "at {at} of {found}");
        if at == found {
            return;
        }
        frames.follow(&bytes[at..=at]);
    }
    assert_eq!(found, bytes.len());
}

fn pong(protocol: Protocol, bytes: &[u8]) {
    let known = protocol.pong(bytes);
    for part in (0..bytes.len().min(160)).map(|size| &bytes[..size]) {
        match protocol.pong(part) {
            Pong::None => assert_eq!(known, Pong::None),
            Pong::Whole(answer) => answers(protocol, part, &answer),
            Pong::Unknown => {}
        }
    }
    if let Pong::Whole(answer) = known {
        answers(protocol, bytes, &answer);
        assert!((0..bytes.len()).all(|size| protocol.pong(&bytes[..size]) == Pong::Unknown));
    }
}

/// The answer is exactly one frame, and so is the ping.
fn answers(protocol: Protocol, ping: &[u8], answer: &[u8]) {
    for (what, bytes) in [("ping", ping), ("answer", answer)] {
        let whole = after(protocol, [bytes]);
        let before = after(protocol, [&bytes[..bytes.len() - 1]]);
        assert!(whole.may_begin() && !before.may_begin(), "{what}");
    }
    if protocol == Protocol::Spdy {
        return assert_eq!(ping, answer);
    }
    let (mut ping, mut answer) = (ping.to_vec(), answer.to_vec());
    let asked = Decoder::new(SocketRole::Hub).decode(&mut ping);
    let asked = asked.expect("a ping").expect("whole");
    let answered = Decoder::new(SocketRole::Agent).decode(&mut answer);
    let answered = answered.expect("a pong").expect("whole");
    assert_eq!((asked.event, answered.event), (Event::Ping, Event::Pong));
    assert_eq!(
        ping[asked.head..asked.end],
        answer[answered.head..answered.end]
    );
}

/// Frames that our own decoder accepts end in the same places.
fn beside_our_own(bytes: &[u8]) {
    let mut decoder = Decoder::new(SocketRole::Hub);
    let mut frames = Frames::new(Protocol::WebSocket);
    let mut rest = bytes.to_vec();
    let mut at = 0;
    while let Ok(Some(frame)) = decoder.decode(&mut rest) {
        let (before, last) = bytes[at..at + frame.end].split_at(frame.end - 1);
        frames.follow(before);
        assert!(!frames.may_begin());
        frames.follow(last);
        match frame.event {
            Event::Close(_) => return assert!(!frames.may_begin()),
            Event::Assembled => drop(decoder.assembled()),
            _ => {}
        }
        assert!(frames.may_begin());
        rest.drain(..frame.end);
        at += frame.end;
    }
}
