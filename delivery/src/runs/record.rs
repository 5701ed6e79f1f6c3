//! Durable form of a run, and its form for people.

use fairlead_api::{
    BundleId, ClusterId, RunId,
    delivery::{ArtifactId, Run, RunOrigin, RunState, SpecId},
};
use fairlead_delivery_store::RunRow;
use fairlead_rollout::{QueuedRun, RunEnd, UnixMillis};
use fairlead_store::StoreError;
use serde::{Deserialize, Serialize};

/// Details of a run: the body of its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunDetails {
    /// Place in the queue; of an agent's own run the same fields without lease.
    pub(super) queued: QueuedRun,
    /// Cause of the run.
    pub(super) origin: RunOrigin,
    /// Person, or `agent`.
    pub(super) created_by: String,
    /// Newest generation of the bundle at that time.
    pub(super) generation: u64,
    /// Spec of a `diff`, and its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<(SpecId, ArtifactId)>,
    /// True: a person has confirmed the blocked step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) confirm: bool,
    /// Last stored step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<String>,
    /// Length of the log at the last result.
    #[serde(default)]
    pub(super) log_bytes: u64,
    /// Sentence of the last result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sentence: Option<String>,
    /// Code of the last result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
}

/// A run with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredRun {
    pub(super) cluster: ClusterId,
    pub(super) bundle: BundleId,
    pub(super) version: u64,
    pub(super) details: RunDetails,
}

impl StoredRun {
    /// Reads a row.
    pub(super) fn of(row: &RunRow) -> Result<Self, StoreError> {
        let damaged = |_| StoreError::Damaged(format!("run {}", row.id));
        Ok(StoredRun {
            cluster: row.cluster.clone(),
            bundle: row.bundle.clone(),
            version: row.version,
            details: serde_json::from_str(&row.body).map_err(damaged)?,
        })
    }

    /// The row with the next version.
    pub(super) fn next_row(&self) -> RunRow {
        RunRow {
            id: self.id().clone(),
            cluster: self.cluster.clone(),
            bundle: self.bundle.clone(),
            state: self.details.queued.state,
            version: self.version + 1,
            // All keys are texts, so the serialization cannot fail.
            body: serde_json::to_string(&self.details).unwrap_or_default(),
        }
    }

    pub(super) fn id(&self) -> &RunId {
        &self.details.queued.id
    }

    /// True for a run that a person made: it is claimed under a lease.
    pub(super) fn is_command(&self) -> bool {
        self.details.origin == RunOrigin::Command
    }

    pub(super) fn state(&self) -> RunState {
        self.details.queued.state
    }

    /// The run as people read it. `step` and `log_bytes` are newer than the stored ones.
    pub(super) fn shown(&self, step: Option<String>, log_bytes: Option<u64>) -> Run {
        let details = &self.details;
        let queued = &details.queued;
        let is_final = queued.state.is_final();
        Run {
            id: queued.id.clone(),
            cluster: self.cluster.clone(),
            bundle: self.bundle.clone(),
            kind: queued.kind,
            origin: details.origin,
            state: queued.state,
            attempt: queued.attempt,
            step: step.or_else(|| details.step.clone()).filter(|_| !is_final),
            created_by: details.created_by.clone(),
            started_at: queued.started_at.map(Into::into),
            finished_at: queued.finished_at.map(Into::into),
            log_bytes: log_bytes.unwrap_or(details.log_bytes),
            result: self.sentence(),
            code: details.code.clone(),
            generation: details.generation,
            confirm: details.confirm,
            next_try: queued.next_try.map(Into::into),
            cancel: queued.cancel.filter(|_| !is_final),
            diff: None,
        }
    }

    /// Outcome in one sentence: the agent's own words first.
    fn sentence(&self) -> Option<String> {
        let details = &self.details;
        let end = details.queued.end.as_ref();
        let end = end.filter(|it| **it != RunEnd::Reported);
        match (&details.sentence, end) {
            (Some(sentence), Some(end)) => Some(format!("{sentence} ({end})")),
            (Some(sentence), None) => Some(sentence.clone()),
            (None, end) => end.map(ToString::to_string),
        }
    }
}

/// A run without attempts.
pub(super) fn first(
    id: RunId,
    kind: fairlead_api::delivery::RunKind,
    now: UnixMillis,
) -> QueuedRun {
    QueuedRun {
        id,
        kind,
        priority: 0,
        created_at: now,
        deadline: None,
        state: RunState::Queued,
        attempt: 0,
        lease_until: None,
        next_try: None,
        cancel: None,
        accepted: None,
        started_at: None,
        finished_at: None,
        end: None,
    }
}
