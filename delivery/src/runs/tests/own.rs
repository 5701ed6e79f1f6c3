//! Runs that agents make by themselves.

use fairlead_api::{
    RunId,
    delivery::{AgentRun, AttemptOutcome, CancelMode, RunHeartbeat, RunKind, RunOrigin, RunState},
};
use fairlead_rollout::ResultReceipt;

use super::{BUNDLE, Rig, cluster};
use crate::runs::refusal::RunRefusal;

fn id(last: char) -> RunId {
    format!("run-01ARZ3NDEKTSV4RRFFQ69G5FA{last}")
        .parse()
        .unwrap()
}

impl Rig {
    async fn register(&self, id: &RunId, attempt: u32) -> Result<u64, RunRefusal> {
        let sent = AgentRun {
            bundle: BUNDLE.parse().unwrap(),
            kind: RunKind::Sync,
            origin: RunOrigin::Drift,
            generation: 8,
            attempt,
            started_at: self.now(),
        };
        let receipt = self.runs.register(&cluster(), id, &sent).await?;
        Ok(receipt.log_offset)
    }
}

#[tokio::test]
async fn an_agent_repeats_its_run_by_itself() {
    let rig = Rig::new().await;
    let run = id('A');
    assert_eq!(rig.register(&run, 1).await.unwrap(), 0);
    assert_eq!(
        rig.register(&run, 1).await.unwrap(),
        0,
        "the answer was lost"
    );
    let shown = rig.stored(&run).await.shown(None, None);
    assert_eq!(
        (shown.state, shown.origin, shown.generation),
        (RunState::Running, RunOrigin::Drift, 8)
    );
    assert_eq!((shown.created_by.as_str(), shown.attempt), ("agent", 1));
    assert_eq!(rig.claim().await, None, "nobody claims the run of an agent");

    let failed = (1, AttemptOutcome::Failed, 0);
    assert_eq!(
        rig.finish(&run, failed).await.unwrap(),
        ResultReceipt::Accepted
    );
    assert_eq!(
        rig.finish(&run, failed).await.unwrap(),
        ResultReceipt::AlreadyAccepted
    );
    assert_eq!(rig.state(&run).await, RunState::Failed);
    assert_eq!(rig.claim().await, None, "the agent repeats it");
    rig.register(&run, 2).await.unwrap();
    assert_eq!(rig.state(&run).await, RunState::Running);
    assert!(rig.register(&run, 1).await.is_err(), "an old attempt");
    assert!(
        rig.finish(&run, (1, AttemptOutcome::Succeeded, 0))
            .await
            .is_err()
    );
    rig.finish(&run, (2, AttemptOutcome::Succeeded, 0))
        .await
        .unwrap();
    assert_eq!(rig.state(&run).await, RunState::Succeeded);
}

#[tokio::test]
async fn a_newer_run_ends_one_without_result() {
    let rig = Rig::new().await;
    rig.register(&id('A'), 1).await.unwrap();
    rig.register(&id('B'), 1).await.unwrap();
    assert_eq!(rig.state(&id('A')).await, RunState::Unknown);
    // Reports of the time without a hub arrive late, and still count.
    rig.finish(&id('A'), (1, AttemptOutcome::Succeeded, 0))
        .await
        .unwrap();
    assert_eq!(rig.state(&id('A')).await, RunState::Succeeded);
    assert_eq!(rig.state(&id('B')).await, RunState::Running);
}

#[tokio::test]
async fn a_person_cancels_the_run_of_an_agent() {
    let rig = Rig::new().await;
    rig.register(&id('A'), 1).await.unwrap();
    let stored = rig.stored(&id('A')).await;
    rig.runs
        .cancel(&stored, CancelMode::Hard)
        .await
        .unwrap()
        .unwrap();
    let sent = RunHeartbeat {
        attempt: 1,
        step: None,
    };
    let status = rig
        .runs
        .heartbeat(&cluster(), &id('A'), &sent)
        .await
        .unwrap();
    assert_eq!(status.cancel, Some(CancelMode::Hard));
    let elsewhere = "c-b".parse().unwrap();
    let foreign = rig.runs.heartbeat(&elsewhere, &id('A'), &sent).await;
    assert!(matches!(foreign, Err(RunRefusal::Gone(_))));
}
