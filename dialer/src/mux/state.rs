//! State of all streams of a session, behind one lock: open streams, the progress of each
//! direction, and queued output. This file has the life cycle of a stream; input is in
//! `receive`, output in `send`.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    io,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    decoder::InputPosition,
    frame::{ACK_FLAG, FULL_BODY, Header, RST_FLAG, SYN_FLAG},
    queue::Queue,
    side::Side,
    skipped::Skipped,
    window::{Budget, Window},
};
use crate::{
    close::CloseReason,
    error::{OpenError, SessionError},
    limits::{INITIAL_WINDOW, Limits},
    memory::UnreadBytes,
};

/// Bytes that a writer may be ahead of the wire: eight full frames, so that no small remainder is
/// left.
pub(super) const OUTBOX_BYTES: usize = 8 * FULL_BODY;
/// Queued control frames at which reading and opening stop until the wire has taken some.
const MAX_CONTROL_FRAMES: usize = 1024;

/// Our direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ours {
    Open,
    /// The FIN follows the queued data.
    Finishing,
    /// The FIN was sent.
    Finished,
    /// The owner dropped the stream: the RST follows the queued data.
    Resetting,
}

/// The peer's direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theirs {
    Open,
    Finished,
}

pub(super) struct Entry {
    pub(super) ours: Ours,
    pub(super) theirs: Theirs,
    /// The peer has reset it.
    pub(super) reset: bool,
    /// Reset, or finished both ways. It does not count any more, but received data may still be
    /// read.
    pub(super) over: bool,
    /// Not accepted yet.
    pub(super) waiting: bool,
    /// The owner dropped the stream while its last bytes were queued.
    pub(super) orphan: bool,
    pub(super) inbox: Queue,
    pub(super) window: Window,
    pub(super) outbox: Queue,
    /// Bytes that may be sent to the peer.
    pub(super) credit: u32,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// In one of the queues of streams with output.
    pub(super) scheduled: bool,
    /// Bytes sent recently beyond those of a conversation, see `send`.
    pub(super) run: usize,
    /// Start of the idle time, where it matters.
    pub(super) dry: Option<Instant>,
    /// Bytes sent in the current turn.
    pub(super) turn: usize,
}

impl Entry {
    fn new(waiting: bool, credit: u32) -> Self {
        Entry {
            ours: Ours::Open,
            theirs: Theirs::Open,
            reset: false,
            over: false,
            waiting,
            orphan: false,
            inbox: Queue::default(),
            window: Window::new(),
            outbox: Queue::default(),
            credit,
            reader: None,
            writer: None,
            scheduled: false,
            run: 0,
            dry: None,
            turn: 0,
        }
    }

    pub(super) fn wake_into(&mut self, wakes: &mut Vec<Waker>) {
        wakes.extend(self.reader.take());
        wakes.extend(self.writer.take());
    }
}

/// Spreads stream ids. Ids chosen badly by a peer cost longer look-ups among a bounded number of
/// streams.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

pub(super) struct MuxState {
    pub(super) side: Side,
    /// Boxed: an idle session has a stream or two, and the smallest table has four slots.
    pub(super) streams: HashMap<u32, Box<Entry>, BuildHasherDefault<IdHasher>>,
    /// Streams that are not over.
    pub(super) live: usize,
    pub(super) total: u64,
    max_streams: usize,
    pub(super) opening_limit: usize,
    pub(super) budget: Budget,
    /// Unread bytes of all streams.
    pub(super) unread: UnreadBytes,
    /// Round trip of the path, if known; windows are sized by it.
    pub(super) round_trip: Duration,
    /// Number of the next stream opened here; `None` when the numbers are used up.
    pub(super) next: Option<u32>,
    /// Highest number used by the peer; lower ones that it may still use are in `skipped`.
    pub(super) highest: u32,
    pub(super) skipped: Skipped,
    pub(super) decoder: InputPosition,
    pub(super) control: VecDeque<Header>,
    /// Pongs among the control frames.
    pub(super) pongs: usize,
    pub(super) small: VecDeque<u32>,
    pub(super) bulk: VecDeque<u32>,
    /// Messages since the last turn of a bulk stream.
    pub(super) since_bulk: u32,
    pub(super) accepts: VecDeque<u32>,
    pub(super) acceptor: Option<Waker>,
    pub(super) driver: Option<Waker>,
    /// The driver has work that it does not know of.
    pub(super) wake_driver: bool,
    pub(super) close: Option<CloseReason>,
    pub(super) ended: Option<SessionError>,
}

impl MuxState {
    pub(super) fn new(side: Side, limits: &Limits, peer_streams: usize) -> Self {
        MuxState {
            side,
            streams: HashMap::default(),
            live: 0,
            total: 0,
            max_streams: limits.max_streams,
            opening_limit: limits.max_streams.min(peer_streams),
            budget: Budget::new(
                limits.budget() - limits.max_streams.saturating_mul(INITIAL_WINDOW as usize),
                &limits.memory,
            ),
            unread: limits.memory.track_unread(),
            round_trip: Duration::ZERO,
            next: Some(match side {
                Side::Agent => 1,
                Side::Hub => 2,
            }),
            highest: 0,
            skipped: Skipped::default(),
            decoder: InputPosition::default(),
            control: VecDeque::new(),
            pongs: 0,
            small: VecDeque::new(),
            bulk: VecDeque::new(),
            since_bulk: 0,
            accepts: VecDeque::new(),
            acceptor: None,
            driver: None,
            wake_driver: false,
            close: None,
            ended: None,
        }
    }

    pub(super) fn queue_control(&mut self, header: Header) {
        self.control.push_back(header);
        self.wake_driver = true;
    }

    pub(super) fn is_control_full(&self) -> bool {
        self.control.len() >= MAX_CONTROL_FRAMES
    }

    fn admits(&self, limit: usize) -> bool {
        self.live < limit
            // Includes streams that are over but still have a handle.
            && self.streams.len() < self.max_streams.saturating_mul(2)
            && self.budget.kept(self.max_streams.saturating_sub(self.live + 1))
    }

    fn enter(&mut self, id: u32, entry: Entry) {
        self.live += 1;
        self.total += 1;
        self.streams.insert(id, Box::new(entry));
    }

    /// Opens a stream. The peer learns of it at once, before anything is written.
    pub(super) fn open(&mut self) -> Result<u32, OpenError> {
        if let Some(error) = &self.ended {
            return Err(OpenError::Closed(error.clone()));
        }
        if !self.admits(self.opening_limit) || self.is_control_full() {
            return Err(OpenError::Full);
        }
        let Some(id) = self.next else {
            // After two billion streams; the next session starts from the beginning.
            self.close.get_or_insert(CloseReason::Draining);
            self.wake_driver = true;
            return Err(OpenError::Full);
        };
        self.next = id.checked_add(2);
        self.enter(id, Entry::new(false, INITIAL_WINDOW));
        self.queue_control(Header::update(id, SYN_FLAG, 0));
        Ok(id)
    }

    /// Adds a stream opened by the peer, with its credit; refused at the limit.
    pub(super) fn admit(&mut self, id: u32, credit: u32, wakes: &mut Vec<Waker>) {
        if !self.admits(self.max_streams) {
            return self.queue_control(Header::update(id, RST_FLAG, 0));
        }
        self.enter(id, Entry::new(true, credit));
        // At once, for peers that limit their unacknowledged streams.
        self.queue_control(Header::update(id, ACK_FLAG, 0));
        self.accepts.push_back(id);
        wakes.extend(self.acceptor.take());
    }

    pub(super) fn accept(&mut self, cx: &Context<'_>) -> Poll<Option<u32>> {
        if self.ended.is_some() {
            return Poll::Ready(None);
        }
        if let Some(id) = self.accepts.pop_front() {
            if let Some(entry) = self.streams.get_mut(&id) {
                entry.waiting = false;
            }
            return Poll::Ready(Some(id));
        }
        store_waker(&mut self.acceptor, cx);
        Poll::Pending
    }

    /// Completes a stream whose directions have both ended.
    pub(super) fn settle(&mut self, id: u32) {
        let Some(entry) = self.streams.get_mut(&id) else {
            return;
        };
        let finished = entry.ours == Ours::Finished && entry.theirs == Theirs::Finished;
        if entry.over || !(entry.reset || finished) {
            return;
        }
        entry.over = true;
        self.live = self.live.saturating_sub(1);
        self.budget.release(entry.window.grown());
        self.budget.commit(entry.inbox.len());
        if entry.orphan {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u32) -> Option<Box<Entry>> {
        let entry = self.streams.remove(&id)?;
        self.unread.remove(entry.inbox.len());
        if entry.over {
            self.budget.release(entry.inbox.len());
        } else {
            self.live = self.live.saturating_sub(1);
            self.budget.release(entry.window.grown());
        }
        Some(entry)
    }

    /// Handles a reset by the peer. Data received before may still be read.
    pub(super) fn reset_by_peer(&mut self, id: u32, wakes: &mut Vec<Waker>) {
        let Some(entry) = self.streams.get_mut(&id) else {
            return;
        };
        entry.reset = true;
        entry.outbox.clear();
        entry.wake_into(wakes);
        if entry.waiting && (entry.theirs == Theirs::Open || entry.inbox.is_empty()) {
            // Opening and resetting in a loop must cost nothing here.
            self.accepts.retain(|&waiting| waiting != id);
            self.remove(id);
            return;
        }
        self.settle(id);
    }

    /// Completes the drop of a stream after its last byte was sent.
    pub(super) fn reset_here(&mut self, id: u32) {
        self.remove(id);
        if self.ended.is_none() {
            self.queue_control(Header::update(id, RST_FLAG, 0));
        }
    }

    /// Handles a FIN that was sent.
    pub(super) fn finished_here(&mut self, id: u32) {
        let Some(entry) = self.streams.get_mut(&id) else {
            return;
        };
        entry.ours = Ours::Finished;
        if entry.orphan && entry.theirs == Theirs::Open {
            // The owner reads no more, so the peer must not write.
            return self.reset_here(id);
        }
        self.settle(id);
    }

    /// Handles the drop of a stream by its owner. The returned entry must be dropped outside the
    /// lock.
    pub(super) fn dropped(&mut self, id: u32) -> Option<Box<Entry>> {
        let entry = self.streams.get_mut(&id)?;
        if entry.over || entry.reset {
            return self.remove(id);
        }
        if entry.ours == Ours::Open && self.ended.is_none() {
            // Written data is still sent, as far as the peer's window allows.
            entry.outbox.truncate(entry.credit as usize);
            entry.ours = Ours::Resetting;
        }
        if entry.ours == Ours::Finishing || !entry.outbox.is_empty() {
            entry.orphan = true;
            // These bytes are not counted: the stream is not over, so its whole window is.
            self.unread.remove(entry.inbox.len());
            entry.inbox.clear();
            return None;
        }
        if self.ended.is_none() {
            self.queue_control(Header::update(id, RST_FLAG, 0));
        }
        self.remove(id)
    }

    /// Ends the session: all its streams break. Queued data may still be sent. The first reason
    /// counts.
    pub(super) fn end(&mut self, error: SessionError, wakes: &mut Vec<Waker>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(error);
        self.live = 0;
        for id in std::mem::take(&mut self.accepts) {
            if let Some(entry) = self.streams.remove(&id) {
                self.unread.remove(entry.inbox.len());
            }
        }
        for entry in self.streams.values_mut() {
            entry.over = !entry.orphan && entry.ours != Ours::Finishing;
            entry.wake_into(wakes);
        }
        wakes.extend(self.acceptor.take());
        self.wake_driver = true;
    }

    /// Reads from a stream; `take` removes any number of bytes from the inbox. `None` at the peer's
    /// end.
    pub(super) fn read<T>(
        &mut self,
        id: u32,
        cx: &Context<'_>,
        take: impl FnOnce(&mut Queue) -> T,
    ) -> Poll<io::Result<Option<T>>> {
        let Some(entry) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(self.broken()));
        };
        let before = entry.inbox.len();
        if before > 0 {
            let taken = take(&mut entry.inbox);
            let length = before - entry.inbox.len();
            self.unread.remove(length);
            if entry.over {
                self.budget.release(length);
            } else if entry.theirs == Theirs::Open
                && let Some(grant) =
                    entry
                        .window
                        .consumed(length, self.round_trip, &mut self.budget)
                && self.ended.is_none()
            {
                self.queue_control(Header::update(id, 0, grant));
            }
            return Poll::Ready(Ok(Some(taken)));
        }
        if entry.theirs == Theirs::Finished {
            return Poll::Ready(Ok(None));
        }
        if entry.reset || self.ended.is_some() {
            return Poll::Ready(Err(self.broken()));
        }
        store_waker(&mut entry.reader, cx);
        Poll::Pending
    }

    /// Writes to a stream; `give` appends at most the given number of bytes to the outbox. Returns
    /// that number.
    pub(super) fn write(
        &mut self,
        id: u32,
        cx: &Context<'_>,
        give: impl FnOnce(&mut Queue, usize),
    ) -> Poll<io::Result<usize>> {
        let Some(entry) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(self.broken()));
        };
        if entry.reset || self.ended.is_some() {
            return Poll::Ready(Err(self.broken()));
        }
        if entry.ours != Ours::Open {
            let finished = io::Error::new(io::ErrorKind::BrokenPipe, "the stream was finished");
            return Poll::Ready(Err(finished));
        }
        let before = entry.outbox.len();
        let room = OUTBOX_BYTES.saturating_sub(before);
        if room == 0 {
            store_waker(&mut entry.writer, cx);
            return Poll::Pending;
        }
        give(&mut entry.outbox, room);
        let given = entry.outbox.len() - before;
        self.schedule(id);
        Poll::Ready(Ok(given))
    }

    pub(super) fn finish(&mut self, id: u32) -> io::Result<()> {
        let Some(entry) = self.streams.get_mut(&id) else {
            return Err(self.broken());
        };
        if entry.ours != Ours::Open {
            return Ok(());
        }
        if entry.reset || self.ended.is_some() {
            return Err(self.broken());
        }
        entry.ours = Ours::Finishing;
        self.schedule(id);
        Ok(())
    }

    /// No unread data, no unsent data, no end and no reset either way.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        self.ended.is_none()
            && self.streams.get(&id).is_some_and(|entry| {
                !entry.reset
                    && entry.ours == Ours::Open
                    && entry.theirs == Theirs::Open
                    && entry.inbox.is_empty()
                    && entry.outbox.is_empty()
            })
    }

    /// Reason for a broken stream: the session's end, or a reset.
    fn broken(&self) -> io::Error {
        self.ended.clone().map_or_else(
            || io::Error::new(io::ErrorKind::ConnectionReset, "the peer reset the stream"),
            io::Error::from,
        )
    }
}

/// Stores the waker; clones only if it differs from the stored one.
pub(super) fn store_waker(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}
