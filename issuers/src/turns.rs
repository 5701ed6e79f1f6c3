//! Admission to reviewing clusters: a few concurrent reviews per address, and a limit for all.
//!
//! An address that guesses tokens delays its own requests only.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_gateway::{network, seam::AuthenticateError};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

pub(super) const MAX_REVIEWS_PER_ADDRESS: usize = 2;
const MAX_REVIEWS: usize = 32;
/// Number of tracked addresses above which idle ones are dropped.
const MAX_ADDRESSES: usize = 1024;

pub(super) struct ReviewLimiter {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// Guard of one running review.
pub(super) struct ReviewPermit {
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

impl Default for ReviewLimiter {
    fn default() -> Self {
        ReviewLimiter {
            all: Arc::new(Semaphore::new(MAX_REVIEWS)),
            each: Mutex::default(),
        }
    }
}

impl ReviewLimiter {
    /// Waits for a permit, in order of arrival. The permit of the address comes first, so one
    /// address cannot fill the common queue.
    ///
    /// # Errors
    /// [`AuthenticateError::Internal`], never.
    pub(super) async fn acquire(&self, from: IpAddr) -> Result<ReviewPermit, AuthenticateError> {
        let closed = |error: AcquireError| AuthenticateError::Internal(error.to_string());
        let own = self.of(network(from)).acquire_owned().await;
        let own = own.map_err(closed)?;
        let shared = Arc::clone(&self.all).acquire_owned().await;
        Ok(ReviewPermit {
            _own: own,
            _shared: shared.map_err(closed)?,
        })
    }

    fn of(&self, from: IpAddr) -> Arc<Semaphore> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if each.len() >= MAX_ADDRESSES {
            each.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let own = each.entry(from);
        Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(MAX_REVIEWS_PER_ADDRESS))))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn idle_addresses_are_dropped_and_busy_ones_keep_their_permits() {
        let limiter = ReviewLimiter::default();
        let busy = IpAddr::from([192, 0, 2, 1]);
        let held = [
            limiter.acquire(busy).await.unwrap(),
            limiter.acquire(busy).await.unwrap(),
        ];
        for n in 0..5000 {
            limiter
                .acquire(Ipv4Addr::from_bits(n).into())
                .await
                .unwrap();
        }
        let known = limiter.each.lock().unwrap().len();
        assert!(known <= MAX_ADDRESSES, "{known}");
        assert_eq!(limiter.of(busy).available_permits(), 0);
        drop(held);
        assert_eq!(
            limiter.of(busy).available_permits(),
            MAX_REVIEWS_PER_ADDRESS
        );
    }
}
