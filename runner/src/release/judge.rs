//! Next step of a run whose program is gone, or may be gone.

use fairlead_api::RunId;

use super::revision::{ReleaseStatus, Revision};

/// Program of the run, as the runner reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Alive,
    /// It is known dead: the runner ended it, or is another instance.
    Dead,
    /// The runner's node cannot be reached: only the fence ends it.
    Unknown,
}

/// Work of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// `helm upgrade --install`.
    UpgradeInstall,
    /// `helm rollback` to this revision.
    Rollback {
        /// Revision with the desired content.
        to: u32,
    },
    /// `helm uninstall`.
    Uninstall,
}

/// Run with a step in the journal.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Run; its attempts share it.
    pub run: RunId,
    /// Work of the run.
    pub work: Work,
    /// Newest revision when the journal noted the step; `None` if there was none.
    pub before: Option<u32>,
    /// Program of the last attempt.
    pub process: ProcessState,
}

/// Next step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The program wrote nothing. Fence the last attempt, then start it.
    Start,
    /// The program runs. Follow it.
    Attach,
    /// The program left this revision pending. Fence it, mark the revision failed, start again.
    Unlock(Revision),
    /// The run is done, with this revision; `None` after a removal.
    Done(Option<Revision>),
    /// The program failed, with this revision. The retry policy decides.
    Failed(Revision),
    /// Somebody else wrote this revision after the step was noted.
    SomebodyElse(Revision),
}

/// Judges a run by the history of its release, oldest revision first.
///
/// For a rollback the newest revision needs [`super::Record::complete`].
#[must_use]
pub fn judge(history: &[Revision], attempt: &Attempt) -> Judgement {
    if attempt.process == ProcessState::Alive {
        return Judgement::Attach;
    }
    let newest = history.iter().max_by_key(|revision| revision.number);
    let Some(newest) = newest else {
        return match (attempt.work, attempt.before) {
            (Work::Uninstall, _) => Judgement::Done(None),
            // Without any record Helm starts at revision 1 again.
            _ => Judgement::Start,
        };
    };
    let is_new = attempt.before.is_none_or(|before| newest.number > before);
    match attempt.work {
        Work::Uninstall if is_new => Judgement::SomebodyElse(newest.clone()),
        Work::Uninstall if newest.status == ReleaseStatus::Uninstalled => Judgement::Done(None),
        // Helm removes a release in any other state, also one that is being removed.
        Work::Uninstall => Judgement::Start,
        Work::UpgradeInstall | Work::Rollback { .. } => judge_change(newest, is_new, attempt),
    }
}

fn judge_change(newest: &Revision, is_new: bool, attempt: &Attempt) -> Judgement {
    let by_run = newest.run.as_ref() == Some(&attempt.run) && newest.is_by_run();
    let is_ours = match attempt.work {
        Work::Rollback { to } => newest.rolled_back_to == Some(to),
        _ => by_run && newest.rolled_back_to.is_none(),
    };
    let newest = newest.clone();
    match (is_new, is_ours) {
        // A revision of this bundle that an earlier run left, before this one was noted.
        (false, _) if newest.status.is_pending() && newest.is_by_run() => Judgement::Unlock(newest),
        (false, _) if newest.status.is_pending() => Judgement::SomebodyElse(newest),
        (false, _) => Judgement::Start,
        (true, false) => Judgement::SomebodyElse(newest),
        (true, true) => match newest.status {
            ReleaseStatus::Deployed => Judgement::Done(Some(newest)),
            ReleaseStatus::Failed => Judgement::Failed(newest),
            status if status.is_pending() => Judgement::Unlock(newest),
            // Removed, or superseded by a revision that is gone.
            _ => Judgement::SomebodyElse(newest),
        },
    }
}
