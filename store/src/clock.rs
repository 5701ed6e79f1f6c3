//! The wall clock of the modules, replaceable in tests.

use std::{fmt, sync::Arc};

use time::OffsetDateTime;

/// Source of the current time, UTC.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> OffsetDateTime + Send + Sync>);

impl Clock {
    /// A clock backed by `now`.
    pub fn new(now: impl Fn() -> OffsetDateTime + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now))
    }

    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Clock::new(OffsetDateTime::now_utc)
    }

    /// The current time, UTC.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
