//! Runs of one deployment while a change decides on them.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::RunId;
use fairlead_delivery_store::RunRow;
use fairlead_rollout::{RunQueue, UnixMillis};
use fairlead_store::StoreError;

use super::record::{RunDetails, StoredRun};

/// Runs of one deployment that have not ended, and the run that the change names.
pub(super) struct OpenRuns {
    runs: BTreeMap<RunId, StoredRun>,
    changed: BTreeSet<RunId>,
    /// Commands among them.
    queue: RunQueue,
}

impl OpenRuns {
    /// Reads rows of one deployment.
    pub(super) fn of(rows: Vec<RunRow>) -> Result<Self, StoreError> {
        let runs = rows.iter().map(StoredRun::of);
        let runs = runs.map(|it| it.map(|it| (it.id().clone(), it)));
        let runs: BTreeMap<RunId, StoredRun> = runs.collect::<Result<_, _>>()?;
        let commands = runs.values().filter(|it| it.is_command());
        let queued = commands.map(|it| it.details.queued.clone()).collect();
        Ok(OpenRuns {
            runs,
            changed: BTreeSet::new(),
            queue: RunQueue::restore(queued),
        })
    }

    pub(super) fn get(&self, id: &RunId) -> Option<&StoredRun> {
        self.runs.get(id)
    }

    /// The stored runs, in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &StoredRun> {
        self.runs.values()
    }

    pub(super) fn queue(&self) -> &RunQueue {
        &self.queue
    }

    /// Works on the queue of commands, and takes its changes over.
    pub(super) fn with_queue<T>(&mut self, work: impl FnOnce(&mut RunQueue) -> T) -> T {
        let answer = work(&mut self.queue);
        for queued in self.queue.take_changed() {
            if let Some(run) = self.runs.get_mut(&queued.id) {
                self.changed.insert(queued.id.clone());
                run.details.queued = queued;
            }
        }
        answer
    }

    /// Changes the details of a run.
    pub(super) fn amend(&mut self, id: &RunId, amend: impl FnOnce(&mut RunDetails)) {
        if let Some(run) = self.runs.get_mut(id) {
            self.changed.insert(id.clone());
            amend(&mut run.details);
        }
    }

    /// Adds a run. One of the same id stays as it is.
    pub(super) fn add(&mut self, run: StoredRun) {
        let id = run.id().clone();
        if let std::collections::btree_map::Entry::Vacant(entry) = self.runs.entry(id.clone()) {
            entry.insert(run);
            self.changed.insert(id);
        }
    }

    /// Lets the time pass.
    pub(super) fn tick(&mut self, now: UnixMillis) {
        self.with_queue(|queue| queue.tick(now));
    }

    /// True if nothing is to be written.
    pub(super) fn is_unchanged(&self) -> bool {
        self.changed.is_empty()
    }

    /// Rows to write.
    pub(super) fn into_changed(self) -> Vec<RunRow> {
        let changed = self.changed.iter();
        let changed = changed.filter_map(|id| self.runs.get(id));
        changed.map(StoredRun::next_row).collect()
    }
}
