//! A run's end of its upload.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fairlead_api::{
    Code, RunId,
    delivery::{AttemptOutcome, RunDiff, RunOutcome},
};
use tokio::sync::watch;

use super::{Uploads, task::UploadTask};
use crate::engine::{FailureClass, RunFailure, RunLog};

/// Log, step and result of one attempt. A ticket that is dropped without a result reports an unknown outcome, unless the hub
/// does not know the run.
pub(crate) struct RunTicket {
    pub(super) run: RunId,
    pub(super) attempt: u32,
    pub(super) log: RunLog,
    pub(super) outcome: watch::Sender<Option<RunOutcome>>,
    pub(super) uploads: Uploads,
    /// Upload that has not been started.
    pub(super) held: Mutex<Option<UploadTask>>,
}

impl RunTicket {
    /// Id of the run.
    #[must_use]
    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    /// Number of the attempt.
    #[must_use]
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Log of the run.
    #[must_use]
    pub(crate) fn log(&self) -> &RunLog {
        &self.log
    }

    /// True if the hub does not know the run.
    #[must_use]
    pub(crate) fn is_held(&self) -> bool {
        self.held().is_some()
    }

    /// Registers the run at the hub.
    pub(crate) fn report(&self) {
        if let Some(task) = self.held().take() {
            self.uploads.spawn(task);
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<UploadTask>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the attempt with success; `sentence` says more.
    pub(crate) fn succeed(self, sentence: Option<String>, diff: Option<RunDiff>) {
        self.end(AttemptOutcome::Succeeded, sentence, None, diff);
    }

    /// Ends the attempt with a failure.
    pub(crate) fn fail(self, failure: &RunFailure) {
        let outcome = match failure.class {
            FailureClass::Retry | FailureClass::Waiting => AttemptOutcome::Failed,
            FailureClass::Permanent | FailureClass::Blocked => AttemptOutcome::Rejected,
            FailureClass::Cancelled => AttemptOutcome::Cancelled,
            FailureClass::Unknown => AttemptOutcome::Unknown,
        };
        let sentence = self.log.mask(&failure.sentence);
        self.end(outcome, Some(sentence), Some(failure.code), None);
    }

    fn end(
        self,
        outcome: AttemptOutcome,
        sentence: Option<String>,
        code: Option<Code>,
        diff: Option<RunDiff>,
    ) {
        self.report();
        let text = sentence.as_deref().unwrap_or("done");
        self.log.line(&format!("{outcome:?}: {text}"));
        self.log.finish();
        self.uploads.note_end(self.log.clone());
        self.outcome.send_replace(Some(RunOutcome {
            attempt: self.attempt,
            outcome,
            sentence,
            code: code.map(|code| code.to_string()),
            log_bytes: 0,
            diff,
        }));
    }
}
