//! Record of a journal: generations, pending run, retries.

use fairlead_api::{
    BundleId, Code, RunId,
    delivery::{RunKind, RunOrigin, SpecId},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{
    drift::RollbackNote,
    engine::{FailureClass, RunFailure},
    fence::LockPlace,
    helm::HelmNote,
    process::ProcessIdentity,
};

/// Generations, pending run and retries of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JournalRecord {
    /// The bundle.
    pub bundle: Option<BundleId>,
    /// Random name of the process that wrote last.
    pub writer: String,
    /// Highest generation that this cluster has accepted. A lower one is refused.
    pub highest: u64,
    /// Spec to apply.
    pub accepted: Option<AcceptedSpec>,
    /// Spec of the objects in the cluster.
    pub applied: Option<AcceptedSpec>,
    /// True if the objects of the applied spec have never been ready: no failed upgrade returns to them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_ready: bool,
    /// Run that has begun, and has not ended.
    pub pending: Option<PendingRun>,
    /// Failed attempts of the accepted spec.
    pub retry: RetryState,
    /// Release of a bundle with the kind `helm`.
    pub helm: HelmNote,
    /// Last run.
    pub last_run: Option<RunId>,
    /// Generation of the tombstone whose removal has begun.
    pub removing: Option<u64>,
    /// The hub's order not to correct the objects; none while it names the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standstill: Option<Standstill>,
    /// True: the hub did not name the bundle for a time, so the objects may be others. The next run clears it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_apply: bool,
    /// Returns to the last good state, of a deployment with the policy `repair`.
    #[serde(skip_serializing_if = "RollbackNote::is_empty")]
    pub rollbacks: RollbackNote,
    /// Place of the packed content.
    pub(crate) parts: Option<super::content::ContentParts>,
    /// Cause of unreadable content.
    #[serde(skip)]
    pub damage: Option<String>,
}

/// Order of the hub not to correct the objects of a deployment. A restarted agent follows it before it reaches the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standstill {
    /// The hub does not name the bundle any more: its objects belong to nobody.
    NotTargeted,
    /// The hub suspends the deployment.
    Suspended,
}

/// A generation and its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedSpec {
    /// Generation.
    pub generation: u64,
    /// Spec.
    pub spec: SpecId,
}

/// A run that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRun {
    /// Id.
    pub run: RunId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Work.
    pub kind: RunKind,
    /// Cause.
    pub origin: RunOrigin,
    /// Generation of the work.
    pub generation: u64,
    /// Step that began last.
    pub step: String,
    /// Lock of the attempt.
    pub lock: LockPlace,
    /// Process of the attempt.
    pub process: ProcessIdentity,
    /// Start of the attempt.
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
}

/// Failed attempts of the accepted spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryState {
    /// Number of failed attempts.
    pub failed: u32,
    /// Number of attempts before the last one that had to wait for the same.
    pub waited: u32,
    /// Earliest time of the next attempt.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_try: Option<OffsetDateTime>,
    /// Failure of the last attempt.
    pub failure: Option<StoredFailure>,
}

/// Failure of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFailure {
    /// Consequence.
    pub class: FailureClass,
    /// Code, like `FL-6201`.
    pub code: String,
    /// Sentence.
    pub sentence: String,
}

impl From<&RunFailure> for StoredFailure {
    fn from(failure: &RunFailure) -> Self {
        Self {
            class: failure.class,
            code: failure.code.to_string(),
            sentence: failure.sentence.clone(),
        }
    }
}

impl StoredFailure {
    /// Code; that of an internal error for a code of a newer agent.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code.parse().unwrap_or(Code::Internal)
    }
}
