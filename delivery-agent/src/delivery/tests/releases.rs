//! Releases that somebody else changes by hand.

use fairlead_api::delivery::{RunDiff, RunOrigin};

use super::*;
use crate::engine::{Applied, RunContext, RunFailure};

const RECORDS: &str = "/api/v1/namespaces/shop/secrets/sh.helm.release.v1.shop.v";

/// Executor that writes one record per run, as Helm does.
struct FakeHelm {
    api: FakeApi,
    origins: Origins,
}

/// Causes of the runs.
type Origins = Arc<Mutex<Vec<RunOrigin>>>;

#[async_trait]
impl Executor for FakeHelm {
    async fn sync(&self, run: &RunContext) -> Result<Applied, RunFailure> {
        let number = write_revision(&self.api);
        let pending = run.journal.state().await.record.pending;
        self.origins.lock().unwrap().push(pending.unwrap().origin);
        let update = run
            .journal
            .update(|state| state.record.helm.revision = Some(number));
        update.await?;
        Ok(Applied::default())
    }

    async fn remove(&self, _: &RunContext) -> Result<(), RunFailure> {
        Ok(())
    }

    async fn diff(&self, _: &RunContext) -> Result<RunDiff, RunFailure> {
        Ok(RunDiff::default())
    }
}

/// Writes the next revision, and returns its number.
fn write_revision(api: &FakeApi) -> u32 {
    let number = u32::try_from(api.paths(RECORDS).len()).unwrap() + 1;
    let record = json!({"metadata": {
        "name": format!("sh.helm.release.v1.shop.v{number}"),
        "labels": {"owner": "helm", "name": "shop", "status": "deployed", "version": number.to_string()},
    }});
    api.put(&format!("{RECORDS}{number}"), record);
    number
}

fn start(api: &FakeApi, hub: &Arc<FakeHub>, origins: &Origins) -> Agent {
    let helm = FakeHelm {
        api: api.clone(),
        origins: origins.clone(),
    };
    let executors = Executors {
        manifests: Arc::new(ManifestExecutor),
        helm: Some(Arc::new(helm)),
    };
    Agent::start_executors(api, hub, executors)
}

fn of_helm(drift: DriftPolicy) -> impl Fn(&mut Spec) {
    move |spec| {
        spec.kind = BundleKind::Helm;
        spec.drift = drift;
    }
}

#[tokio::test]
async fn revision_of_somebody_else_is_corrected_or_reported() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let origins = Origins::default();
    hub.release_with(1, &["a"], of_helm(DriftPolicy::Correct));
    let agent = start(&api, &hub, &origins);
    until_ready(&hub, 1).await;
    drop(agent);
    assert_eq!(write_revision(&api), 2);
    free_lease(&api);
    let agent = start(&api, &hub, &origins);
    until("correction", || api.paths(RECORDS).len() == 3).await;
    until_ready(&hub, 1).await;

    hub.release_with(12, &["a"], of_helm(DriftPolicy::Report));
    agent.nudge(&hub);
    until_ready(&hub, 12).await;
    drop(agent);
    assert_eq!(write_revision(&api), 5);
    free_lease(&api);
    let _agent = start(&api, &hub, &origins);
    until("Drifted", || {
        hub.report()
            .is_some_and(|it| it.state == DeploymentState::Drifted)
    })
    .await;
    let report = hub.report().unwrap();
    let sentence = "Helm release shop/shop: revision 5 is somebody else's";
    assert_eq!(report.reason.as_deref(), Some(sentence));
    assert_eq!(report.code.as_deref(), Some("FL-6227"));
    assert_eq!(report.drift[0].object, "Helm release shop/shop");
    assert_eq!(api.paths(RECORDS).len(), 5);
    let expected = [RunOrigin::Desired, RunOrigin::Drift, RunOrigin::Desired];
    assert_eq!(*origins.lock().unwrap(), expected);
}
