//! A wall clock that a test sets.

use std::sync::{Arc, Mutex};

use time::{Duration, OffsetDateTime};

/// A wall clock that moves only when a test advances it. Its clones are the same clock.
#[derive(Clone, Debug)]
pub struct WallClock(Arc<Mutex<OffsetDateTime>>);

impl WallClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: OffsetDateTime) -> Self {
        WallClock(Arc::new(Mutex::new(now)))
    }

    /// Its time.
    ///
    /// # Panics
    /// Another test has panicked.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        *self.0.lock().unwrap()
    }

    /// Advances it.
    ///
    /// # Panics
    /// Another test has panicked.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }

    /// A function that reads it, for the clock of a store.
    pub fn reader(&self) -> impl Fn() -> OffsetDateTime + Send + Sync + 'static {
        let clock = self.clone();
        move || clock.now()
    }
}
