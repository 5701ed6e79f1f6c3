//! Answers whose client takes nothing: each is reset after a time, and earlier if the hub needs its memory.
//!
//! A stall is registered after a second, so that a busy connection costs nothing here.

use std::{
    collections::{BTreeMap, HashMap},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{front::connection::ConnectionState, metrics::ResetCause};

/// Time after which a stall is registered.
const REGISTER_AFTER: Duration = Duration::from_secs(1);

/// Registered stalls of all connections. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Stalls(Arc<Mutex<StallTable>>);

#[derive(Default)]
struct StallTable {
    next: u64,
    /// Oldest first.
    stalls: BTreeMap<u64, Arc<Stall>>,
}

struct Stall {
    /// `None` for strangers.
    group: Option<String>,
    evicted: AtomicBool,
    waker: AtomicWaker,
}

/// Registration of one stall, removed on drop.
struct StallGuard {
    stalls: Stalls,
    number: u64,
    stall: Arc<Stall>,
}

impl Stalls {
    fn table(&self) -> MutexGuard<'_, StallTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, group: Option<&str>) -> StallGuard {
        let stall = Arc::new(Stall {
            group: group.map(str::to_owned),
            evicted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.stalls.insert(number, Arc::clone(&stall));
        StallGuard {
            stalls: self.clone(),
            number,
            stall,
        }
    }

    /// Resets the oldest stalls of the group with the most, a sixteenth of them. Returns group and number.
    pub(crate) fn evict_from_largest(&self) -> Option<(Option<String>, usize)> {
        let table = self.table();
        let mut by_group: HashMap<Option<&str>, Vec<&Arc<Stall>>> = HashMap::new();
        for stall in table.stalls.values() {
            if !stall.evicted.load(Ordering::Relaxed) {
                by_group
                    .entry(stall.group.as_deref())
                    .or_default()
                    .push(stall);
            }
        }
        let (group, of_one) = by_group
            .into_iter()
            .max_by_key(|(_, stalls)| stalls.len())?;
        let count = of_one.len().div_ceil(16);
        for stall in of_one.iter().take(count) {
            stall.evicted.store(true, Ordering::Release);
            stall.waker.wake();
        }
        Some((group.map(str::to_owned), count))
    }
}

impl Drop for StallGuard {
    fn drop(&mut self) {
        self.stalls.table().stalls.remove(&self.number);
    }
}

/// Watch over one answer or socket that may stall.
pub(crate) struct StallWatch {
    stalls: Stalls,
    connection: Arc<ConnectionState>,
    timeout: Duration,
    stalled: Option<Box<Stalled>>,
}

struct Stalled {
    since: Instant,
    /// False while the timer runs on from an earlier stall.
    is_current: bool,
    timer: Pin<Box<Sleep>>,
    guard: Option<StallGuard>,
}

impl StallWatch {
    pub(crate) fn new(
        stalls: &Stalls,
        connection: &Arc<ConnectionState>,
        timeout: Duration,
    ) -> Self {
        StallWatch {
            stalls: stalls.clone(),
            connection: Arc::clone(connection),
            timeout,
            stalled: None,
        }
    }

    /// The client took something.
    pub(crate) fn progress(&mut self) {
        if let Some(stalled) = &mut self.stalled
            && stalled.is_current
        {
            stalled.is_current = false;
            stalled.guard = None;
        }
    }

    /// The client takes nothing now; completes when the answer is to be reset.
    pub(crate) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<ResetCause> {
        let now = Instant::now();
        let stalled = self.stalled.get_or_insert_with(|| {
            Box::new(Stalled {
                since: now,
                is_current: true,
                timer: Box::pin(sleep_until(now + REGISTER_AFTER)),
                guard: None,
            })
        });
        if !stalled.is_current {
            (stalled.is_current, stalled.since) = (true, now);
        }
        loop {
            if let Some(StallGuard { stall, .. }) = &stalled.guard {
                stall.waker.register(cx.waker());
                if stall.evicted.load(Ordering::Acquire) {
                    return Poll::Ready(ResetCause::Memory);
                }
            }
            if stalled.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // A connection that was handed over has no limit of time.
            let has_limit = !self.connection.is_upgraded();
            let now = Instant::now();
            if has_limit && now >= stalled.since + self.timeout {
                return Poll::Ready(ResetCause::Timeout);
            }
            if stalled.guard.is_none() && now >= stalled.since + REGISTER_AFTER {
                stalled.guard = Some(self.stalls.register(self.connection.group()));
            }
            let next = match &stalled.guard {
                None => stalled.since + REGISTER_AFTER,
                Some(_) if has_limit => stalled.since + self.timeout,
                Some(_) => now + self.timeout,
            };
            stalled.timer.as_mut().reset(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_stalls_of_the_largest_group_are_reset_first() {
        let stalls = Stalls::default();
        let few: Vec<_> = (0..3).map(|_| stalls.register(Some("few"))).collect();
        let many: Vec<_> = (0..32).map(|_| stalls.register(Some("many"))).collect();
        let stranger = stalls.register(None);
        let evicted = stalls.evict_from_largest();
        assert_eq!(evicted, Some((Some("many".to_owned()), 2)));
        let is_evicted = |guard: &StallGuard| guard.stall.evicted.load(Ordering::Relaxed);
        assert!(many[..2].iter().all(is_evicted) && !many[2..].iter().any(is_evicted));
        assert!(!few.iter().any(is_evicted) && !is_evicted(&stranger));
        drop((few, many, stranger));
        assert_eq!(stalls.evict_from_largest(), None);
        assert!(stalls.table().stalls.is_empty());
    }
}
