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
    let is_away = Arc::new(Mutex::new(false));
    let away = is_away.clone();
    api.set_fault(move |method, path, _| {
        let mut away = away.lock().unwrap();
        *away |= *method == Method::PATCH && path.starts_with(OBJECTS);
        (*away && *method != Method::GET).then(|| status(503, "", ""))
    });
    hub.release(1, &["a"]);
    let agent = Agent::start(&api, &hub);
    until("first apply", || *is_away.lock().unwrap()).await;
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
