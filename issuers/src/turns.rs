//! Admission to reviewing clusters: a few concurrent reviews per address, and a limit for all.
//!
//! An address that guesses tokens delays its own requests only.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fairlead_seam::{AuthenticateError, network};
use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

pub(super) const MAX_REVIEWS_PER_ADDRESS: usize = 2;
const MAX_REVIEWS: usize = 32;
/// Requests of one address that wait for a review or run one.
const MAX_WAITING_PER_ADDRESS: usize = 32;
/// Wait budget for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
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
    /// [`AuthenticateError::IssuerDown`] if too many requests of the address wait, or no permit is free in time.
    pub(super) async fn acquire(&self, from: IpAddr) -> Result<ReviewPermit, AuthenticateError> {
        let closed = |error: AcquireError| AuthenticateError::Internal(error.to_string());
        let busy = |cause: &str| AuthenticateError::IssuerDown(cause.to_owned());
        let own = self.of(network(from));
        // The table has one reference, each waiting request another.
        if Arc::strong_count(&own) > MAX_WAITING_PER_ADDRESS + 1 {
            return Err(busy("too many token reviews of this address wait"));
        }
        let acquiring = async {
            let own = own.acquire_owned().await.map_err(closed)?;
            let shared = Arc::clone(&self.all).acquire_owned().await;
            Ok(ReviewPermit {
                _own: own,
                _shared: shared.map_err(closed)?,
            })
        };
        let acquired = timeout(PERMIT_TIMEOUT, acquiring).await;
        acquired.unwrap_or_else(|_| Err(busy("no token review was free in time")))
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

    #[tokio::test(start_paused = true)]
    async fn waiting_reviews_of_an_address_are_bounded_in_number_and_time() {
        let limiter = ReviewLimiter::default();
        let busy = IpAddr::from([192, 0, 2, 1]);
        let _held = [
            limiter.acquire(busy).await.unwrap(),
            limiter.acquire(busy).await.unwrap(),
        ];
        let all = (0..100).map(|_| limiter.acquire(busy));
        let begun = tokio::time::Instant::now();
        let errors: Vec<_> = futures_util::future::join_all(all).await;
        assert_eq!(begun.elapsed(), PERMIT_TIMEOUT);
        let of = |text: &str| {
            let texts = errors.iter().filter_map(|it| it.as_ref().err());
            texts.filter(|it| it.to_string().contains(text)).count()
        };
        // Permits that run count too.
        let waited = MAX_WAITING_PER_ADDRESS - MAX_REVIEWS_PER_ADDRESS;
        assert_eq!(of("in time"), waited);
        assert_eq!(of("this address"), 100 - waited);
        limiter.acquire([192, 0, 2, 2].into()).await.unwrap();
    }

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
