//! What a session's driver, its tap and its streams know in common: which streams are open, how far each direction of
//! them has come, what was asked for, and how it ended.
//!
//! yamux itself tells neither a reset from an end when it reads, nor an end from a drop when half of the stream is done
//! already; this table does.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::sync::watch;

use super::{CloseReason, SessionError, Stats};
use crate::lock;

/// Our direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ours {
    Open,
    /// The stream was finished here; its FIN is on its way to the wire.
    Finishing,
    /// The FIN went out.
    Finished,
}

/// The peer's direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theirs {
    Open,
    Finished,
    Reset,
    /// Whole, but nothing of ours is wanted any more.
    FinishedThenReset,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    ours: Ours,
    theirs: Theirs,
    /// The stream's owner has let go of it, unfinished.
    dropped: bool,
}

impl Theirs {
    fn whole(self) -> bool {
        matches!(self, Theirs::Finished | Theirs::FinishedThenReset)
    }
}

/// What is to become of an outgoing FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fin {
    Pass,
    /// It stands for a dropped stream: the peer shall see a reset.
    Reset,
    /// The stream was finished, then dropped before the peer had finished: a reset follows.
    PassThenReset,
}

#[derive(Default)]
struct Table {
    entries: HashMap<u32, Entry>,
    /// Streams whose reset yamux does not send by itself.
    resets: Vec<u32>,
    close: Option<CloseReason>,
    over: bool,
}

pub(super) struct Shared {
    table: Mutex<Table>,
    limit: usize,
    opening_limit: usize,
    driver: AtomicWaker,
    total: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    rtt_micros: AtomicU64,
    ended: watch::Sender<Option<SessionError>>,
}

impl Shared {
    pub(super) fn new(limit: usize, peer_limit: usize) -> Self {
        Shared {
            table: Mutex::default(),
            limit,
            opening_limit: limit.min(peer_limit),
            driver: AtomicWaker::new(),
            total: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            rtt_micros: AtomicU64::new(0),
            ended: watch::Sender::new(None),
        }
    }

    pub(super) fn driver(&self) -> &AtomicWaker {
        &self.driver
    }

    pub(super) fn may_open(&self) -> bool {
        lock(&self.table).entries.len() < self.opening_limit
    }

    /// A new stream, of either side. False at the limit: it must be refused.
    pub(super) fn admit(&self, id: u32) -> bool {
        let mut table = lock(&self.table);
        if table.entries.len() >= self.limit {
            return false;
        }
        let entry = Entry {
            ours: Ours::Open,
            theirs: Theirs::Open,
            dropped: false,
        };
        table.entries.insert(id, entry);
        self.total.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The peer's FIN came in.
    pub(super) fn fin_in(&self, id: u32) {
        if let Some(entry) = lock(&self.table).entries.get_mut(&id)
            && entry.theirs == Theirs::Open
        {
            entry.theirs = Theirs::Finished;
        }
    }

    /// The peer's RST came in.
    pub(super) fn rst_in(&self, id: u32) {
        let mut table = lock(&self.table);
        if let Some(entry) = table.entries.get_mut(&id) {
            if entry.dropped {
                table.entries.remove(&id);
                return;
            }
            entry.theirs = match entry.theirs {
                Theirs::Open | Theirs::Reset => Theirs::Reset,
                Theirs::Finished | Theirs::FinishedThenReset => Theirs::FinishedThenReset,
            };
        }
    }

    /// yamux sends a FIN.
    pub(super) fn fin_out(&self, id: u32) -> Fin {
        let mut table = lock(&self.table);
        let Some(entry) = table.entries.get_mut(&id) else {
            return Fin::Pass;
        };
        let finished = entry.ours != Ours::Open;
        entry.ours = Ours::Finished;
        if !entry.dropped {
            return Fin::Pass;
        }
        let theirs = entry.theirs;
        table.entries.remove(&id);
        match (finished, theirs) {
            (false, _) => Fin::Reset,
            (true, Theirs::Open) => Fin::PassThenReset,
            (true, _) => Fin::Pass,
        }
    }

    /// yamux sends a RST.
    pub(super) fn rst_out(&self, id: u32) {
        lock(&self.table).entries.remove(&id);
    }

    /// The stream's owner finished it.
    pub(super) fn finishing(&self, id: u32) {
        if let Some(entry) = lock(&self.table).entries.get_mut(&id)
            && entry.ours == Ours::Open
        {
            entry.ours = Ours::Finishing;
        }
    }

    /// Whether the end that yamux reports is the peer's FIN and not a reset or a broken session.
    pub(super) fn ended_cleanly(&self, id: u32) -> bool {
        lock(&self.table)
            .entries
            .get(&id)
            .is_some_and(|entry| entry.theirs.whole())
    }

    /// The stream's owner lets go of it. What yamux does next, when it hears of that: RST if both directions are open, FIN
    /// if the peer's is finished, nothing if ours is.
    pub(super) fn dropped(&self, id: u32, finished: bool) {
        let mut table = lock(&self.table);
        let over = table.over;
        let Some(entry) = table.entries.get_mut(&id) else {
            return;
        };
        if !finished {
            // A finish that was begun and given up is none.
            entry.ours = Ours::Open;
        }
        match (entry.ours, entry.theirs) {
            _ if over => {
                table.entries.remove(&id);
            }
            (_, Theirs::Reset | Theirs::FinishedThenReset) | (Ours::Finished, Theirs::Finished) => {
                table.entries.remove(&id);
            }
            (Ours::Finished, Theirs::Open) => {
                table.entries.remove(&id);
                table.resets.push(id);
                self.driver.wake();
            }
            (Ours::Open | Ours::Finishing, _) => entry.dropped = true,
        }
    }

    /// The streams for which a reset must be sent.
    pub(super) fn take_resets(&self, into: &mut Vec<u32>) {
        into.append(&mut lock(&self.table).resets);
    }

    /// The first reason counts.
    pub(super) fn ask_close(&self, reason: CloseReason) {
        lock(&self.table).close.get_or_insert(reason);
        self.driver.wake();
    }

    pub(super) fn close_asked(&self) -> Option<CloseReason> {
        lock(&self.table).close
    }

    pub(super) fn count(&self, (bytes_in, bytes_out): (u64, u64), rtt: Option<Duration>) {
        self.bytes_in.store(bytes_in, Ordering::Relaxed);
        self.bytes_out.store(bytes_out, Ordering::Relaxed);
        let micros = rtt.map_or(0, |rtt| {
            u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX).max(1)
        });
        self.rtt_micros.store(micros, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> Stats {
        let rtt = self.rtt_micros.load(Ordering::Relaxed);
        Stats {
            streams_open: lock(&self.table).entries.len(),
            streams_total: self.total.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            rtt: (rtt != 0).then(|| Duration::from_micros(rtt)),
        }
    }

    /// The session is over: all its streams are broken. The first reason counts.
    pub(super) fn end(&self, error: SessionError) {
        let first = self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(error);
            first
        });
        if first {
            let mut table = lock(&self.table);
            // Streams that the peer had finished stay readable to their end.
            table
                .entries
                .retain(|_, entry| !entry.dropped && entry.theirs.whole());
            table.resets.clear();
            table.over = true;
        }
    }

    /// Why a stream broke: with its session, or alone.
    pub(super) fn broken(&self) -> Option<SessionError> {
        self.ended.borrow().clone()
    }

    pub(super) async fn closed(&self) -> SessionError {
        let mut ended = self.ended.subscribe();
        loop {
            if let Some(error) = ended.borrow_and_update().clone() {
                return error;
            }
            if ended.changed().await.is_err() {
                return SessionError::Broken("the session's task is gone".to_owned());
            }
        }
    }
}
