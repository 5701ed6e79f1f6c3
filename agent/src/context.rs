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

use cluster_uid::Uid;
use configuration::Told;
use sessions::Sessions;

pub(crate) struct Site {
    pub(crate) process: Process,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) allow_connect: Vec<String>,
    pub(crate) allow_groups: Vec<String>,
    pub(crate) allow_as: Vec<String>,
    pub(crate) metrics: Metrics,
    pub(crate) spread: Spread,
    /// Requests that run, upgraded ones included; draining waits for them.
    pub(crate) requests: TaskTracker,
    /// What the hub wants of this agent.
    pub(crate) told: Told,
    /// Those that serve.
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) instance: Instance,
    pub(crate) uid: watch::Receiver<Uid>,
    /// What all sessions share.
    pub(crate) reserve: MemoryBudget,
    /// Sessions that have a link.
    pub(crate) connected: Mutex<usize>,
}

impl Site {
    /// What plain TCP may be opened to: what the site operator allows, as far as the hub wants it.
    pub(crate) fn targets(&self) -> Vec<String> {
        let configuration = self.told.configuration();
        let configuration = configuration.borrow();
        let is_wanted = |target: &&String| {
            let wanted = configuration.allow_connect.as_ref();
            wanted.is_none_or(|wanted| wanted.contains(target))
        };
        self.allow_connect
            .iter()
            .filter(is_wanted)
            .cloned()
            .collect()
    }

    /// The cluster's UID, if the API server tells it soon.
    pub(crate) async fn uid(&self) -> Option<ClusterUid> {
        cluster_uid::soon(self.uid.clone()).await
    }

    /// Completes when the cluster's UID is known.
    pub(crate) async fn uid_known(&self) -> ClusterUid {
        let mut uid = self.uid.clone();
        let known = uid.wait_for(|uid| uid.known().is_some()).await;
        match known.ok().and_then(|uid| uid.known()) {
            Some(uid) => uid,
            // The process drains.
            None => std::future::pending().await,
        }
    }

    /// How many sessions have a link.
    pub(crate) fn links(&self) -> usize {
        *self
            .connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A session has a link. The agent is ready for as long as one does.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        let mut connected = self
            .connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *connected += 1;
        self.process.set_ready(!self.process.is_draining());
        Connected {
            site: Arc::clone(self),
            _gauge: self.metrics.hold_connected(),
        }
    }
}

/// Held by a session that has a link.
pub(crate) struct Connected {
    site: Arc<Site>,
    _gauge: GaugeGuard,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let connected = &self.site.connected;
        let mut connected = connected.lock().unwrap_or_else(PoisonError::into_inner);
        *connected -= 1;
        if *connected == 0 {
            self.site.process.set_ready(false);
        }
    }
}

/// How wide the hub wants its agents to spread when they dial again.
#[derive(Default)]
pub(crate) struct Spread(AtomicU64);

/// However wide the hub says, an agent comes back within this time.
const WIDEST: Duration = Duration::from_secs(600);

impl Spread {
    pub(crate) fn set(&self, width: Duration) {
        let millis = u64::try_from(width.min(WIDEST).as_millis()).unwrap_or(0);
        self.0.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}
