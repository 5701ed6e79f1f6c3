//! Configuration of this cluster: revision desired by the hub, and the document in use.

use std::sync::{Arc, Mutex, PoisonError};

use fairlead_api::config::AgentConfig;
use http::HeaderValue;
use tokio::sync::watch;

/// Maximum length of a revision in bytes; longer ones are ignored.
const MAX_REVISION_BYTES: usize = 64;

/// Desired revision, and applied document with its revision.
pub(crate) struct ConfigurationState {
    /// Revision of the hub's current configuration.
    desired: watch::Sender<Option<String>>,
    document: watch::Sender<Arc<AgentConfig>>,
    /// Revision of the applied document, as a header of probes' answers.
    applied: Mutex<Option<HeaderValue>>,
}

impl Default for ConfigurationState {
    fn default() -> Self {
        ConfigurationState {
            desired: watch::Sender::new(None),
            document: watch::Sender::new(Arc::default()),
            applied: Mutex::default(),
        }
    }
}

impl ConfigurationState {
    /// Notes the revision named by a probe.
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

    /// Applies a document.
    pub(crate) fn apply(&self, revision: &str, configuration: AgentConfig) {
        self.document.send_replace(Arc::new(configuration));
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        *applied = HeaderValue::from_str(revision).ok();
    }

    /// Revision of the applied document.
    pub(crate) fn applied(&self) -> Option<HeaderValue> {
        let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.clone()
    }

    /// Applied document.
    pub(crate) fn document(&self) -> watch::Receiver<Arc<AgentConfig>> {
        self.document.subscribe()
    }
}
