//! State that lives as long as the agent: connection pool to the API server, the site operator's rules,
//! metrics, and the instance name.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlead_api::{ClusterUid, hello::Instance, tcp::ConnectRule};
use fairlead_dialer::MemoryBudget;
use fairlead_gitops::GitOpsStatus;
use fairlead_runtime::{Process, gauges::GaugeGuard};
use fairlead_traces::Traces;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::{connect_rules::ConnectRules, metrics::Metrics, reserved::ReservedNamespace};
use fairlead_apiserver::Upstream;

pub(crate) mod cluster_uid;
pub(crate) mod configuration;
pub(crate) mod deliveries;
pub(crate) mod events;
pub(crate) mod hubs;
pub(crate) mod session_metrics;
pub(crate) mod sessions;

use cluster_uid::UidState;
use configuration::ConfigurationState;
use deliveries::DesiredDeliveries;
use hubs::KnownHubs;
use sessions::ServingSessions;

pub(crate) struct AgentContext {
    pub(crate) process: Process,
    pub(crate) upstream: Arc<Upstream>,
    /// Namespace that only admins of the hub reach.
    pub(crate) reserved: Option<ReservedNamespace>,
    pub(crate) allow_connect: Vec<ConnectRule>,
    pub(crate) allow_groups: Vec<String>,
    pub(crate) allow_as: Vec<String>,
    pub(crate) metrics: Metrics,
    pub(crate) reconnect_spread: ReconnectSpread,
    /// Running requests, upgraded ones included. Draining waits for them.
    pub(crate) requests: TaskTracker,
    /// Configuration that the hub desires and the one in use.
    pub(crate) configuration: ConfigurationState,
    /// Deliveries that the hub desires.
    pub(crate) deliveries: DesiredDeliveries,
    /// State of the GitOps key; `None` without a tool.
    pub(crate) gitops: watch::Sender<Option<GitOpsStatus>>,
    /// Hubs that the agent knows and uses.
    pub(crate) hubs: Arc<KnownHubs>,
    /// Sessions that serve requests.
    pub(crate) sessions: Arc<ServingSessions>,
    pub(crate) instance: Instance,
    pub(crate) uid: watch::Receiver<UidState>,
    /// Memory budget of all sessions.
    pub(crate) memory_budget: MemoryBudget,
    /// Number of sessions with a link.
    pub(crate) links_up: Mutex<usize>,
    pub(crate) traces: Traces,
}

impl AgentContext {
    /// Rules for plain TCP: those of the site operator, and those by which the hub's configuration narrows them.
    pub(crate) fn connect_rules(&self) -> ConnectRules<'_> {
        let document = self.configuration.document();
        let desired = document.borrow().allow_connect.clone();
        ConnectRules::new(&self.allow_connect, desired.as_deref())
    }

    /// Cluster's UID, if the API server returns it within a second.
    pub(crate) async fn cluster_uid(&self) -> Option<ClusterUid> {
        cluster_uid::wait_briefly(self.uid.clone()).await
    }

    /// Completes when the cluster's UID is known.
    pub(crate) async fn wait_for_cluster_uid(&self) -> ClusterUid {
        let mut uid = self.uid.clone();
        let known = uid.wait_for(|uid| uid.known().is_some()).await;
        match known.ok().and_then(|uid| uid.known()) {
            Some(uid) => uid,
            // The sender is gone: the process drains.
            None => std::future::pending().await,
        }
    }

    /// Number of sessions with a link.
    pub(crate) fn links_up(&self) -> usize {
        *self.links_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a session with a link. The agent is ready while there is one.
    pub(crate) fn count_link(self: &Arc<Self>) -> LinkGuard {
        let mut count = self.links_up.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        self.process.set_ready(!self.process.is_draining());
        LinkGuard {
            context: Arc::clone(self),
            _gauge: self.metrics.count_connected(),
        }
    }
}

/// Guard of a session with a link.
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

/// Time over which the hub asks its agents to spread their reconnects.
#[derive(Default)]
pub(crate) struct ReconnectSpread(AtomicU64);

/// Upper bound for the hub's request.
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
