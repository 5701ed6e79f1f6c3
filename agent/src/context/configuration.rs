//! The configuration of this cluster: the revision the hub desires and the document in use.

use std::sync::Arc;

use fairlead_api::config::AgentConfig;
use tokio::sync::watch;

/// The longest revision that is believed to be one.
const MAX_REVISION_BYTES: usize = 64;
/// What the hub has told.
pub(crate) struct ConfigurationState {
    /// Revision of the configuration that it has.
    desired: watch::Sender<Option<String>>,
    document: watch::Sender<Arc<AgentConfig>>,
}

impl Default for ConfigurationState {
    fn default() -> Self {
        ConfigurationState {
            desired: watch::Sender::new(None),
            document: watch::Sender::new(Arc::default()),
        }
    }
}

impl ConfigurationState {
    /// A probe has named it.
    pub(crate) fn set_desired(&self, revision: &str) {
        if revision.len() > MAX_REVISION_BYTES {
            return;
        }
        self.desired.send_if_modified(|desired| {
            let is_new = desired.as_deref() != Some(revision);
            if is_new {
                *desired = Some(revision.to_owned());
            }
            is_new
        });
    }

    pub(crate) fn desired(&self) -> watch::Receiver<Option<String>> {
        self.desired.subscribe()
    }

    /// The agent works by it from now on.
    pub(crate) fn apply(&self, configuration: AgentConfig) {
        self.document.send_replace(Arc::new(configuration));
    }

    /// By what the agent works.
    pub(crate) fn document(&self) -> watch::Receiver<Arc<AgentConfig>> {
        self.document.subscribe()
    }
}
