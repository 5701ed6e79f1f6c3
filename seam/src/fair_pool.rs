//! Pools that groups share evenly: request slots and bytes of memory.
//!
//! A group may hold as much as it leaves free. So one group alone gets half of a pool, `n` busy groups get about
//! `1 / (n + 1)` each, and a new group always finds a share. Nothing is taken back.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Number of groups below which those without a holder are kept.
const MAX_IDLE_GROUPS: usize = 1024;

/// A pool with groups of this key. Clones share it.
pub struct FairPool<K>(Arc<PoolGroups<K>>);

struct PoolGroups<K> {
    total: Arc<PoolTotal>,
    groups: Mutex<Groups<K>>,
}

struct Groups<K> {
    shares: HashMap<K, Arc<Share>>,
    /// Number of groups at which those without a holder are forgotten: twice the held ones, so that the work for
    /// each call stays the same with any number of groups.
    sweep_at: usize,
}

#[derive(Debug)]
struct PoolTotal {
    capacity: usize,
    used: AtomicUsize,
}

/// Share of one group.
#[derive(Debug)]
pub struct Share {
    total: Arc<PoolTotal>,
    used: AtomicUsize,
}

/// Units taken from a pool; given back on drop.
#[derive(Debug)]
pub struct Taken {
    share: Arc<Share>,
    units: usize,
}

impl<K> Clone for FairPool<K> {
    fn clone(&self) -> Self {
        FairPool(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash> FairPool<K> {
    /// A pool of `capacity` units.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let total = Arc::new(PoolTotal {
            capacity,
            used: AtomicUsize::new(0),
        });
        FairPool(Arc::new(PoolGroups {
            total,
            groups: Mutex::new(Groups {
                shares: HashMap::new(),
                sweep_at: MAX_IDLE_GROUPS,
            }),
        }))
    }

    /// True if nothing is taken.
    pub fn is_idle(&self) -> bool {
        self.0.total.used.load(Ordering::Relaxed) == 0
    }

    /// The share of a group.
    pub fn share(&self, key: K) -> Arc<Share> {
        let groups = self.0.groups.lock();
        let mut groups = groups.unwrap_or_else(PoisonError::into_inner);
        if groups.shares.len() >= groups.sweep_at {
            groups
                .shares
                .retain(|_, share| Arc::strong_count(share) > 1);
            groups.sweep_at = MAX_IDLE_GROUPS.max(2 * groups.shares.len());
        }
        let share = groups.shares.entry(key).or_insert_with(|| {
            Arc::new(Share {
                total: Arc::clone(&self.0.total),
                used: AtomicUsize::new(0),
            })
        });
        Arc::clone(share)
    }
}

impl Share {
    /// Takes `units`; `None` if the group has its share already. Concurrent calls may exceed the capacity by theirs.
    pub fn take(self: &Arc<Self>, units: usize) -> Option<Taken> {
        self.add(units).then(|| Taken {
            share: Arc::clone(self),
            units,
        })
    }

    /// Units that the group holds.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn add(&self, units: usize) -> bool {
        let used = self.total.used.load(Ordering::Relaxed);
        let free = self
            .total
            .capacity
            .saturating_sub(used.saturating_add(units));
        if self.used().saturating_add(units) > free {
            return false;
        }
        self.total.used.fetch_add(units, Ordering::Relaxed);
        self.used.fetch_add(units, Ordering::Relaxed);
        true
    }
}

impl Taken {
    /// Units held.
    #[must_use]
    pub fn units(&self) -> usize {
        self.units
    }

    /// Takes more of the same share; false if the group has its share already.
    pub fn grow(&mut self, units: usize) -> bool {
        let grown = self.share.add(units);
        if grown {
            self.units += units;
        }
        grown
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.share.used.fetch_sub(self.units, Ordering::Relaxed);
        let total = &self.share.total;
        total.used.fetch_sub(self.units, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
