//! Deployments that cannot go on: their code, and the sentence with cause and object.

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::{
    Code,
    delivery::{AttemptOutcome, HelmOptions, RunDiff, RunKind, SecretInput},
};

use super::*;
use crate::engine::{Applied, RunContext, RunFailure};

const RECORD: &str = "/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v3";

/// Waits for a report with this code; returns it with its sentence.
async fn refused(hub: &FakeHub, code: Code) -> (DeploymentReport, String) {
    let text = code.to_string();
    let has_code = || {
        hub.report()
            .is_some_and(|it| it.code.as_ref() == Some(&text))
    };
    until(&text, has_code).await;
    let report = hub.report().unwrap();
    let reason = report.reason.clone().unwrap();
    (report, reason)
}

#[tokio::test]
async fn object_of_another_owner_is_not_taken() {
    for (labels, annotations, owner) in [
        (
            json!({"fairlead/bundle": "b-other"}),
            json!({}),
            "bundle b-other",
        ),
        (
            json!({"app.kubernetes.io/managed-by": "Helm"}),
            json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}),
            "Helm release shop/web",
        ),
    ] {
        let (api, hub) = (api().await, Arc::new(FakeHub::default()));
        let metadata =
            json!({"name": "a", "namespace": "shop", "labels": labels, "annotations": annotations});
        let path = format!("{OBJECTS}a");
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"g": "theirs"}});
        api.put(&path, theirs);
        hub.release(1, &["a"]);
        let _agent = Agent::start(&api, &hub);
        let (report, reason) = refused(&hub, Code::ForeignObject).await;
        assert_eq!(report.state, DeploymentState::Failed);
        assert!(report.retries_exhausted);
        assert_eq!(reason, format!("ConfigMap shop/a belongs to {owner}"));
        assert_eq!(api.get(&path).unwrap()["data"]["g"], "theirs");
    }
}

#[tokio::test]
async fn content_with_another_digest_is_not_applied() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(7, &["other"]);
    let other = hub.content.lock().unwrap().clone();
    let other = other
        .iter()
        .find(|(path, _)| path.starts_with(ARTIFACTS_PATH));
    let other = other.unwrap().1.clone();
    hub.content.lock().unwrap().clear();
    hub.release(8, &["a"]);
    let mut id = String::new();
    for (path, content) in hub.content.lock().unwrap().iter_mut() {
        if let Some(artifact) = path.strip_prefix(ARTIFACTS_PATH) {
            id = artifact.to_owned();
            *content = other.clone();
        }
    }
    let agent = Agent::start(&api, &hub);
    let (report, reason) = refused(&hub, Code::WrongDigest).await;
    assert_eq!(report.state, DeploymentState::Failed);
    assert!(!report.retries_exhausted, "it is requested again");
    assert_eq!(reason, format!("the hub sends other content for {id}"));
    assert_eq!(api.paths(OBJECTS), [""; 0]);
    // A new generation does not wait for the next attempt.
    hub.release(12, &["a"]);
    agent.nudge(&hub);
    until_ready(&hub, 12).await;
}

#[tokio::test]
async fn value_of_a_secret_outside_of_secrets_is_refused() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let secret = json!({"metadata": {"name": "db", "namespace": "shop"}, "data": {"password": STANDARD.encode("hunter2-hunter2")}});
    api.put("/api/v1/namespaces/shop/secrets/db", secret);
    hub.release_value(1, &["a"], "${vars.password}", |spec| {
        spec.secrets.push(SecretInput {
            namespace: None,
            name: "db".to_owned(),
            key: "password".to_owned(),
            destination: "vars.password".to_owned(),
        });
    });
    let _agent = Agent::start(&api, &hub);
    let (report, reason) = refused(&hub, Code::SecretMisused).await;
    assert_eq!(report.state, DeploymentState::Failed);
    assert_eq!(
        reason,
        "ConfigMap a uses ${vars.password}, a value of a Secret, and only objects of kind Secret may"
    );
    assert_eq!(api.paths(OBJECTS), [""; 0]);
}

#[tokio::test]
async fn damaged_journal_of_an_untargeted_bundle_is_reported() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a"]);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    drop(agent);
    api.change(JOURNAL, |journal| {
        journal["data"]["content"] = json!("YQ==")
    });
    hub.state.lock().unwrap().bundles.clear();
    free_lease(&api);
    let _agent = Agent::start(&api, &hub);
    let (report, reason) = refused(&hub, Code::JournalDamaged).await;
    assert_eq!(report.state, DeploymentState::Waiting);
    assert_eq!(
        reason,
        "the journal fairlead-delivery/release-b-shop cannot be read: the content has another digest"
    );
    assert_eq!(api.paths(OBJECTS).len(), 1, "nothing is deleted");
}

/// Stores the newest record of the release, as Helm labels it after an operation of somebody else.
fn put_record(api: &FakeApi, release: &str) {
    let labels = json!({"owner": "helm", "name": "web", "status": "pending-upgrade", "version": "3", "fairlead-bundle": "b-shop"});
    let metadata =
        json!({"name": "sh.helm.release.v1.web.v3", "namespace": "shop", "labels": labels});
    api.put(
        RECORD,
        json!({"metadata": metadata, "data": {"release": release}}),
    );
}

fn of_chart(spec: &mut Spec) {
    spec.kind = BundleKind::Helm;
    spec.helm = Some(HelmOptions {
        release: Some("web".to_owned()),
        ..HelmOptions::default()
    });
}

#[tokio::test]
async fn release_waits_for_an_operation_of_somebody_else() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    let record = json!({"name": "web", "version": 3, "info": {"status": "pending-upgrade"}});
    put_record(&api, &STANDARD.encode(STANDARD.encode(record.to_string())));
    let before = api.get(RECORD);
    hub.release_with(1, &["a"], of_chart);
    let _agent = Agent::start(&api, &hub);
    let (report, reason) = refused(&hub, Code::HelmReleaseLocked).await;
    assert_eq!(report.state, DeploymentState::Waiting);
    assert_eq!(
        reason,
        "Helm release shop/web: revision 3 of somebody else is pending-upgrade"
    );
    assert_eq!(api.get(RECORD), before);
}

#[tokio::test]
async fn record_that_helm_did_not_write_is_named() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    put_record(&api, "no record");
    hub.release_with(1, &["a"], of_chart);
    let _agent = Agent::start(&api, &hub);
    let (report, reason) = refused(&hub, Code::HelmRecordUnreadable).await;
    assert_eq!(report.state, DeploymentState::Failed);
    assert_eq!(
        reason,
        "Helm release shop/web: Secret shop/sh.helm.release.v1.web.v3: record of Helm is not base64 of gzip"
    );
}

/// Executor that begins a confirmed run after the order to cancel it.
struct Cancelled;

#[async_trait]
impl Executor for Cancelled {
    async fn sync(&self, run: &RunContext) -> Result<Applied, RunFailure> {
        if run.confirmed {
            run.cancel.cancelled().await;
        }
        ManifestExecutor.sync(run).await
    }

    async fn remove(&self, run: &RunContext) -> Result<(), RunFailure> {
        ManifestExecutor.remove(run).await
    }

    async fn diff(&self, run: &RunContext) -> Result<RunDiff, RunFailure> {
        ManifestExecutor.diff(run).await
    }
}

#[tokio::test]
async fn cancelled_run_ends_between_two_steps() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a"]);
    let agent = Agent::start_with(&api, &hub, Arc::new(Cancelled));
    until_ready(&hub, 1).await;
    api.change(&format!("{OBJECTS}a"), |it| {
        it["data"]["g"] = json!("theirs")
    });
    *hub.cancel.lock().unwrap() = Some(CancelMode::Soft);
    hub.claims.lock().unwrap().push(ClaimedRun {
        run: crate::new_run_id(time::OffsetDateTime::now_utc()),
        bundle: "b-shop".parse().unwrap(),
        kind: RunKind::Sync,
        attempt: 1,
        lease_seconds: 60,
        generation: 1,
        spec: None,
        confirm: true,
        created_by: "anna".to_owned(),
        log_offset: 0,
    });
    // A text of another length is another version of the desired state.
    hub.state.lock().unwrap().commands = 10;
    agent.nudge(&hub);
    let (report, reason) = refused(&hub, Code::RunCancelled).await;
    assert_eq!(report.state, DeploymentState::Failed);
    assert_eq!(reason, "the run was cancelled");
    let cancelled = || {
        let outcomes = hub.outcomes.lock().unwrap().clone();
        outcomes
            .into_iter()
            .find(|it| it.outcome == AttemptOutcome::Cancelled)
    };
    until("result", || cancelled().is_some()).await;
    let outcome = cancelled().unwrap();
    assert_eq!(outcome.code, Some(Code::RunCancelled.to_string()));
    assert_eq!(outcome.sentence, Some(reason));
    let object = api.get(&format!("{OBJECTS}a")).unwrap();
    assert_eq!(object["data"]["g"], "theirs", "no step began");
}
