//! State of one connection of the front, and the deadlines of a connection without an authenticated request.
//!
//! A connection belongs to a stranger until its first request is authenticated. Until then its number, time and memory
//! are bounded.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use fairlead_seam::{Caller, Taken};
use futures_util::task::AtomicWaker;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    admission::Slot,
    front::{
        stall_owner::StallOwner,
        stranger_pools::{StrangerPools, StrangerShares},
    },
    metrics::CloseCause,
};

/// Deadline for the first head, and for the next request of a stranger's connection.
const STRANGER_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a connection without an authenticated request takes no further requests.
const STRANGER_LIFETIME: Duration = Duration::from_secs(60);
/// Time for the last requests of a connection that is closed.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that a connection may send before its first head: a head of 8 KiB, and as much for TLS. More counts as
/// strangers' memory.
const FREE_HEAD_BYTES: usize = 16 * 1024;
/// Bytes per read of a stranger's connection. Larger reads would grow the buffers above.
pub(crate) const STRANGER_READ_BYTES: usize = 4096;
/// Bytes that a stranger's HTTP/2 connection may send before the hub stops reading it. Its windows allow more. Those
/// beyond [`FREE_HEAD_BYTES`] count as strangers' memory, and without it the hub stops earlier.
const MAX_STRANGER_H2_BYTES: usize = 192 * 1024;

/// State of a connection, shared by its socket, its task and its requests.
pub(crate) struct ConnectionState {
    /// Shares of the address, as long as its requests are strangers'.
    pub(crate) strangers: StrangerShares,
    /// Memory of an unfinished first head.
    head: Mutex<Option<Taken>>,
    /// Memory of bytes that a stranger's HTTP/2 connection has sent after it.
    unread: Mutex<Option<Taken>>,
    http2: AtomicBool,
    upgraded: AtomicBool,
    known: AtomicBool,
    /// Its requests are those of a named service, whose clients nobody knows.
    anonymous_service: AtomicBool,
    /// Last authenticated caller.
    owner: Mutex<Option<Arc<StallOwner>>>,
    authenticated: Notify,
    reader: AtomicWaker,
    begun: AtomicU32,
    ended: AtomicU32,
}

impl ConnectionState {
    pub(crate) fn new(pools: &StrangerPools, peer: SocketAddr) -> Arc<Self> {
        Arc::new(ConnectionState {
            strangers: pools.shares(peer.ip()),
            head: Mutex::default(),
            unread: Mutex::default(),
            http2: AtomicBool::new(false),
            upgraded: AtomicBool::new(false),
            known: AtomicBool::new(false),
            anonymous_service: AtomicBool::new(false),
            owner: Mutex::default(),
            authenticated: Notify::new(),
            reader: AtomicWaker::new(),
            begun: AtomicU32::new(0),
            ended: AtomicU32::new(0),
        })
    }

    pub(crate) fn set_http2(&self) {
        self.http2.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// From now on the connection carries no HTTP, so a reader may stop for as long as it wants.
    pub(crate) fn set_upgraded(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Ordering::Relaxed)
    }

    /// True once a request was authenticated.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Last authenticated caller; `None` for strangers.
    pub(crate) fn owner(&self) -> Option<Arc<StallOwner>> {
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        owner.clone()
    }

    pub(crate) fn set_known(&self, caller: &Caller) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.as_ref().is_some_and(|owner| owner.is(caller)) {
            return;
        }
        *owner = Some(Arc::new(StallOwner::of(caller)));
        drop(owner);
        self.lift_limits();
    }

    /// A client of a named service has sent a request. It keeps its place among the connections of strangers, and is closed
    /// when idle; its requests may run as long as those of callers.
    pub(crate) fn set_service_client(&self, service: &Caller) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        *owner = Some(Arc::new(StallOwner::of(service)));
        drop(owner);
        self.anonymous_service.store(true, Ordering::Relaxed);
        self.lift_read_limits();
    }

    /// The connection of a trusted proxy, with requests of many clients.
    pub(crate) fn set_shared(&self) {
        self.lift_limits();
    }

    fn lift_limits(&self) {
        self.lift_read_limits();
        self.authenticated.notify_one();
    }

    fn lift_read_limits(&self) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread.take();
        drop(unread);
        self.known.store(true, Ordering::Release);
        self.reader.wake();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn request_begun(&self) {
        if self.begun.fetch_add(1, Ordering::Relaxed) == 0 {
            self.head_memory().take();
        }
    }

    pub(crate) fn request_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn head_memory(&self) -> std::sync::MutexGuard<'_, Option<Taken>> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes of a connection without a request; false if it has sent more than strangers may.
    pub(crate) fn count_head(&self, before: usize, bytes: usize) -> bool {
        if before + bytes <= FREE_HEAD_BYTES || self.has_begun() {
            return true;
        }
        let mut head = self.head_memory();
        match head.as_mut() {
            Some(taken) => taken.grow(bytes),
            None => {
                *head = self.strangers.memory.take(bytes);
                head.is_some()
            }
        }
    }

    /// True if the hub stops reading for now.
    pub(crate) fn pauses_reading(&self, read: usize, cx: &std::task::Context<'_>) -> bool {
        if read < FREE_HEAD_BYTES || !self.is_http2() {
            return false;
        }
        // An unfinished first head takes memory as it is counted.
        if read < MAX_STRANGER_H2_BYTES && (!self.has_begun() || self.takes_memory_of(read)) {
            return false;
        }
        self.reader.register(cx.waker());
        !self.known.load(Ordering::Acquire)
    }

    /// Takes the memory of bytes read so far, and of the next ones; false if strangers have none left.
    fn takes_memory_of(&self, read: usize) -> bool {
        let needed = read + STRANGER_READ_BYTES - FREE_HEAD_BYTES;
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        match unread.as_mut() {
            Some(taken) => {
                let missing = needed.saturating_sub(taken.units());
                missing == 0 || taken.grow(missing)
            }
            None => {
                *unread = self.strangers.memory.take(needed);
                unread.is_some()
            }
        }
    }

    /// Numbers of requests that have begun and ended.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let ended = self.ended.load(Ordering::Relaxed);
        (self.begun.load(Ordering::Relaxed), ended)
    }

    /// Waits for a reason to close the connection. `slot` is given back once a request is authenticated.
    pub(crate) async fn close_cause(&self, slot: Slot, idle_timeout: Duration) -> CloseCause {
        let cause = tokio::select! {
            () = self.authenticated.notified() => None,
            cause = self.stranger_deadlines() => Some(cause),
            () = slot.evicted() => Some(CloseCause::Evicted),
        };
        drop(slot);
        match cause {
            Some(cause) => cause,
            None => self.idle(idle_timeout).await,
        }
    }

    fn is_unlimited_in_time(&self) -> bool {
        self.anonymous_service.load(Ordering::Relaxed)
    }

    async fn stranger_deadlines(&self) -> CloseCause {
        let opened = Instant::now();
        let (mut seen, mut idle_since) = (self.counts(), opened);
        while self.is_unlimited_in_time() || opened.elapsed() < STRANGER_LIFETIME {
            let mut next = idle_since + STRANGER_HEAD_TIMEOUT;
            if !self.is_unlimited_in_time() {
                next = next.min(opened + STRANGER_LIFETIME);
            }
            sleep_until(next).await;
            let counts = self.counts();
            let is_idle = counts.0 == counts.1;
            if is_idle && counts == seen && idle_since.elapsed() >= STRANGER_HEAD_TIMEOUT {
                return CloseCause::NoRequest;
            }
            (seen, idle_since) = (counts, Instant::now());
        }
        CloseCause::NotAuthenticated
    }

    /// The server of HTTP/1 closes idle connections itself.
    async fn idle(&self, timeout: Duration) -> CloseCause {
        if !self.is_http2() {
            return std::future::pending().await;
        }
        loop {
            let seen = self.counts();
            sleep(timeout).await;
            if seen.0 == seen.1 && self.counts() == seen {
                return CloseCause::Idle;
            }
        }
    }
}

#[cfg(test)]
mod tests;
