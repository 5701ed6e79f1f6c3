use std::sync::atomic::{AtomicBool, Ordering};

use fairlead_api::delivery::RunDiff;
use http::{Request, Response};
use serde_json::json;

use super::*;
use crate::{
    HubConnection, HubUnreachable, ProcessIdentity,
    engine::{Applied, RunContext},
    fence::FenceWaits,
    testing::FakeApi,
};

const LOCK: &str = "/api/v1/namespaces/fairlead-delivery/secrets/run-b-shop";
/// Wait after the lock of a program that may still live.
const LONG_WAIT: Duration = Duration::from_millis(300);

struct AwayHub;

#[async_trait]
impl HubConnection for AwayHub {
    async fn send(
        &self,
        _: Request<bytes::Bytes>,
        _: usize,
    ) -> Result<Response<bytes::Bytes>, HubUnreachable> {
        Err(HubUnreachable("away".to_owned()))
    }
}

/// Executor that notes whether the lock was there when it ended its programs.
struct Programs {
    api: FakeApi,
    /// Answer about the end of the programs.
    is_ended: AtomicBool,
    locked: Mutex<Vec<bool>>,
}

#[async_trait]
impl Executor for Programs {
    async fn sync(&self, _: &RunContext) -> Result<Applied, RunFailure> {
        unreachable!()
    }

    async fn remove(&self, _: &RunContext) -> Result<(), RunFailure> {
        unreachable!()
    }

    async fn diff(&self, _: &RunContext) -> Result<RunDiff, RunFailure> {
        unreachable!()
    }

    async fn end_programs(&self, _: &JournalRecord) -> bool {
        let is_locked = self.api.get(LOCK).is_some();
        self.locked.lock().unwrap().push(is_locked);
        self.is_ended.load(Ordering::Relaxed)
    }
}

struct World {
    api: FakeApi,
    fences: Fences,
    access: FencedAccess,
    programs: Arc<Programs>,
    bundle: BundleId,
}

impl World {
    async fn start(is_ended: bool) -> Self {
        let api = FakeApi::start().await;
        let namespace = "/api/v1/namespaces/fairlead-delivery";
        api.put(
            namespace,
            json!({"metadata": {"name": "fairlead-delivery"}}),
        );
        let account = format!("{namespace}/serviceaccounts/deployer");
        api.put(&account, json!({"metadata": {"name": "deployer"}}));
        let process = ProcessIdentity::of_pod("a");
        let waits = FenceWaits {
            unknown_process: LONG_WAIT,
            dead_process: Duration::ZERO,
            gone: Duration::from_secs(20),
        };
        let fences = Fences::new(api.client(), Arc::new(process.clone())).with_waits(waits);
        let mut access = FencedAccess::new(fences.clone(), Uploads::new(Arc::new(AwayHub)));
        access.stale_lock_age = Duration::ZERO;
        let bundle: BundleId = "b-shop".parse().unwrap();
        let programs = Arc::new(Programs {
            api: api.clone(),
            is_ended: AtomicBool::new(is_ended),
            locked: Mutex::default(),
        });
        let grant = DriftGrant {
            account: AccountName::parse("deployer").unwrap(),
            journal: Journal::new(api.client(), bundle.clone(), &process),
            journal_uid: "uid".to_owned(),
            executor: Some(programs.clone()),
            generation: 1,
        };
        access.grant(&bundle, grant);
        Self {
            api,
            fences,
            access,
            programs,
            bundle,
        }
    }

    /// Makes the lock of a run that was killed.
    async fn lose_a_run(&self) {
        let run = new_run_id(OffsetDateTime::now_utc());
        let attempt = FencedAttempt {
            bundle: &self.bundle,
            run: &run,
            attempt: 1,
        };
        let account = AccountName::parse("deployer").unwrap();
        drop(self.fences.acquire(attempt, &account).await.unwrap());
    }
}

#[tokio::test]
async fn deleted_journal_is_written_again_for_its_observers() {
    let world = World::start(true).await;
    let journal = "/api/v1/namespaces/fairlead-delivery/secrets/release-b-shop";
    let grant = world.access.grant_of(&world.bundle).unwrap();
    let noted = grant.journal.update(|state| state.record.highest = 7).await;
    noted.unwrap();
    let before = grant.journal.uid().await;
    world.api.delete(journal);
    assert!(world.access.observer("deployer").await.is_ok());
    assert_ne!(grant.journal.uid().await, before);
    assert!(world.api.get(journal).is_some());
}

#[tokio::test]
async fn programs_of_a_killed_run_end_before_its_lock() {
    let world = World::start(true).await;
    world.lose_a_run().await;
    let run = world.access.begin_correction(&world.bundle, &[]).await;
    let run = run.ok().unwrap();
    assert_eq!(*world.programs.locked.lock().unwrap(), [true]);
    run.end(CorrectionOutcome::Corrected, "").await;
    assert_eq!(world.api.get(LOCK), None);
}

#[tokio::test]
async fn correction_waits_longer_while_a_program_may_live() {
    let world = World::start(false).await;
    world.lose_a_run().await;
    let start = Instant::now();
    let run = world.access.begin_correction(&world.bundle, &[]).await;
    assert!(run.is_ok());
    assert!(start.elapsed() >= LONG_WAIT);
}

#[tokio::test]
async fn no_correction_begins_beside_a_program_without_a_lock() {
    let world = World::start(false).await;
    let refused = world.access.begin_correction(&world.bundle, &[]).await;
    let refused = refused.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "a program of an earlier run may still work"
    );
    assert_eq!(world.api.get(LOCK), None);
    world.programs.is_ended.store(true, Ordering::Relaxed);
    let run = world.access.begin_correction(&world.bundle, &[]).await;
    assert!(run.is_ok());
}
