//! Deletion of objects of a plan, with UID preconditions.

use std::time::Duration;

use fairlead_api::Code;
use fairlead_manifests::{DeleteDecision, InventoryEntry, PrunePlan, RequestContext, failure};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{apply::run_failure, stage::worst};
use crate::{
    engine::{FailureClass, RunContext, RunFailure},
    kube::{ApiResource, KubeError, Propagation},
};

/// Objects deleted at the same time.
const CONCURRENT_DELETES: usize = 8;
/// Longest wait for the end of the objects of one stage. Finalizers may take longer; then the run goes on without them.
const GONE_DEADLINE: Duration = Duration::from_secs(120);
const GONE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Decides about a live object of a plan.
pub(crate) type Decide<'a> = &'a (dyn Fn(&InventoryEntry, &Value) -> DeleteDecision + Sync);

/// Deletes the objects of a plan, stage by stage.
///
/// # Errors
/// Objects that the API server does not delete. Those that belong to others stay without an error.
pub(crate) async fn delete(
    run: &RunContext,
    plan: &PrunePlan,
    decide: Decide<'_>,
) -> Result<(), RunFailure> {
    for stage in &plan.stages {
        run.cancel.check()?;
        let mut deletes = Vec::with_capacity(stage.len());
        for entry in stage {
            deletes.push(delete_one(run, entry, decide));
        }
        let mut deletes = stream::iter(deletes).buffer_unordered(CONCURRENT_DELETES);
        let mut pending = Vec::new();
        let mut failures = Vec::new();
        while let Some(result) = deletes.next().await {
            match result {
                Ok(started) => pending.extend(started),
                Err(failure) => {
                    run.log.line(&failure.to_string());
                    failures.push(failure);
                }
            }
        }
        drop(deletes);
        if let Some(failure) = worst(failures) {
            return Err(failure);
        }
        wait_until_gone(run, pending).await?;
    }
    Ok(())
}

/// An object whose deletion was accepted.
struct Deleted {
    path: String,
    uid: String,
    name: String,
}

/// Starts the deletion of one object. None if there is nothing to delete, or the object belongs to others.
async fn delete_one(
    run: &RunContext,
    entry: &InventoryEntry,
    decide: Decide<'_>,
) -> Result<Option<Deleted>, RunFailure> {
    let kind = entry.kind();
    let table = run.discovery.table_of([&kind]).await;
    let table = table.map_err(|error| RunFailure::of_kube(&error))?;
    // Without its kind an object is gone, too.
    let Some(resource) = table.get_any_version(&kind) else {
        run.log
            .line(&format!("{} is gone with its kind", entry.key));
        return Ok(None);
    };
    let path = resource.object_path(&entry.key);
    let live = run.kube.get_metadata(&path).await;
    let live = live.map_err(|error| refused(run, entry, resource, "get", &error))?;
    let Some(live) = live else {
        return Ok(None);
    };
    let name = entry.key.to_string();
    match decide(entry, &live) {
        DeleteDecision::Keep(cause) => {
            run.log.line(&format!("kept {cause}"));
            Ok(None)
        }
        DeleteDecision::Terminating => {
            let uid = entry.uid.clone().unwrap_or_default();
            Ok(Some(Deleted { path, uid, name }))
        }
        DeleteDecision::Delete { uid } => {
            let propagation = Propagation::Background;
            match run.kube.delete(&path, Some(&uid), propagation).await {
                Ok(_) => {
                    run.log.line(&format!("deleted {name}"));
                    Ok(Some(Deleted { path, uid, name }))
                }
                // Made again by others meanwhile.
                Err(KubeError::Status { status: 409, .. }) => Ok(None),
                Err(error) => Err(refused(run, entry, resource, "delete", &error)),
            }
        }
    }
}

fn refused(
    run: &RunContext,
    entry: &InventoryEntry,
    resource: &ApiResource,
    verb: &str,
    error: &KubeError,
) -> RunFailure {
    let KubeError::Status { status, body } = error else {
        return RunFailure::of_kube(error);
    };
    let request = RequestContext {
        key: &entry.key,
        kind: &entry.kind(),
        resource: &resource.plural,
        verb,
        user: &run.user,
    };
    run_failure(&failure(*status, body, &request))
}

/// Waits for the end of the objects of a stage, so that a definition outlives its objects.
async fn wait_until_gone(run: &RunContext, mut pending: Vec<Deleted>) -> Result<(), RunFailure> {
    let deadline = Instant::now() + GONE_DEADLINE;
    loop {
        let mut left = Vec::new();
        for object in pending {
            let live = run.kube.get_metadata(&object.path).await;
            let live = live.map_err(|error| RunFailure::of_kube(&error))?;
            let uid = live.as_ref().and_then(|it| it.pointer("/metadata/uid"));
            if uid.is_some_and(|uid| object.uid.is_empty() || *uid == object.uid.as_str()) {
                left.push(object);
            }
        }
        let Some(first) = left.first() else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            let sentence = format!(
                "{} is being deleted, and waits for its finalizers",
                first.name
            );
            let class = FailureClass::Waiting;
            return Err(RunFailure::new(class, Code::DeploymentWaits, sentence));
        }
        run.cancel.check()?;
        sleep(GONE_POLL_INTERVAL).await;
        pending = left;
    }
}
