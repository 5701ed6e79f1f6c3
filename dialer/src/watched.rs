//! A value that is looked at, changed, and waited for by few. tokio's `watch` does the same for many: its waiters stand in eight
//! queues, which take ten times as much as what is watched here, and there are some of these for each of thousands of sessions.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::lock;

#[derive(Debug)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Watched<T> {
    pub fn new(value: T) -> Self {
        Watched {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    /// The value is locked meanwhile.
    pub fn look<R>(&self, at: impl FnOnce(&T) -> R) -> R {
        at(&lock(&self.value))
    }

    /// Whoever waits looks at the value again.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut lock(&self.value));
        self.changed.notify_waiters();
    }

    /// Completes when there is something to be found in the value. What comes and goes between two looks is not seen.
    pub async fn found<R>(&self, mut find: impl FnMut(&T) -> Option<R>) -> R {
        loop {
            // Begun before the look: what changes from here on is noticed.
            let changed = self.changed.notified();
            if let Some(found) = self.look(&mut find) {
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
    async fn all_who_wait_find_what_they_wait_for_and_nothing_else() {
        let watched = Arc::new(Watched::new(0));
        let waiting = [1, 2, 2].map(|least| {
            let watched = Arc::clone(&watched);
            tokio::spawn(async move { watched.found(|&it| (it >= least).then_some(it)).await })
        });
        // They wait by now: there is one thread.
        tokio::task::yield_now().await;
        watched.change(|it| *it = 1);
        let [first, second, third] = waiting;
        assert_eq!(first.await.unwrap(), 1);
        assert!(!second.is_finished() && !third.is_finished());
        watched.change(|it| *it = 2);
        assert_eq!((second.await.unwrap(), third.await.unwrap()), (2, 2));
        assert_eq!(watched.look(|&it| it), 2);
    }

    #[tokio::test]
    async fn what_is_there_already_is_found_at_once() {
        let watched = Watched::new(Some(7));
        assert_eq!(watched.found(|&it| it).await, 7);
    }
}
