//! Run of the kind `sync`: decides, upgrades, and judges the outcome by the record of the release.

use std::sync::atomic::Ordering;

use fairlead_api::{
    Code,
    delivery::{ConflictPolicy, DriftPolicy, RunOrigin},
};
use fairlead_runner::{
    Cause, Operation, UpgradeInstall,
    release::{Attempt, Judgement, ProcessState, Record, Revision, judge},
};
use serde_json::Value;

use super::{
    chart::{Chart, ChartError},
    decide::{Decision, Facts, Newest, decide},
    failure::{self, Failed},
    leftovers::DeployedRevision,
    note::{HelmNote, HelmStep, HelmWork, MAX_MEMORY_KILLS},
    objects,
    program::{self, ProgramEnd},
    release::Release,
    rollback, values,
};
use crate::{
    engine::{Applied, FailureClass, RunFailure},
    fence::DELIVERY_NAMESPACE,
    manifests::content_failure,
};

/// Revisions that Helm keeps.
pub(super) const HISTORY_MAX: u32 = 10;
/// File with the values in the work folder of a run.
const VALUES_PATH: &str = "values.json";

/// Chart and values of a run.
pub(crate) struct Content {
    pub(crate) chart: Chart,
    pub(crate) values: Value,
}

/// Newest revision before an upgrade.
#[derive(Clone, Copy, Default)]
struct Before<'a> {
    number: Option<u32>,
    record: Option<&'a Record>,
}

impl Release<'_> {
    /// Brings the release to the content of the spec.
    pub(crate) async fn sync(&self) -> Result<Applied, RunFailure> {
        if self.target.namespace.as_str() == DELIVERY_NAMESPACE {
            let cause = format!("the namespace {DELIVERY_NAMESPACE} is closed to bundles");
            return Err(self.failure(FailureClass::Permanent, Code::SiteForbids, cause));
        }
        let values = self.values()?;
        let note = self.note().await;
        let process = self.end_stray(&note).await?;
        let (history, record) = self.records().newest().await?;
        let decision = self.decide(&note, process, &history, record.as_ref(), &values);
        let before = Before {
            number: history.last().map(|it| it.number),
            record: record.as_ref(),
        };
        match decision.await {
            Decision::Nothing(revision) => {
                let line = format!("revision {} has the desired content", revision.number);
                self.run.log.line(&line);
                self.done(&revision, record, &history).await
            }
            Decision::Finished(revision) => self.done(&revision, record, &history).await,
            Decision::Attach => {
                self.run.log.line("the program of this run goes on");
                let Some(step) = note.step else {
                    return self.deploy(before, &values).await;
                };
                let end = self.follow(&step).await?;
                self.judged(step, end).await
            }
            Decision::Returned(good) => {
                self.update_note(|note| note.revision = before.number.max(note.revision))
                    .await?;
                self.clean_up_return(&history, record.as_ref()).await;
                let cause = self.failure(
                    FailureClass::Permanent,
                    Code::HelmRolledBack,
                    "the upgrade failed, and its run was interrupted",
                );
                Err(rollback::rolled_back(&cause.sentence, good))
            }
            Decision::Failed(revision) => Err(self.failed_before(&revision).await?),
            Decision::Unlock(revision) => {
                self.unlock(&revision).await?;
                self.deploy(before, &values).await
            }
            Decision::FinishRemoval => {
                self.uninstall(before.number).await?;
                self.deploy(Before::default(), &values).await
            }
            Decision::Start => self.deploy(before, &values).await,
            Decision::Foreign(revision) => Err(self.foreign(&revision)),
            Decision::Occupied(revision) => {
                let cause = format!(
                    "the release exists, and revision {} is somebody else's; `adopt: true` takes it over",
                    revision.number
                );
                Err(self.failure(FailureClass::Permanent, Code::HelmForeignRevision, cause))
            }
            Decision::Locked(revision) => {
                let (number, status) = (revision.number, revision.status.as_str());
                let cause = format!("revision {number} of somebody else is {status}");
                Err(self.failure(FailureClass::Waiting, Code::HelmReleaseLocked, cause))
            }
        }
    }

    /// Values of the spec with those of Secrets.
    pub(crate) fn values(&self) -> Result<Value, RunFailure> {
        let run = self.run;
        values::merged(run.spec.helm.as_ref(), &run.secrets.values)
            .map_err(|error| self.failure(FailureClass::Permanent, Code::HelmValuesRefused, error))
    }

    /// Chart of the artifact.
    pub(crate) async fn content(&self, values: &Value) -> Result<Content, RunFailure> {
        let folder = self.run.content.artifact(&self.run.spec.artifact).await;
        let folder = folder.map_err(|error| content_failure(&error))?;
        let values = values.clone();
        let reading = move || Chart::of(&folder, &values).map(|chart| Content { chart, values });
        let read = tokio::task::spawn_blocking(reading).await;
        let invalid =
            |cause: String| self.failure(FailureClass::Permanent, Code::HelmChartInvalid, cause);
        let read = read.map_err(|error| invalid(error.to_string()))?;
        read.map_err(|error: ChartError| invalid(error.to_string()))
    }

    /// Kills the program of an earlier attempt, whose token is fenced. The program of this attempt goes on.
    async fn end_stray(&self, note: &HelmNote) -> Result<ProcessState, RunFailure> {
        let Some(step) = &note.step else {
            return Ok(ProcessState::Dead);
        };
        let state = program::state(self.runner, step).await;
        if state == ProcessState::Alive && step.key != self.key() {
            program::kill(self.runner, step).await?;
            return Ok(ProcessState::Dead);
        }
        Ok(state)
    }

    async fn decide(
        &self,
        note: &HelmNote,
        process: ProcessState,
        history: &[Revision],
        record: Option<&Record>,
        values: &Value,
    ) -> Decision {
        let spec = &self.run.spec;
        let journal = self.run.journal.state().await.record;
        let is_command = journal.pending.as_ref().map(|it| it.origin) == Some(RunOrigin::Command);
        let is_new = journal.applied.as_ref().map(|it| &it.spec) != Some(&self.run.spec_id);
        decide(&Facts {
            bundle: &spec.bundle,
            spec: &self.run.spec_id,
            history,
            newest: record.map(|record| Newest {
                description: record.description(),
                has_values: values::are_same(record.values(), values),
            }),
            note,
            process,
            is_same_generation: self.is_same_generation(note),
            drift: match is_command {
                true => DriftPolicy::Correct,
                false => spec.drift,
            },
            is_ordered: is_command || is_new,
            adopt: self.takes_ownership(),
        })
    }

    /// True if the noted step is of an interrupted run with the generation of this one.
    fn is_same_generation(&self, note: &HelmNote) -> bool {
        let key = note.step.as_ref().map(|step| &step.key);
        let interrupted = self.run.interrupted.as_ref();
        interrupted.is_some_and(|interrupted| {
            interrupted.generation == self.run.generation
                && key.is_some_and(|key| key.run == interrupted.run)
        })
    }

    fn foreign(&self, revision: &Revision) -> RunFailure {
        let cause = format!("revision {} is somebody else's", revision.number);
        self.failure(FailureClass::Blocked, Code::HelmForeignRevision, cause)
    }

    async fn unlock(&self, revision: &Revision) -> Result<(), RunFailure> {
        let line = format!("revision {} was left pending; it failed", revision.number);
        self.run.log.line(&line);
        let reason = format!("Fairlead: the program of {} was killed", self.run.run);
        self.records().unlock(revision, &reason).await
    }

    /// Runs `helm upgrade --install`, and judges its end.
    async fn deploy(&self, before: Before<'_>, values: &Value) -> Result<Applied, RunFailure> {
        let content = self.content(values).await?;
        let is_limited = self.run.site.kinds.is_some() || self.run.site.namespaces.is_some();
        let takes_over = self.takes_ownership() && !self.run.spec.ignore.is_empty();
        let mut rendered = Vec::new();
        if is_limited || takes_over {
            rendered = self.render(&content).await?;
            self.check_site(&rendered)?;
        }
        let Content { chart, values } = content;
        self.apply_definitions(chart.definitions).await?;
        let mut files = chart.files;
        files.push(values_file(&values)?);
        let kept = self.kept_fields(before.record, rendered).await?;
        self.keeps_fields.store(kept.is_some(), Ordering::Relaxed);
        let upgrade = UpgradeInstall {
            create_namespace: before.number.is_none() && self.namespace_is_missing().await,
            kept: kept.as_ref().map(|it| it.path.clone()),
            ..self.upgrade(chart.path)
        };
        files.extend(kept);
        let operation = Operation::UpgradeInstall(upgrade);
        let work = HelmWork::UpgradeInstall;
        let (step, end) = self.execute(work, before.number, operation, &files).await?;
        self.judged(step, end).await
    }

    pub(crate) fn upgrade(&self, chart: fairlead_runner::FilePath) -> UpgradeInstall {
        let spec = &self.run.spec;
        UpgradeInstall {
            release: self.target.name.clone(),
            namespace: self.target.namespace.clone(),
            chart,
            values: VALUES_PATH.parse().into_iter().collect(),
            bundle: spec.bundle.clone(),
            spec: self.run.spec_id.clone(),
            timeout_seconds: self.hook_seconds(),
            history_max: HISTORY_MAX,
            create_namespace: false,
            take_ownership: self.takes_ownership(),
            skip_crds: true,
            force_conflicts: spec.conflicts == ConflictPolicy::Force,
            dry_run: false,
            kept: None,
        }
    }

    /// True if objects of others become part of the release.
    fn takes_ownership(&self) -> bool {
        let options = self.run.spec.helm.as_ref();
        self.run.spec.adopt || options.is_some_and(|it| it.take_ownership)
    }

    /// Helm makes the namespace only if it is missing: an account may have the right to all else.
    async fn namespace_is_missing(&self) -> bool {
        let path = format!("/api/v1/namespaces/{}", self.target.namespace);
        matches!(self.run.kube.get_metadata(&path).await, Ok(None))
    }

    /// Judges the end of a program, and notes it.
    async fn judged(&self, step: HelmStep, end: ProgramEnd) -> Result<Applied, RunFailure> {
        let history = self.records().history().await?;
        let judgement = judge(&history, &attempt(&step));
        match judgement {
            Judgement::Done(Some(revision)) => return self.done(&revision, None, &history).await,
            Judgement::Attach => {
                let cause = "the program of the run has not ended";
                return Err(self.failure(FailureClass::Waiting, Code::RunnerAway, cause));
            }
            _ => {}
        }
        let written = match &judgement {
            Judgement::Unlock(revision) | Judgement::Failed(revision) => Some(revision),
            _ => None,
        };
        let record = match written {
            Some(revision) => self.records().record(revision).await?,
            None => None,
        };
        if let Judgement::Unlock(revision) = &judgement {
            self.unlock(revision).await?;
        }
        let hook = record.as_ref().and_then(Record::failed_hook);
        let failure = match &judgement {
            Judgement::SomebodyElse(revision) => RunFailure {
                class: FailureClass::Retry,
                ..self.foreign(revision)
            },
            _ => self.program_failure(&end, hook).await,
        };
        let number = written.map(|it| it.number);
        let failure = retried(failure, self.keeps_fields.load(Ordering::Relaxed));
        self.note_failure(number, failure, history.as_slice()).await
    }

    /// Notes a failed step. A failed revision is rolled back if the bundle says so.
    async fn note_failure(
        &self,
        revision: Option<u32>,
        mut failure: RunFailure,
        history: &[Revision],
    ) -> Result<Applied, RunFailure> {
        let is_memory = failure.code == Code::HelmMemory;
        let update = self.run.journal.update(|state| {
            let note = &mut state.record.helm;
            note.step = None;
            note.revision = revision.max(note.revision);
            note.memory_kills += u8::from(is_memory);
            note.memory_kills
        });
        let kills = update.await?;
        if is_memory && kills >= MAX_MEMORY_KILLS {
            failure.class = FailureClass::Permanent;
        }
        let is_final = !matches!(
            failure.class,
            FailureClass::Cancelled | FailureClass::Waiting
        );
        if revision.is_some() && is_final && rollback::is_wanted(&self.run.spec) {
            return Err(self.roll_back(failure, history).await);
        }
        Err(failure)
    }

    /// Failure of a program that did not bring its release to the desired state.
    pub(crate) async fn program_failure(
        &self,
        end: &ProgramEnd,
        hook: Option<(&str, &str)>,
    ) -> RunFailure {
        let memory_limit = match self.runner.info().await {
            Ok(info) => info.memory_limit,
            Err(_) => None,
        };
        match end {
            ProgramEnd::Lost { for_memory: true } => {
                let limit = memory_limit.map(failure::limit_text).unwrap_or_default();
                let cause = format!("Helm was killed for memory{limit}");
                self.failure(FailureClass::Retry, Code::HelmMemory, cause)
            }
            ProgramEnd::Lost { for_memory: false } => {
                let cause = "the runner ended while Helm ran";
                self.failure(FailureClass::Waiting, Code::RunnerAway, cause)
            }
            ProgramEnd::Ended(status) => match status.ending() {
                Some(ending) if ending.cause == Cause::Cancelled => RunFailure::cancelled(),
                Some(ending) => failure::judge(&Failed {
                    target: &self.target,
                    ending,
                    errors: &self.run.log.mask(&status.error_tail),
                    hook,
                    memory_limit,
                    timeout_seconds: match ending.cause {
                        Cause::TimedOut => self.program_seconds(),
                        _ => self.hook_seconds(),
                    },
                }),
                None => {
                    let cause = "the program of the run has not ended";
                    self.failure(FailureClass::Waiting, Code::RunnerAway, cause)
                }
            },
        }
    }

    /// Failure of an interrupted program, whose errors are gone: its revision tells the cause.
    async fn failed_before(&self, revision: &Revision) -> Result<RunFailure, RunFailure> {
        let record = self.records().record(revision).await?;
        let description = record.as_ref().map(Record::description).unwrap_or_default();
        let failure = failure::of_description(&self.target, &self.run.log.mask(description));
        let history = self.records().history().await?;
        let number = Some(revision.number);
        let noted = self.note_failure(number, failure.clone(), &history).await;
        Ok(noted.err().unwrap_or(failure))
    }

    /// Notes a success, deletes leftovers of failed revisions, and returns the objects of the release. `newest`: record of the
    /// newest revision, if it was read.
    async fn done(
        &self,
        revision: &Revision,
        newest: Option<Record>,
        history: &[Revision],
    ) -> Result<Applied, RunFailure> {
        let number = revision.number;
        self.update_note(|note| {
            *note = HelmNote {
                revision: Some(number).max(note.revision),
                cleaned: note.cleaned,
                ..HelmNote::default()
            };
        })
        .await?;
        let is_newest = history.last().is_some_and(|it| it.number == number);
        let record = match newest.filter(|_| is_newest) {
            None => self.records().record(revision).await?,
            known => known,
        };
        let Some(record) = record else {
            let cause = format!("the record of revision {number} is gone");
            return Err(self.failure(FailureClass::Retry, Code::HelmRecordUnreadable, cause));
        };
        let objects = self.objects(record.manifest()).await?;
        let deployed = DeployedRevision {
            number,
            record: &record,
            objects: &objects,
        };
        self.delete_leftovers(history, &deployed).await?;
        Ok(objects::result(objects))
    }
}

/// Failure of an upgrade that keeps live values: one may have changed after it was read, and the next attempt reads it again.
pub(super) fn retried(failure: RunFailure, keeps_fields: bool) -> RunFailure {
    let is_late = keeps_fields && failure.code == Code::HelmFieldConflict;
    match failure.class {
        FailureClass::Permanent if is_late => RunFailure {
            class: FailureClass::Retry,
            ..failure
        },
        _ => failure,
    }
}

/// Attempt of a step whose program has ended.
pub(crate) fn attempt(step: &HelmStep) -> Attempt {
    Attempt {
        run: step.key.run.clone(),
        work: step.work.into(),
        before: step.before,
        process: ProcessState::Dead,
    }
}

pub(crate) fn values_file(values: &Value) -> Result<fairlead_runner::RunFile, RunFailure> {
    let path = VALUES_PATH.parse().map_err(|error| {
        RunFailure::new(FailureClass::Permanent, Code::Internal, format!("{error}"))
    })?;
    Ok(fairlead_runner::RunFile {
        path,
        content: values.to_string().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_of_an_upgrade_that_keeps_fields_is_tried_again() {
        let class = |code, keeps_fields| {
            let failure = RunFailure::new(FailureClass::Permanent, code, "");
            retried(failure, keeps_fields).class
        };
        assert_eq!(class(Code::HelmFieldConflict, true), FailureClass::Retry);
        assert_eq!(
            class(Code::HelmFieldConflict, false),
            FailureClass::Permanent
        );
        assert_eq!(
            class(Code::HelmTemplateFailed, true),
            FailureClass::Permanent
        );
    }
}
