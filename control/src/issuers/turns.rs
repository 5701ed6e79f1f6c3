//! Admission to reviewing clusters: a few concurrent reviews per address, and a limit for all.
//!
//! An address that guesses tokens delays its own requests only.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_api::{Code, Failure};
use fairlead_gateway::network;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) const OF_ONE: usize = 2;
const IN_ALL: usize = 32;
/// Number of tracked addresses above which idle ones are dropped.
const REMEMBERED: usize = 1024;

pub(super) struct Turns {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// Guard of one running review.
pub(super) struct Turn {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            all: Arc::new(Semaphore::new(IN_ALL)),
            each: Mutex::default(),
        }
    }
}

impl Turns {
    /// Waits for a permit, in order of arrival. The permit of the address comes first, so one
    /// address cannot fill the common queue.
    ///
    /// # Errors
    /// `FL-5101`, never.
    pub(super) async fn take(&self, from: IpAddr) -> Result<Turn, Failure> {
        let closed = |error| Failure::because(Code::Internal, error);
        let own = self.of(network(from)).acquire_owned().await;
        let own = own.map_err(closed)?;
        let of_all = Arc::clone(&self.all).acquire_owned().await;
        Ok(Turn {
            _own: own,
            _of_all: of_all.map_err(closed)?,
        })
    }

    fn of(&self, from: IpAddr) -> Arc<Semaphore> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if each.len() >= REMEMBERED {
            each.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let own = each.entry(from);
        Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(OF_ONE))))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn addresses_from_which_nobody_asks_are_forgotten_and_others_keep_their_turns() {
        let turns = Turns::default();
        let busy = IpAddr::from([192, 0, 2, 1]);
        let held = [
            turns.take(busy).await.unwrap(),
            turns.take(busy).await.unwrap(),
        ];
        for n in 0..5000 {
            turns.take(Ipv4Addr::from_bits(n).into()).await.unwrap();
        }
        let known = turns.each.lock().unwrap().len();
        assert!(known <= REMEMBERED, "{known}");
        assert_eq!(turns.of(busy).available_permits(), 0);
        drop(held);
        assert_eq!(turns.of(busy).available_permits(), OF_ONE);
    }
}
