//! Reports of agents about runs: begin, signs of life, results. Cancellation by people.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use aws_lc_rs::digest::{SHA256, digest};
use fairlead_api::{
    ClusterId, RunId,
    delivery::{
        AgentRun, AgentRunReceipt, ArtifactId, CancelMode, RunHeartbeat, RunKind, RunLeaseStatus,
        RunOutcome,
    },
};
use fairlead_bundle::canonical_json;
use fairlead_rollout::{
    AttemptResult, LEASE_DURATION, ResultReceipt, ResultRefusal, StopReason, UnixMillis,
};
use fairlead_store::StoreError;

use super::{
    Runs,
    claim::lease_seconds,
    open::OpenRuns,
    own,
    record::{RunDetails, StoredRun},
    refusal::RunRefusal,
};

/// Maximum length of a step in characters.
const MAX_STEP_CHARS: usize = 200;
/// Maximum length of a sentence in characters.
const MAX_SENTENCE_CHARS: usize = 2000;
/// Number of runs whose newest step is in memory.
const MAX_STEPS: usize = 10_000;

/// Newest steps of runs at this hub. Rows have older ones, because a step alone is not written.
#[derive(Default)]
pub(super) struct ReportedSteps(Mutex<HashMap<RunId, String>>);

impl ReportedSteps {
    fn set(&self, run: &RunId, step: Option<String>) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Some(step) if steps.len() < MAX_STEPS || steps.contains_key(run) => {
                steps.insert(run.clone(), step);
            }
            Some(_) => {}
            None => {
                steps.remove(run);
            }
        }
    }

    pub(super) fn of(&self, run: &RunId) -> Option<String> {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.get(run).cloned()
    }
}

/// One line without control characters, at most this long.
fn line(text: &str, max_chars: usize) -> String {
    let chars = text.chars().filter(|it| !it.is_control());
    chars.take(max_chars).collect()
}

impl Runs {
    /// A run of this cluster.
    pub(super) async fn of_cluster(
        &self,
        cluster: &ClusterId,
        id: &RunId,
    ) -> Result<StoredRun, RunRefusal> {
        let row = self.parts.runs.get(id).await?;
        let row = row.filter(|it| it.cluster == *cluster);
        let row = row.ok_or_else(|| RunRefusal::Gone(id.clone()))?;
        Ok(StoredRun::of(&row)?)
    }

    /// A run of this cluster, and the length of its log.
    pub(super) async fn of_cluster_with_log(
        &self,
        cluster: &ClusterId,
        id: &RunId,
    ) -> Result<(StoredRun, u64), RunRefusal> {
        let found = self.parts.runs.get_with_log(id).await?;
        let found = found.filter(|(row, _)| row.cluster == *cluster);
        let (row, log) = found.ok_or_else(|| RunRefusal::Gone(id.clone()))?;
        Ok((StoredRun::of(&row)?, log))
    }

    /// Records the begin of an agent's own run.
    pub(super) async fn register(
        &self,
        cluster: &ClusterId,
        id: &RunId,
        sent: &AgentRun,
    ) -> Result<AgentRunReceipt, RunRefusal> {
        let registered = self.record((cluster, &sent.bundle), id, |open, now| {
            let is_new = open.get(id).is_none();
            own::register(open, now, (cluster, id), sent).map(|()| is_new)
        });
        let registered = match registered.await {
            // Another deployment has a run of this id, or the cluster is gone.
            Err(StoreError::Missing) if self.parts.runs.get(id).await?.is_some() => {
                return Err(RunRefusal::Gone(id.clone()));
            }
            registered => registered?,
        };
        let is_new = registered.map_err(|reason| RunRefusal::of_stop(id, reason))?;
        let log_offset = match is_new {
            true => 0,
            false => self.parts.logs.length(id).await?,
        };
        Ok(AgentRunReceipt { log_offset })
    }

    /// Takes a sign of life, and returns the time until the next one is due.
    pub(super) async fn heartbeat(
        &self,
        cluster: &ClusterId,
        id: &RunId,
        sent: &RunHeartbeat,
    ) -> Result<RunLeaseStatus, RunRefusal> {
        let run = self.of_cluster(cluster, id).await?;
        let step = sent.step.as_deref().map(|it| line(it, MAX_STEP_CHARS));
        let status = self.renew(&run, sent.attempt, step.as_deref()).await?;
        if step.is_some() {
            self.steps.set(id, step);
            self.announce();
        }
        Ok(status)
    }

    /// Renews the lease of an attempt. Nothing is written while the lease is fresh.
    pub(super) async fn renew(
        &self,
        run: &StoredRun,
        attempt: u32,
        step: Option<&str>,
    ) -> Result<RunLeaseStatus, RunRefusal> {
        let id = run.id();
        let stop = |reason: StopReason| RunRefusal::of_stop(id, reason);
        if !run.is_command() {
            own::check_attempt(run, attempt).map_err(stop)?;
            return Ok(RunLeaseStatus {
                lease_seconds: u32::try_from(LEASE_DURATION.as_secs()).unwrap_or(u32::MAX),
                cancel: run.details.queued.cancel,
            });
        }
        let renew = |open: &mut OpenRuns, now| {
            let renewal = open.with_queue(|queue| queue.renew(now, id, attempt, step.is_some()))?;
            Ok::<_, StopReason>(RunLeaseStatus {
                lease_seconds: lease_seconds(renewal.until, now),
                cancel: renewal.cancel,
            })
        };
        let mut trial = OpenRuns::of(vec![run.next_row()])?;
        let status = renew(&mut trial, self.now());
        if trial.is_unchanged() {
            return status.map_err(stop);
        }
        let renewed = self.change((&run.cluster, &run.bundle), Some(id), |open, now| {
            let status = renew(open, now)?;
            if let Some(step) = step {
                open.amend(id, |details| details.step = Some(step.to_owned()));
            }
            Ok(status)
        });
        renewed.await?.map_err(stop)
    }

    /// Takes the result of an attempt.
    pub(super) async fn finish(
        &self,
        cluster: &ClusterId,
        id: &RunId,
        sent: &RunOutcome,
    ) -> Result<ResultReceipt, RunRefusal> {
        let (run, stored_log) = self.of_cluster_with_log(cluster, id).await?;
        let result = AttemptResult {
            outcome: sent.outcome,
            digest: digest_of(sent),
            log_bytes: sent.log_bytes,
        };
        let attempt = sent.attempt;
        let decide = |open: &mut OpenRuns, now: UnixMillis| {
            let receipt = match run.is_command() {
                true => open.with_queue(|it| it.finish(now, id, attempt, &result, stored_log)),
                false => own::finish(open, now, id, (attempt, &result, stored_log)),
            }?;
            if receipt == ResultReceipt::Accepted {
                open.amend(id, |details| details.take_result(sent, stored_log));
            }
            Ok::<_, ResultRefusal>(receipt)
        };
        let mut trial = OpenRuns::of(vec![run.next_row()])?;
        let counts = decide(&mut trial, self.now()).is_ok();
        let is_diff = run.details.queued.kind == RunKind::Diff;
        if let Some(diff) = sent.diff.as_ref().filter(|_| counts && is_diff) {
            let json = serde_json::to_vec(diff).unwrap_or_default();
            // Before the result: an accepted one has its differences.
            self.parts.logs.put_diff(id, &json).await?;
        }
        let deployment = (cluster, &run.bundle);
        let receipt = match run.is_command() {
            true => self.change(deployment, Some(id), decide).await?,
            false => self.record(deployment, id, decide).await?,
        };
        let receipt = receipt.map_err(|refusal| RunRefusal::of_result(id, refusal))?;
        self.steps.set(id, None);
        Ok(receipt)
    }

    /// Cancels a run. `None` if it is gone.
    pub(super) async fn cancel(
        &self,
        run: &StoredRun,
        mode: CancelMode,
    ) -> Result<Result<StoredRun, StopReason>, StoreError> {
        let id = run.id();
        let cancelled = self.change((&run.cluster, &run.bundle), Some(id), |open, now| {
            match run.is_command() {
                true => open.with_queue(|queue| queue.cancel(now, id, mode))?,
                false => {
                    let state = open.get(id).map(StoredRun::state);
                    let state = state.ok_or(StopReason::NoSuchRun)?;
                    if state.is_final() {
                        return Err(StopReason::Ended(state));
                    }
                    open.amend(id, |it| it.queued.cancel = it.queued.cancel.max(Some(mode)));
                }
            }
            open.get(id).cloned().ok_or(StopReason::NoSuchRun)
        });
        cancelled.await
    }
}

impl RunDetails {
    fn take_result(&mut self, sent: &RunOutcome, stored_log: u64) {
        let sentence = sent.sentence.as_deref();
        self.sentence = sentence.map(|it| line(it, MAX_SENTENCE_CHARS));
        self.code = sent.code.as_deref().map(|it| line(it, MAX_STEP_CHARS));
        self.log_bytes = stored_log;
    }
}

/// Digest of the whole content of a result.
fn digest_of(outcome: &RunOutcome) -> String {
    let value = serde_json::to_value(outcome).unwrap_or_default();
    ArtifactId::of_sha256(&sha256(&canonical_json(&value))).to_string()
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    // A SHA-256 has 32 bytes.
    digest(&SHA256, bytes)
        .as_ref()
        .try_into()
        .unwrap_or_default()
}
