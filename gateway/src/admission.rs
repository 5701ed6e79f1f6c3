//! Admission pool of bounded size for peers that are not authenticated yet.
//!
//! When the pool is full, the address with the most slots loses its oldest one. So idle clients evict each other and
//! never keep a new one out. One address may use the whole pool while it is free, as thousands of agents behind one NAT
//! do. Under pressure it is sure of an even share only.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fairlead_seam::network;
use tokio_util::sync::CancellationToken;

pub(crate) struct AdmissionPool<K = IpAddr>(Arc<PoolState<K>>);

struct PoolState<K> {
    capacity: usize,
    /// Limit of slots of one peer.
    max_per_key: usize,
    pending: Mutex<PendingPeers<K>>,
}

struct PendingPeers<K> {
    next: u64,
    count: usize,
    /// By peer, oldest first.
    waiting: HashMap<K, BTreeMap<u64, CancellationToken>>,
}

/// A slot in the pool; given back on drop.
pub(crate) struct Slot<K: Key = IpAddr> {
    pool: Arc<PoolState<K>>,
    from: K,
    number: u64,
    evicted: CancellationToken,
}

/// Key of the peers in a pool.
pub(crate) trait Key: Eq + Hash + Clone {}

impl<K: Eq + Hash + Clone> Key for K {}

impl AdmissionPool {
    pub(crate) fn new(capacity: usize) -> Self {
        AdmissionPool::build(capacity, usize::MAX)
    }

    /// Takes a slot; never fails. A full pool evicts the oldest slot of the largest holder.
    pub(crate) fn acquire(&self, from: IpAddr) -> Slot {
        self.enter(network(from))
    }
}

impl<K: Key> AdmissionPool<K> {
    /// A pool without a common limit: beyond `max` slots a peer loses its own oldest one.
    pub(crate) fn per_peer(max: usize) -> Self {
        AdmissionPool::build(usize::MAX, max)
    }

    fn build(capacity: usize, max_per_key: usize) -> Self {
        AdmissionPool(Arc::new(PoolState {
            capacity,
            max_per_key,
            pending: Mutex::new(PendingPeers {
                next: 0,
                count: 0,
                waiting: HashMap::new(),
            }),
        }))
    }

    /// Takes a slot of this peer; never fails.
    pub(crate) fn enter(&self, from: K) -> Slot<K> {
        let evicted = CancellationToken::new();
        let mut pending = self.0.pending();
        if pending.count >= self.0.capacity {
            pending.evict();
        }
        if pending.held_by(&from) >= self.0.max_per_key {
            pending.evict_of(&from);
        }
        let number = pending.add(from.clone(), evicted.clone());
        Slot {
            pool: Arc::clone(&self.0),
            from,
            number,
            evicted,
        }
    }
}

impl<K> PoolState<K> {
    fn pending(&self) -> MutexGuard<'_, PendingPeers<K>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key> PendingPeers<K> {
    fn held_by(&self, from: &K) -> usize {
        self.waiting.get(from).map_or(0, BTreeMap::len)
    }

    /// Evicts the oldest slot of this peer.
    fn evict_of(&mut self, from: &K) {
        let oldest = self
            .waiting
            .get(from)
            .and_then(|of_one| of_one.keys().next());
        if let Some(&number) = oldest
            && let Some(token) = self.remove(from, number)
        {
            token.cancel();
        }
    }

    fn add(&mut self, from: K, evicted: CancellationToken) -> u64 {
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
        if let Some((from, _)) = most {
            let from = from.clone();
            self.evict_of(&from);
        }
    }

    fn remove(&mut self, from: &K, number: u64) -> Option<CancellationToken> {
        let of_one = self.waiting.get_mut(from)?;
        let token = of_one.remove(&number)?;
        if of_one.is_empty() {
            self.waiting.remove(from);
        }
        self.count -= 1;
        Some(token)
    }
}

impl<K: Key> Slot<K> {
    /// Completes when the pool needs the slot for another peer.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl<K: Key> Drop for Slot<K> {
    fn drop(&mut self) {
        self.pool.pending().remove(&self.from, self.number);
    }
}

impl<K> Clone for AdmissionPool<K> {
    fn clone(&self) -> Self {
        AdmissionPool(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests;
