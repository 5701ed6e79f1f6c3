//! Limit of concurrent requests per caller: a script that runs away uses up its owner's slots, not others'.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use fairlead_api::{Code, Failure};

/// Number of callers beyond which those without a request are forgotten.
const REMEMBERED: usize = 1024;

/// Concurrent requests by caller.
pub(crate) struct Shares {
    most: usize,
    taken: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

/// Slot of one request; given back on drop.
#[derive(Debug)]
pub(crate) struct Share(Arc<AtomicUsize>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shares {
    pub(crate) fn new(most: usize) -> Self {
        Shares {
            most,
            taken: Mutex::default(),
        }
    }

    /// Takes a slot of this caller.
    ///
    /// # Errors
    /// `FL-1407` with the limit.
    pub(crate) fn take(&self, caller: &str) -> Result<Share, Failure> {
        let share = Share(self.of(caller));
        if share.0.fetch_add(1, Ordering::Relaxed) < self.most {
            return Ok(share);
        }
        Err(Failure::because(
            Code::TooManyRequests,
            format_args!("{caller} has {} of them", self.most),
        ))
    }

    fn of(&self, caller: &str) -> Arc<AtomicUsize> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get(caller) {
            return Arc::clone(count);
        }
        if taken.len() >= REMEMBERED {
            taken.retain(|_, count| Arc::strong_count(count) > 1);
        }
        let count = Arc::<AtomicUsize>::default();
        taken.insert(caller.to_owned(), Arc::clone(&count));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_callers_share_is_bounded_and_is_not_the_others() {
        let shares = Shares::new(2);
        let held = [shares.take("ann").unwrap(), shares.take("ann").unwrap()];
        for _ in 0..3 {
            let refused = shares.take("ann").unwrap_err();
            assert_eq!(refused.code, Code::TooManyRequests);
            assert!(refused.cause.ends_with("ann has 2 of them"), "{refused}");
        }
        shares.take("bob").unwrap();
        drop(held);
        shares.take("ann").unwrap();
    }

    #[test]
    fn callers_with_nothing_under_way_are_forgotten() {
        let shares = Shares::new(1);
        let held = shares.take("busy").unwrap();
        for n in 0..2 * REMEMBERED {
            drop(shares.take(&n.to_string()).unwrap());
        }
        assert!(shares.taken.lock().unwrap().len() <= REMEMBERED + 1);
        assert!(shares.take("busy").is_err(), "its count was kept");
        drop(held);
    }
}
