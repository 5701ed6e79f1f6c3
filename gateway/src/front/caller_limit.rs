//! Limit of concurrent requests per caller: a script that runs away uses up its owner's slots, not others'.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::seam::AuthenticateError;

/// Number of callers beyond which those without a request are forgotten.
const MAX_IDLE_CALLERS: usize = 1024;

/// Concurrent requests by caller.
pub(crate) struct CallerLimit {
    max: usize,
    running: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

/// Slot of one request; given back on drop.
#[derive(Debug)]
pub(crate) struct CallerSlot(Arc<AtomicUsize>);

impl Drop for CallerSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallerLimit {
    pub(crate) fn new(max: usize) -> Self {
        CallerLimit {
            max,
            running: Mutex::default(),
        }
    }

    /// Takes a slot of this caller.
    ///
    /// # Errors
    /// [`AuthenticateError::TooManyRequests`]
    pub(crate) fn acquire(&self, caller: &str) -> Result<CallerSlot, AuthenticateError> {
        let share = CallerSlot(self.of(caller));
        if share.0.fetch_add(1, Ordering::Relaxed) < self.max {
            return Ok(share);
        }
        Err(AuthenticateError::TooManyRequests {
            caller: caller.to_owned(),
            limit: self.max,
        })
    }

    fn of(&self, caller: &str) -> Arc<AtomicUsize> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.get(caller) {
            return Arc::clone(count);
        }
        if running.len() >= MAX_IDLE_CALLERS {
            running.retain(|_, count| Arc::strong_count(count) > 1);
        }
        let count = Arc::<AtomicUsize>::default();
        running.insert(caller.to_owned(), Arc::clone(&count));
        count
    }
}

#[cfg(test)]
mod tests {
    use fairlead_api::Code;

    use super::*;

    #[test]
    fn callers_have_separate_limits() {
        let caller_limit = CallerLimit::new(2);
        let held = [
            caller_limit.acquire("ann").unwrap(),
            caller_limit.acquire("ann").unwrap(),
        ];
        for _ in 0..3 {
            let refused = caller_limit.acquire("ann").unwrap_err();
            assert_eq!(refused.code(), Code::TooManyRequests);
            assert!(
                refused.to_string().ends_with("ann has 2 of them"),
                "{refused}"
            );
        }
        caller_limit.acquire("bob").unwrap();
        drop(held);
        caller_limit.acquire("ann").unwrap();
    }

    #[test]
    fn idle_callers_are_forgotten() {
        let caller_limit = CallerLimit::new(1);
        let held = caller_limit.acquire("busy").unwrap();
        for n in 0..2 * MAX_IDLE_CALLERS {
            drop(caller_limit.acquire(&n.to_string()).unwrap());
        }
        assert!(caller_limit.running.lock().unwrap().len() <= MAX_IDLE_CALLERS + 1);
        assert!(caller_limit.acquire("busy").is_err(), "its count was kept");
        drop(held);
    }
}
