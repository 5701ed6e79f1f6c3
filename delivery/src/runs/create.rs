//! New commands of people.

use std::time::Duration;

use fairlead_api::{
    BundleId, ClusterId, RunId,
    delivery::{ArtifactId, Run, RunKind, RunOrigin, SpecId},
};
use fairlead_rollout::{COMMAND_PRIORITY, NewRun};
use fairlead_store::{StoreError, random};

use super::{
    Runs,
    record::{RunDetails, StoredRun, first},
};

/// Time for an agent to claim a command.
const COMMAND_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// Time for an agent to claim a comparison. Its spec is kept for an hour.
const DIFF_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// A command to create.
#[derive(Debug, Clone)]
pub(crate) struct NewCommand {
    /// The cluster.
    pub(crate) cluster: ClusterId,
    /// The bundle.
    pub(crate) bundle: BundleId,
    /// Work of the run.
    pub(crate) kind: RunKind,
    /// Newest generation of the bundle; 0 without one.
    pub(crate) generation: u64,
    /// Spec of a `diff`, and its files.
    pub(crate) content: Option<(SpecId, ArtifactId)>,
    /// True: the person has confirmed the blocked step.
    pub(crate) confirm: bool,
    /// Name of the person.
    pub(crate) created_by: String,
}

impl Runs {
    /// Queues a command. It supersedes waiting ones of its kind.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the cluster is gone.
    pub(crate) async fn create(&self, new: NewCommand) -> Result<Run, StoreError> {
        let id = self.new_id()?;
        let (cluster, bundle) = (new.cluster.clone(), new.bundle.clone());
        let created = self.change((&cluster, &bundle), None, |open, now| {
            open.tick(now);
            let deadline = match new.kind {
                RunKind::Diff => DIFF_DEADLINE,
                RunKind::Sync | RunKind::Remove => COMMAND_DEADLINE,
            };
            let queued = NewRun {
                id: id.clone(),
                kind: new.kind,
                // A plain command never replaces a confirmation that waits.
                priority: COMMAND_PRIORITY + i8::from(new.confirm),
                deadline: Some(now + deadline),
            };
            let run = StoredRun {
                cluster: new.cluster,
                bundle: new.bundle,
                version: 0,
                details: RunDetails {
                    queued: first(id.clone(), new.kind, now),
                    origin: RunOrigin::Command,
                    created_by: new.created_by,
                    generation: new.generation,
                    content: new.content,
                    confirm: new.confirm,
                    step: None,
                    log_bytes: 0,
                    sentence: None,
                    code: None,
                },
            };
            open.add(run);
            open.with_queue(|queue| queue.push(now, queued));
            open.get(&id).map(|it| it.shown(None, None))
        });
        created.await?.ok_or(StoreError::Missing)
    }

    /// Id of a new run; ids rise with time.
    fn new_id(&self) -> Result<RunId, StoreError> {
        let random = random::bytes();
        // Without random bytes the process cannot make keys either.
        let random = random.map_err(|error| StoreError::Damaged(error.to_string()))?;
        Ok(RunId::from_parts(self.now().0, random))
    }
}
