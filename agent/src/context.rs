//! What lives as long as the agent, beside its sessions: the way to the API server, the site operator's rules, what is
//! counted, and by what the hub tells this agent from others.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlead_api::{ClusterUid, hello::Instance};
use fairlead_dialer::MemoryBudget;
use fairlead_runtime::{Process, gauges::GaugeGuard};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::{metrics::Metrics, upstream::Upstream};

pub(crate) mod cluster_uid;
pub(crate) mod configuration;
pub(crate) mod sessions;

use cluster_uid::UidState;
use configuration::ConfigurationState;
use sessions::ServingSessions;

pub(crate) struct AgentContext {
    pub(crate) process: Process,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) allow_connect: Vec<String>,
    pub(crate) allow_groups: Vec<String>,
    pub(crate) allow_as: Vec<String>,
    pub(crate) metrics: Metrics,
    pub(crate) reconnect_spread: ReconnectSpread,
    /// Requests that run, upgraded ones included; draining waits for them.
    pub(crate) requests: TaskTracker,
    /// What the hub wants of this agent.
    pub(crate) configuration: ConfigurationState,
    /// Those that serve.
    pub(crate) sessions: Arc<ServingSessions>,
    pub(crate) instance: Instance,
    pub(crate) uid: watch::Receiver<UidState>,
    /// What all sessions share.
    pub(crate) memory_budget: MemoryBudget,
    /// ServingSessions that have a link.
    pub(crate) links_up: Mutex<usize>,
}

impl AgentContext {
    /// What plain TCP may be opened to: what the site operator allows, as far as the hub wants it.
    pub(crate) fn connect_targets(&self) -> Vec<String> {
        let document = self.configuration.document();
        let document = document.borrow();
        let is_desired = |target: &&String| {
            let desired = document.allow_connect.as_ref();
            desired.is_none_or(|desired| desired.contains(target))
        };
        self.allow_connect
            .iter()
            .filter(is_desired)
            .cloned()
            .collect()
    }

    /// The cluster's UID, if the API server tells it soon.
    pub(crate) async fn cluster_uid(&self) -> Option<ClusterUid> {
        cluster_uid::wait_briefly(self.uid.clone()).await
    }

    /// Completes when the cluster's UID is known.
    pub(crate) async fn wait_for_cluster_uid(&self) -> ClusterUid {
        let mut uid = self.uid.clone();
        let known = uid.wait_for(|uid| uid.known().is_some()).await;
        match known.ok().and_then(|uid| uid.known()) {
            Some(uid) => uid,
            // The process drains.
            None => std::future::pending().await,
        }
    }

    /// How many sessions have a link.
    pub(crate) fn links_up(&self) -> usize {
        *self.links_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session has a link. The agent is ready for as long as one does.
    pub(crate) fn count_link(self: &Arc<Self>) -> LinkGuard {
        let mut count = self.links_up.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        self.process.set_ready(!self.process.is_draining());
        LinkGuard {
            context: Arc::clone(self),
            _gauge: self.metrics.hold_connected(),
        }
    }
}

/// Held by a session that has a link.
pub(crate) struct LinkGuard {
    context: Arc<AgentContext>,
    _gauge: GaugeGuard,
}

impl Drop for LinkGuard {
    fn drop(&mut self) {
        let links = &self.context.links_up;
        let mut count = links.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            self.context.process.set_ready(false);
        }
    }
}

/// How wide the hub wants its agents to spread when they dial again.
#[derive(Default)]
pub(crate) struct ReconnectSpread(AtomicU64);

/// However wide the hub says, an agent comes back within this time.
const MAX_SPREAD: Duration = Duration::from_secs(600);

impl ReconnectSpread {
    pub(crate) fn set(&self, width: Duration) {
        let millis = u64::try_from(width.min(MAX_SPREAD).as_millis()).unwrap_or(0);
        self.0.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}
