//! Background work that one of several hubs does: the one that leads.

use std::time::Duration;

use fairlead_store::{Revision, Store};
use tokio::{sync::watch, time::sleep};

/// Changes within this time are processed together.
const BATCH_DELAY: Duration = Duration::from_millis(300);

/// Times of the passes of a background task, on the hub that leads.
pub struct LeaderPasses {
    store: Store,
    revisions: watch::Receiver<Revision>,
    poll_interval: Duration,
    is_first: bool,
}

impl LeaderPasses {
    /// A pass is due after changes of the store, and at the latest after `poll_interval`. A hub learns within the same
    /// interval that it leads.
    #[must_use]
    pub fn new(store: &Store, poll_interval: Duration) -> Self {
        LeaderPasses {
            store: store.clone(),
            revisions: store.watch(),
            poll_interval,
            is_first: true,
        }
    }

    /// Waits for the next pass. The first one is due at once on a hub that leads.
    pub async fn due(&mut self) {
        loop {
            if !std::mem::take(&mut self.is_first) {
                tokio::select! {
                    Ok(()) = self.revisions.changed() => sleep(BATCH_DELAY).await,
                    () = sleep(self.poll_interval) => {}
                }
            }
            if self.store.leads() {
                self.revisions.mark_unchanged();
                return;
            }
        }
    }
}
