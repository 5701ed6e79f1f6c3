//! Executor of bundles with the kind `helm`: the real Helm in the runner, judged by the records of its releases.
//!
//! ```text
//! sync, rollback, remove   runs
//! decide                   first step of a run after any kill
//! release, program         one program: noted in the journal, followed, judged
//! records, note            Helm's records, and what the journal says about them
//! chart, values            files for Helm
//! definitions              custom resource definitions
//! render, objects          objects of a release
//! kept                     ignored fields, which keep their live values
//! leftovers                objects of failed revisions, deleted after a success
//! failure                  one sentence and a code for each failure
//! watch                    revisions of somebody else between runs
//! ```

mod chart;
mod decide;
mod definitions;
mod failure;
mod kept;
mod leftovers;
mod note;
mod objects;
mod program;
mod records;
mod release;
mod remove;
mod render;
mod rollback;
mod sync;
mod target;
#[cfg(test)]
mod testing;
mod values;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::delivery::{RunDiff, Spec};
use fairlead_apiserver::Upstream;
use fairlead_runner::Runner;

use self::release::Release;
pub(crate) use self::watch::{ReleaseChange, ReleaseFinding, ReleaseWatches, WatchedRelease};
pub use self::{
    kept::post_render,
    note::{HelmNote, HelmStep, HelmWork, RunnerMark},
    target::ReleaseTarget,
};
use crate::{
    engine::{Applied, Executor, RunContext, RunFailure},
    journal::JournalRecord,
};

/// Executor of bundles with the kind `helm`. Clones share the runner.
#[derive(Clone)]
pub struct HelmExecutor {
    runner: Runner,
    upstream: Arc<Upstream>,
}

impl HelmExecutor {
    /// Executor with this runner. `upstream` knows the address of the API server.
    #[must_use]
    pub fn new(runner: Runner, upstream: Arc<Upstream>) -> Self {
        Self { runner, upstream }
    }

    fn release<'a>(&'a self, run: &'a RunContext) -> Result<Release<'a>, RunFailure> {
        Release::of(run, &self.runner, &self.upstream)
    }
}

#[async_trait]
impl Executor for HelmExecutor {
    async fn sync(&self, run: &RunContext) -> Result<Applied, RunFailure> {
        Box::pin(self.release(run)?.sync()).await
    }

    async fn remove(&self, run: &RunContext) -> Result<(), RunFailure> {
        Box::pin(self.release(run)?.remove()).await
    }

    async fn diff(&self, run: &RunContext) -> Result<RunDiff, RunFailure> {
        Box::pin(self.release(run)?.diff()).await
    }

    fn rolls_back(&self, spec: &Spec) -> bool {
        rollback::is_wanted(spec)
    }

    async fn roll_back(&self, run: &RunContext, failure: RunFailure) -> Option<RunFailure> {
        let release = match self.release(run) {
            Ok(release) => release,
            Err(error) => return Some(error),
        };
        Box::pin(release.roll_back_unready(failure)).await
    }

    async fn end_programs(&self, record: &JournalRecord) -> bool {
        match &record.helm.step {
            Some(step) => program::end(&self.runner, step).await,
            None => true,
        }
    }
}
