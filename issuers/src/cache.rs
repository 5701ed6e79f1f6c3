//! Recently resolved tokens. Saves a signature check or a TokenReview per request.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use aws_lc_rs::digest;
use time::{Duration, OffsetDateTime};

use super::vouched::Vouched;

/// Upper bound of an entry's lifetime: a revoked role takes effect within this time.
const MAX_ENTRY_AGE: Duration = Duration::seconds(60);
/// Beyond this number of entries the whole cache is cleared.
const MAX_ENTRIES: usize = 8192;

/// Keyed by the token's SHA-256: the token itself is not stored.
#[derive(Default)]
pub(super) struct Cache(Mutex<HashMap<[u8; 32], Entry>>);

struct Entry {
    vouched: Vouched,
    /// End of its use without a new check.
    fresh_until: OffsetDateTime,
    until: OffsetDateTime,
}

impl Cache {
    pub(super) fn find(&self, token: &str, now: OffsetDateTime) -> Option<Vouched> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.get(&hash(token))?;
        (now < entry.fresh_until).then(|| entry.vouched.clone())
    }

    /// The last result if it cannot be checked again now.
    pub(super) fn find_stale(&self, token: &str, now: OffsetDateTime) -> Option<Vouched> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.get(&hash(token))?;
        (now < entry.until).then(|| entry.vouched.clone())
    }

    pub(super) fn remove(&self, token: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&hash(token));
    }

    pub(super) fn put(
        &self,
        token: &str,
        vouched: &Vouched,
        now: OffsetDateTime,
        (fresh_until, until): (OffsetDateTime, OffsetDateTime),
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_ENTRIES {
            known.retain(|_, entry| now < entry.until);
            if known.len() >= MAX_ENTRIES {
                known.clear();
            }
        }
        let until = until.min(now + MAX_ENTRY_AGE);
        let entry = Entry {
            vouched: vouched.clone(),
            fresh_until: fresh_until.min(until),
            until,
        };
        known.insert(hash(token), entry);
    }
}

fn hash(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
