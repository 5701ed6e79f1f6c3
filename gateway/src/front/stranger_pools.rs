//! Resources of strangers: requests and connections whose sender is not authenticated. Each address has an even share.

use std::{net::IpAddr, sync::Arc};

use fairlead_seam::{FairPool, Share, network};

use crate::admission::{AdmissionPool, Slot};

/// Limit of strangers' requests that wait, or have an answer that their client does not take.
const MAX_REQUESTS: usize = 512;
/// Limit of strangers' connections after TLS. Agents that reconnect at once pass through within a round trip.
const MAX_CONNECTIONS: usize = 2048;
/// Memory budget of strangers' bodies and oversized heads.
const MEMORY_BYTES: usize = 8 * 1024 * 1024;

/// Pools of strangers.
pub(crate) struct StrangerPools {
    requests: FairPool<IpAddr>,
    memory: FairPool<IpAddr>,
    connections: AdmissionPool,
}

/// Shares of one address.
#[derive(Clone)]
pub(crate) struct StrangerShares {
    from: IpAddr,
    /// Request slots.
    pub(crate) requests: Arc<Share>,
    /// Bytes of memory.
    pub(crate) memory: Arc<Share>,
}

impl StrangerShares {
    /// True if these are the shares of this address.
    pub(crate) fn are_of(&self, from: IpAddr) -> bool {
        self.from == network(from)
    }
}

impl Default for StrangerPools {
    fn default() -> Self {
        StrangerPools {
            requests: FairPool::new(MAX_REQUESTS),
            memory: FairPool::new(MEMORY_BYTES),
            connections: AdmissionPool::new(MAX_CONNECTIONS),
        }
    }
}

impl StrangerPools {
    /// The shares of an address.
    pub(crate) fn shares(&self, from: IpAddr) -> StrangerShares {
        let from = network(from);
        StrangerShares {
            from,
            requests: self.requests.share(from),
            memory: self.memory.share(from),
        }
    }

    /// The share of memory of an address, in bytes.
    pub(crate) fn memory(&self, from: IpAddr) -> Arc<Share> {
        self.memory.share(network(from))
    }

    /// A slot for a connection after TLS.
    pub(crate) fn connection(&self, from: IpAddr) -> Slot {
        self.connections.acquire(from)
    }
}
