//! Rate limit of wrong tokens per address.
//!
//! A correct token is always accepted, so an address that many clients share is blocked for none of them. Guesses from
//! one address are logged once per window.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fairlead_seam::{TooManyWrongTokens, network};
use tokio::time::Instant;
use tracing::warn;

/// Wrong tokens that an address may send in each [`RATE_WINDOW`].
const MAX_WRONG_TOKENS: u32 = 30;
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// Limit of addresses counted separately; all others count as one.
const MAX_ADDRESSES: usize = 4096;

#[derive(Default)]
pub(crate) struct WrongTokens(Mutex<HashMap<Option<IpAddr>, Count>>);

struct Count {
    since: Instant,
    wrong: u32,
}

impl WrongTokens {
    /// Counts a wrong secret of this address.
    pub(crate) fn count(&self, from: IpAddr) -> Result<(), TooManyWrongTokens> {
        let (nth, from) = self.increment(from);
        if nth == 1 {
            let from = from.map_or_else(|| "many addresses".to_owned(), |from| from.to_string());
            warn!(peer.ip = from, "wrong token");
        }
        if nth > MAX_WRONG_TOKENS {
            Err(TooManyWrongTokens)
        } else {
            Ok(())
        }
    }

    /// Number of wrong tokens in this window, and their address; `None` once there are too many addresses.
    fn increment(&self, from: IpAddr) -> (u32, Option<IpAddr>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut from = Some(network(from));
        if !counts.contains_key(&from) && counts.len() >= MAX_ADDRESSES {
            counts.retain(|_, count| now - count.since < RATE_WINDOW);
            if counts.len() >= MAX_ADDRESSES {
                from = None;
            }
        }
        let fresh = || Count {
            since: now,
            wrong: 0,
        };
        let count = counts.entry(from).or_insert_with(fresh);
        if now - count.since >= RATE_WINDOW {
            *count = fresh();
        }
        count.wrong = count.wrong.saturating_add(1);
        (count.wrong, from)
    }
}

#[cfg(test)]
mod tests;
