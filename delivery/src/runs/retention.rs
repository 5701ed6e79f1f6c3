//! Retention: logs for 14 days and 2 GiB together, runs for 90 days. The leading hub does this.
//!
//! Each deployment keeps 20 ended runs at most. That limit is applied when a run is added.

use std::time::Duration;

use fairlead_api::{RunId, delivery::RunState};
use fairlead_rollout::{LogAge, LogLimits, UnixMillis, expired_logs, run_created_at};
use fairlead_runtime::Process;
use fairlead_store::StoreError;
use tokio::time::sleep;
use tracing::{info, warn};

use super::Runs;

/// Time for which ended runs are kept.
const MAX_RUN_AGE: Duration = Duration::from_secs(90 * 86_400);
const TRIM_INTERVAL: Duration = Duration::from_secs(3600);
/// Number of runs that one statement deletes.
const RUNS_PER_DELETION: u32 = 1000;

impl Runs {
    /// Deletes old runs and logs until the hub drains.
    pub(crate) async fn trim(&self, process: &Process) {
        loop {
            tokio::select! {
                () = process.draining() => return,
                () = sleep(TRIM_INTERVAL) => {}
            }
            if !self.parts.store.leads() {
                continue;
            }
            if let Err(error) = self.forget_old(LogLimits::default()).await {
                warn!(%error, "old runs and logs not deleted");
            }
        }
    }

    /// Deletes runs and logs beyond the limits.
    pub(super) async fn forget_old(&self, limits: LogLimits) -> Result<(), StoreError> {
        let now = self.now();
        let oldest = now.0.saturating_sub(millis(MAX_RUN_AGE));
        let before = RunId::from_parts(oldest, [0; 10]);
        let mut runs = 0;
        loop {
            let gone = self.parts.runs.forget(&before, RUNS_PER_DELETION).await?;
            runs += gone;
            if gone < u64::from(RUNS_PER_DELETION) {
                break;
            }
        }
        let logs = self.expired(now, limits).await?;
        for run in &logs {
            self.parts.logs.forget(run).await?;
        }
        if runs > 0 || !logs.is_empty() {
            info!(runs, logs = logs.len(), "old runs and logs deleted");
        }
        Ok(())
    }

    /// Runs whose logs are beyond the limits. The age of a log is that of its run's begin.
    async fn expired(&self, now: UnixMillis, limits: LogLimits) -> Result<Vec<RunId>, StoreError> {
        let sizes = self.parts.logs.sizes().await?;
        let mut ages = Vec::with_capacity(sizes.len());
        for (run, bytes) in sizes {
            let row = self.parts.runs.get(&run).await?;
            let state = row.map_or(RunState::Unknown, |it| it.state);
            let created_at = run_created_at(&run);
            ages.push(LogAge {
                ended_at: state.is_final().then_some(created_at),
                run,
                bytes,
            });
        }
        Ok(expired_logs(ages, now, limits))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
