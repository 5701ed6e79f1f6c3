//! Worker of one deployment: decides, runs, notes the outcome, and publishes the state.

mod findings;
mod runs;
mod standstill;
mod state;

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    BundleId, Code,
    delivery::{ClaimedRun, DesiredBundle, DriftedObject},
};
use fairlead_manifests::{HealthState, HealthSummary};
use time::OffsetDateTime;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use tracing::warn;

use self::findings::ReleaseCorrections;
use super::{
    attempt::{Attempt, AttemptEnd},
    decide::{
        CommandView, DesiredView, NextStep, RunOrder, Situation, WaitCause, decide, next_try,
    },
    earlier::end_earlier_runs,
    executor::CancelSignal,
    failure::{FailureClass, RunFailure},
    observer::ObservedDeployment,
    shared::Shared,
    stop::CorrectionStop,
};
use crate::{
    drift::DriftEvent,
    fence::AccountName,
    helm::ReleaseChange,
    journal::{
        AcceptedSpec, Journal, JournalContent, JournalState, RetryState, Standstill, StoredFailure,
    },
    run_ids::new_run_id,
    uploads::RunTicket,
};

/// Interval of health reads of a deployment that is not ready, without an observer.
const HEALTH_INTERVAL: Duration = Duration::from_secs(15);
/// Pause after a failure that could not be noted.
const HOLD_TIME: time::Duration = time::Duration::seconds(10);

/// Time after which an attempt that repeats a wait is shown.
const REPEAT_DELAY: Duration = Duration::from_secs(2);

/// A claimed command with its ticket.
pub(crate) struct Command {
    pub(crate) claimed: ClaimedRun,
    pub(crate) ticket: RunTicket,
    pub(crate) cancel: CancelSignal,
}

/// Message to a worker.
pub(super) enum WorkerMessage {
    Command(Box<Command>),
    Drift(DriftEvent),
    SecretChanged,
    Release(Option<ReleaseChange>),
}

/// End of a worker.
pub(super) struct Forgotten {
    pub(super) bundle: BundleId,
    /// Generation of the tombstone that is done.
    pub(super) buried: Option<u64>,
}

/// Worker of one deployment.
pub(super) struct Worker {
    shared: Arc<Shared>,
    journal: Journal,
    inbox: mpsc::Receiver<WorkerMessage>,
    command: Option<Box<Command>>,
    /// Health of the applied objects; none before the first look.
    health: Option<HealthSummary>,
    /// True if the objects were not ready in time.
    is_overdue: bool,
    drift: Vec<DriftedObject>,
    drift_cause: Option<RunFailure>,
    /// Fields that others set beside those of the bundle.
    beside: Vec<DriftedObject>,
    /// Finding of the observer that a person must decide about.
    fight: Option<RunFailure>,
    /// Change of the release by somebody else since the last run.
    overwritten: Option<RunFailure>,
    /// Corrections of such changes.
    overwrites: ReleaseCorrections,
    /// True if a Secret has changed since the last run.
    is_stale: bool,
    /// True after the first run of this process.
    has_run: bool,
    /// Failure that could not be noted, and the end of its pause.
    hold: Option<(OffsetDateTime, RunFailure)>,
    /// The hub's last known order not to correct the objects.
    standstill: Option<Standstill>,
    /// Reason not to correct, as the observer has it; none before the first observation.
    observed_stop: Option<Option<CorrectionStop>>,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        journal: Journal,
        inbox: mpsc::Receiver<WorkerMessage>,
    ) -> Self {
        Self {
            shared,
            journal,
            inbox,
            command: None,
            health: None,
            is_overdue: false,
            drift: Vec::new(),
            drift_cause: None,
            beside: Vec::new(),
            fight: None,
            overwritten: None,
            overwrites: ReleaseCorrections::default(),
            is_stale: false,
            has_run: false,
            hold: None,
            standstill: None,
            observed_stop: None,
        }
    }

    fn bundle(&self) -> &BundleId {
        self.journal.bundle()
    }

    /// Runs until neither objects nor journal are left.
    pub(super) async fn run(mut self) -> Forgotten {
        self.end_earlier_runs().await;
        self.standstill = self.journal.state().await.record.standstill;
        self.observe().await;
        loop {
            self.follow_standstill().await;
            let now = OffsetDateTime::now_utc();
            if let Some((until, failure)) = self.hold.clone().filter(|(until, _)| *until > now) {
                let state = self.journal.state().await;
                self.publish_failure(&state, &failure, Some(until));
                self.wait(Some(until), false).await;
                continue;
            }
            self.hold = None;
            let (state, has_journal) = (
                self.journal.state().await,
                self.journal.uid().await.is_some(),
            );
            let wish = self.wish();
            match self.decide(&state, has_journal, &wish, now) {
                NextStep::Forget if self.has_message().await => {}
                NextStep::Forget => {
                    if let Some(command) = self.command.take() {
                        let cause = "the cluster has no such deployment";
                        command.ticket.fail(&rejected(cause));
                    }
                    let buried = match &wish {
                        Wish::Named(desired) if desired.remove => Some(desired.generation),
                        _ => None,
                    };
                    self.shared.observer.forget(self.bundle()).await;
                    self.shared.forget(self.bundle(), buried.is_some());
                    let bundle = self.bundle().clone();
                    return Forgotten { bundle, buried };
                }
                NextStep::RefuseCommand(cause) => {
                    if let Some(command) = self.command.take() {
                        command.ticket.fail(&rejected(cause));
                    }
                }
                NextStep::RefuseGeneration { offered, highest } => {
                    if let Some(command) = self.command.take() {
                        command.ticket.fail(&old_generation(offered, highest));
                    }
                    self.publish_failure(&state, &old_generation(offered, highest), None);
                    self.wait(None, false).await;
                }
                NextStep::Accept(accepted) => {
                    if let Err(failure) = self.accept(&state, accepted).await {
                        self.hold = Some((now + HOLD_TIME, failure));
                    }
                }
                NextStep::Run(order) => self.attempt(&state, order).await,
                NextStep::Wait(cause, until) => {
                    let is_dependency = matches!(cause, WaitCause::Dependency(_));
                    self.publish_wait(&state, &cause, until);
                    self.wait(until, is_dependency).await;
                }
                NextStep::Stop => {
                    self.publish_stop(&state);
                    self.wait(None, false).await;
                }
                NextStep::Settled => self.settle(&state, &wish).await,
            }
        }
    }

    /// Ends a lock that a killed process has left. The next attempt does so, too, if the API server is away now.
    async fn end_earlier_runs(&self) {
        let state = self.journal.state().await;
        if state.record.pending.is_some() {
            return;
        }
        let spec = state.content.applied.as_ref();
        let account = spec.and_then(|spec| AccountName::parse(&spec.service_account).ok());
        let executor = spec.and_then(|spec| self.shared.executors.of(spec.kind));
        let (fences, bundle) = (&self.shared.fences, self.bundle());
        let ending = end_earlier_runs(fences, executor, bundle, account.as_ref(), &state.record);
        if let Err(failure) = ending.await {
            warn!(bundle = %self.bundle(), cause = %failure, "lock of an earlier run not ended");
        }
    }

    fn decide(
        &self,
        state: &JournalState,
        has_journal: bool,
        wish: &Wish,
        now: OffsetDateTime,
    ) -> NextStep {
        let spec = state.accepted_spec().map(|spec| &**spec);
        let command = self.command.as_ref().map(|command| CommandView {
            kind: command.claimed.kind,
            is_confirmed: command.claimed.confirm,
        });
        decide(&Situation {
            now,
            desired: wish.view(),
            record: &state.record,
            has_journal,
            retries: spec.map_or(0, |spec| spec.retries),
            is_paused: self.shared.site.borrow().is_paused,
            missing: self.shared.missing_dependency(spec),
            command,
            is_suspended: self.standstill == Some(Standstill::Suspended),
            is_stale: self.is_stale,
            is_overwritten: self.overwritten.is_some() && self.corrects(state),
        })
    }

    /// The hub's wish. Until the hub is reached, an ended deployment stays ended.
    fn wish(&self) -> Wish {
        match &*self.shared.desired.borrow() {
            None if self.standstill == Some(Standstill::NotTargeted) => Wish::Absent,
            None => Wish::Unknown,
            Some(desired) => {
                let mut bundles = desired.bundles.iter();
                let found = bundles.find(|it| it.bundle == *self.bundle());
                found.map_or(Wish::Absent, |it| Wish::Named(Box::new(it.clone())))
            }
        }
    }

    /// Hands the applied objects to the observer.
    async fn observe(&mut self) {
        let stop = self.correction_stop();
        let is_first = self.observed_stop.replace(stop).is_none();
        let state = self.journal.state().await;
        let (Some(applied), Some(spec)) = (&state.record.applied, &state.content.applied) else {
            return;
        };
        let uid = self.journal.uid().await;
        let Some(journal_uid) = uid.filter(|_| state.record.removing.is_none()) else {
            return;
        };
        let observed = ObservedDeployment {
            bundle: self.bundle().clone(),
            generation: applied.generation,
            spec: spec.clone(),
            content: state.content.clone(),
            journal: self.journal.clone(),
            journal_uid,
            executor: self.shared.executors.of(spec.kind).cloned(),
            is_restarted: is_first && !self.has_run,
            stop,
            rollbacks: state.record.rollbacks.clone(),
            revision: state.record.helm.revision,
        };
        self.shared.observer.follow(observed).await;
    }

    /// Publishes the state of a deployment without work, and waits. Health is read until the objects are ready.
    async fn settle(&mut self, state: &JournalState, wish: &Wish) {
        let is_orphan = matches!(wish, Wish::Absent);
        self.publish_settled(state, is_orphan);
        let is_ready = |health: &HealthSummary| health.worst.state == HealthState::Ready;
        if state.record.never_ready && self.health.as_ref().is_some_and(is_ready) {
            let noted = self
                .journal
                .update(|state| state.record.never_ready = false)
                .await;
            if let Err(failure) = noted {
                warn!(bundle = %self.bundle(), cause = %failure, "readiness not noted");
            }
        }
        if self.health.as_ref().is_some_and(is_ready) || state.record.applied.is_none() {
            return self.wait(None, false).await;
        }
        if self.health.is_some() {
            let until = OffsetDateTime::now_utc() + HEALTH_INTERVAL;
            self.wait(Some(until), false).await;
        }
        match self.read_health(state).await {
            Ok(health) => {
                self.is_overdue &= !is_ready(&health);
                self.health = Some(health);
            }
            Err(failure) => {
                self.publish_failure(state, &failure, None);
                sleep(HEALTH_INTERVAL).await;
            }
        }
    }

    async fn read_health(&self, state: &JournalState) -> Result<HealthSummary, RunFailure> {
        let Some(spec) = &state.content.applied else {
            return Err(self.journal.unreadable(state));
        };
        let account = AccountName::parse(&spec.service_account)?;
        let uid = self.journal.uid().await.unwrap_or_default();
        let fences = &self.shared.fences;
        let kube = fences.observer(self.bundle(), &account, &uid).await?;
        let objects = state.content.objects.iter();
        let objects: Vec<_> = objects.filter_map(|it| it.to_applied()).collect();
        let mut poll = super::health::HealthPoll::new(&kube, &self.shared.discovery, &objects);
        poll.read()
            .await
            .map_err(|error| RunFailure::of_kube(&error))
    }

    /// Waits for a message, another desired state, other limits, or a time.
    async fn wait(&mut self, until: Option<OffsetDateTime>, is_dependency: bool) {
        let mut desired = self.shared.desired.clone();
        let mut site = self.shared.site.clone();
        let mut states = self.shared.states.subscribe();
        desired.mark_unchanged();
        site.mark_unchanged();
        states.mark_unchanged();
        let before = self.wish();
        let deadline = until.map(|until| {
            let wait = until - OffsetDateTime::now_utc();
            Instant::now() + wait.try_into().unwrap_or_default()
        });
        loop {
            let timer = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = self.inbox.recv() => return self.take(message).await,
                changed = desired.changed() => {
                    // Changes of other bundles do not matter, unless one of them is waited for.
                    if changed.is_err() || self.wish() != before || is_dependency {
                        return;
                    }
                }
                _ = site.changed() => return,
                _ = states.changed(), if is_dependency => return,
                () = timer => return,
            }
        }
    }

    /// Takes a message that waits. Without one the inbox is closed, so that none is lost when the worker ends.
    async fn has_message(&mut self) -> bool {
        if self.inbox.is_empty() {
            self.inbox.close();
        }
        match self.inbox.try_recv() {
            Ok(message) => {
                self.take(Some(message)).await;
                true
            }
            Err(_) => false,
        }
    }

    async fn take(&mut self, message: Option<WorkerMessage>) {
        match message {
            // The engine ends this task.
            None => std::future::pending().await,
            Some(WorkerMessage::Command(command)) => self.command = Some(command),
            Some(WorkerMessage::SecretChanged) => self.is_stale = true,
            Some(WorkerMessage::Release(change)) => self.release_changed(change).await,
            Some(WorkerMessage::Drift(event)) => self.found(event).await,
        }
    }
}

/// The hub's wish for the deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wish {
    Unknown,
    Absent,
    Named(Box<DesiredBundle>),
}

impl Wish {
    fn view(&self) -> DesiredView<'_> {
        match self {
            Wish::Unknown => DesiredView::Unknown,
            Wish::Absent => DesiredView::Absent,
            Wish::Named(desired) => DesiredView::Named(desired),
        }
    }
}

fn rejected(cause: &str) -> RunFailure {
    RunFailure::new(FailureClass::Permanent, Code::DeploymentWaits, cause)
}

fn old_generation(offered: u64, highest: u64) -> RunFailure {
    let sentence = format!("the hub offers generation {offered}; this cluster has seen {highest}");
    RunFailure::new(FailureClass::Blocked, Code::OldGeneration, sentence)
}
