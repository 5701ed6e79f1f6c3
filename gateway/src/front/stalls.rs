//! Answers whose client takes nothing: each is reset after a time, and earlier if the hub needs its memory.
//!
//! A stall is registered after a second, so that a busy connection costs nothing here.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    front::{connection::ConnectionState, stall_owner::StallOwner},
    metrics::{Metrics, ResetCause},
};

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
    owner: Option<Arc<StallOwner>>,
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

    fn register(&self, owner: Option<Arc<StallOwner>>) -> StallGuard {
        let stall = Arc::new(Stall {
            owner,
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

    /// Resets stalls of the token with the most, in the tenant with the most: the oldest, a sixteenth of the tenant's.
    /// Returns their owner and number.
    pub(crate) fn evict_from_largest(&self) -> Option<(Option<Arc<StallOwner>>, usize)> {
        let table = self.table();
        let open = table.stalls.values();
        let open = open.filter(|stall| !stall.evicted.load(Ordering::Relaxed));
        let of_tenant = largest(open, |owner| owner.group.as_str())?;
        let count = of_tenant.len().div_ceil(16);
        let of_token = largest(of_tenant, |owner| owner.token.as_str())?;
        let owner = of_token.first()?.owner.clone();
        let evicted = of_token.into_iter().take(count);
        let evicted = evicted.map(|stall| {
            stall.evicted.store(true, Ordering::Release);
            stall.waker.wake();
        });
        Some((owner, evicted.count()))
    }
}

/// The stalls of the largest group, in their order.
fn largest<'a>(
    stalls: impl IntoIterator<Item = &'a Arc<Stall>>,
    key: impl Fn(&StallOwner) -> &str,
) -> Option<Vec<&'a Arc<Stall>>> {
    let mut groups: HashMap<Option<&str>, Vec<&Arc<Stall>>> = HashMap::new();
    for stall in stalls {
        let group = stall.owner.as_deref().map(&key);
        groups.entry(group).or_default().push(stall);
    }
    groups.into_values().max_by_key(Vec::len)
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
    /// A client may take nothing for any time.
    is_unlimited: bool,
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
            is_unlimited: false,
            stalled: None,
        }
    }

    /// Watch without a limit of time, for an upgraded stream of a connection with other requests.
    pub(crate) fn unlimited(mut self) -> Self {
        self.is_unlimited = true;
        self
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

    /// The result of a write, which fails once its client is to be reset.
    pub(crate) fn check_write<T>(
        &mut self,
        metrics: &Metrics,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.progress();
            return written;
        }
        let cause = ready!(self.poll_stalled(cx));
        metrics.stalled_reset(cause);
        Poll::Ready(Err(error_of(cause)))
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
            let has_limit = !self.is_unlimited && !self.connection.is_upgraded();
            let now = Instant::now();
            if has_limit && now >= stalled.since + self.timeout {
                return Poll::Ready(ResetCause::Timeout);
            }
            if stalled.guard.is_none() && now >= stalled.since + REGISTER_AFTER {
                stalled.guard = Some(self.stalls.register(self.connection.owner()));
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

fn error_of(cause: ResetCause) -> io::Error {
    let error = match cause {
        ResetCause::Timeout => "the client takes nothing",
        ResetCause::Memory => "the client takes nothing, and its memory is needed",
    };
    io::Error::new(io::ErrorKind::TimedOut, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(stalls: &Stalls, group: &str, token: &str, count: usize) -> Vec<StallGuard> {
        let owner = Arc::new(StallOwner {
            group: group.to_owned(),
            token: token.to_owned(),
        });
        let all = (0..count).map(|_| stalls.register(Some(Arc::clone(&owner))));
        all.collect()
    }

    #[test]
    fn oldest_stalls_of_the_largest_token_in_the_largest_tenant_are_reset_first() {
        let stalls = Stalls::default();
        // The largest token of all belongs to a small tenant.
        let small = owned(&stalls, "small", "s", 20);
        let quiet = owned(&stalls, "large", "quiet", 14);
        let busy = owned(&stalls, "large", "busy", 18);
        let stranger = stalls.register(None);
        let (owner, count) = stalls.evict_from_largest().unwrap();
        assert_eq!((owner.unwrap().token.as_str(), count), ("busy", 2));
        let is_evicted = |guard: &StallGuard| guard.stall.evicted.load(Ordering::Relaxed);
        assert!(busy[..2].iter().all(is_evicted) && !busy[2..].iter().any(is_evicted));
        assert!(!quiet.iter().chain(&small).any(is_evicted) && !is_evicted(&stranger));
        drop((small, quiet, busy, stranger));
        assert_eq!(stalls.evict_from_largest(), None);
        assert!(stalls.table().stalls.is_empty());
    }
}
