//! The release of one run: its records, its note in the journal, and programs that work on it.

use std::sync::atomic::AtomicBool;

use fairlead_api::Code;
use fairlead_apiserver::Upstream;
use fairlead_runner::{ClusterAccess, Operation, RunFile, RunKey, RunRequest, Runner};
use secrecy::ExposeSecret;

use super::{
    note::{HelmNote, HelmStep, HelmWork},
    program::{self, OutputSink, ProgramEnd},
    records::Records,
    target::ReleaseTarget,
};
use crate::engine::{FailureClass, RunContext, RunFailure};

/// Name of the program in the runner's table.
const PROGRAM: &str = "helm";
/// Time for one hook without `helm.timeout`, in seconds.
const DEFAULT_HOOK_SECONDS: u32 = 300;
/// Time of a program beside its hooks and the bundle's timeout, in seconds.
const EXTRA_SECONDS: u32 = 60;

/// Release of a run.
pub(crate) struct Release<'a> {
    pub(crate) run: &'a RunContext,
    pub(crate) target: ReleaseTarget,
    pub(crate) runner: &'a Runner,
    /// True once an upgrade keeps live values.
    pub(crate) keeps_fields: AtomicBool,
    upstream: &'a Upstream,
}

impl<'a> Release<'a> {
    pub(crate) fn of(
        run: &'a RunContext,
        runner: &'a Runner,
        upstream: &'a Upstream,
    ) -> Result<Self, RunFailure> {
        let target = ReleaseTarget::of(&run.spec).map_err(|error| {
            let class = FailureClass::Permanent;
            RunFailure::new(class, Code::HelmChartInvalid, error.to_string())
        })?;
        Ok(Self {
            run,
            target,
            runner,
            keeps_fields: AtomicBool::new(false),
            upstream,
        })
    }

    pub(crate) fn key(&self) -> RunKey {
        RunKey {
            run: self.run.run.clone(),
            attempt: self.run.attempt,
        }
    }

    pub(crate) fn records(&self) -> Records<'_> {
        Records {
            kube: &self.run.kube,
            target: &self.target,
        }
    }

    pub(crate) fn failure(
        &self,
        class: FailureClass,
        code: Code,
        cause: impl std::fmt::Display,
    ) -> RunFailure {
        RunFailure::new(class, code, format!("{}: {cause}", self.target))
    }

    pub(crate) async fn note(&self) -> HelmNote {
        self.run.journal.state().await.record.helm
    }

    pub(crate) async fn update_note(
        &self,
        change: impl FnOnce(&mut HelmNote) + Send,
    ) -> Result<(), RunFailure> {
        let update = self
            .run
            .journal
            .update(|state| change(&mut state.record.helm));
        update.await
    }

    /// Time for one hook, in seconds.
    pub(crate) fn hook_seconds(&self) -> u32 {
        let options = self.run.spec.helm.as_ref();
        let given = options.and_then(|it| it.timeout);
        let given = given.and_then(|it| u32::try_from(it.0.as_secs()).ok());
        given.unwrap_or(DEFAULT_HOOK_SECONDS).max(1)
    }

    /// Time for a program with all its hooks, in seconds.
    pub(crate) fn program_seconds(&self) -> u32 {
        let whole = u32::try_from(self.run.spec.timeout_seconds).unwrap_or(u32::MAX / 4);
        whole.max(self.hook_seconds()).min(u32::MAX / 4) + self.hook_seconds() + EXTRA_SECONDS
    }

    /// Notes a step, then runs its program to the end.
    pub(crate) async fn execute(
        &self,
        work: HelmWork,
        before: Option<u32>,
        operation: Operation,
        files: &[RunFile],
    ) -> Result<(HelmStep, ProgramEnd), RunFailure> {
        self.run.cancel.check()?;
        let request = self.request(operation).await?;
        let step = HelmStep {
            key: self.key(),
            work,
            before,
            runner: program::mark(self.runner).await?,
        };
        let text = format!("helm {}", request.operation.name());
        let noted = step.clone();
        let update = self.run.journal.update(|state| {
            let note = &mut state.record.helm;
            note.step = Some(noted);
            if before.is_none() {
                // The numbers of a new release start again.
                note.cleaned = None;
            }
            if let Some(pending) = &mut state.record.pending {
                pending.step.clone_from(&text);
            }
        });
        update.await?;
        self.run.log.line(&text);
        program::start(self.runner, &step.key, &request, files).await?;
        let end = self.follow(&step).await?;
        Ok((step, end))
    }

    /// Follows the program of a step to its end.
    pub(crate) async fn follow(&self, step: &HelmStep) -> Result<ProgramEnd, RunFailure> {
        let sink = OutputSink::Log(&self.run.log);
        let run = self.run;
        program::follow(self.runner, step, &run.cancel, &run.token, sink).await
    }

    /// Runs a program that changes nothing, and returns its output.
    pub(crate) async fn query(
        &self,
        operation: Operation,
        files: &[RunFile],
    ) -> Result<(ProgramEnd, Vec<u8>), RunFailure> {
        let request = self.request(operation).await?;
        let step = HelmStep {
            key: self.key(),
            work: HelmWork::UpgradeInstall,
            before: None,
            runner: program::mark(self.runner).await?,
        };
        program::start(self.runner, &step.key, &request, files).await?;
        let mut answer = Vec::new();
        let (run, sink) = (self.run, OutputSink::Answer(&mut answer));
        let end = program::follow(self.runner, &step, &run.cancel, &run.token, sink).await?;
        Ok((end, answer))
    }

    async fn request(&self, operation: Operation) -> Result<RunRequest, RunFailure> {
        let location = self.upstream.location().await.map_err(|error| {
            let class = FailureClass::Waiting;
            self.failure(class, Code::ApiServerAway, error)
        })?;
        Ok(RunRequest {
            program: PROGRAM.to_owned(),
            operation,
            cluster: Some(ClusterAccess {
                server: location.server,
                ca: location.ca,
                tls_server_name: location.server_name,
                token: self.run.token.current().expose_secret().to_owned(),
            }),
            timeout_seconds: self.program_seconds(),
            files: Vec::new(),
        })
    }
}
