//! Locking.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. No lock of this crate is held across a call that can panic half-way through a
/// change, so a poisoned value is consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
