//! Shared value with change notification for few waiters.
//!
//! tokio's `watch` keeps waiters in eight queues, which take ten times the memory of the values
//! here; every session has several of them.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::sync::lock;

/// Shared value with change notification for few waiters.
#[derive(Debug)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Watched<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Watched {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    /// Reads the value under its lock.
    pub fn read<R>(&self, at: impl FnOnce(&T) -> R) -> R {
        at(&lock(&self.value))
    }

    /// Changes the value and wakes all waiters.
    pub fn update(&self, change: impl FnOnce(&mut T)) {
        change(&mut lock(&self.value));
        self.changed.notify_waiters();
    }

    /// Completes when `find` returns a value. Changes between two calls of `find` may be missed.
    pub async fn wait_for<R>(&self, mut find: impl FnMut(&T) -> Option<R>) -> R {
        loop {
            // Registered before the value is read, so no later change is missed.
            let changed = self.changed.notified();
            if let Some(found) = self.read(&mut find) {
                return found;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn waiters_complete_on_their_own_condition() {
        let watched = Arc::new(Watched::new(0));
        let waiting = [1, 2, 2].map(|least| {
            let watched = Arc::clone(&watched);
            tokio::spawn(async move { watched.wait_for(|&it| (it >= least).then_some(it)).await })
        });
        // With one thread, all of them wait by now.
        tokio::task::yield_now().await;
        watched.update(|it| *it = 1);
        let [first, second, third] = waiting;
        assert_eq!(first.await.unwrap(), 1);
        assert!(!second.is_finished() && !third.is_finished());
        watched.update(|it| *it = 2);
        assert_eq!((second.await.unwrap(), third.await.unwrap()), (2, 2));
        assert_eq!(watched.read(|&it| it), 2);
    }

    #[tokio::test]
    async fn condition_already_met_completes_at_once() {
        let watched = Watched::new(Some(7));
        assert_eq!(watched.wait_for(|&it| it).await, 7);
    }
}
