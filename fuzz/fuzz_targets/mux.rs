//! A session with an arbitrary peer. Its bytes are split anywhere, while streams are opened, read, written,
//! finished and dropped. It continues or ends with a reason, and stays within its memory limits.
//!
//! The input is a list of actions. Most of them are frames with small numbers, which random bytes would
//! seldom be.
#![no_main]

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use fairlead_dialer::{
    CloseReason, Limits, SessionError, Stream,
    mux::{Mux, Side},
};
use libfuzzer_sys::fuzz_target;

const STREAM_COUNT: usize = 4;
/// Memory of all stream windows, and of one that grows.
const BUDGET_BYTES: usize = (STREAM_COUNT + 3) * 256 * 1024;
const ZEROS: [u8; 70_000] = [0; 70_000];

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (part, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        part
    }
}

struct Rig {
    mux: Arc<Mux>,
    streams: Vec<Stream>,
    wakes: Vec<Waker>,
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let side = match input.byte() {
        Some(byte) if byte % 2 == 0 => Side::Agent,
        _ => Side::Hub,
    };
    let limits = Limits {
        max_streams: STREAM_COUNT,
        receive_budget: BUDGET_BYTES,
        ..Limits::default()
    };
    let mut rig = Rig {
        mux: Mux::new(side, &limits, STREAM_COUNT),
        streams: Vec::new(),
        wakes: Vec::new(),
    };
    while let Some(act) = input.byte() {
        if rig.act(act, &mut input).is_none() {
            break;
        }
        let counts = rig.mux.counts();
        assert!(counts.unread <= BUDGET_BYTES && counts.open <= STREAM_COUNT);
        assert!(rig.streams.len() <= 2 * STREAM_COUNT);
    }
    rig.end();
});

impl Rig {
    /// Performs one action; `None` once the session has ended.
    fn act(&mut self, act: u8, input: &mut Input<'_>) -> Option<()> {
        let cx = &mut Context::from_waker(Waker::noop());
        match act % 16 {
            0..=5 => self.frame(input)?,
            6 => {
                let most = usize::from(input.byte()?);
                self.receive(Bytes::copy_from_slice(input.bytes(most)))?;
            }
            7 => self.streams.extend(self.mux.open()),
            8 | 9 => {
                if let Poll::Ready(Some(stream)) = self.mux.poll_accept(cx) {
                    self.streams.push(stream);
                }
            }
            10 => self.fill(act >= 128),
            11 | 12 => {
                if let Some(stream) = self.stream(input.byte()?) {
                    let _ = stream.poll_read_bytes(cx);
                }
            }
            13 => {
                let mut data = Bytes::from_static(&ZEROS);
                if let Some(stream) = self.stream(input.byte()?) {
                    let _ = stream.poll_write_bytes(cx, &mut data);
                }
            }
            14 => {
                if let Some(stream) = self.stream(input.byte()?) {
                    let _ = stream.poll_finish(cx);
                }
            }
            _ => {
                let which = usize::from(input.byte()?);
                if which < self.streams.len() {
                    self.streams.swap_remove(which);
                }
            }
        }
        Some(())
    }

    fn stream(&mut self, which: u8) -> Option<&mut Stream> {
        self.streams.get_mut(usize::from(which))
    }

    /// Sends a frame: type and flags in one byte, stream, length in two; data has its body.
    fn frame(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (what, stream) = (input.byte()?, input.byte()?);
        let length = usize::from(u16::from_be_bytes([input.byte()?, input.byte()?]));
        let mut frame = BytesMut::from(&[0, what & 3, 0, what >> 4, 0, 0, 0, stream][..]);
        frame.extend_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
        if what & 3 == 0 {
            frame.extend_from_slice(&ZEROS[..length]);
        }
        self.receive(frame.freeze())
    }

    /// Feeds bytes like the session's driver.
    fn receive(&mut self, piece: Bytes) -> Option<()> {
        while !self.mux.accepts_input() {
            self.fill(true);
        }
        let outcome = self.mux.receive(piece, &mut self.wakes);
        self.wakes.clear();
        outcome.ok()
    }

    fn fill(&mut self, bulk: bool) {
        let mut out = BytesMut::new();
        self.mux.fill(&mut out, bulk, &mut self.wakes);
        assert!(out.len() <= 16_320);
        self.wakes.clear();
    }

    fn end(mut self) {
        let error = SessionError::Peer(CloseReason::Done);
        self.mux.end(error, &mut self.wakes);
        assert_eq!(self.mux.counts().open, 0);
        while self.mux.has_output(true) {
            self.fill(true);
        }
        self.streams.clear();
        self.mux.go_away(CloseReason::Done);
        self.fill(true);
        assert!(!self.mux.has_output(true));
    }
}
