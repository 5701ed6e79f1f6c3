//! What lives as long as the agent, beside its sessions: the way to the API server, the site operator's rules, and what
//! is counted.

use std::{
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fairlead_runtime::Process;
use tokio_util::task::TaskTracker;

use crate::{metrics::Metrics, proxy::upstream::Upstream};

pub(crate) struct Site {
    pub(crate) process: Process,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) allow_connect: Vec<String>,
    pub(crate) allow_groups: Vec<String>,
    pub(crate) metrics: Metrics,
    pub(crate) spread: Spread,
    /// Requests that run, upgraded ones included; draining waits for them.
    pub(crate) requests: TaskTracker,
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
