use fairlead_api::delivery::RunDiff;

use super::*;
use crate::{
    engine::{Applied, RunContext, RunFailure},
    journal::JournalRecord,
};

/// Executor whose programs outlive the agent. It notes whether the lock is there when they are ended.
struct Outliving {
    api: FakeApi,
    locked: Mutex<Vec<bool>>,
}

#[async_trait]
impl Executor for Outliving {
    async fn sync(&self, run: &RunContext) -> Result<Applied, RunFailure> {
        ManifestExecutor.sync(run).await
    }

    async fn remove(&self, run: &RunContext) -> Result<(), RunFailure> {
        ManifestExecutor.remove(run).await
    }

    async fn diff(&self, run: &RunContext) -> Result<RunDiff, RunFailure> {
        ManifestExecutor.diff(run).await
    }

    async fn end_programs(&self, _: &JournalRecord) -> bool {
        let is_locked = self.api.get(LOCK).is_some();
        self.locked.lock().unwrap().push(is_locked);
        true
    }
}

#[tokio::test]
async fn programs_of_an_interrupted_run_end_before_its_fence() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let is_over = Arc::new(Mutex::new(false));
    let over = is_over.clone();
    let (mut is_away, mut is_kept) = (false, false);
    api.set_fault(move |method, path, _| {
        is_away |= *method == Method::PATCH && path.starts_with(OBJECTS);
        is_kept |= is_away && *method == Method::DELETE && path == LOCK;
        *over.lock().unwrap() |= is_kept && *method != Method::GET && path == JOURNAL;
        (is_away && *method != Method::GET).then(|| status(503, "", ""))
    });
    hub.release(1, &["a"]);
    let agent = Agent::start(&api, &hub);
    // Afterwards the agent pauses, so that no request of it arrives after the fault.
    until("end of the run", || *is_over.lock().unwrap()).await;
    drop(agent);
    api.clear_fault();
    free_lease(&api);
    let executor = Arc::new(Outliving {
        api: api.clone(),
        locked: Mutex::default(),
    });
    let _agent = Agent::start_with(&api, &hub, executor.clone());
    until_ready(&hub, 1).await;
    assert_eq!(executor.locked.lock().unwrap().first(), Some(&true));
}
