//! Handle of the fleet for routes and background work.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use fairlead_api::{BundleId, ClusterId, RolloutId, delivery::DeploymentReports};
use fairlead_rollout::{RolloutVerb, UnixMillis};
use fairlead_runtime::Process;
use fairlead_store::{Clock, Store, StoreError, random};
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, watch},
    time::sleep,
};

use super::{
    Fleet, TakenReports,
    supervisor::{Supervisor, SupervisorParts, VerbError, lock, log_failure},
};
use crate::announcements::Announcements;

/// Changes within this time are processed together.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Delay after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The fleet of a hub; clones share it.
#[derive(Clone)]
pub struct FleetHandle(Arc<SharedFleet>);

/// A fleet that may be gone.
pub(crate) struct WeakFleet(Weak<SharedFleet>);

impl WeakFleet {
    pub(crate) fn upgrade(&self) -> Option<FleetHandle> {
        self.0.upgrade().map(FleetHandle)
    }
}

struct SharedFleet {
    fleet: Mutex<Fleet>,
    supervisor: AsyncMutex<Supervisor>,
    store: Store,
    clock: Clock,
    announcements: Arc<Announcements>,
    /// Asks for a pass of the supervisor.
    wake: Notify,
    /// Number of the last change of a deployment.
    changes: watch::Sender<u64>,
    /// Random number of this process, for cursors.
    run: u32,
    process: OnceLock<Process>,
}

impl FleetHandle {
    pub(crate) fn new(parts: SupervisorParts) -> Self {
        FleetHandle(Arc::new(SharedFleet {
            fleet: Mutex::default(),
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            announcements: Arc::clone(&parts.announcements),
            supervisor: AsyncMutex::new(Supervisor::new(parts)),
            wake: Notify::new(),
            changes: watch::Sender::new(0),
            run: random::bytes().map_or(0, u32::from_ne_bytes),
            process: OnceLock::new(),
        }))
    }

    pub(crate) fn downgrade(&self) -> WeakFleet {
        WeakFleet(Arc::downgrade(&self.0))
    }

    /// Reads the fleet, once it was computed.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be computed now.
    pub(crate) async fn read<T>(&self, read: impl FnOnce(&Fleet) -> T) -> Result<T, StoreError> {
        self.ready().await?;
        Ok(read(&lock(&self.0.fleet)))
    }

    /// Reads the fleet as it is, possibly before it was computed.
    pub(crate) fn read_now<T>(&self, read: impl FnOnce(&Fleet) -> T) -> T {
        read(&lock(&self.0.fleet))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if lock(&self.0.fleet).is_ready() {
            return Ok(());
        }
        self.pass().await.map(drop)
    }

    /// Brings the fleet up to date; returns the time until the next pass.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn pass(&self) -> Result<Duration, StoreError> {
        let mut supervisor = self.0.supervisor.lock().await;
        let delay = supervisor.pass(&self.0.fleet).await;
        drop(supervisor);
        self.announce_changes();
        delay
    }

    /// Applies the verb of a person to a rollout.
    ///
    /// # Errors
    /// [`VerbError`]
    pub(crate) async fn verb(&self, id: &RolloutId, verb: RolloutVerb) -> Result<(), VerbError> {
        let mut supervisor = self.0.supervisor.lock().await;
        let done = supervisor.verb(&self.0.fleet, id, verb).await;
        drop(supervisor);
        self.announce_changes();
        self.0.wake.notify_one();
        done
    }

    /// Takes reports of a cluster's agent.
    ///
    /// # Errors
    /// [`StoreError`] if the fleet cannot be computed now.
    pub(crate) async fn report(
        &self,
        cluster: &ClusterId,
        reports: DeploymentReports,
    ) -> Result<TakenReports, StoreError> {
        self.ready().await?;
        let now = UnixMillis::from(self.0.clock.now());
        let mut taken = lock(&self.0.fleet).report(cluster, reports.clone(), now);
        if taken == TakenReports::NoCluster {
            // A new cluster: its document may be newer than the fleet.
            self.pass().await?;
            taken = lock(&self.0.fleet).report(cluster, reports, now);
        }
        self.announce_changes();
        self.0.wake.notify_one();
        Ok(taken)
    }

    /// Sets the numbers of commands that wait to be claimed; agents of clusters with another number are notified.
    pub fn set_commands(&self, commands: &BTreeMap<ClusterId, u32>) {
        let etags = {
            let mut fleet = lock(&self.0.fleet);
            let changed = fleet.set_commands(commands).into_iter();
            let etags = changed.filter_map(|it| fleet.take_etag(&it));
            etags.collect::<Vec<_>>()
        };
        self.0.announcements.publish(etags);
    }

    /// Takes deployments that must try again by the order of a person.
    #[must_use]
    pub fn take_retries(&self) -> Vec<(ClusterId, BundleId)> {
        lock(&self.0.fleet).take_retries()
    }

    /// Notified of changed deployments.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Random number of this process.
    pub(crate) fn run_id(&self) -> u32 {
        self.0.run
    }

    /// Completes when the process drains; a handler that waits must return then.
    pub(crate) async fn draining(&self) {
        match self.0.process.get() {
            Some(process) => process.draining().await,
            None => std::future::pending().await,
        }
    }

    fn announce_changes(&self) {
        let last = lock(&self.0.fleet).last_change();
        self.0.changes.send_if_modified(|known| {
            let is_new = *known != last;
            *known = last;
            is_new
        });
    }

    /// Follows the store and notifies agents, until the process drains.
    pub(crate) async fn run(&self, process: &Process) {
        // Set earlier only if the module restarts.
        let _ = self.0.process.set(process.clone());
        tokio::select! {
            () = self.supervise() => {}
            () = self.0.announcements.notify() => {}
            () = process.draining() => {}
        }
    }

    async fn supervise(&self) {
        let (mut revisions, mut seen) = (self.0.store.watch(), self.0.store.watch_seen());
        loop {
            revisions.mark_unchanged();
            seen.mark_unchanged();
            let delay = match self.pass().await {
                Ok(delay) => delay,
                Err(error) => {
                    log_failure(&error);
                    RETRY_DELAY
                }
            };
            let changed = tokio::select! {
                changed = revisions.changed() => changed,
                changed = seen.changed() => changed,
                () = self.0.wake.notified() => Ok(()),
                () = sleep(delay) => Ok(()),
            };
            if changed.is_err() {
                return;
            }
            sleep(BATCH_DELAY).await;
        }
    }
}
