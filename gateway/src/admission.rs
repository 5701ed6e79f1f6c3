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

use fairlead_seam::network;
use tokio_util::sync::CancellationToken;

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
mod tests;
