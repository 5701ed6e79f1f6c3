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
pub(super) struct Cache(Mutex<HashMap<[u8; 32], (Vouched, OffsetDateTime)>>);

impl Cache {
    pub(super) fn find(&self, token: &str, now: OffsetDateTime) -> Option<Vouched> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (vouched, until) = known.get(&hash(token))?;
        (now < *until).then(|| vouched.clone())
    }

    pub(super) fn put(
        &self,
        token: &str,
        vouched: &Vouched,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_ENTRIES {
            known.retain(|_, (_, until)| now < *until);
            if known.len() >= MAX_ENTRIES {
                known.clear();
            }
        }
        known.insert(
            hash(token),
            (vouched.clone(), until.min(now + MAX_ENTRY_AGE)),
        );
    }
}

fn hash(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
