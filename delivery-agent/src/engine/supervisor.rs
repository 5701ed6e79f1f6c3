//! Engine: starts a worker per deployment, hands commands and findings on, and forgets removed deployments.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fairlead_api::{BundleId, Code};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::JoinSet,
    time::sleep,
};
use tracing::warn;

use super::{
    failure::{FailureClass, RunFailure},
    observer::Findings,
    shared::Shared,
    worker::{Command, Forgotten, Worker, WorkerMessage},
};
use crate::{journal::Journal, reports::States};

const LOAD_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Messages that wait for one worker.
const MAX_MESSAGES: usize = 16;

/// Engine of one cluster.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    findings: Findings,
    workers: BTreeMap<BundleId, mpsc::Sender<WorkerMessage>>,
    tasks: JoinSet<Forgotten>,
    /// Generations of tombstones that are done.
    buried: BTreeMap<BundleId, u64>,
    /// Bundles with a journal whose workers have not published a state yet; none before the journals are read.
    unpublished: Option<BTreeSet<BundleId>>,
}

impl Engine {
    pub(crate) fn new(
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
        findings: Findings,
    ) -> Self {
        Self {
            shared,
            commands,
            findings,
            workers: BTreeMap::new(),
            tasks: JoinSet::new(),
            buried: BTreeMap::new(),
            unpublished: None,
        }
    }

    /// Works until the future is dropped.
    pub(crate) async fn run(&mut self) {
        let journals = self.load().await;
        let bundles = journals.iter().map(|journal| journal.bundle().clone());
        self.unpublished = Some(bundles.collect());
        for journal in journals {
            self.start(journal);
        }
        let mut desired = self.shared.desired.clone();
        desired.mark_changed();
        let mut states = self.shared.states.subscribe();
        states.mark_changed();
        loop {
            tokio::select! {
                changed = desired.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    desired.mark_unchanged();
                    self.start_named();
                }
                Ok(()) = states.changed(), if self.unpublished.is_some() => {
                    states.mark_unchanged();
                    self.note_published();
                }
                Some(command) = self.commands.recv() => self.command(command),
                Some(report) = self.findings.drift.recv() => {
                    self.found(&report.bundle, WorkerMessage::Drift(report.event));
                }
                Some(change) = self.findings.secrets.recv() => {
                    self.found(&change.bundle, WorkerMessage::SecretChanged);
                }
                Some(finding) = self.findings.releases.recv() => {
                    self.found(&finding.bundle, WorkerMessage::Release(finding.change));
                }
                Some(ended) = self.tasks.join_next() => self.end(ended),
            }
        }
    }

    /// Ends all workers and the observation at once. The journals have everything that the next start needs.
    pub(crate) async fn stop(&mut self) {
        self.tasks.shutdown().await;
        self.workers.clear();
        self.shared.observer.stop().await;
        // The next leader has its own states.
        self.unpublished = None;
        self.shared.states.send_replace(States::default());
        // Findings of this time as the leader mean nothing to the workers of the next one.
        while self.findings.drift.try_recv().is_ok() {}
        while self.findings.secrets.try_recv().is_ok() {}
        while self.findings.releases.try_recv().is_ok() {}
    }

    async fn load(&self) -> Vec<Journal> {
        loop {
            let loading = Journal::load_all(&self.shared.client, self.shared.fences.process());
            match loading.await {
                Ok(journals) => return journals.into_values().collect(),
                Err(error) => warn!(%error, "journals not read; retrying"),
            }
            sleep(LOAD_RETRY_INTERVAL).await;
        }
    }

    /// Lets the states be reported once each journal has one.
    fn note_published(&mut self) {
        let Some(unpublished) = &mut self.unpublished else {
            return;
        };
        let states = self.shared.states.borrow().clone();
        let workers = &self.workers;
        unpublished.retain(|it| workers.contains_key(it) && !states.reports.contains_key(it));
        if unpublished.is_empty() {
            self.unpublished = None;
            self.shared
                .states
                .send_modify(|states| states.is_whole = true);
        }
    }

    fn start(&mut self, journal: Journal) {
        let (sender, inbox) = mpsc::channel(MAX_MESSAGES);
        self.workers.insert(journal.bundle().clone(), sender);
        let worker = Worker::new(self.shared.clone(), journal, inbox);
        self.tasks.spawn(Box::pin(worker.run()));
    }

    fn start_new(&mut self, bundle: BundleId) {
        let process = self.shared.fences.process();
        let journal = Journal::new(self.shared.client.clone(), bundle, process);
        self.start(journal);
    }

    /// Starts workers of bundles that the hub names.
    fn start_named(&mut self) {
        let desired = self.shared.desired.borrow().clone();
        let Some(desired) = desired else {
            return;
        };
        let mut tombs = BTreeSet::new();
        for named in &desired.bundles {
            let buried = self.buried.get(&named.bundle).copied();
            if named.remove {
                tombs.insert(named.bundle.clone());
                if buried.is_some_and(|generation| generation >= named.generation) {
                    continue;
                }
            }
            if !self.workers.contains_key(&named.bundle) {
                self.start_new(named.bundle.clone());
            }
        }
        self.buried.retain(|bundle, _| tombs.contains(bundle));
        // The hub has taken note of a removal when its tombstone is gone.
        self.shared.states.send_if_modified(|states| {
            let before = states.gone.len();
            states.gone.retain(|bundle| tombs.contains(bundle));
            before != states.gone.len()
        });
    }

    fn command(&mut self, command: Command) {
        let bundle = command.claimed.bundle.clone();
        if !self.workers.contains_key(&bundle) {
            self.start_new(bundle.clone());
        }
        let Some(worker) = self.workers.get(&bundle) else {
            return;
        };
        let sent = worker.try_send(WorkerMessage::Command(Box::new(command)));
        let Err(error) = sent else {
            return;
        };
        let sentence = match &error {
            TrySendError::Full(_) => "the deployment has too many commands",
            TrySendError::Closed(_) => "the cluster forgets the deployment at this moment",
        };
        if let WorkerMessage::Command(command) = error.into_inner() {
            let class = FailureClass::Retry;
            command
                .ticket
                .fail(&RunFailure::new(class, Code::DeploymentWaits, sentence));
        }
    }

    fn found(&self, bundle: &BundleId, message: WorkerMessage) {
        if let Some(worker) = self.workers.get(bundle) {
            // A lost finding comes again with the next comparison.
            let _ = worker.try_send(message);
        }
    }

    fn end(&mut self, ended: Result<Forgotten, tokio::task::JoinError>) {
        match ended {
            Ok(Forgotten { bundle, buried }) => {
                self.workers.remove(&bundle);
                self.note_published();
                if let Some(generation) = buried {
                    self.buried.insert(bundle, generation);
                }
                // The hub may have named the bundle while its worker ended.
                self.start_named();
            }
            Err(error) if error.is_panic() => {
                warn!(%error, "worker of a deployment failed");
                self.workers.retain(|_, worker| !worker.is_closed());
            }
            Err(_) => {}
        }
    }
}
