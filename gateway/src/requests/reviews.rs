//! Tokens of running requests that only a reviewing cluster understands: each is sent there again while its requests run.
//!
//! An unreachable reviewer ends nothing. A slow one delays no other check.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use fairlead_seam::{AuthenticateError, Authenticator, Caller};
use futures_util::{StreamExt, stream};
use secrecy::{ExposeSecret, SecretString};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Interval of reviews of each token.
const REVIEW_INTERVAL: Duration = Duration::from_secs(4);
/// Shortest time from one review to the next: 100 per second.
const MIN_REVIEW_SPACING: Duration = Duration::from_millis(10);
const MAX_CONCURRENT_REVIEWS: usize = 8;
/// Sender of the reviews: the hub itself, so that no client delays them.
const HUB_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A token with running requests, and the result of its last review.
pub(crate) struct ReviewedToken {
    token: SecretString,
    latest: Mutex<Option<Result<Arc<Caller>, AuthenticateError>>>,
}

impl ReviewedToken {
    /// Result of the last review; `None` before the first one.
    pub(crate) fn latest(&self) -> Option<Result<Arc<Caller>, AuthenticateError>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.clone()
    }

    /// Notes a result; true if it differs from the last one.
    fn note(&self, result: Result<Arc<Caller>, AuthenticateError>) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = latest.as_ref() != Some(&result);
        *latest = Some(result);
        is_new
    }
}

/// All reviewed tokens with running requests, by the hash of the token.
#[derive(Default)]
pub(crate) struct ReviewedTokens {
    hasher: RandomState,
    tokens: Mutex<HashMap<u64, Vec<Weak<ReviewedToken>>>>,
}

impl ReviewedTokens {
    pub(crate) fn enter(&self, token: SecretString) -> Arc<ReviewedToken> {
        let hash = self.hasher.hash_one(token.expose_secret());
        let mut tokens = self.lock();
        let same_hash = tokens.entry(hash).or_default();
        let mut known = same_hash.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|it| it.token.expose_secret() == token.expose_secret()) {
            return known;
        }
        let entered = Arc::new(ReviewedToken {
            token,
            latest: Mutex::default(),
        });
        same_hash.retain(|it| it.strong_count() > 0);
        same_hash.push(Arc::downgrade(&entered));
        entered
    }

    /// Tokens with running requests; forgets all others.
    fn running(&self) -> Vec<Arc<ReviewedToken>> {
        let mut tokens = self.lock();
        tokens.retain(|_, it| it.iter().any(|token| token.strong_count() > 0));
        tokens
            .values()
            .flatten()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Weak<ReviewedToken>>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reviews the tokens until this future is dropped; `changed` is notified of other results.
pub(super) async fn repeat(
    tokens: &ReviewedTokens,
    authenticator: &dyn Authenticator,
    changed: &Notify,
) {
    loop {
        let next = Instant::now() + REVIEW_INTERVAL;
        let started = Instant::now();
        let reviews = (0_u32..).zip(tokens.running()).map(async |(at, token)| {
            sleep_until(started + MIN_REVIEW_SPACING * at).await;
            review(&token, authenticator).await
        });
        let mut reviews = stream::iter(reviews).buffer_unordered(MAX_CONCURRENT_REVIEWS);
        while let Some(is_new) = reviews.next().await {
            if is_new {
                changed.notify_one();
            }
        }
        sleep_until(next).await;
    }
}

async fn review(token: &ReviewedToken, authenticator: &dyn Authenticator) -> bool {
    match authenticator.authenticate(&token.token, HUB_ADDRESS).await {
        Err(error) if error.is_temporary() => false,
        result => token.note(result.map(Arc::new)),
    }
}
