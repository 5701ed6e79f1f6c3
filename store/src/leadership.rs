//! Leadership: of several hubs on one database, one performs the work that must run once.
//!
//! It is an advisory lock of a database session. The server ends that session with the leader's connection, or when the
//! leader is silent for a while. The leader itself counts its lease from its last confirmation, and stops earlier. So
//! two hubs never lead at once, as long as their clocks run at the same speed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::shared::StoreState;

/// Interval of confirmations by the leader, and of tries by the others.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);
/// Deadline of one of them.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(2);
/// Validity of a confirmation, from its request on.
const LEASE_DURATION: Duration = Duration::from_secs(4);
/// Silence after which the server ends the session with the lock. Longer than [`LEASE_DURATION`], which begins earlier.
pub(crate) const SERVER_TIMEOUT: &str = "6s";

/// Leadership of this hub.
#[derive(Default)]
pub(crate) struct Leadership {
    /// End of the lease; `None` while this hub does not lead.
    until: watch::Sender<Option<Instant>>,
    resigned: AtomicBool,
    wake: Notify,
}

impl Leadership {
    /// True while the lease is valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.until
            .borrow()
            .is_some_and(|until| Instant::now() < until)
    }

    /// Takes part in the choice at once.
    pub(crate) fn apply(&self) {
        self.wake.notify_one();
    }

    /// Leaves the work to the other hubs for good.
    pub(crate) fn resign(&self) {
        self.resigned.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn set(&self, leads: bool, since: Instant) {
        let led = self.until.borrow().is_some();
        self.until
            .send_replace(leads.then(|| since + LEASE_DURATION));
        match (led, leads) {
            (false, true) => info!("leadership acquired"),
            (true, false) => info!("leadership lost"),
            _ => {}
        }
    }
}

/// Runs until `end`, then gives the lock back.
pub(crate) async fn run(shared: Arc<StoreState>, end: CancellationToken) {
    if !shared.backend.is_shared() {
        return;
    }
    let leadership = &shared.leadership;
    let confirming = async {
        loop {
            // A program that only reads is not a hub.
            let is_hub = shared.own_hub().is_some();
            if leadership.resigned.load(Ordering::Relaxed) {
                return;
            }
            if is_hub {
                confirm(&shared).await;
            }
            tokio::select! {
                () = sleep(CONFIRM_INTERVAL) => {}
                () = leadership.wake.notified() => {}
            }
        }
    };
    end.run_until_cancelled(confirming).await;
    leadership.set(false, Instant::now());
    shared.backend.resign().await;
}

async fn confirm(shared: &StoreState) {
    let since = Instant::now();
    match timeout(CONFIRM_DEADLINE, shared.backend.lead()).await {
        Ok(Ok(leads)) => shared.leadership.set(leads, since),
        // The lease may still be valid: the lock goes with its connection, which the next try replaces.
        Ok(Err(error)) => {
            debug!(%error, "leadership not confirmed");
            shared.leadership.set(false, since);
        }
        Err(_) => {
            debug!("leadership not confirmed in time");
            shared.leadership.set(false, since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lease_ends_without_another_confirmation() {
        let leadership = Leadership::default();
        assert!(!leadership.is_valid());
        leadership.set(true, Instant::now());
        assert!(leadership.is_valid());
        tokio::time::advance(LEASE_DURATION).await;
        assert!(!leadership.is_valid());
        leadership.set(true, Instant::now());
        leadership.set(false, Instant::now());
        assert!(!leadership.is_valid());
    }
}
