//! Watch of the records of releases: a revision of somebody else, or a removal, is noticed within seconds.
//!
//! Each release has a metadata watch of its Secrets, as the account of its bundle. Without the right to watch, they are
//! listed every ten minutes. The engine ends the watch before each run, so that revisions of runs are never findings.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_api::BundleId;
use fairlead_runner::release::{ReleaseStatus, Revision, selector};
use serde_json::Value;
use tokio::{
    select,
    sync::{Notify, mpsc},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;

use super::target::ReleaseTarget;
use crate::{
    drift::{DriftAccess, Notice, Position, WatchEnd, watch},
    kube::Query,
};

/// Quiet time of the records before they are judged: Helm writes several for one operation.
const QUIET_INTERVAL: Duration = Duration::from_secs(5);
/// Longest delay of a judgement by further writes.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Interval of lists without a watch.
const LIST_INTERVAL: Duration = Duration::from_secs(600);
/// Delays after the end of a watch: doubled after each failure.
const REOPEN_INTERVAL_MIN: Duration = Duration::from_secs(1);
const REOPEN_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Findings that wait for the engine. Watches wait when it is full.
const MAX_QUEUED_FINDINGS: usize = 64;

/// A change of a release by somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReleaseChange {
    /// The newest revision is somebody else's.
    Foreign(u32),
    /// The record of the newest revision is gone.
    RecordGone(u32),
    /// The release was removed.
    Removed,
}

impl fmt::Display for ReleaseChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(number) => write!(f, "revision {number} is somebody else's"),
            Self::RecordGone(number) => {
                write!(f, "somebody else deleted the record of revision {number}")
            }
            Self::Removed => write!(f, "somebody else removed the release"),
        }
    }
}

/// Finding about the release of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReleaseFinding {
    pub(crate) bundle: BundleId,
    /// None: the release is as the last run left it, again.
    pub(crate) change: Option<ReleaseChange>,
}

/// A release after a run.
#[derive(Debug, Clone)]
pub(crate) struct WatchedRelease {
    pub(crate) bundle: BundleId,
    /// Account of the watch.
    pub(crate) account: String,
    pub(crate) target: ReleaseTarget,
    /// Newest revision, which a run wrote.
    pub(crate) revision: u32,
}

/// Watched releases. Dropping it ends all watches.
pub(crate) struct ReleaseWatches {
    access: Arc<dyn DriftAccess>,
    findings: mpsc::Sender<ReleaseFinding>,
    stops: Mutex<HashMap<BundleId, DropGuard>>,
}

impl ReleaseWatches {
    /// Watches no release yet; returns the queue of findings, too.
    pub(crate) fn new(access: Arc<dyn DriftAccess>) -> (Self, mpsc::Receiver<ReleaseFinding>) {
        let (findings, received) = mpsc::channel(MAX_QUEUED_FINDINGS);
        let watches = Self {
            access,
            findings,
            stops: Mutex::default(),
        };
        (watches, received)
    }

    /// Watches a release from now on, instead of its earlier state.
    pub(crate) fn follow(&self, release: WatchedRelease) {
        let stop = CancellationToken::new();
        let bundle = release.bundle.clone();
        let task = ReleaseWatch {
            release,
            records: Mutex::default(),
            changed: Notify::new(),
        };
        let (access, findings) = (self.access.clone(), self.findings.clone());
        let stopped = stop.clone();
        tokio::spawn(async move {
            select! {
                () = stopped.cancelled() => {}
                () = task.follow(access.as_ref()) => {}
                () = task.report(&findings) => {}
            }
        });
        self.lock().insert(bundle, stop.drop_guard());
    }

    /// Ends the watch of a release.
    pub(crate) fn release(&self, bundle: &BundleId) {
        self.lock().remove(bundle);
    }

    /// Ends all watches.
    pub(crate) fn release_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BundleId, DropGuard>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records of a release, as they were observed.
#[derive(Debug, Default)]
struct Records {
    /// Number and status by the name of the Secret.
    revisions: BTreeMap<String, (u32, ReleaseStatus)>,
    /// Names since the start of the last full list.
    listed: HashSet<String>,
    /// True once all records were observed.
    is_complete: bool,
}

impl Records {
    fn take(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Open => {}
            Notice::Present(secret) => {
                if let Some(revision) = Revision::of_object(secret) {
                    self.listed.insert(revision.secret.clone());
                    let state = (revision.number, revision.status);
                    self.revisions.insert(revision.secret, state);
                }
            }
            Notice::Ended(secret) => {
                let name = secret.pointer("/metadata/name").and_then(Value::as_str);
                self.revisions.remove(name.unwrap_or_default());
            }
            Notice::Listed => {
                let Self {
                    revisions, listed, ..
                } = self;
                revisions.retain(|name, _| listed.contains(name));
                self.is_complete = true;
            }
        }
    }

    /// Compares with the newest revision of a run. None while an operation of Helm runs.
    fn judge(&self, expected: u32) -> Option<Option<ReleaseChange>> {
        if !self.is_complete {
            return None;
        }
        let newest = self.revisions.values().max_by_key(|it| it.0);
        let Some(&(number, status)) = newest else {
            return Some(Some(ReleaseChange::Removed));
        };
        if status.is_pending() || status == ReleaseStatus::Uninstalling {
            return None;
        }
        Some(match number.cmp(&expected) {
            _ if status == ReleaseStatus::Uninstalled => Some(ReleaseChange::Removed),
            std::cmp::Ordering::Greater => Some(ReleaseChange::Foreign(number)),
            std::cmp::Ordering::Less => Some(ReleaseChange::RecordGone(expected)),
            std::cmp::Ordering::Equal => None,
        })
    }
}

/// Watch of one release.
struct ReleaseWatch {
    release: WatchedRelease,
    records: Mutex<Records>,
    changed: Notify,
}

impl ReleaseWatch {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, notice: &Notice<'_>) {
        self.lock().take(notice);
        self.changed.notify_one();
    }

    fn query(&self) -> Query {
        Query::of_labels(selector(&self.release.target.name)).metadata_only()
    }

    /// Reports each other judgement, after a quiet time. It ends with the engine.
    async fn report(&self, findings: &mpsc::Sender<ReleaseFinding>) {
        let mut reported = None;
        loop {
            self.changed.notified().await;
            let latest = Instant::now() + DELAY_MAX;
            loop {
                let quiet = latest.min(Instant::now() + QUIET_INTERVAL);
                let is_quiet = timeout_at(quiet, self.changed.notified()).await.is_err();
                if is_quiet {
                    break;
                }
            }
            let judged = self.lock().judge(self.release.revision);
            let Some(change) = judged.filter(|it| *it != reported) else {
                continue;
            };
            reported.clone_from(&change);
            let bundle = self.release.bundle.clone();
            if findings
                .send(ReleaseFinding { bundle, change })
                .await
                .is_err()
            {
                return;
            }
        }
    }

    /// Observes the records. It never returns.
    async fn follow(&self, access: &dyn DriftAccess) {
        loop {
            self.watch(access).await;
            debug!(release = %self.release.target, "account may not watch the records; they are listed instead");
            self.list(access).await;
            sleep(LIST_INTERVAL).await;
        }
    }

    /// Watches until the account may not.
    async fn watch(&self, access: &dyn DriftAccess) {
        let (path, query) = (self.release.target.secrets_path(), self.query());
        let mut position = Position::default();
        let mut failures = 0;
        loop {
            self.lock().listed.clear();
            let end = match access.observer(&self.release.account).await {
                Err(_) => None,
                Ok(api) => {
                    let mut notify = |notice: Notice<'_>| {
                        failures = 0;
                        self.observe(&notice);
                    };
                    Some(watch(api.as_ref(), &path, &query, &mut position, &mut notify).await)
                }
            };
            match end {
                Some(WatchEnd::Forbidden) => return,
                Some(WatchEnd::Ended | WatchEnd::Expired) => {}
                Some(WatchEnd::Failed(error)) => {
                    debug!(release = %self.release.target, %error, "watch failed");
                    failures += 1;
                }
                None => failures += 1,
            }
            sleep(delay(failures)).await;
        }
    }

    /// Lists the records once; a failure changes nothing.
    async fn list(&self, access: &dyn DriftAccess) {
        let Ok(api) = access.observer(&self.release.account).await else {
            return;
        };
        let path = self.release.target.secrets_path();
        match api.list(&path, &self.query()).await {
            Err(error) => debug!(release = %self.release.target, %error, "records not listed"),
            Ok(list) => {
                self.lock().listed.clear();
                let items = list.unwrap_or_default().items;
                items
                    .iter()
                    .for_each(|it| self.observe(&Notice::Present(it)));
                self.observe(&Notice::Listed);
            }
        }
    }
}

fn delay(failures: u32) -> Duration {
    let delay = REOPEN_INTERVAL_MIN * 2_u32.saturating_pow(failures.min(6));
    delay.min(REOPEN_INTERVAL_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::timeout;

    use super::{super::testing, *};
    use crate::drift::tests::{FakeCluster, refused};

    struct Rig {
        cluster: FakeCluster,
        watches: ReleaseWatches,
        received: mpsc::Receiver<ReleaseFinding>,
    }

    fn path(number: u32) -> String {
        format!("/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v{number}")
    }

    impl Rig {
        fn start(cluster: FakeCluster) -> Self {
            let (watches, received) = ReleaseWatches::new(Arc::new(cluster.clone()));
            let rig = Self {
                cluster,
                watches,
                received,
            };
            rig.write(1, "superseded");
            rig.write(2, "deployed");
            rig.watches.follow(WatchedRelease {
                bundle: "b-web".parse().unwrap(),
                account: "deployer".to_owned(),
                target: ReleaseTarget::of(&testing::spec()).unwrap(),
                revision: 2,
            });
            rig
        }

        /// Writes a record as Helm does.
        fn write(&self, number: u32, status: &str) {
            let mut secret = testing::record_secret(number, status, &[]);
            secret["apiVersion"] = json!("v1");
            secret["kind"] = json!("Secret");
            secret["metadata"]["namespace"] = json!("shop");
            let metadata = secret["metadata"].as_object_mut().unwrap();
            metadata.remove("resourceVersion");
            self.cluster.apply_now(&path(number), "helm", &secret);
        }

        async fn next(&mut self) -> Option<ReleaseChange> {
            let received = timeout(Duration::from_secs(60), self.received.recv());
            received.await.unwrap().unwrap().change
        }

        async fn nothing(&mut self) {
            let received = timeout(Duration::from_secs(120), self.received.recv());
            assert!(received.await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn revision_of_somebody_else_is_found_once_it_has_ended() {
        let mut rig = Rig::start(FakeCluster::default());
        rig.nothing().await;
        rig.write(3, "pending-upgrade");
        rig.nothing().await;
        rig.write(2, "superseded");
        rig.write(3, "deployed");
        let begun = Instant::now();
        assert_eq!(rig.next().await, Some(ReleaseChange::Foreign(3)));
        assert!(begun.elapsed() <= QUIET_INTERVAL * 2);
        // Its author takes it back.
        rig.write(2, "deployed");
        rig.cluster.remove(&path(3));
        assert_eq!(rig.next().await, None);
        rig.nothing().await;
    }

    #[tokio::test(start_paused = true)]
    async fn removal_by_hand_is_found() {
        let mut rig = Rig::start(FakeCluster::default());
        rig.nothing().await;
        rig.write(2, "uninstalling");
        rig.nothing().await;
        rig.cluster.remove(&path(2));
        rig.cluster.remove(&path(1));
        assert_eq!(rig.next().await, Some(ReleaseChange::Removed));
        rig.write(2, "uninstalled");
        rig.nothing().await;
    }

    #[tokio::test(start_paused = true)]
    async fn watch_ends_before_a_run() {
        let mut rig = Rig::start(FakeCluster::default());
        rig.nothing().await;
        rig.watches.release(&"b-web".parse().unwrap());
        rig.write(3, "deployed");
        rig.nothing().await;
    }

    #[tokio::test(start_paused = true)]
    async fn account_without_watches_lists_every_ten_minutes() {
        let cluster = FakeCluster::default();
        cluster.set_fault(|verb, _| (verb == "watch").then(|| refused(403, "no watches")));
        let mut rig = Rig::start(cluster);
        rig.nothing().await;
        rig.write(3, "deployed");
        let received = timeout(LIST_INTERVAL * 2, rig.received.recv()).await;
        let change = received.unwrap().unwrap().change;
        assert_eq!(change, Some(ReleaseChange::Foreign(3)));
    }

    #[test]
    fn missing_record_is_told_from_a_removal() {
        let mut records = Records::default();
        assert_eq!(records.judge(2), None);
        let first = testing::record_secret(1, "superseded", &[]);
        records.take(&Notice::Present(&first));
        records.take(&Notice::Listed);
        assert_eq!(records.judge(2), Some(Some(ReleaseChange::RecordGone(2))));
        let sentence = ReleaseChange::RecordGone(2).to_string();
        assert_eq!(sentence, "somebody else deleted the record of revision 2");
    }
}
