//! Access to the API server as the accounts of deployments, and the lock of corrections.

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::{BundleId, RunId, delivery::DriftedObject};

use super::api::ObjectApi;

/// Reason for a missing client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Another run works on the deployment, or corrections pause. Try again later.
    #[error("another run works on the deployment")]
    Busy,
    /// No token.
    #[error("{0}")]
    Unavailable(String),
}

/// End of a correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorrectionOutcome {
    /// All objects are as the bundle has them.
    Corrected,
    /// Some objects could not be corrected.
    Incomplete,
}

/// A run that corrects objects of one deployment. Nobody else changes the deployment meanwhile.
#[async_trait]
pub trait CorrectionRun: Send {
    /// API server, with the token of this run.
    fn api(&self) -> Arc<dyn ObjectApi>;

    /// Ends the run; its token ends with it. `sentence` is its result. Returns its id, if the hub knows it. Dropping a run
    /// without this call must end it, too.
    async fn end(self: Box<Self>, outcome: CorrectionOutcome, sentence: &str) -> Option<RunId>;
}

/// Source of clients. The engine implements it.
#[async_trait]
pub trait DriftAccess: Send + Sync {
    /// API server as an account, for reads, watches and dry runs: `NAME` in `fairlead-delivery`, or `NAMESPACE/NAME`.
    /// A watch outlives its token, so that a client is requested before each watch and each group of reads.
    async fn observer(&self, account: &str) -> Result<Arc<dyn ObjectApi>, AccessError>;

    /// Begins a run with origin `drift`. Without objects it only takes ownership back, and needs no record.
    async fn begin_correction(
        &self,
        bundle: &BundleId,
        objects: &[DriftedObject],
    ) -> Result<Box<dyn CorrectionRun>, AccessError>;
}
