//! Run of the kind `remove`: `helm uninstall`, after a tombstone. Custom resource definitions stay, as with Helm.

use fairlead_api::Code;
use fairlead_runner::{
    Operation, Uninstall,
    release::{Judgement, Revision, judge},
};

use super::{note::HelmWork, program, release::Release, sync::attempt};
use crate::engine::{FailureClass, RunFailure};

impl Release<'_> {
    /// Removes the release. One that no run of this bundle has made stays until a person confirms.
    pub(crate) async fn remove(&self) -> Result<(), RunFailure> {
        let note = self.note().await;
        if let Some(step) = &note.step {
            program::kill(self.runner, step).await?;
        }
        let history = self.records().history().await?;
        let Some(newest) = history.last() else {
            return self
                .update_note(|note| *note = super::note::HelmNote::default())
                .await;
        };
        let bundle = self.run.bundle().as_str();
        let is_ours = |it: &Revision| it.bundle.as_deref() == Some(bundle);
        if !history.iter().any(is_ours) && note.revision.is_none() && !self.run.confirmed {
            let cause = format!(
                "revision {} is somebody else's; confirm the removal of the release",
                newest.number
            );
            return Err(self.failure(FailureClass::Blocked, Code::HelmForeignRevision, cause));
        }
        self.uninstall(Some(newest.number)).await
    }

    /// Runs `helm uninstall`, and judges its end.
    pub(crate) async fn uninstall(&self, before: Option<u32>) -> Result<(), RunFailure> {
        let uninstall = Uninstall {
            release: self.target.name.clone(),
            namespace: self.target.namespace.clone(),
            timeout_seconds: self.hook_seconds(),
        };
        let operation = Operation::Uninstall(uninstall);
        let work = HelmWork::Uninstall;
        let (step, end) = self.execute(work, before, operation, &[]).await?;
        let history = self.records().history().await?;
        let is_done = matches!(judge(&history, &attempt(&step)), Judgement::Done(None));
        self.update_note(|note| {
            note.step = None;
            if is_done {
                note.revision = None;
                note.cleaned = None;
            }
        })
        .await?;
        match is_done {
            true => Ok(()),
            false => Err(self.program_failure(&end, None).await),
        }
    }
}
