//! Entry of drift detection: the set of followed deployments.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as SyncMutex, PoisonError},
    time::Duration,
};

use fairlead_api::BundleId;
use tokio::{
    sync::{Mutex, Semaphore, mpsc},
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    access::DriftAccess,
    deployment::FollowedDeployment,
    event::{DriftEvent, DriftReport},
    follower::{Follower, Shared},
    watch::WatchHub,
};

/// Events that wait for the engine. Followers wait when it is full.
const MAX_QUEUED_EVENTS: usize = 256;
/// Deployments that send requests at the same time.
const MAX_CONCURRENT_DEPLOYMENTS: usize = 4;
/// Time for requests of all deployments to end. A leader without its Lease stops 5 s before the next one starts.
const RELEASE_DEADLINE: Duration = Duration::from_secs(3);

/// Followed deployments of a cluster. Dropping it ends all work.
pub struct DriftMonitor {
    shared: Arc<Shared>,
    watches: Arc<WatchHub>,
    running: Mutex<HashMap<BundleId, Running>>,
    stops: SyncMutex<HashMap<BundleId, CancellationToken>>,
    stop: CancellationToken,
}

struct Running {
    follower: Arc<Follower>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl DriftMonitor {
    /// Makes a monitor without deployments, and the queue of its events.
    #[must_use]
    pub fn new(access: Arc<dyn DriftAccess>) -> (Self, mpsc::Receiver<DriftReport>) {
        let (events, received) = mpsc::channel(MAX_QUEUED_EVENTS);
        let stop = CancellationToken::new();
        let monitor = Self {
            watches: Arc::new(WatchHub::new(access.clone(), stop.clone())),
            shared: Arc::new(Shared {
                access,
                events,
                turns: Semaphore::new(MAX_CONCURRENT_DEPLOYMENTS),
            }),
            running: Mutex::default(),
            stops: SyncMutex::default(),
            stop,
        };
        (monitor, received)
    }

    /// Follows a deployment after a run, instead of its earlier state. Counts of corrections begin anew.
    pub async fn follow(&self, deployment: FollowedDeployment) {
        let bundle = deployment.bundle.clone();
        let mut running = self.running.lock().await;
        if let Some(earlier) = running.remove(&bundle) {
            self.end(earlier).await;
        }
        let follower = Arc::new(Follower::new(deployment));
        let stop = self.stop.child_token();
        let task = {
            let (follower, shared, stop) = (follower.clone(), self.shared.clone(), stop.clone());
            tokio::spawn(async move { follower.run(&shared, &stop).await })
        };
        self.watches.add(&follower);
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.insert(bundle.clone(), stop.clone());
        drop(stops);
        let entry = Running {
            follower,
            stop,
            task,
        };
        running.insert(bundle, entry);
    }

    /// Ends the work on a deployment before a run. After it returns, no correction of the deployment runs.
    pub async fn release(&self, bundle: &BundleId) {
        let mut running = self.running.lock().await;
        if let Some(entry) = running.remove(bundle) {
            self.end(entry).await;
        }
    }

    /// Withdraws the findings about a released deployment. Those that still wait in the queue are replaced with it.
    pub async fn withdraw(&self, bundle: &BundleId) {
        let none = DriftEvent::Drifted {
            objects: Vec::new(),
            failure: None,
        };
        for event in [none, DriftEvent::Blocked(None)] {
            let bundle = bundle.clone();
            // Without a receiver nobody has findings.
            let _ = self.shared.events.send(DriftReport { bundle, event }).await;
        }
    }

    /// Ends the work on all deployments.
    pub async fn release_all(&self) {
        let mut running = self.running.lock().await;
        // All stop at the same time: each may be within a request.
        for entry in running.values() {
            entry.stop.cancel();
        }
        let deadline = Instant::now() + RELEASE_DEADLINE;
        for (_, mut entry) in running.drain() {
            self.watches.remove(&entry.follower);
            if timeout_at(deadline, &mut entry.task).await.is_err() {
                // Its lock stays, and the next leader takes it over.
                entry.task.abort();
            }
        }
    }

    /// Number of deployments with work.
    #[cfg(test)]
    pub(crate) async fn followed(&self) -> usize {
        self.running.lock().await.len()
    }

    /// Ends the work on a deployment after its present request, without a wait for that.
    pub fn cancel(&self, bundle: &BundleId) {
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stop) = stops.remove(bundle) {
            stop.cancel();
        }
    }

    /// Compares all objects of a deployment now.
    pub async fn compare(&self, bundle: &BundleId) {
        if let Some(entry) = self.running.lock().await.get(bundle) {
            entry.follower.compare_all();
        }
    }

    async fn end(&self, entry: Running) {
        entry.stop.cancel();
        self.watches.remove(&entry.follower);
        // A request to the API server has its own deadline.
        if let Err(error) = entry.task.await {
            tracing::error!(%error, "drift detection of a deployment ended early");
        }
    }
}

impl Drop for DriftMonitor {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
