//! Return of a failed release to its last good revision, if the bundle says so.

use fairlead_api::{Code, delivery::SpecId};
use fairlead_runner::{
    Operation, Rollback,
    release::{Judgement, ReleaseStatus, Revision, judge},
    spec_label,
};

use super::{note::HelmWork, release::Release, sync::attempt};
use crate::engine::{FailureClass, RunFailure};

/// Revisions that Helm keeps.
const HISTORY_MAX: u32 = 10;

impl Release<'_> {
    /// Rolls the release back after a failure. The result names the failure and the revision; it is not tried again.
    pub(crate) async fn roll_back(&self, failure: RunFailure, history: &[Revision]) -> RunFailure {
        let applied = self.run.journal.state().await.record.applied;
        let good = applied.and_then(|applied| last_good(history, &applied.spec));
        let Some(good) = good else {
            self.run.log.line("there is no good revision to return to");
            return failure;
        };
        match self.return_to(good).await {
            Ok(()) => {
                let sentence = format!("{}; returned to revision {good}", failure.sentence);
                RunFailure::new(FailureClass::Permanent, Code::HelmRolledBack, sentence)
            }
            Err(second) => {
                let sentence = format!(
                    "{}; the rollback failed: {}",
                    failure.sentence, second.sentence
                );
                RunFailure::new(second.class, failure.code, sentence)
            }
        }
    }

    async fn return_to(&self, good: u32) -> Result<(), RunFailure> {
        let history = self.records().history().await?;
        let before = history.last().map(|it| it.number);
        let rollback = Rollback {
            release: self.target.name.clone(),
            namespace: self.target.namespace.clone(),
            revision: good,
            timeout_seconds: self.hook_seconds(),
            history_max: HISTORY_MAX,
        };
        let work = HelmWork::Rollback(good);
        let operation = Operation::Rollback(rollback);
        let (step, end) = self.execute(work, before, operation, &[]).await?;
        let mut history = self.records().history().await?;
        if let Some(newest) = history.last_mut()
            && let Some(record) = self.records().record(newest).await?
        {
            *newest = record.complete(newest.clone());
        }
        let judgement = judge(&history, &attempt(&step));
        if let Judgement::Unlock(revision) = &judgement {
            let reason = format!("Fairlead: the rollback of {} was killed", self.run.run);
            self.records().unlock(revision, &reason).await?;
        }
        let newest = history.last().map(|it| it.number);
        self.update_note(|note| {
            note.step = None;
            note.revision = newest.max(note.revision);
        })
        .await?;
        match judgement {
            Judgement::Done(_) => Ok(()),
            _ => Err(self.program_failure(&end, None).await),
        }
    }
}

/// The newest revision with the spec that was applied last, and whose objects became healthy.
fn last_good(history: &[Revision], applied: &SpecId) -> Option<u32> {
    let label = spec_label(applied);
    let is_good = |revision: &&Revision| {
        let was_deployed = matches!(
            revision.status,
            ReleaseStatus::Superseded | ReleaseStatus::Deployed
        );
        was_deployed && revision.is_by_run() && revision.spec.as_deref() == Some(label.as_str())
    };
    history.iter().rev().find(is_good).map(|it| it.number)
}

#[cfg(test)]
mod tests {
    use fairlead_runner::release::history;

    use super::{
        super::testing::{self, RUN, record_secret},
        *,
    };

    #[test]
    fn good_revision_has_the_spec_that_became_healthy() {
        let spec: SpecId = testing::spec().artifact.as_str().parse().unwrap();
        let label = spec_label(&spec);
        let revision = |number: u32, status: &str, spec: &str| {
            let attempt = number.to_string();
            let labels = [
                ("fairlead-run", RUN),
                ("fairlead-attempt", attempt.as_str()),
                ("fairlead-spec", spec),
            ];
            record_secret(number, status, &labels)
        };
        let items = [
            revision(1, "superseded", &label),
            revision(2, "superseded", &label),
            revision(3, "failed", &label),
            revision(4, "superseded", "other"),
            revision(5, "failed", "other"),
        ];
        let revisions = history(&"web".parse().unwrap(), &items);
        assert_eq!(last_good(&revisions, &spec), Some(2));
        assert_eq!(last_good(&revisions[2..], &spec), None);
    }
}
