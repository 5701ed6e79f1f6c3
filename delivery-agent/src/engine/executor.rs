//! Interface between the engine and the executors of manifests and Helm charts.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use fairlead_api::{
    BundleId, RunId,
    delivery::{CancelMode, RunDiff, Spec, SpecId},
};
use fairlead_manifests::{Inventory, ObjectKey, ObjectKind, drift::Baseline};
use secrecy::{SecretSlice, SecretString};
use serde_json::Value;
use tokio::sync::watch;

use super::{failure::RunFailure, log::RunLog, site::SiteLimits};
use crate::{
    content::ContentCache,
    fence::RunToken,
    journal::{Journal, JournalRecord, PendingRun},
    kube::{Discovery, KubeClient},
};

/// One attempt of a run, as an executor gets it. The fence is up: no earlier attempt has effects any more.
pub struct RunContext {
    /// Id of the run.
    pub run: RunId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Generation of the bundle.
    pub generation: u64,
    /// Content and options.
    pub spec: Arc<Spec>,
    /// Name of the spec.
    pub spec_id: SpecId,
    /// True: a person allowed the work that was blocked.
    pub confirmed: bool,
    /// Client with the token of the run.
    pub kube: KubeClient,
    /// The token, for programs.
    pub token: RunToken,
    /// User of the token, like `system:serviceaccount:fairlead-delivery:deployer`.
    pub user: String,
    /// Kinds of the cluster.
    pub discovery: Discovery,
    /// Artifacts of the hub.
    pub content: ContentCache,
    /// Journal of the deployment. Write each step before it begins.
    pub journal: Journal,
    /// Run that ended without a note, found in the journal.
    pub interrupted: Option<PendingRun>,
    /// Log of the run.
    pub log: RunLog,
    /// Order to end the run.
    pub cancel: CancelSignal,
    /// Values of Secrets that the spec names.
    pub secrets: SecretValues,
    /// Limits of the site.
    pub site: Arc<SiteLimits>,
}

/// Values of Secrets, read with the token of the run. They never leave the cluster.
#[derive(Debug, Clone, Default)]
pub struct SecretValues {
    /// By name of the variable after `vars.`, for `Secret` objects, which can hold bytes that are no text.
    pub vars: BTreeMap<String, SecretSlice<u8>>,
    /// By path after `values.`, for Helm releases.
    pub values: Vec<(String, SecretString)>,
}

/// Reader of the Secrets that a spec names.
#[async_trait]
pub trait SecretReader: Send + Sync {
    /// Reads them with the token of a run.
    ///
    /// # Errors
    /// A missing or forbidden Secret, as a failure of the class `Waiting`.
    async fn read(&self, kube: &KubeClient, spec: &Spec) -> Result<SecretValues, RunFailure>;
}

impl RunContext {
    /// The bundle.
    #[must_use]
    pub fn bundle(&self) -> &BundleId {
        &self.spec.bundle
    }

    /// Notes a step in the journal and in the log; the step begins after this.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn begin_step(&self, step: &str) -> Result<(), RunFailure> {
        self.cancel.check()?;
        self.journal.set_step(step, None).await?;
        self.log.set_step(step);
        Ok(())
    }
}

/// Order to end a run. Clones share it.
#[derive(Debug, Clone)]
pub struct CancelSignal {
    receiver: watch::Receiver<Option<CancelMode>>,
}

impl CancelSignal {
    /// A signal, and its sender. A sender that was dropped cancels nothing.
    #[must_use]
    pub fn new() -> (watch::Sender<Option<CancelMode>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self { receiver })
    }

    /// The order, if there is one.
    #[must_use]
    pub fn mode(&self) -> Option<CancelMode> {
        *self.receiver.borrow()
    }

    /// Ends the run between two steps.
    ///
    /// # Errors
    /// [`RunFailure`] of the class `Cancelled` after an order.
    pub fn check(&self) -> Result<(), RunFailure> {
        match self.mode() {
            None => Ok(()),
            Some(_) => Err(RunFailure::cancelled()),
        }
    }

    /// Waits for an order.
    pub async fn cancelled(&self) -> CancelMode {
        let mut receiver = self.receiver.clone();
        let order = receiver.wait_for(Option::is_some).await.map(|it| *it);
        match order {
            Ok(Some(mode)) => mode,
            _ => std::future::pending().await,
        }
    }

    /// Waits for an order to end at once.
    pub async fn cancelled_hard(&self) {
        let mut receiver = self.receiver.clone();
        let is_hard = |mode: &Option<CancelMode>| *mode == Some(CancelMode::Hard);
        let is_cancelled = receiver.wait_for(is_hard).await.is_ok();
        if !is_cancelled {
            std::future::pending().await
        }
    }
}

/// An object in the cluster, as it was applied last.
#[derive(Debug, Clone)]
pub struct AppliedObject {
    /// Identity.
    pub key: ObjectKey,
    /// API group, version and kind.
    pub kind: ObjectKind,
    /// The applied object. It may hold values of Secrets.
    pub manifest: Value,
    /// State to compare with, from the answer to the apply.
    pub baseline: Option<Arc<Baseline>>,
}

/// Result of a successful run of the kind `sync`.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// Objects in the cluster, in the order of their stages.
    pub objects: Vec<AppliedObject>,
    /// Inventory after the run; objects that wait for a confirmation are still in it.
    pub inventory: Inventory,
    /// Sentence about work that waits for a person, like a deletion.
    pub blocked: Option<String>,
}

/// Executor of one kind of bundles.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Brings the objects of the spec into the cluster. The engine waits for their health afterwards.
    ///
    /// # Errors
    /// [`RunFailure`].
    async fn sync(&self, run: &RunContext) -> Result<Applied, RunFailure>;

    /// Deletes the objects of the deployment.
    ///
    /// # Errors
    /// [`RunFailure`].
    async fn remove(&self, run: &RunContext) -> Result<(), RunFailure>;

    /// Compares the spec with the cluster, writes a diff for people into the log, and changes nothing.
    ///
    /// # Errors
    /// [`RunFailure`].
    async fn diff(&self, run: &RunContext) -> Result<RunDiff, RunFailure>;

    /// True if the bundle wants [`Executor::roll_back`] for objects that do not become ready.
    fn rolls_back(&self, _spec: &Spec) -> bool {
        false
    }

    /// Returns to the applied content in the journal, because the objects of the run did not become ready in time. The
    /// result is the failure of the run, and its cause is `failure`; none without a content to return to.
    async fn roll_back(&self, _run: &RunContext, _failure: RunFailure) -> Option<RunFailure> {
        None
    }

    /// Ends programs of earlier attempts, which can outlive the agent. False if one may still run.
    async fn end_programs(&self, _record: &JournalRecord) -> bool {
        true
    }
}
