//! One followed deployment: the states of its objects, and the task that works on them.
//!
//! Watches write into the states and wake the task. They never wait for it, and no event is queued: a later one replaces an
//! earlier one.

mod checks;
mod corrections;
mod repairs;
mod reports;
mod state;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_manifests::drift::{Corrections, Seen};
use serde_json::Value;
use tokio::{
    select,
    sync::{Notify, Semaphore, mpsc},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    access::{AccessError, DriftAccess},
    api::ObjectApi,
    deployment::FollowedDeployment,
    event::{DriftEvent, DriftReport},
    examine::OwnChanges,
    health::StorageClasses,
};
use repairs::RepairState;
use reports::Reported;
use state::ObjectState;

/// Delay of all work after a failed request for a client.
const ACCESS_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Sleep without any due work.
const IDLE_SLEEP: Duration = Duration::from_secs(3600);

/// Parts that all followers share.
pub(super) struct Shared {
    pub(super) access: Arc<dyn DriftAccess>,
    pub(super) events: mpsc::Sender<DriftReport>,
    /// Deployments that send requests at the same time.
    pub(super) turns: Semaphore,
}

/// A deployment under drift detection.
pub(super) struct Follower {
    pub(super) deployment: FollowedDeployment,
    objects: Mutex<Vec<ObjectState>>,
    wake: Notify,
}

/// State of the task alone.
struct Worker<'a> {
    follower: &'a Follower,
    shared: &'a Shared,
    stop: &'a CancellationToken,
    classes: StorageClasses,
    corrections: Corrections,
    started_at: Instant,
    reported: Reported,
    repair: RepairState,
}

impl Follower {
    pub(super) fn new(deployment: FollowedDeployment) -> Self {
        let now = Instant::now();
        let owner = Arc::new(deployment.owner.applied());
        let objects = deployment.objects.iter();
        let objects = objects.map(|it| ObjectState::new(it, &deployment, owner.clone(), now));
        Self {
            objects: Mutex::new(objects.collect()),
            deployment,
            wake: Notify::new(),
        }
    }

    /// Takes metadata of an event or a list.
    pub(super) fn observe(&self, index: usize, metadata: &Value) {
        self.observe_at(index, Seen::Present(metadata));
    }

    /// Takes the end of an object: a deletion, or a lost label.
    pub(super) fn observe_end(&self, index: usize) {
        self.observe_at(index, Seen::Deleted(None));
    }

    fn observe_at(&self, index: usize, seen: Seen<'_>) {
        let now = Instant::now();
        let is_due = {
            let mut objects = self.lock();
            objects.get_mut(index).is_some_and(|state| {
                state.observe(seen, &self.deployment, now);
                state.next_due().is_some()
            })
        };
        if is_due {
            self.wake.notify_one();
        }
    }

    /// Notes if events of an object arrive. Without them the object is compared every ten minutes.
    pub(super) fn set_watched(&self, index: usize, is_watched: bool) {
        if let Some(state) = self.lock().get_mut(index) {
            state.set_watched(is_watched, Instant::now());
        }
        self.wake.notify_one();
    }

    /// Compares all objects now.
    pub(super) fn compare_all(&self) {
        let now = Instant::now();
        for state in self.lock().iter_mut() {
            state.compare_at(now);
        }
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ObjectState>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_due(&self) -> Instant {
        let objects = self.lock();
        let due = objects.iter().filter_map(ObjectState::next_due).min();
        due.unwrap_or_else(|| Instant::now() + IDLE_SLEEP)
    }

    /// Works until `stop`. A request that runs then is completed first.
    pub(super) async fn run(&self, shared: &Shared, stop: &CancellationToken) {
        let mut worker = Worker {
            follower: self,
            shared,
            stop,
            classes: StorageClasses::default(),
            corrections: Corrections::default(),
            started_at: Instant::now(),
            reported: Reported::default(),
            repair: RepairState::new(self.deployment.rollbacks.clone(), Instant::now()),
        };
        loop {
            let repair_due = worker.repair.due();
            let next_due = || repair_due.map_or(self.next_due(), |at| at.min(self.next_due()));
            select! {
                biased;
                () = stop.cancelled() => return,
                () = self.wake.notified() => {}
                () = sleep_until(next_due()) => {}
            }
            if next_due() <= Instant::now() {
                worker.work().await;
            }
            worker.report().await;
        }
    }
}

impl Worker<'_> {
    /// Does all due work.
    async fn work(&mut self) {
        let Ok(_turn) = self.shared.turns.acquire().await else {
            return;
        };
        let account = &self.follower.deployment.account;
        let api = match self.shared.access.observer(account).await {
            Ok(api) => api,
            Err(error) => return self.postpone(&error),
        };
        let now = Instant::now();
        let (checks, reads): (Vec<_>, Vec<_>) = {
            let mut objects = self.follower.lock();
            let due = objects.iter_mut().enumerate();
            let due = due.filter_map(|(index, state)| Some((index, state.take_check(now)?)));
            due.partition(|(_, is_read)| !matches!(is_read, state::Check::Health))
        };
        for (index, check) in checks.into_iter().chain(reads) {
            if self.stop.is_cancelled() {
                return;
            }
            self.check(&api, index, check).await;
        }
        // Drift is reported before its correction begins.
        self.report().await;
        if self.follower.deployment.is_corrected() {
            self.correct_due(&api).await;
        }
        if self.follower.deployment.is_repaired() {
            self.repair(&api).await;
        }
    }

    fn postpone(&self, error: &AccessError) {
        tracing::debug!(bundle = %self.follower.deployment.bundle, %error, "drift detection has no client");
        let at = Instant::now() + ACCESS_RETRY_INTERVAL;
        for state in self.follower.lock().iter_mut() {
            state.postpone(at);
        }
    }

    fn target<'a>(
        &'a self,
        api: &Arc<dyn ObjectApi>,
        index: usize,
    ) -> Option<super::examine::Target<'a>> {
        let deployment = &self.follower.deployment;
        Some(super::examine::Target {
            api: api.clone(),
            deployment,
            object: deployment.objects.get(index)?,
            own_changes: OwnChanges::of(deployment.policy),
        })
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut ObjectState)) {
        if let Some(state) = self.follower.lock().get_mut(index) {
            change(state);
        }
    }

    async fn send(&self, event: DriftEvent) {
        let report = DriftReport {
            bundle: self.follower.deployment.bundle.clone(),
            event,
        };
        select! {
            () = self.stop.cancelled() => {}
            _ = self.shared.events.send(report) => {}
        }
    }
}
