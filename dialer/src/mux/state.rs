//! Everything a session knows of its streams, behind one lock: which are open, how far each direction has come, and
//! what waits to be sent. A stream's life is here; what comes in is in [`super::receive`], what goes out in
//! [`super::send`].

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    io,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Side,
    frame::{ACK, Header, RST, SYN},
    queue::Queue,
    receive::Decoder,
    skipped::Skipped,
    window::{Budget, INITIAL, Window},
};
use crate::{
    reserve::Unread,
    session::{CloseReason, Limits, OpenError, SessionError},
};

/// How many bytes a writer may be ahead of the wire: eight full frames, so that it leaves no rest for a small one.
pub(super) const OUTBOX: usize = 8 * super::send::FULL_BODY;
/// With this many control frames waiting, nothing more is read and no stream is opened until the wire has taken some.
const CONTROL_FULL: usize = 1024;

/// Our direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ours {
    Open,
    /// The FIN goes behind what waits to be sent.
    Finishing,
    /// The FIN went out.
    Finished,
    /// Its owner let go of it: the RST goes behind what waits to be sent.
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
    /// The peer reset it.
    pub(super) reset: bool,
    /// Reset, or finished both ways: it counts no more, though its owner may still read what has come.
    pub(super) over: bool,
    /// Waits to be accepted.
    pub(super) waiting: bool,
    /// Its owner let go of it while its last bytes were on their way.
    pub(super) orphan: bool,
    pub(super) inbox: Queue,
    pub(super) window: Window,
    pub(super) outbox: Queue,
    /// What we may send.
    pub(super) credit: u32,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// Stands in one of the queues of streams that have something to send.
    pub(super) scheduled: bool,
    /// How much it has sent lately beyond what a conversation would, see [`super::send`].
    pub(super) run: usize,
    /// Since when it has had nothing to send, where that matters.
    pub(super) dry: Option<Instant>,
    /// How much of its turn it has had.
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

/// Spreads stream ids. An id that a peer chose badly costs a longer look-up among a bounded number of streams.
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

pub(super) struct State {
    pub(super) side: Side,
    /// Boxed: a session that does nothing has a stream or two, and the least table has four places.
    pub(super) streams: HashMap<u32, Box<Entry>, BuildHasherDefault<IdHasher>>,
    /// Streams that are not over.
    pub(super) live: usize,
    pub(super) total: u64,
    max_streams: usize,
    pub(super) opening_limit: usize,
    pub(super) budget: Budget,
    /// Of all streams.
    pub(super) unread: Unread,
    /// Of the path, as far as it is known: what windows are measured by.
    pub(super) round_trip: Duration,
    /// The next stream opened here; none when the numbers are used up.
    pub(super) next: Option<u32>,
    /// The highest number the peer gave, and lower ones that it may still give.
    pub(super) highest: u32,
    pub(super) skipped: Skipped,
    pub(super) decoder: Decoder,
    pub(super) control: VecDeque<Header>,
    /// Of these, answers to pings.
    pub(super) pongs: usize,
    pub(super) small: VecDeque<u32>,
    pub(super) bulk: VecDeque<u32>,
    /// Messages since a bulk stream had its turn.
    pub(super) since_bulk: u32,
    pub(super) accepts: VecDeque<u32>,
    pub(super) acceptor: Option<Waker>,
    pub(super) driver: Option<Waker>,
    /// The driver has something to do that it does not know of.
    pub(super) kick: bool,
    pub(super) close: Option<CloseReason>,
    pub(super) ended: Option<SessionError>,
}

impl State {
    pub(super) fn new(side: Side, limits: &Limits, peer_streams: usize) -> Self {
        State {
            side,
            streams: HashMap::default(),
            live: 0,
            total: 0,
            max_streams: limits.max_streams,
            opening_limit: limits.max_streams.min(peer_streams),
            budget: Budget::new(
                limits.budget() - limits.max_streams.saturating_mul(INITIAL as usize),
                &limits.reserve,
            ),
            unread: limits.reserve.unread_of_one(),
            round_trip: Duration::ZERO,
            next: Some(match side {
                Side::Agent => 1,
                Side::Hub => 2,
            }),
            highest: 0,
            skipped: Skipped::default(),
            decoder: Decoder::default(),
            control: VecDeque::new(),
            pongs: 0,
            small: VecDeque::new(),
            bulk: VecDeque::new(),
            since_bulk: 0,
            accepts: VecDeque::new(),
            acceptor: None,
            driver: None,
            kick: false,
            close: None,
            ended: None,
        }
    }

    pub(super) fn tell(&mut self, header: Header) {
        self.control.push_back(header);
        self.kick = true;
    }

    pub(super) fn congested(&self) -> bool {
        self.control.len() >= CONTROL_FULL
    }

    fn admits(&self, limit: usize) -> bool {
        self.live < limit
            // Handles of streams that are over, which somebody still holds.
            && self.streams.len() < self.max_streams.saturating_mul(2)
            && self.budget.kept(self.max_streams.saturating_sub(self.live + 1))
    }

    fn enter(&mut self, id: u32, entry: Entry) {
        self.live += 1;
        self.total += 1;
        self.streams.insert(id, Box::new(entry));
    }

    /// A stream opened here. The peer learns of it at once, before anything is written.
    pub(super) fn open(&mut self) -> Result<u32, OpenError> {
        if let Some(error) = &self.ended {
            return Err(OpenError::Closed(error.clone()));
        }
        if !self.admits(self.opening_limit) || self.congested() {
            return Err(OpenError::Full);
        }
        let Some(id) = self.next else {
            // After two thousand million streams; the next session counts from the start.
            self.close.get_or_insert(CloseReason::Draining);
            self.kick = true;
            return Err(OpenError::Full);
        };
        self.next = id.checked_add(2);
        self.enter(id, Entry::new(false, INITIAL));
        self.tell(Header::update(id, SYN, 0));
        Ok(id)
    }

    /// A stream that the peer opened, with what it lets us send; refused at the limit.
    pub(super) fn admit(&mut self, id: u32, credit: u32, wakes: &mut Vec<Waker>) {
        if !self.admits(self.max_streams) {
            return self.tell(Header::update(id, RST, 0));
        }
        self.enter(id, Entry::new(true, credit));
        // At once, so that an opener that bounds what nobody has acknowledged goes on.
        self.tell(Header::update(id, ACK, 0));
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
        keep(&mut self.acceptor, cx);
        Poll::Pending
    }

    /// To be called whenever a direction of a stream has come to its end.
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
        self.unread.less(entry.inbox.len());
        if entry.over {
            self.budget.release(entry.inbox.len());
        } else {
            self.live = self.live.saturating_sub(1);
            self.budget.release(entry.window.grown());
        }
        Some(entry)
    }

    /// The peer wants nothing of it any more. What it sent before may still be read.
    pub(super) fn reset_by_peer(&mut self, id: u32, wakes: &mut Vec<Waker>) {
        let Some(entry) = self.streams.get_mut(&id) else {
            return;
        };
        entry.reset = true;
        entry.outbox.clear();
        entry.wake_into(wakes);
        if entry.waiting && (entry.theirs == Theirs::Open || entry.inbox.is_empty()) {
            // Nobody needs to hear of it: opening and resetting in a loop costs nothing here.
            self.accepts.retain(|&waiting| waiting != id);
            self.remove(id);
            return;
        }
        self.settle(id);
    }

    /// Of a stream whose owner let go of it, the last byte went out.
    pub(super) fn reset_here(&mut self, id: u32) {
        self.remove(id);
        if self.ended.is_none() {
            self.tell(Header::update(id, RST, 0));
        }
    }

    /// The FIN of a stream went out.
    pub(super) fn finished_here(&mut self, id: u32) {
        let Some(entry) = self.streams.get_mut(&id) else {
            return;
        };
        entry.ours = Ours::Finished;
        if entry.orphan && entry.theirs == Theirs::Open {
            // Its owner reads no more, so the peer shall not write.
            return self.reset_here(id);
        }
        self.settle(id);
    }

    /// The owner lets go of a stream. What comes back is to be dropped outside of the lock.
    pub(super) fn dropped(&mut self, id: u32) -> Option<Box<Entry>> {
        let entry = self.streams.get_mut(&id)?;
        if entry.over || entry.reset {
            return self.remove(id);
        }
        if entry.ours == Ours::Open && self.ended.is_none() {
            // What was written still goes, as far as the peer lets it.
            entry.outbox.truncate(entry.credit as usize);
            entry.ours = Ours::Resetting;
        }
        if entry.ours == Ours::Finishing || !entry.outbox.is_empty() {
            entry.orphan = true;
            // Its bytes are not counted: the stream is not over, so its whole window is.
            self.unread.less(entry.inbox.len());
            entry.inbox.clear();
            return None;
        }
        if self.ended.is_none() {
            self.tell(Header::update(id, RST, 0));
        }
        self.remove(id)
    }

    /// The session is over: all its streams are broken. What waits to be sent may still be sent. The first reason counts.
    pub(super) fn end(&mut self, error: SessionError, wakes: &mut Vec<Waker>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(error);
        self.live = 0;
        for id in std::mem::take(&mut self.accepts) {
            if let Some(entry) = self.streams.remove(&id) {
                self.unread.less(entry.inbox.len());
            }
        }
        for entry in self.streams.values_mut() {
            entry.over = !entry.orphan && entry.ours != Ours::Finishing;
            entry.wake_into(wakes);
        }
        wakes.extend(self.acceptor.take());
        self.kick = true;
    }

    /// What has come for a stream; `take` empties the inbox as far as it likes. None at the peer's end.
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
            self.unread.less(length);
            if entry.over {
                self.budget.release(length);
            } else if entry.theirs == Theirs::Open
                && let Some(grant) =
                    entry
                        .window
                        .consumed(length, self.round_trip, &mut self.budget)
                && self.ended.is_none()
            {
                self.tell(Header::update(id, 0, grant));
            }
            return Poll::Ready(Ok(Some(taken)));
        }
        if entry.theirs == Theirs::Finished {
            return Poll::Ready(Ok(None));
        }
        if entry.reset || self.ended.is_some() {
            return Poll::Ready(Err(self.broken()));
        }
        keep(&mut entry.reader, cx);
        Poll::Pending
    }

    /// `give` puts bytes into the outbox, at most as many as it is told; how many it put.
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
        let room = OUTBOX.saturating_sub(before);
        if room == 0 {
            keep(&mut entry.writer, cx);
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

    /// Nothing unread, nothing unsent, no end and no reset either way.
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

    /// Why a stream broke: with its session, or alone.
    fn broken(&self) -> io::Error {
        self.ended.clone().map_or_else(
            || io::Error::new(io::ErrorKind::ConnectionReset, "the peer reset the stream"),
            io::Error::from,
        )
    }
}

/// Remembers whom to wake, without a new handle where the old one does.
pub(super) fn keep(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}
