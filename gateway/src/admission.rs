//! Admission pool of bounded size for peers that are not authenticated yet.
//!
//! When the pool is full, the address with the most slots loses its oldest one. So idle clients evict each other and
//! never keep a new one out. One address may use the whole pool while it is free, as thousands of agents behind one NAT
//! do. Under pressure it is sure of an even share only.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::network::network;

#[derive(Clone)]
pub(crate) struct AdmissionPool(Arc<PoolState>);

struct PoolState {
    capacity: usize,
    pending: Mutex<PendingPeers>,
}

#[derive(Default)]
struct PendingPeers {
    next: u64,
    count: usize,
    /// By network, oldest first.
    waiting: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

/// A slot in the pool; given back on drop.
pub(crate) struct Slot {
    pool: Arc<PoolState>,
    from: IpAddr,
    number: u64,
    evicted: CancellationToken,
}

impl AdmissionPool {
    pub(crate) fn new(capacity: usize) -> Self {
        AdmissionPool(Arc::new(PoolState {
            capacity,
            pending: Mutex::default(),
        }))
    }

    /// Takes a slot; never fails. A full pool evicts the oldest slot of the largest holder.
    pub(crate) fn acquire(&self, from: IpAddr) -> Slot {
        let from = network(from);
        let evicted = CancellationToken::new();
        let mut pending = self.0.pending();
        if pending.count >= self.0.capacity {
            pending.evict();
        }
        let number = pending.add(from, evicted.clone());
        Slot {
            pool: Arc::clone(&self.0),
            from,
            number,
            evicted,
        }
    }
}

impl PoolState {
    fn pending(&self) -> MutexGuard<'_, PendingPeers> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingPeers {
    fn add(&mut self, from: IpAddr, evicted: CancellationToken) -> u64 {
        let number = self.next;
        self.next += 1;
        self.count += 1;
        self.waiting
            .entry(from)
            .or_default()
            .insert(number, evicted);
        number
    }

    /// Behind a load balancer all peers have one address, so the oldest of all is evicted.
    fn evict(&mut self) {
        let most = self.waiting.iter().max_by_key(|(_, of_one)| {
            let oldest = of_one.keys().next().copied();
            (of_one.len(), Reverse(oldest))
        });
        let oldest = most.and_then(|(&from, of_one)| Some((from, *of_one.keys().next()?)));
        if let Some((from, number)) = oldest
            && let Some(token) = self.remove(from, number)
        {
            token.cancel();
        }
    }

    fn remove(&mut self, from: IpAddr, number: u64) -> Option<CancellationToken> {
        let of_one = self.waiting.get_mut(&from)?;
        let token = of_one.remove(&number)?;
        if of_one.is_empty() {
            self.waiting.remove(&from);
        }
        self.count -= 1;
        Some(token)
    }
}

impl Slot {
    /// Completes when the pool needs the slot for another peer.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.pending().remove(self.from, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn still(capacity: &[Slot]) -> usize {
        let still = capacity
            .iter()
            .filter(|place| !place.evicted.is_cancelled());
        still.count()
    }

    const ANN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const BOB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test]
    async fn oldest_slot_is_evicted() {
        let pool = AdmissionPool::new(2);
        let (first, second) = (pool.acquire(ANN), pool.acquire(ANN));
        let _third = pool.acquire(ANN);
        first.evicted().await;
        assert!(!second.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn largest_holder_is_evicted_first() {
        let pool = AdmissionPool::new(3);
        let alone = pool.acquire(BOB);
        let many = [pool.acquire(ANN), pool.acquire(ANN)];
        let _newcomer = pool.acquire(BOB);
        many[0].evicted().await;
        assert!(!alone.evicted.is_cancelled() && !many[1].evicted.is_cancelled());
    }

    #[tokio::test]
    async fn dropped_slot_is_free_again() {
        let pool = AdmissionPool::new(1);
        drop(pool.acquire(ANN));
        let first = pool.acquire(BOB);
        assert!(!first.evicted.is_cancelled());
        let pending = pool.0.pending();
        assert_eq!((pending.count, pending.waiting.len()), (1, 1));
    }

    #[test]
    fn flood_from_one_address_evicts_only_itself() {
        let pool = AdmissionPool::new(100);
        let few: Vec<_> = (0..30).map(|_| pool.acquire(BOB)).collect();
        let flood: Vec<_> = (0..10_000).map(|_| pool.acquire(ANN)).collect();
        assert_eq!((still(&few), still(&flood)), (30, 70));
        // Later peers get in too, at the cost of the flood.
        let late: Vec<_> = (0..20)
            .map(|_| pool.acquire([192, 0, 2, 3].into()))
            .collect();
        let (few, late) = (still(&few), still(&late));
        assert_eq!((few, late, still(&flood)), (30, 20, 50));
    }

    #[test]
    fn capacity_is_shared_evenly_under_pressure() {
        let pool = AdmissionPool::new(90);
        let mut all: Vec<Vec<_>> = Vec::new();
        for (address, share) in [(1, 90_usize), (2, 45), (3, 30)] {
            let come = (0..1000).map(|_| pool.acquire([192, 0, 2, address].into()));
            all.push(come.collect());
            // On a tie either loses a slot.
            assert!(all.iter().all(|of_one| still(of_one).abs_diff(share) <= 1));
        }
    }

    #[test]
    fn one_network_counts_as_one_client() {
        let pool = AdmissionPool::new(10);
        let few: Vec<_> = (0..4).map(|_| pool.acquire(BOB)).collect();
        let flood = (0..1000_u16).map(|n| [0x2001, 0xdb8, 0, 0, 0, 0, 0, n].into());
        let flood: Vec<_> = flood.map(|from: IpAddr| pool.acquire(from)).collect();
        assert_eq!((still(&few), still(&flood)), (4, 6));
    }
}
