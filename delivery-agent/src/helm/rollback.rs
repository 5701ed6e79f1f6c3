//! Return of a failed or unready release to its last good revision, if the bundle says so.

use fairlead_api::{
    Code,
    delivery::{HelmFailure, Spec, SpecId},
};
use fairlead_runner::{
    Operation, Rollback,
    release::{Judgement, Record, ReleaseStatus, Revision, judge},
    spec_label,
};

use super::{
    kept::post_render,
    leftovers::DeployedRevision,
    note::HelmWork,
    release::Release,
    sync::{HISTORY_MAX, attempt, retried},
};
use crate::{
    engine::{FailureClass, RunFailure},
    journal::JournalRecord,
};

/// True if the bundle returns from content that fails.
pub(crate) fn is_wanted(spec: &Spec) -> bool {
    let policy = spec.helm.as_ref().map(|options| options.on_failure);
    policy == Some(HelmFailure::Rollback)
}

impl Release<'_> {
    /// Rolls the release back after a failure of Helm. The result names the failure and the revision; it is not tried
    /// again.
    pub(crate) async fn roll_back(&self, failure: RunFailure, history: &[Revision]) -> RunFailure {
        let record = self.run.journal.state().await.record;
        match self.last_good(&record, history) {
            Some(good) => self.returned_to(good, failure).await,
            None => failure,
        }
    }

    /// As [`Release::roll_back`], of a deployed revision whose objects did not become ready. None without a good
    /// revision before it.
    pub(crate) async fn roll_back_unready(&self, failure: RunFailure) -> Option<RunFailure> {
        let history = match self.records().history().await {
            Ok(history) => history,
            // The next attempt finds the revision, and judges the objects again.
            Err(error) => return Some(error),
        };
        let (unready, before) = history.split_last()?;
        let record = self.run.journal.state().await.record;
        let applied = record.applied.as_ref().map(|applied| &applied.spec);
        let is_change =
            applied != Some(&self.run.spec_id) || unready.run.as_ref() == Some(&self.run.run);
        if !is_change {
            let line = "the run has changed nothing, so that there is nothing to return from";
            self.run.log.line(line);
            return None;
        }
        let good = self.last_good(&record, before)?;
        Some(self.returned_to(good, failure).await)
    }

    fn last_good(&self, record: &JournalRecord, history: &[Revision]) -> Option<u32> {
        let applied = record.applied.as_ref().filter(|_| !record.never_ready);
        let good = applied.and_then(|applied| last_good(history, &applied.spec));
        if good.is_none() {
            self.run.log.line("there is no good revision to return to");
        }
        good
    }

    async fn returned_to(&self, good: u32, failure: RunFailure) -> RunFailure {
        match self.return_to(good).await {
            Ok(()) => rolled_back(&failure.sentence, good),
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
        let (history, newest) = self.records().newest().await?;
        let keeps_fields = self.keep_fields_in(good, &history, newest.as_ref()).await?;
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
        let (history, record) = self.records().newest().await?;
        let judgement = judge(&history, &attempt(&step));
        if let Judgement::Unlock(revision) = &judgement {
            let reason = format!("Fairlead: the rollback of {} was killed", self.run.run);
            self.records().unlock(revision, &reason).await?;
        }
        let newest = history.last().map(|it| it.number);
        let is_done = matches!(judgement, Judgement::Done(_));
        self.update_note(|note| {
            // The step of a done return stays until its failure is noted: after a kill it tells that nothing is left to do.
            if !is_done {
                note.step = None;
            }
            note.revision = newest.max(note.revision);
        })
        .await?;
        if !is_done {
            let failure = self.program_failure(&end, None).await;
            return Err(retried(failure, keeps_fields));
        }
        self.clean_up_return(&history, record.as_ref()).await;
        Ok(())
    }

    /// Puts live values of ignored fields into the record of a good revision, because `helm rollback` has no post-renderer
    /// and applies the manifest of that record. True if there are such values.
    async fn keep_fields_in(
        &self,
        good: u32,
        history: &[Revision],
        newest: Option<&Record>,
    ) -> Result<bool, RunFailure> {
        let Some(revision) = history.iter().find(|it| it.number == good) else {
            return Ok(false);
        };
        let Some(record) = self.records().record(revision).await? else {
            return Ok(false);
        };
        let objects = self.objects(record.manifest()).await?;
        let Some(kept) = self.kept_fields(newest, objects).await? else {
            return Ok(false);
        };
        let manifest = post_render(record.manifest(), &kept.content)
            .map_err(|error| self.failure(FailureClass::Permanent, Code::Internal, error))?;
        let records = self.records();
        records
            .replace_manifest(revision, &record, &manifest)
            .await?;
        Ok(true)
    }

    /// Deletes objects of failed revisions after a return: Helm compares with the newest one alone. `newest`: record of the
    /// return. A failure does not change that of the run, because the next success checks the same revisions.
    pub(super) async fn clean_up_return(&self, history: &[Revision], newest: Option<&Record>) {
        let (Some(revision), Some(record)) = (history.last(), newest) else {
            return;
        };
        let deleted = async {
            let deployed = DeployedRevision {
                number: revision.number,
                record,
                objects: &self.objects(record.manifest()).await?,
            };
            self.delete_leftovers(history, &deployed).await
        };
        if let Err(failure) = deleted.await {
            let line = format!("objects of failed revisions may be left: {failure}");
            self.run.log.line(&line);
        }
    }
}

/// Failure of a run whose release was returned to a revision. It is not tried again.
pub(crate) fn rolled_back(cause: &str, good: u32) -> RunFailure {
    let sentence = format!("{cause}; returned to revision {good}");
    RunFailure::new(FailureClass::Permanent, Code::HelmRolledBack, sentence).ending_step()
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
