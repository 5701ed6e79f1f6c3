//! Shared parts of modules that reconcile a server outside of the hub with the store: the loop, the
//! deadline of a call, the delays between tries, and the routes of retired parts. Of several hubs on
//! one database one reconciles.

pub(crate) mod delays;
pub(crate) mod retired;

use std::{panic::AssertUnwindSafe, time::Duration};

use fairlead_store::Store;
use futures_util::FutureExt;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Deadline of one call of a server.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// Interval at which a standby hub checks that the active one is alive.
pub(crate) const STANDBY_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// A reconciler with its plans. It compares desired with actual state instead of following events, so
/// a hub that ends in between misses nothing.
pub(crate) trait Reconciling: Send {
    /// Maximum number of concurrent calls.
    const MAX_CONCURRENT_CALLS: usize;
    /// Changes within this time are processed together.
    const BATCH_DELAY: Duration;
    /// Result of one call.
    type Completed: Send + 'static;

    /// Calls in progress.
    fn calls(&mut self) -> &mut JoinSet<Self::Completed>;

    /// Refreshes the plans from the store.
    fn refresh(&mut self);

    /// Starts the calls that are due, up to the limit.
    fn start_calls(&mut self);

    /// Time of the next call.
    fn next(&self) -> Option<Instant>;

    fn complete(&mut self, completed: Self::Completed);
}

/// Reconciles while this hub is responsible, each time with a new reconciler. Never returns.
pub(crate) async fn run<R: Reconciling>(store: &Store, new: impl Fn() -> R) {
    loop {
        if store.leads() {
            follow(store, new()).await;
        }
        sleep(STANDBY_POLL_INTERVAL).await;
    }
}

/// Returns when another hub becomes responsible.
async fn follow<R: Reconciling>(store: &Store, mut reconciler: R) {
    let mut revisions = store.watch();
    reconciler.refresh();
    while store.leads() {
        reconciler.start_calls();
        let has_capacity = reconciler.calls().len() < R::MAX_CONCURRENT_CALLS;
        let due = reconciler.next().filter(|_| has_capacity);
        tokio::select! {
            changed = revisions.changed() => {
                if changed.is_err() {
                    return;
                }
                sleep(R::BATCH_DELAY).await;
                revisions.mark_unchanged();
                reconciler.refresh();
            }
            Some(done) = reconciler.calls().join_next() => {
                if let Ok(completed) = done {
                    reconciler.complete(completed);
                }
            }
            () = sleep_until(due.unwrap_or(Instant::now() + STANDBY_POLL_INTERVAL)) => {}
        }
    }
}

/// A call without a result. Both may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFailure {
    /// The panic message is omitted: everybody who may see the record reads the reason.
    Panicked,
    Late,
}

/// Waits for a call up to the deadline.
pub(crate) async fn with_deadline<T>(called: impl Future<Output = T>) -> Result<T, CallFailure> {
    match timeout(CALL_DEADLINE, AssertUnwindSafe(called).catch_unwind()).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err(CallFailure::Panicked),
        Err(_) => Err(CallFailure::Late),
    }
}

/// The reason on one line, truncated.
pub(crate) fn line(reason: &str, max_chars: usize) -> String {
    let words = reason.split(|c: char| c.is_control() || c.is_whitespace());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(max_chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn late_and_panicking_calls_end() {
        assert_eq!(with_deadline(async { 7 }).await, Ok(7));
        let late = with_deadline(std::future::pending::<()>()).await;
        assert_eq!(late, Err(CallFailure::Late));
        let panicking = async { assert!(CALL_DEADLINE.is_zero(), "expected by the test") };
        assert_eq!(with_deadline(panicking).await, Err(CallFailure::Panicked));
    }

    #[test]
    fn reasons_are_short_lines() {
        assert_eq!(line("no\n such \t group", 9), "no such g");
    }
}
