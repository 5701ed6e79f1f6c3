//! Claims of agents.

use std::cmp::Reverse;

use fairlead_api::{
    BundleId, ClusterId,
    delivery::{ClaimedRun, RunOrigin, RunState},
};
use fairlead_delivery_store::{RunFilter, RunRow};
use fairlead_rollout::{LEASE_DURATION, UnixMillis};
use fairlead_store::StoreError;

use super::{Runs, open::OpenRuns, record::StoredRun};

/// States of commands that an agent works on or may claim.
pub(super) const OPEN_STATES: [RunState; 3] =
    [RunState::Queued, RunState::Leased, RunState::Running];
/// Maximum number of waiting commands of a cluster that one claim reads.
const MAX_WAITING: u32 = 1000;

impl Runs {
    /// Leases the next command of a cluster to its agent; `None` if nothing is claimable.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(super) async fn claim(
        &self,
        cluster: &ClusterId,
    ) -> Result<Option<ClaimedRun>, StoreError> {
        for bundle in self.claimable_bundles(cluster).await? {
            let claimed = self.change((cluster, &bundle), None, |open, now| {
                let lease = open.with_queue(|queue| queue.claim(now))?;
                let run = open.get(&lease.run)?;
                Some(claimed(run, lease.until.since(now).as_secs()))
            });
            if let Some(mut claimed) = claimed.await? {
                claimed.log_offset = self.parts.logs.length(&claimed.run).await?;
                return Ok(Some(claimed));
            }
        }
        Ok(None)
    }

    /// Bundles with a claimable command, in the order of the claims.
    async fn claimable_bundles(&self, cluster: &ClusterId) -> Result<Vec<BundleId>, StoreError> {
        let now = self.now();
        let filter = RunFilter {
            cluster: Some(cluster.clone()),
            states: OPEN_STATES.to_vec(),
            ..RunFilter::default()
        };
        let waiting = self.parts.runs.list(&filter, MAX_WAITING).await?;
        let mut due = Vec::new();
        for row in waiting {
            let run = StoredRun::of(&row)?;
            let queued = &run.details.queued;
            let is_queued = queued.state == RunState::Queued;
            let may_begin = is_queued && queued.next_try.is_none_or(|at| at <= now);
            // A lease that was lost lapses in the claim.
            if may_begin || is_overdue(&row, now)? {
                due.push((Reverse(queued.priority), queued.created_at, run.bundle));
            }
        }
        due.sort();
        let mut bundles: Vec<BundleId> = Vec::new();
        for (_, _, bundle) in due {
            if !bundles.contains(&bundle) {
                bundles.push(bundle);
            }
        }
        Ok(bundles)
    }

    /// Runs of a deployment that have not ended.
    pub(super) async fn open_of(
        &self,
        cluster: &ClusterId,
        bundle: &BundleId,
    ) -> Result<OpenRuns, StoreError> {
        let filter = RunFilter {
            cluster: Some(cluster.clone()),
            bundle: Some(bundle.clone()),
            states: OPEN_STATES.to_vec(),
            ..RunFilter::default()
        };
        OpenRuns::of(self.parts.runs.list(&filter, MAX_WAITING).await?)
    }
}

fn claimed(run: &StoredRun, lease_seconds: u64) -> ClaimedRun {
    let details = &run.details;
    ClaimedRun {
        run: run.id().clone(),
        bundle: run.bundle.clone(),
        kind: details.queued.kind,
        attempt: details.queued.attempt,
        lease_seconds: u32::try_from(lease_seconds).unwrap_or(u32::MAX),
        generation: details.generation,
        spec: details.content.as_ref().map(|(spec, _)| spec.clone()),
        confirm: details.confirm,
        created_by: details.created_by.clone(),
        log_offset: 0,
    }
}

/// True for a command whose lease has lapsed, or that nobody has claimed in time.
pub(super) fn is_overdue(row: &RunRow, now: UnixMillis) -> Result<bool, StoreError> {
    let run = StoredRun::of(row)?;
    let queued = &run.details.queued;
    let lapses = queued.lease_until;
    let lapses = lapses.map(|until| until + fairlead_rollout::TAKEOVER_DELAY);
    let deadline = queued.deadline.filter(|_| queued.state == RunState::Queued);
    let is_due = |at: Option<UnixMillis>| at.is_some_and(|at| at <= now);
    Ok(run.details.origin == RunOrigin::Command && (is_due(lapses) || is_due(deadline)))
}

/// Seconds of a fresh lease.
pub(super) fn lease_seconds(until: UnixMillis, now: UnixMillis) -> u32 {
    let left = until.since(now).min(LEASE_DURATION);
    u32::try_from(left.as_secs()).unwrap_or(0)
}
