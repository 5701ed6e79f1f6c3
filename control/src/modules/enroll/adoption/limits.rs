//! Limits of strangers' announcements, and of wrong codes by people. In memory: a restart gives each a new start.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use fairlead_seam::network;
use time::{Duration, OffsetDateTime};

/// Period over which attempts are counted.
pub(super) const ATTEMPTS_WINDOW: Duration = Duration::minutes(10);
/// New announcements of one address in [`ATTEMPTS_WINDOW`]. Repetitions of a waiting agent are not counted.
const MAX_ANNOUNCED_PER_NETWORK: u32 = 32;
/// New announcements of all addresses in [`ATTEMPTS_WINDOW`]: each is a write to the store.
const MAX_ANNOUNCED: u32 = 256;
/// Wrong codes of one person in [`ATTEMPTS_WINDOW`].
pub(super) const MAX_WRONG_CODES: u32 = 10;
/// Counted keys; with more at a time, further ones are refused.
const MAX_COUNTED: usize = 4096;

/// Counters of this hub.
#[derive(Default)]
pub(crate) struct AdoptionLimits {
    networks: Counter<IpAddr>,
    all: Counter<()>,
    wrong_codes: Counter<String>,
}

impl AdoptionLimits {
    /// Counts a new announcement; false above a limit.
    pub(super) fn permits_announcement(&self, from: IpAddr, now: OffsetDateTime) -> bool {
        self.networks.count(network(from), now) <= MAX_ANNOUNCED_PER_NETWORK
            && self.all.count((), now) <= MAX_ANNOUNCED
    }

    /// True while the person may try another code.
    pub(super) fn permits_code(&self, caller: &str, now: OffsetDateTime) -> bool {
        self.wrong_codes.number(&caller.to_owned(), now) < MAX_WRONG_CODES
    }

    /// Counts a wrong code of this person.
    pub(super) fn count_wrong_code(&self, caller: &str, now: OffsetDateTime) {
        self.wrong_codes.count(caller.to_owned(), now);
    }
}

struct Counter<K>(Mutex<HashMap<K, (OffsetDateTime, u32)>>);

impl<K> Default for Counter<K> {
    fn default() -> Self {
        Counter(Mutex::default())
    }
}

impl<K: Hash + Eq> Counter<K> {
    /// Counts one more, and returns the number in this period.
    fn count(&self, key: K, now: OffsetDateTime) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_COUNTED {
            counts.retain(|_, (began, _)| runs(*began, now));
        }
        if counts.len() >= MAX_COUNTED && !counts.contains_key(&key) {
            return u32::MAX;
        }
        let (began, number) = counts.entry(key).or_insert((now, 0));
        if !runs(*began, now) {
            (*began, *number) = (now, 0);
        }
        *number = number.saturating_add(1);
        *number
    }

    fn number(&self, key: &K, now: OffsetDateTime) -> u32 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = counts.get(key).filter(|(began, _)| runs(*began, now));
        current.map_or(0, |(_, number)| *number)
    }
}

fn runs(began: OffsetDateTime, now: OffsetDateTime) -> bool {
    (now - began).abs() < ATTEMPTS_WINDOW
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const BEGIN: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    #[test]
    fn announcements_of_one_address_are_bounded_per_period() {
        let limits = AdoptionLimits::default();
        let one: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
        for _ in 0..MAX_ANNOUNCED_PER_NETWORK {
            assert!(limits.permits_announcement(one, BEGIN));
        }
        assert!(!limits.permits_announcement(one, BEGIN));
        let other = Ipv4Addr::new(192, 0, 2, 2).into();
        assert!(limits.permits_announcement(other, BEGIN));
        assert!(limits.permits_announcement(one, BEGIN + ATTEMPTS_WINDOW));
    }

    #[test]
    fn many_addresses_share_one_limit() {
        let limits = AdoptionLimits::default();
        let permitted = (0..2 * MAX_ANNOUNCED).filter(|number| {
            let address = Ipv6Addr::from(u128::from(*number) << 64);
            limits.permits_announcement(address.into(), BEGIN)
        });
        assert_eq!(permitted.count(), MAX_ANNOUNCED as usize);
    }

    #[test]
    fn person_with_too_many_wrong_codes_waits() {
        let limits = AdoptionLimits::default();
        for _ in 0..MAX_WRONG_CODES {
            assert!(limits.permits_code("ann", BEGIN));
            limits.count_wrong_code("ann", BEGIN);
        }
        assert!(!limits.permits_code("ann", BEGIN));
        assert!(limits.permits_code("bob", BEGIN));
        assert!(limits.permits_code("ann", BEGIN + ATTEMPTS_WINDOW));
    }

    #[test]
    fn counted_addresses_are_bounded() {
        let counter = Counter::default();
        for number in 0..MAX_COUNTED {
            assert_eq!(counter.count(number, BEGIN), 1);
        }
        assert_eq!(counter.count(MAX_COUNTED, BEGIN), u32::MAX);
        assert_eq!(counter.count(0, BEGIN), 2, "counted ones stay");
        assert_eq!(counter.count(MAX_COUNTED, BEGIN + ATTEMPTS_WINDOW), 1);
    }
}
