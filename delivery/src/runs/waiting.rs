//! Number of commands that each cluster can claim, in memory.

use std::{collections::BTreeMap, sync::Arc};

use fairlead_api::ClusterId;
use tokio::sync::watch;

/// Numbers of claimable commands; clusters without one are absent.
pub(crate) type CommandCounts = Arc<BTreeMap<ClusterId, u32>>;

/// Commands by cluster.
pub(super) struct WaitingCommands(watch::Sender<CommandCounts>);

impl Default for WaitingCommands {
    fn default() -> Self {
        WaitingCommands(watch::Sender::new(CommandCounts::default()))
    }
}

impl WaitingCommands {
    pub(super) fn of(&self, cluster: &ClusterId) -> u32 {
        self.0.borrow().get(cluster).copied().unwrap_or(0)
    }

    pub(super) fn watch(&self) -> watch::Receiver<CommandCounts> {
        self.0.subscribe()
    }

    /// Replaces all numbers, and wakes the watchers if one differs.
    pub(super) fn set(&self, new: BTreeMap<ClusterId, u32>) {
        self.0.send_if_modified(|known| {
            let differs = **known != new;
            if differs {
                *known = Arc::new(new);
            }
            differs
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_wake_when_a_number_changes() {
        let waiting = WaitingCommands::default();
        let mut changes = waiting.watch();
        let id = |text: &str| -> ClusterId { text.parse().unwrap() };
        waiting.set(BTreeMap::from([(id("c-a"), 1), (id("c-b"), 2)]));
        assert_eq!(changes.borrow_and_update().len(), 2);
        waiting.set(BTreeMap::from([(id("c-b"), 1)]));
        assert_eq!(changes.borrow_and_update().get(&id("c-b")), Some(&1));
        assert_eq!((waiting.of(&id("c-a")), waiting.of(&id("c-b"))), (0, 1));
        waiting.set(BTreeMap::from([(id("c-b"), 1)]));
        assert!(!changes.has_changed().unwrap());
    }
}
