//! Bundles that return to their earlier content when objects do not become ready.

use fairlead_api::{Code, delivery::RunDiff};
use fairlead_manifests::{ObjectKey, ObjectKind};
use fairlead_runner::RunKey;

use super::*;
use crate::{
    engine::{Applied, AppliedObject, FailureClass, RunContext, RunFailure},
    helm::{HelmStep, HelmWork, RunnerMark},
};

const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

/// Executor that rolls back. From generation 12 on it names a Deployment that the cluster does not have.
#[derive(Default)]
struct Returning {
    /// Generation of each sync.
    syncs: Mutex<Vec<u64>>,
    /// Applied generation at each return.
    returns: Mutex<Vec<Option<u64>>>,
}

#[async_trait]
impl Executor for Returning {
    async fn sync(&self, run: &RunContext) -> Result<Applied, RunFailure> {
        let mut applied = ManifestExecutor.sync(run).await?;
        self.syncs.lock().unwrap().push(run.generation);
        if run.generation == 12 {
            let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
            applied.objects.push(AppliedObject {
                key: ObjectKey::of(&web).unwrap(),
                kind: ObjectKind::of(&web).unwrap(),
                manifest: web,
                baseline: None,
            });
        }
        Ok(applied)
    }

    async fn remove(&self, run: &RunContext) -> Result<(), RunFailure> {
        ManifestExecutor.remove(run).await
    }

    async fn diff(&self, run: &RunContext) -> Result<RunDiff, RunFailure> {
        ManifestExecutor.diff(run).await
    }

    fn rolls_back(&self, _: &Spec) -> bool {
        true
    }

    async fn roll_back(&self, run: &RunContext, failure: RunFailure) -> Option<RunFailure> {
        let applied = run.journal.state().await.record.applied;
        let applied = applied.map(|applied| applied.generation);
        self.returns.lock().unwrap().push(applied);
        applied?;
        let sentence = format!("{}; returned to revision 1", failure.sentence);
        let class = FailureClass::Permanent;
        let noted = run.journal.update(|state| {
            state.record.helm.step = Some(step(run));
        });
        noted.await.unwrap();
        Some(RunFailure::new(class, Code::HelmRolledBack, sentence).ending_step())
    }
}

/// Step of a program that has ended.
fn step(run: &RunContext) -> HelmStep {
    HelmStep {
        key: RunKey {
            run: run.run.clone(),
            attempt: run.attempt,
        },
        work: HelmWork::Rollback(1),
        before: Some(2),
        runner: RunnerMark {
            instance: "a".into(),
            place: "b".into(),
        },
    }
}

impl Returning {
    fn syncs_of(&self, generation: u64) -> usize {
        let syncs = self.syncs.lock().unwrap();
        syncs.iter().filter(|it| **it == generation).count()
    }
}

pub(super) fn record(api: &FakeApi) -> serde_json::Value {
    let journal = api.get(JOURNAL).unwrap();
    let record = journal["data"]["record"].as_str().unwrap();
    let record = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, record);
    serde_json::from_slice(&record.unwrap()).unwrap()
}

fn timeout(seconds: u64) -> impl Fn(&mut Spec) {
    move |spec| spec.timeout_seconds = seconds
}

/// A deployment with generation 1 ready, and generation 12 released.
async fn released(seconds: u64) -> (FakeApi, Arc<FakeHub>, Arc<Returning>, Agent) {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let executor = Arc::new(Returning::default());
    hub.release_with(1, &["a"], timeout(seconds));
    let agent = Agent::start_with(&api, &hub, executor.clone());
    until_ready(&hub, 1).await;
    hub.release_with(12, &["a"], timeout(seconds));
    agent.nudge(&hub);
    (api, hub, executor, agent)
}

#[tokio::test]
async fn unready_content_is_returned_from_once_and_reported() {
    let (api, hub, executor, agent) = released(0).await;
    let is_failed = || {
        hub.report()
            .is_some_and(|it| it.state == DeploymentState::Failed)
    };
    until("Failed", is_failed).await;
    let report = hub.report().unwrap();
    assert_eq!(report.code.as_deref(), Some("FL-6233"));
    assert_eq!((report.generation, report.applied), (12, 1));
    assert!(report.retries_exhausted);
    let reason = report.reason.unwrap();
    assert!(
        reason.starts_with("not ready in time: Deployment shop/web"),
        "{reason}"
    );
    assert!(reason.ends_with("; returned to revision 1"), "{reason}");
    assert_eq!(*executor.returns.lock().unwrap(), [Some(1)]);
    let record = record(&api);
    assert_eq!(record["applied"]["generation"], 1);
    assert_eq!(record["helm"], json!({}), "the note clears the step");
    // A restart does not try the content again.
    drop(agent);
    free_lease(&api);
    hub.reports.lock().unwrap().clear();
    let _agent = Agent::start_with(&api, &hub, executor.clone());
    until("Failed again", is_failed).await;
    assert_eq!(executor.syncs_of(12), 1);
}

#[tokio::test]
async fn first_content_stays_without_a_content_to_return_to() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let executor = Arc::new(Returning::default());
    hub.release_with(12, &["a"], timeout(0));
    let _agent = Agent::start_with(&api, &hub, executor.clone());
    until("NotReady", || {
        hub.report()
            .is_some_and(|it| it.state == DeploymentState::NotReady && it.applied == 12)
    })
    .await;
    assert_eq!(*executor.returns.lock().unwrap(), [None]);
    assert_eq!(record(&api)["neverReady"], true);
}

#[tokio::test]
async fn kill_in_the_wait_for_health_keeps_the_earlier_content_in_the_journal() {
    let (api, hub, executor, agent) = released(600).await;
    until("sync", || executor.syncs_of(12) == 1).await;
    drop(agent);
    let left = record(&api);
    assert_eq!(left["applied"]["generation"], 1);
    assert_eq!(left["pending"]["generation"], 12);
    free_lease(&api);
    api.put(WEB, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"replicas": 0}, "status": {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}}));
    let _agent = Agent::start_with(&api, &hub, executor.clone());
    until_ready(&hub, 12).await;
    assert_eq!(executor.syncs_of(12), 2);
    assert!(executor.returns.lock().unwrap().is_empty());
}

#[tokio::test]
async fn newer_content_replaces_the_wait_for_health() {
    let (_api, hub, executor, agent) = released(600).await;
    until("sync", || executor.syncs_of(12) == 1).await;
    hub.release_with(113, &["a"], timeout(600));
    agent.nudge(&hub);
    until_ready(&hub, 113).await;
    assert!(executor.returns.lock().unwrap().is_empty());
}
