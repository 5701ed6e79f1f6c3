//! Runs that agents make by themselves.

use fairlead_api::{
    RunId,
    delivery::{
        AgentRun, AttemptOutcome, CancelMode, DeploymentReports, DeploymentState, RunHeartbeat,
        RunKind, RunOrigin, RunState,
    },
    resources::ClusterState,
};
use fairlead_rollout::ResultReceipt;

use super::{BUNDLE, Rig, cluster};
use crate::{fleet::TakenReports, runs::refusal::RunRefusal};

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

impl Rig {
    /// Reports the shop as the agent of the cluster does.
    async fn report(&self, state: DeploymentState, run: &RunId) {
        let report = serde_json::json!({
            "bundle": BUNDLE, "state": state, "generation": 8, "applied": 8, "run": run,
            "attempt": 0, "objects": {"total": 1, "ready": 1},
        });
        let reports = DeploymentReports {
            reports: vec![serde_json::from_value(report).unwrap()],
            ..DeploymentReports::default()
        };
        let fleet = &self.runs.parts.fleet;
        let taken = fleet.report(&cluster(), reports).await.unwrap();
        assert!(matches!(taken, TakenReports::Taken(_)), "{taken:?}");
    }

    async fn connect(&self) {
        let store = &self.runs.parts.store;
        let mut status = store.observed(&cluster()).unwrap().status.clone();
        status.state = ClusterState::Connected;
        store.set_status(&cluster(), status);
        self.runs.parts.fleet.pass().await.unwrap();
    }

    async fn state_after(&self, seconds: i64, run: &RunId) -> RunState {
        self.advance(seconds);
        self.runs.lapse().await.unwrap();
        self.state(run).await
    }
}

#[tokio::test]
async fn run_of_a_killed_agent_ends_without_a_newer_one() {
    let rig = Rig::new().await;
    let run = id('B');
    rig.connect().await;
    rig.register(&run, 1).await.unwrap();
    rig.report(DeploymentState::Applying, &run).await;
    assert_eq!(rig.state_after(600, &run).await, RunState::Running);
    // A state that names an earlier run tells nothing about this one.
    rig.report(DeploymentState::Ready, &id('A')).await;
    assert_eq!(rig.state_after(600, &run).await, RunState::Running);
    rig.report(DeploymentState::NotReady, &run).await;
    assert_eq!(
        rig.state_after(60, &run).await,
        RunState::Running,
        "the result may be on its way"
    );
    assert_eq!(rig.state_after(180, &run).await, RunState::Unknown);
    let late = (1, AttemptOutcome::Succeeded, 0);
    rig.finish(&run, late).await.unwrap();
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
