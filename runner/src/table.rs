//! Runs of this runner: those that run, and those whose result was not acknowledged.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use tracing::info;

use crate::{
    child::Started,
    config::Config,
    refusal::Refusal,
    request::RunKey,
    run::Run,
    status::{Cause, RunStatus},
    upload::Upload,
    work::WorkRoot,
};

/// All runs.
pub(crate) struct Table {
    config: Config,
    root: WorkRoot,
    entries: Mutex<Entries>,
    /// Number of programs that run.
    running: watch::Sender<usize>,
}

#[derive(Default)]
struct Entries {
    runs: BTreeMap<RunKey, Arc<Run>>,
    starting: BTreeSet<RunKey>,
    is_closed: bool,
}

/// Place of a run that is being started, given back on failure.
struct Slot<'a> {
    table: &'a Table,
    key: RunKey,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.table.entries().starting.remove(&self.key);
    }
}

impl Table {
    pub(crate) fn new(config: Config, root: WorkRoot) -> Self {
        Table {
            config,
            root,
            entries: Mutex::default(),
            running: watch::Sender::new(0),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn root(&self) -> &WorkRoot {
        &self.root
    }

    /// Follows the number of programs that run.
    pub(crate) fn running(&self) -> watch::Receiver<usize> {
        self.running.subscribe()
    }

    pub(crate) fn get(&self, key: &RunKey) -> Result<Arc<Run>, Refusal> {
        let entries = self.entries();
        entries.runs.get(key).cloned().ok_or(Refusal::UnknownRun)
    }

    pub(crate) fn statuses(&self) -> Vec<RunStatus> {
        self.entries()
            .runs
            .values()
            .map(|run| run.status())
            .collect()
    }

    /// Starts a run. The same request again gets the state of the run.
    pub(crate) async fn start(
        self: &Arc<Self>,
        key: RunKey,
        upload: &mut Upload,
    ) -> Result<RunStatus, Refusal> {
        let limits = &self.config.limits;
        let mut request = upload.request().await?;
        request.check(limits.file_bytes, limits.files)?;
        if let Ok(run) = self.get(&key) {
            let same = run.request().is_same(&request);
            return if same {
                Ok(run.status())
            } else {
                Err(Refusal::OtherRun)
            };
        }
        let slot = self.reserve(&key)?;
        let folder = self.root.make(&key)?;
        upload.write_files(&request.files, &folder).await?;
        if let Some(access) = &mut request.cluster {
            folder.write_access(access)?;
            access.token.clear();
        }
        let folder = Arc::new(folder);
        let started = Started::start(&self.config, &key, &request, Arc::clone(&folder))?;
        info!(run = %key, operation = request.operation.name(), pid = started.pid(), "program started");
        let time = Duration::from_secs(u64::from(request.timeout_seconds));
        let output_bytes = if request.operation.is_query() {
            limits.query_bytes
        } else {
            limits.output_bytes
        };
        let run = Run::new(key.clone(), request, started.pid(), folder, output_bytes);
        let run = Arc::new(run);
        self.entries().runs.insert(key, Arc::clone(&run));
        self.running.send_modify(|running| *running += 1);
        drop(slot);
        tokio::spawn(Arc::clone(self).follow(Arc::clone(&run), started, time));
        Ok(run.status())
    }

    fn reserve(&self, key: &RunKey) -> Result<Slot<'_>, Refusal> {
        let limits = &self.config.limits;
        let mut entries = self.entries();
        if entries.is_closed {
            return Err(Refusal::ShuttingDown);
        }
        let running = entries.runs.values().filter(|run| !run.has_ended()).count();
        if running + entries.starting.len() >= limits.running {
            return Err(Refusal::Busy);
        }
        if entries.runs.len() + entries.starting.len() >= limits.runs {
            return Err(Refusal::TableFull);
        }
        if !entries.starting.insert(key.clone()) {
            return Err(Refusal::Busy);
        }
        Ok(Slot {
            table: self,
            key: key.clone(),
        })
    }

    async fn follow(self: Arc<Self>, run: Arc<Run>, started: Started, time: Duration) {
        let kill_delay = self.config.limits.kill_delay;
        let ending = started.supervise(&run, time, kill_delay).await;
        run.end(ending);
        self.running.send_modify(|running| *running -= 1);
    }

    /// Forgets an ended run, whose result the agent has.
    pub(crate) fn acknowledge(&self, key: &RunKey) -> Result<(), Refusal> {
        let mut entries = self.entries();
        let run = entries.runs.get(key).ok_or(Refusal::UnknownRun)?;
        if !run.has_ended() {
            return Err(Refusal::NotEnded);
        }
        entries.runs.remove(key);
        Ok(())
    }

    /// Orders the end of all programs.
    pub(crate) fn stop_all(&self, cause: Cause, hard: bool) {
        for run in self.entries().runs.values() {
            if !run.has_ended() {
                run.stop(cause, hard);
            }
        }
    }

    /// Starts no program any more.
    pub(crate) fn close(&self) {
        self.entries().is_closed = true;
    }
}
