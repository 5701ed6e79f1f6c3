//! Two ends joined by a lossless pipe that cuts anywhere, and a model of each stream's data.
//! Invariants: bytes arrive whole and in order, ends are ends, resets come only from drops, and
//! nothing is left over.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Act {
    Open,
    Accept,
    Write(usize, usize),
    Read(usize, usize),
    Finish(usize),
    Drop(usize),
    /// One message into the pipe.
    Seal(bool),
    /// So many bytes out of the pipe, to the other end.
    Deliver(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let stream = || 0..8_usize;
    prop_oneof![
        2 => Just(Act::Open),
        2 => Just(Act::Accept),
        6 => (stream(), 1..200_000_usize).prop_map(|(at, n)| Act::Write(at, n)),
        6 => (stream(), 1..300_000_usize).prop_map(|(at, n)| Act::Read(at, n)),
        1 => stream().prop_map(Act::Finish),
        1 => stream().prop_map(Act::Drop),
        8 => any::<bool>().prop_map(Act::Seal),
        6 => (1..40_000_usize).prop_map(Act::Deliver),
        2 => (1..30_usize).prop_map(Act::Deliver),
    ]
}

/// State of one stream at one end.
#[derive(Default)]
struct ModelSide {
    wrote: usize,
    read: usize,
    finished: bool,
    dropped: bool,
}

struct ModelEnd {
    mux: Arc<Mux>,
    streams: Vec<Stream>,
    /// From here to the other end.
    pipe: BytesMut,
}

struct Model {
    ends: [ModelEnd; 2],
    /// By stream and end.
    sides: BTreeMap<(u32, usize), ModelSide>,
}

/// Byte at this position of the data that `end` wrote to a stream.
fn byte(stream: u32, end: usize, at: usize) -> u8 {
    (at * 31 + at / 256 + stream as usize * 7 + end) as u8
}

impl Model {
    fn new() -> Self {
        let (agent, hub) = pair(5);
        let end = |mux| ModelEnd {
            mux,
            streams: Vec::new(),
            pipe: BytesMut::new(),
        };
        Model {
            ends: [end(agent), end(hub)],
            sides: BTreeMap::new(),
        }
    }

    fn side(&mut self, stream: u32, end: usize) -> &mut ModelSide {
        self.sides.entry((stream, end)).or_default()
    }

    fn act(&mut self, at: usize, act: Act) {
        let end = &mut self.ends[at];
        match act {
            Act::Open => end.streams.extend(end.mux.open()),
            Act::Accept => end.streams.extend(accept(&end.mux)),
            Act::Write(n, length) => self.write(at, n, length),
            Act::Read(n, most) => self.read(at, n, most),
            Act::Finish(n) => {
                if let Some(stream) = end.streams.get_mut(n) {
                    let done = stream.poll_finish(&mut cx());
                    let id = stream.id();
                    if let Poll::Ready(Ok(())) = done {
                        self.side(id, at).finished = true;
                    } else {
                        let refused = self.refused(id);
                        assert!(refused || self.side(id, 1 - at).dropped, "reset by nobody");
                    }
                }
            }
            Act::Drop(n) => {
                if n < end.streams.len() {
                    let id = end.streams.remove(n).id();
                    self.side(id, at).dropped = true;
                }
            }
            Act::Seal(bulk) => {
                let message = message(&end.mux, bulk);
                end.pipe.extend_from_slice(&message);
            }
            Act::Deliver(most) => {
                let most = most.min(end.pipe.len());
                let part = end.pipe.split_to(most).freeze();
                let other = &self.ends[1 - at].mux;
                other.receive(part, &mut Vec::new()).unwrap();
            }
        }
    }

    fn write(&mut self, at: usize, n: usize, length: usize) {
        let Some(stream) = self.ends[at].streams.get_mut(n) else {
            return;
        };
        let id = stream.id();
        let side = self.sides.entry((id, at)).or_default();
        let bytes: Vec<u8> = (side.wrote..side.wrote + length)
            .map(|position| byte(id, at, position))
            .collect();
        match write(stream, &bytes) {
            Ok(taken) => side.wrote += taken,
            Err(_) if side.finished => {}
            Err(_) => assert!(
                self.side(id, 1 - at).dropped || self.refused(id),
                "reset by nobody"
            ),
        }
    }

    /// Both ends opened the last streams at once.
    fn refused(&self, id: u32) -> bool {
        let opener = usize::from(id.is_multiple_of(2));
        !self.ends[1 - opener]
            .streams
            .iter()
            .any(|stream| stream.id() == id)
    }

    fn read(&mut self, at: usize, n: usize, most: usize) {
        let Some(stream) = self.ends[at].streams.get_mut(n) else {
            return;
        };
        let id = stream.id();
        let found = read(stream, most);
        let from = self.side(id, at).read;
        let refused = self.refused(id);
        let writer = self.side(id, 1 - at);
        match found {
            Read::Bytes(bytes) => {
                assert!(from + bytes.len() <= writer.wrote);
                let whole = bytes.iter().zip(from..);
                assert!(
                    whole
                        .into_iter()
                        .all(|(&found, position)| found == byte(id, 1 - at, position))
                );
                self.side(id, at).read += bytes.len();
            }
            Read::End => assert!(writer.finished && writer.wrote == from, "cut short"),
            Read::Reset => assert!(writer.dropped || refused, "reset by nobody"),
            Read::Nothing => {}
        }
    }

    /// Runs until there is no output and everything is read.
    fn settle(&mut self) {
        loop {
            let before: usize = self.sides.values().map(|side| side.read).sum();
            for at in [0, 1] {
                while self.ends[at].mux.has_output(true) {
                    self.act(at, Act::Seal(true));
                }
                self.act(at, Act::Deliver(usize::MAX));
            }
            for at in [0, 1] {
                let end = &mut self.ends[at];
                while let Some(stream) = accept(&end.mux) {
                    end.streams.push(stream);
                }
                for n in 0..self.ends[at].streams.len() {
                    self.read(at, n, 1 << 20);
                }
            }
            let after: usize = self.sides.values().map(|side| side.read).sum();
            if before == after && self.ends.iter().all(|end| !end.mux.has_output(true)) {
                return;
            }
        }
    }

    fn check_all_arrived(&mut self) {
        let both: Vec<(usize, u32)> = [0, 1]
            .into_iter()
            .flat_map(|at| {
                self.ends[at]
                    .streams
                    .iter()
                    .map(move |stream| (at, stream.id()))
            })
            .collect();
        for (at, id) in both {
            if !self.side(id, 1 - at).dropped && !self.refused(id) {
                let wrote = self.side(id, 1 - at).wrote;
                assert_eq!(self.side(id, at).read, wrote, "stream {id} is short");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bytes_arrive_whole_for_any_sequence_of_operations(
        acts in prop::collection::vec((0..2_usize, act()), 1..250),
    ) {
        let mut model = Model::new();
        for (at, act) in acts {
            model.act(at, act);
            for end in &model.ends {
                let state = lock(&end.mux.state);
                for entry in state.streams.values() {
                    prop_assert!(entry.inbox.len() <= 1 << 20);
                    prop_assert!(entry.outbox.len() <= state::OUTBOX_BYTES);
                }
            }
        }
        model.settle();
        model.check_all_arrived();
        for end in &mut model.ends {
            end.streams.clear();
        }
        for at in [0, 1, 0, 1, 0, 1] {
            while model.ends[at].mux.has_output(true) {
                model.act(at, Act::Seal(true));
            }
            model.act(at, Act::Deliver(usize::MAX));
        }
        for end in &model.ends {
            // Streams that were not accepted were reset by their opener.
            assert_empty(&end.mux);
        }
    }
}
