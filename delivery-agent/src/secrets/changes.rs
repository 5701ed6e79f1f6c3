//! Changes of Secrets that deployments use: a watch by name, or a read every 30 seconds without the right to watch.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_api::BundleId;
use tokio::{
    select,
    sync::{Notify, mpsc},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;

use super::{SecretName, SecretVersion, SecretVersions};
use crate::{
    drift::{DriftAccess, Notice, Position, WatchEnd, watch},
    kube::Query,
};

/// Interval of reads without a watch.
const READ_INTERVAL: Duration = Duration::from_secs(30);
/// Delays after the end of a watch: doubled after each failure.
const REOPEN_INTERVAL_MIN: Duration = Duration::from_secs(1);
const REOPEN_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Reads after which a watch is tried again: ten minutes.
const READS_PER_WATCH_TRY: u32 = 20;
/// Changes that wait for the engine. Watches wait when it is full.
const MAX_QUEUED_CHANGES: usize = 64;

/// A deployment, and a Secret with other values than those of the last run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretChange {
    /// The bundle: run it again.
    pub bundle: BundleId,
    /// The Secret.
    pub secret: SecretName,
}

/// Version of a Secret; `None` for a missing one.
type Version = Option<SecretVersion>;

/// A followed Secret, as one account reads it.
struct FollowedSecret {
    account: String,
    name: SecretName,
    state: Mutex<SecretState>,
    changed: Notify,
}

#[derive(Default)]
struct SecretState {
    /// Versions that deployments have used.
    users: HashMap<BundleId, Version>,
    /// Last observed version; the outer `None` before the first one.
    observed: Option<Version>,
}

/// Followed Secrets by account and name. Dropping the guard ends the watch.
type FollowedSecrets = HashMap<(String, SecretName), (Arc<FollowedSecret>, DropGuard)>;

/// Secrets that deployments use.
pub struct SecretChanges {
    access: Arc<dyn DriftAccess>,
    secrets: Mutex<FollowedSecrets>,
    changes: mpsc::Sender<SecretChange>,
}

impl SecretChanges {
    /// Follows no Secret yet; returns the queue of changes, too.
    #[must_use]
    pub fn new(access: Arc<dyn DriftAccess>) -> (Self, mpsc::Receiver<SecretChange>) {
        let (changes, received) = mpsc::channel(MAX_QUEUED_CHANGES);
        let changes = Self {
            access,
            secrets: Mutex::default(),
            changes,
        };
        (changes, received)
    }

    /// Follows the Secrets of a deployment after a run, instead of its earlier ones. `None` stands for a Secret that was
    /// missing: its creation is a change.
    pub fn follow(&self, bundle: &BundleId, account: &str, secrets: SecretVersions) {
        let mut followed = self.lock();
        for (name, version) in &secrets {
            let key = (account.to_owned(), name.clone());
            let (secret, _) = followed
                .entry(key)
                .or_insert_with_key(|(account, name)| self.start(account, name));
            secret.lock().users.insert(bundle.clone(), version.clone());
            // The version may have been observed already.
            secret.changed.notify_one();
        }
        followed.retain(|(of, name), (secret, _)| {
            let mut state = secret.lock();
            if of != account || !secrets.contains_key(name) {
                state.users.remove(bundle);
            }
            !state.users.is_empty()
        });
    }

    /// Ends the interest of a deployment.
    pub fn release(&self, bundle: &BundleId) {
        self.lock().retain(|_, (secret, _)| {
            let mut state = secret.lock();
            state.users.remove(bundle);
            !state.users.is_empty()
        });
    }

    /// Ends the interest of all deployments.
    pub fn release_all(&self) {
        self.lock().clear();
    }

    fn start(&self, account: &str, name: &SecretName) -> (Arc<FollowedSecret>, DropGuard) {
        let secret = Arc::new(FollowedSecret {
            account: account.to_owned(),
            name: name.clone(),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        let stop = CancellationToken::new();
        let (task, stopped) = (secret.clone(), stop.clone());
        let (access, changes) = (self.access.clone(), self.changes.clone());
        tokio::spawn(async move {
            select! {
                () = stopped.cancelled() => {}
                () = task.follow(access.as_ref()) => {}
                () = task.report(&changes) => {}
            }
        });
        (secret, stop.drop_guard())
    }

    fn lock(&self) -> MutexGuard<'_, FollowedSecrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FollowedSecret {
    fn lock(&self) -> MutexGuard<'_, SecretState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, version: Version) {
        self.lock().observed = Some(version);
        self.changed.notify_one();
    }

    /// Sends a change to each deployment with another version. It ends with the engine.
    async fn report(&self, changes: &mpsc::Sender<SecretChange>) {
        loop {
            self.changed.notified().await;
            for bundle in self.take_outdated() {
                let secret = self.name.clone();
                if changes.send(SecretChange { bundle, secret }).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Deployments with another version than the observed one. Each is returned once per version.
    fn take_outdated(&self) -> Vec<BundleId> {
        let mut state = self.lock();
        let SecretState { users, observed } = &mut *state;
        let Some(observed) = observed else {
            return Vec::new();
        };
        let outdated = users.iter_mut().filter(|(_, used)| *used != observed);
        outdated
            .map(|(bundle, used)| {
                used.clone_from(observed);
                bundle.clone()
            })
            .collect()
    }

    /// Observes the Secret. It never returns.
    async fn follow(&self, access: &dyn DriftAccess) {
        loop {
            self.watch(access).await;
            debug!(secret = %self.name, "account may not watch the Secret; it is read instead");
            for _ in 0..READS_PER_WATCH_TRY {
                self.read(access).await;
                sleep(READ_INTERVAL).await;
            }
        }
    }

    /// Watches until the account may not.
    async fn watch(&self, access: &dyn DriftAccess) {
        let path = format!("/api/v1/namespaces/{}/secrets", self.name.namespace);
        // A rule with `resourceNames` allows a watch with this selector.
        let query = Query {
            fields: format!("metadata.name={}", self.name.name),
            metadata_only: true,
            ..Query::default()
        };
        let mut position = Position::default();
        let mut failures = 0;
        loop {
            let Ok(api) = access.observer(&self.account).await else {
                failures += 1;
                sleep(delay(failures)).await;
                continue;
            };
            let mut is_present = false;
            let mut notify = |notice: Notice<'_>| match notice {
                Notice::Open => failures = 0,
                Notice::Present(secret) => {
                    is_present = true;
                    self.observe(SecretVersion::of(secret));
                }
                Notice::Listed if is_present => {}
                Notice::Ended(_) | Notice::Listed => {
                    is_present = false;
                    self.observe(None);
                }
            };
            match watch(api.as_ref(), &path, &query, &mut position, &mut notify).await {
                WatchEnd::Forbidden => return,
                WatchEnd::Ended | WatchEnd::Expired => {}
                WatchEnd::Failed(error) => {
                    debug!(secret = %self.name, %error, "watch failed");
                    failures += 1;
                }
            }
            sleep(delay(failures)).await;
        }
    }

    /// Reads the Secret; a failure changes nothing.
    async fn read(&self, access: &dyn DriftAccess) {
        let Ok(api) = access.observer(&self.account).await else {
            return;
        };
        match api.get(&self.name.path()).await {
            Ok(secret) => self.observe(secret.as_ref().and_then(SecretVersion::of)),
            Err(error) => debug!(secret = %self.name, %error, "Secret not read"),
        }
    }
}

fn delay(failures: u32) -> Duration {
    let delay = REOPEN_INTERVAL_MIN * 2_u32.saturating_pow(failures.min(6));
    delay.min(REOPEN_INTERVAL_MAX)
}
