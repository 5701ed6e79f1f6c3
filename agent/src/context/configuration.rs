//! The configuration of this cluster: the revision the hub desires and the document in use.

use std::sync::Arc;

use fairlead_api::config::AgentConfig;
use tokio::sync::watch;

/// The longest revision that is believed to be one.
const LONGEST: usize = 64;
/// What the hub has told.
pub(crate) struct Told {
    /// Revision of the configuration that it has.
    wanted: watch::Sender<Option<String>>,
    configuration: watch::Sender<Arc<AgentConfig>>,
}

impl Default for Told {
    fn default() -> Self {
        Told {
            wanted: watch::Sender::new(None),
            configuration: watch::Sender::new(Arc::default()),
        }
    }
}

impl Told {
    /// A probe has named it.
    pub(crate) fn configuration_wanted(&self, revision: &str) {
        if revision.len() > LONGEST {
            return;
        }
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.as_deref() != Some(revision);
            if is_new {
                *wanted = Some(revision.to_owned());
            }
            is_new
        });
    }

    pub(crate) fn wanted(&self) -> watch::Receiver<Option<String>> {
        self.wanted.subscribe()
    }

    /// The agent works by it from now on.
    pub(crate) fn work_by(&self, configuration: AgentConfig) {
        self.configuration.send_replace(Arc::new(configuration));
    }

    /// By what the agent works.
    pub(crate) fn configuration(&self) -> watch::Receiver<Arc<AgentConfig>> {
        self.configuration.subscribe()
    }
}
