//! Apply of one object, and the answers to its refusals.

use std::{borrow::Cow, sync::Arc, time::Duration};

use fairlead_api::{Code, delivery::ConflictPolicy};
use fairlead_manifests::{
    Failure, FailureKind, Prepared, RequestContext, drift::Baseline, drift::FieldOwner,
    drift::ignored_pointers, drift::rewrite_version, failure, foreign_owner, may_recreate,
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{adopt, found::Traces};
use crate::{
    drift::keep_ignored,
    engine::{AppliedObject, FailureClass, RunContext, RunFailure},
    kube::{ApiResource, KubeError, Propagation},
};

/// Longest wait for the end of an object that is made again.
const RECREATE_DEADLINE: Duration = Duration::from_secs(60);
const RECREATE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Repairs of one object in one apply: adoption, version, recreation.
const MAX_REPAIRS: usize = 3;

/// Applies an object. `traces` are those of an object that no earlier run has applied, as far as the journal knows.
pub(super) async fn apply(
    run: &RunContext,
    object: &Prepared,
    resource: &ApiResource,
    traces: Option<&Traces>,
) -> Result<AppliedObject, RunFailure> {
    let path = resource.object_path(&object.key);
    if let Some(traces) = traces {
        check_owner(run, object, resource, &path, traces).await?;
    }
    let owner = FieldOwner::of_bundle(run.bundle().as_str());
    let force = run.spec.conflicts == ConflictPolicy::Force;
    let desired = desired(run, object, &path, &owner).await?;
    let mut repairs = 0;
    let answer = loop {
        let applied = run
            .kube
            .apply(&path, &owner.manager, force, false, &desired)
            .await;
        let error = match applied {
            Ok(answer) => break answer,
            Err(error) => error,
        };
        let failure = refusal(run, object, resource, "patch", &error);
        let refused = failure.as_ref().map_err(Clone::clone);
        let is_repaired = match refused {
            Ok(failure) if repairs < MAX_REPAIRS => {
                repairs += 1;
                repair(run, object, &path, &owner, failure).await?
            }
            _ => false,
        };
        if !is_repaired {
            return Err(match failure {
                Ok(failure) => run_failure(&failure),
                Err(failure) => failure,
            });
        }
    };
    run.log.line(&format!("applied {}", object.key));
    Ok(AppliedObject {
        key: object.key.clone(),
        kind: object.kind.clone(),
        manifest: object.object.clone(),
        baseline: Baseline::of_answer(&answer, &owner).map(Arc::new),
    })
}

/// The object with the live values of its ignored fields. Only objects that can have such fields are read.
async fn desired<'a>(
    run: &RunContext,
    object: &'a Prepared,
    path: &str,
    owner: &FieldOwner,
) -> Result<Cow<'a, Value>, RunFailure> {
    let rules = &run.spec.ignore;
    let has_rule = !ignored_pointers(rules, &object.key, None, false).is_empty();
    // An autoscaler may have taken the replicas over.
    if !has_rule && object.object.pointer("/spec/replicas").is_none() {
        return Ok(Cow::Borrowed(&object.object));
    }
    let live = run.kube.get(path).await;
    let Some(live) = live.map_err(|error| RunFailure::of_kube(&error))? else {
        return Ok(Cow::Borrowed(&object.object));
    };
    let mut manifest = object.object.clone();
    keep_ignored(&run.kube, rules, &mut manifest, &live, owner).await;
    Ok(Cow::Owned(manifest))
}

/// Refuses an object of a Helm release or of another bundle, or takes it over.
async fn check_owner(
    run: &RunContext,
    object: &Prepared,
    resource: &ApiResource,
    path: &str,
    traces: &Traces,
) -> Result<(), RunFailure> {
    let live = run.kube.get_metadata(path).await;
    let live = live.map_err(
        |error| match refusal(run, object, resource, "get", &error) {
            Ok(failure) => run_failure(&failure),
            Err(failure) => failure,
        },
    )?;
    let Some(live) = live else {
        return Ok(());
    };
    traces.observe(run, &live);
    match foreign_owner(&live, run.bundle().as_str()) {
        Some(owner) if !run.spec.adopt => Err(RunFailure::new(
            FailureClass::Permanent,
            Code::ForeignObject,
            format!("{} belongs to {owner}", object.key),
        )),
        _ if run.spec.adopt => adopt::take_over(run, object, path).await,
        _ => Ok(()),
    }
}

/// Removes the cause of a refusal, if that is allowed. Returns whether the apply may succeed now.
async fn repair(
    run: &RunContext,
    object: &Prepared,
    path: &str,
    owner: &FieldOwner,
    failure: &Failure,
) -> Result<bool, RunFailure> {
    match &failure.kind {
        FailureKind::Immutable(_) if may_recreate(&object.object) => {
            recreate(run, object, path).await?;
            Ok(true)
        }
        FailureKind::RemovedVersion => {
            let live = run.kube.get(path).await;
            let live = live.map_err(|error| RunFailure::of_kube(&error))?;
            let version = object.kind.api_version();
            let patch = live.and_then(|live| rewrite_version(&live, owner, &version));
            let Some(patch) = patch else {
                return Ok(false);
            };
            Ok(run.kube.json_patch(path, &patch).await.is_ok())
        }
        _ => Ok(false),
    }
}

/// Deletes an object whose manifest allows it, and waits for its end.
async fn recreate(run: &RunContext, object: &Prepared, path: &str) -> Result<(), RunFailure> {
    let of_kube = |error: KubeError| RunFailure::of_kube(&error);
    let Some(live) = run.kube.get_metadata(path).await.map_err(of_kube)? else {
        return Ok(());
    };
    let uid = live.pointer("/metadata/uid").and_then(Value::as_str);
    run.log.line(&format!("making {} again", object.key));
    let deleted = run.kube.delete(path, uid, Propagation::Foreground).await;
    deleted.map_err(of_kube)?;
    let deadline = Instant::now() + RECREATE_DEADLINE;
    while run
        .kube
        .get_metadata(path)
        .await
        .map_err(of_kube)?
        .is_some()
    {
        if Instant::now() >= deadline {
            let sentence = format!("{} is to be made again, and is not deleted yet", object.key);
            let class = FailureClass::Retry;
            return Err(RunFailure::new(class, Code::ObjectRefused, sentence));
        }
        sleep(RECREATE_POLL_INTERVAL).await;
    }
    Ok(())
}

/// A refusal by the API server; `Err` if it did not answer.
pub(crate) fn refusal(
    run: &RunContext,
    object: &Prepared,
    resource: &ApiResource,
    verb: &str,
    error: &KubeError,
) -> Result<Failure, RunFailure> {
    let KubeError::Status { status, body } = error else {
        return Err(RunFailure::of_kube(error));
    };
    let request = RequestContext {
        key: &object.key,
        kind: &object.kind,
        resource: &resource.plural,
        verb,
        user: &run.user,
    };
    Ok(failure(*status, body, &request))
}

/// Class and code of a refusal.
pub(crate) fn run_failure(failure: &Failure) -> RunFailure {
    let (class, code) = match &failure.kind {
        FailureKind::Conflict(_) => (FailureClass::Retry, Code::FieldConflict),
        // A person may add the rule at any time.
        FailureKind::Forbidden(_) => (FailureClass::Retry, Code::MissingRight),
        FailureKind::UnknownKind | FailureKind::Namespace => {
            (FailureClass::Waiting, Code::DeploymentWaits)
        }
        FailureKind::Unavailable => (FailureClass::Waiting, Code::ApiServerAway),
        FailureKind::Unauthorized => (FailureClass::Waiting, Code::RunFenced),
        _ if failure.is_permanent => (FailureClass::Permanent, Code::ObjectRefused),
        _ => (FailureClass::Retry, Code::ObjectRefused),
    };
    let sentence = match &failure.kind {
        FailureKind::Forbidden(rule) if !failure.sentence.contains(rule.as_str()) => {
            format!("{}; missing rule: {rule}", failure.sentence)
        }
        _ => failure.sentence.clone(),
    };
    let seconds = failure.retry_after_seconds.map(|it| it.min(600));
    let seconds = seconds.and_then(|it| i64::try_from(it).ok());
    RunFailure {
        not_before: seconds.map(|it| time::OffsetDateTime::now_utc() + time::Duration::seconds(it)),
        ..RunFailure::new(class, code, sentence)
    }
}
