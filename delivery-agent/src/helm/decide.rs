//! First step of a run: a pure decision from the history of the release and the note in the journal.

use fairlead_api::{
    BundleId,
    delivery::{DriftPolicy, SpecId},
};
use fairlead_runner::{
    RunKey,
    release::{Attempt, Judgement, ProcessState, ReleaseStatus, Revision, judge},
    release_description, spec_label,
};

use super::note::{HelmNote, HelmWork};

/// First step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This revision has the desired content.
    Nothing(Revision),
    /// The program runs: follow it.
    Attach,
    /// The interrupted program has reached its end with this revision.
    Finished(Revision),
    /// The interrupted rollback has reached its end: a return to this revision.
    Returned(u32),
    /// The interrupted program failed with this revision.
    Failed(Revision),
    /// An interrupted program left this revision pending: mark it as failed, then start.
    Unlock(Revision),
    /// An interrupted removal comes first.
    FinishRemoval,
    /// Start.
    Start,
    /// Somebody else made this revision, and the bundle does not correct it.
    Foreign(Revision),
    /// Somebody else's release has the name of the bundle's release.
    Occupied(Revision),
    /// Somebody else's operation of Helm has begun, and not ended.
    Locked(Revision),
}

/// Everything that a decision needs.
pub(crate) struct Facts<'a> {
    pub(crate) bundle: &'a BundleId,
    pub(crate) spec: &'a SpecId,
    /// Revisions, oldest first.
    pub(crate) history: &'a [Revision],
    pub(crate) newest: Option<Newest<'a>>,
    pub(crate) note: &'a HelmNote,
    /// Program of the noted step.
    pub(crate) process: ProcessState,
    /// True: the noted step is of a run with the same generation.
    pub(crate) is_same_generation: bool,
    /// Reaction to revisions of others.
    pub(crate) drift: DriftPolicy,
    /// True: the content differs from that of the last success, or a person orders the run.
    pub(crate) is_ordered: bool,
    /// True: a release of somebody else is taken over.
    pub(crate) adopt: bool,
}

/// Facts of the newest record that metadata does not hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newest<'a> {
    pub(crate) description: &'a str,
    /// True: the record has the desired values.
    pub(crate) has_values: bool,
}

/// Decides. A program that may run has been fenced before, unless it is known to be alive.
pub(crate) fn decide(facts: &Facts<'_>) -> Decision {
    match &facts.note.step {
        Some(step) if step.work != HelmWork::Uninstall => {
            let attempt = Attempt {
                run: step.key.run.clone(),
                work: step.work.into(),
                before: step.before,
                process: facts.process,
            };
            let has_spec = |revision: &Revision| {
                let label = spec_label(facts.spec);
                revision.spec.as_deref() == Some(label.as_str())
            };
            match judge(facts.history, &attempt) {
                Judgement::Attach => Decision::Attach,
                Judgement::Unlock(revision) => Decision::Unlock(revision),
                Judgement::Done(Some(revision)) => match step.work {
                    HelmWork::Rollback(good) if facts.is_same_generation => {
                        Decision::Returned(good)
                    }
                    HelmWork::Rollback(_) => Decision::Start,
                    // Newer content replaced that of the interrupted run.
                    _ if !has_spec(&revision) => fresh(facts),
                    _ => Decision::Finished(revision),
                },
                Judgement::Failed(revision)
                    if step.work == HelmWork::UpgradeInstall && !has_spec(&revision) =>
                {
                    fresh(facts)
                }
                Judgement::Failed(revision) => Decision::Failed(revision),
                Judgement::SomebodyElse(revision) => foreign(revision, facts),
                Judgement::Start | Judgement::Done(None) => fresh(facts),
            }
        }
        _ => fresh(facts),
    }
}

/// Decides without an interrupted program.
fn fresh(facts: &Facts<'_>) -> Decision {
    let Some(newest) = facts.history.last().cloned() else {
        return Decision::Start;
    };
    if !is_of_bundle(&newest, facts.bundle) && !facts.adopt {
        return Decision::Occupied(newest);
    }
    if newest.status.is_pending() {
        return if newest.is_by_run() {
            Decision::Unlock(newest)
        } else {
            Decision::Locked(newest)
        };
    }
    if newest.status == ReleaseStatus::Uninstalling {
        return Decision::FinishRemoval;
    }
    let is_noted = facts.note.revision.is_some_and(|it| it >= newest.number);
    if !newest.is_by_run() && !is_noted {
        return foreign(newest, facts);
    }
    if has_desired_content(&newest, facts) {
        return Decision::Nothing(newest);
    }
    Decision::Start
}

/// A revision of somebody else on top of ours.
fn foreign(newest: Revision, facts: &Facts<'_>) -> Decision {
    if newest.status.is_pending() {
        return Decision::Locked(newest);
    }
    if !is_of_bundle(&newest, facts.bundle) && facts.note.revision.is_none() && !facts.adopt {
        return Decision::Occupied(newest);
    }
    if facts.is_ordered || facts.drift == DriftPolicy::Correct {
        return Decision::Start;
    }
    Decision::Foreign(newest)
}

/// Labels are copied into revisions of others, so they tell the bundle of the release, not the author of a revision.
fn is_of_bundle(revision: &Revision, bundle: &BundleId) -> bool {
    revision.bundle.as_deref() == Some(bundle.as_str())
}

fn has_desired_content(revision: &Revision, facts: &Facts<'_>) -> bool {
    let key = revision.run.clone().zip(revision.attempt);
    let Some((key, newest)) = key.zip(facts.newest) else {
        return false;
    };
    let key = RunKey {
        run: key.0,
        attempt: key.1,
    };
    revision.status == ReleaseStatus::Deployed
        && revision.is_by_run()
        && revision.spec.as_deref() == Some(spec_label(facts.spec).as_str())
        && newest.description == release_description(&key)
        && newest.has_values
}

#[cfg(test)]
mod tests;
