//! Who was found out a moment ago: a signature, or a question to another cluster, is not paid for with every request.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use aws_lc_rs::digest;
use time::{Duration, OffsetDateTime};

use super::Vouched;

/// A role that was taken away is felt within this time.
const LONGEST: Duration = Duration::seconds(60);
/// As many are remembered; beyond that all are asked again.
const MOST: usize = 8192;

/// By the token's SHA-256: the token itself is not kept.
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
        if known.len() >= MOST {
            known.retain(|_, (_, until)| now < *until);
            if known.len() >= MOST {
                known.clear();
            }
        }
        known.insert(hash(token), (vouched.clone(), until.min(now + LONGEST)));
    }
}

fn hash(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
