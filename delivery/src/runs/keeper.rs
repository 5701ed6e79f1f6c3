//! Time of commands: lost leases lapse, deadlines pass, and clusters learn how many commands wait.
//!
//! Each hub does this. A second one finds the work done, because each change is decided in its turn.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairlead_api::{BundleId, ClusterId, delivery::RunState};
use fairlead_delivery_store::{RunFilter, RunRow};
use fairlead_rollout::UnixMillis;
use fairlead_runtime::Process;
use fairlead_store::StoreError;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use super::{Runs, claim::is_overdue, own, record::StoredRun};

/// Interval at which a hub on a shared database looks for commands of other hubs.
const SHARED_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which lost leases are looked for.
const LEASE_POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Interval of a poll without any event.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Changes within this time are processed together.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// Number of rows per read.
const ROWS_PER_READ: u32 = 1000;

impl Runs {
    /// Keeps the commands until the hub drains.
    pub(crate) async fn keep(&self, process: &Process) {
        let mut leases = Instant::now();
        while !process.is_draining() {
            let wake = self.refresh().await.unwrap_or_else(|error| {
                warn!(%error, "commands not counted");
                Some(SHARED_POLL_INTERVAL)
            });
            if leases <= Instant::now() {
                leases = Instant::now() + LEASE_POLL_INTERVAL;
                if let Err(error) = self.lapse().await {
                    warn!(%error, "lost leases not found");
                }
            }
            let most = match self.parts.store.is_shared() {
                true => SHARED_POLL_INTERVAL,
                false => IDLE_POLL_INTERVAL,
            };
            let wake = Instant::now() + wake.unwrap_or(most).min(most);
            tokio::select! {
                () = process.draining() => {}
                () = sleep_until(wake.min(leases)) => {}
                () = self.kept.notified() => sleep(BATCH_DELAY).await,
            }
        }
        let _ = self.draining.send(true);
    }

    /// Counts the claimable commands of each cluster. Returns the time until the next one becomes claimable.
    pub(super) async fn refresh(&self) -> Result<Option<Duration>, StoreError> {
        let now = self.now();
        let mut counts: BTreeMap<ClusterId, u32> = BTreeMap::new();
        let mut wake: Option<UnixMillis> = None;
        let queued = self.rows(&[RunState::Queued]).await?;
        for (cluster, bundle) in deployments(&queued) {
            let mut open = self.open_of(&cluster, &bundle).await?;
            let is_gone = self.parts.store.view().bundle(&bundle).is_none();
            if is_gone && open.iter().any(is_withdrawn) {
                self.withdraw(&cluster, &bundle).await?;
                open = self.open_of(&cluster, &bundle).await?;
            }
            if open.queue().has_claimable(now) {
                *counts.entry(cluster).or_default() += 1;
            }
            let next = open.queue().wake(now);
            wake = [wake, next].into_iter().flatten().min();
        }
        self.waiting.set(counts);
        // A lapse is found by its own poll.
        Ok(wake.map(|at| at.since(now).max(BATCH_DELAY)))
    }

    /// Cancels queued commands of a deleted bundle.
    async fn withdraw(&self, cluster: &ClusterId, bundle: &BundleId) -> Result<(), StoreError> {
        let withdrawn = self.change((cluster, bundle), None, |open, now| {
            let runs = open.iter().filter(|it| is_withdrawn(it));
            let ids: Vec<_> = runs.map(|it| it.id().clone()).collect();
            for id in &ids {
                open.with_queue(|queue| queue.withdraw(now, id));
            }
        });
        withdrawn.await?;
        info!(%cluster, %bundle, "commands of a deleted bundle cancelled");
        Ok(())
    }

    /// Ends lost leases, passed deadlines, and runs of agents that work on them no more.
    pub(super) async fn lapse(&self) -> Result<(), StoreError> {
        let now = self.now();
        let wait = u64::try_from(own::RESULT_WAIT.as_millis()).unwrap_or(u64::MAX);
        let result_due = UnixMillis(now.0.saturating_sub(wait));
        let (mut overdue, mut silent) = (Vec::new(), Vec::new());
        for row in self.rows(&super::claim::OPEN_STATES).await? {
            if is_overdue(&row, now)? {
                overdue.push(row);
            } else if own::began_before(&StoredRun::of(&row)?, result_due) {
                silent.push(row);
            }
        }
        let lost = self.parts.fleet.read(|fleet| {
            silent.retain(|it| fleet.is_idle_since((&it.cluster, &it.bundle), &it.id, result_due));
            silent
        });
        for row in lost.await? {
            let ended = self.change((&row.cluster, &row.bundle), None, |open, now| {
                own::end_lost(open, now, &row.id);
            });
            ended.await?;
            info!(cluster = %row.cluster, run = %row.id, "run without a result ended");
        }
        for (cluster, bundle) in deployments(&overdue) {
            let ticked = self.change((&cluster, &bundle), None, |open, now| open.tick(now));
            ticked.await?;
            info!(%cluster, %bundle, "overdue command ended or queued again");
        }
        Ok(())
    }

    /// All rows in these states.
    async fn rows(&self, states: &[RunState]) -> Result<Vec<RunRow>, StoreError> {
        let mut filter = RunFilter {
            states: states.to_vec(),
            ..RunFilter::default()
        };
        let mut all = Vec::new();
        loop {
            let page = self.parts.runs.list(&filter, ROWS_PER_READ).await?;
            let is_last = page.len() < usize::try_from(ROWS_PER_READ).unwrap_or(usize::MAX);
            filter.before = page.last().map(|it| it.id.clone());
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }
}

fn deployments(rows: &[RunRow]) -> BTreeSet<(ClusterId, BundleId)> {
    let rows = rows.iter();
    rows.map(|it| (it.cluster.clone(), it.bundle.clone()))
        .collect()
}

/// True for a command that ends with its bundle. A comparison stays: it has content of its own, as that of a new bundle.
fn is_withdrawn(run: &StoredRun) -> bool {
    run.state() == RunState::Queued && run.details.content.is_none()
}
