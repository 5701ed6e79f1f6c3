//! Stages: objects of one stage are applied side by side, and some stages are awaited.

use std::{sync::Arc, time::Duration};

use fairlead_api::Code;
use fairlead_manifests::{HealthState, Inventory, ObjectKind, Prepared};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use super::{apply, found::Traces};
use crate::{
    engine::{AppliedObject, FailureClass, HealthPoll, RunContext, RunFailure},
    kube::{ApiResource, ResourceTable},
};

/// Objects applied at the same time.
const CONCURRENT_APPLIES: usize = 8;
/// Longest wait for a kind of the bundle's own definitions.
const KIND_DEADLINE: Duration = Duration::from_secs(30);
const KIND_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Applies the objects of one stage. The others are still applied after a failure.
pub(super) async fn apply(
    run: &RunContext,
    objects: Vec<&Prepared>,
    known: &Inventory,
    traces: &Traces,
    is_awaited: bool,
) -> Result<Vec<AppliedObject>, RunFailure> {
    run.cancel.check()?;
    let table = table_of(run, &objects).await?;
    let mut applies = Vec::with_capacity(objects.len());
    for object in objects {
        let resource = table.get(&object.kind).cloned();
        let is_known = known.get(&object.key).is_some_and(|it| it.uid.is_some());
        let traces = (!is_known).then_some(traces);
        applies.push(apply_one(run, object, resource, traces));
    }
    let mut applies = stream::iter(applies).buffered(CONCURRENT_APPLIES);
    let mut applied = Vec::new();
    let mut failures = Vec::new();
    loop {
        let next = tokio::select! {
            next = applies.next() => next,
            () = run.cancel.cancelled_hard() => return Err(RunFailure::cancelled()),
        };
        match next {
            None => break,
            Some(Ok(object)) => applied.push(object),
            Some(Err(failure)) => {
                run.log.line(&failure.to_string());
                failures.push(failure);
            }
        }
    }
    drop(applies);
    if let Some(failure) = worst(failures) {
        return Err(failure);
    }
    if is_awaited {
        wait_until_ready(run, &applied).await?;
    }
    Ok(applied)
}

async fn apply_one(
    run: &RunContext,
    object: &Prepared,
    resource: Option<Arc<ApiResource>>,
    traces: Option<&Traces>,
) -> Result<AppliedObject, RunFailure> {
    run.cancel.check()?;
    let resource = resource.ok_or_else(|| unknown_kind(&object.kind))?;
    apply::apply(run, object, &resource, traces).await
}

/// The failure that decides about the run, with the number of the others.
pub(super) fn worst(failures: Vec<RunFailure>) -> Option<RunFailure> {
    let count = failures.len();
    let rank = |failure: &RunFailure| match failure.class {
        FailureClass::Cancelled => 0,
        FailureClass::Unknown | FailureClass::Blocked => 1,
        FailureClass::Permanent => 2,
        FailureClass::Retry => 3,
        FailureClass::Waiting => 4,
    };
    let mut worst = failures.into_iter().min_by_key(rank)?;
    if count > 1 {
        worst.sentence = format!("{}; {} more objects failed", worst.sentence, count - 1);
    }
    Some(worst)
}

/// Kinds of the objects; those of the bundle's own definitions may come late.
async fn table_of(
    run: &RunContext,
    objects: &[&Prepared],
) -> Result<Arc<ResourceTable>, RunFailure> {
    let deadline = Instant::now() + KIND_DEADLINE;
    loop {
        let kinds: Vec<_> = objects.iter().map(|it| &it.kind).collect();
        let table = run.discovery.table_of(kinds).await;
        let table = table.map_err(|error| RunFailure::of_kube(&error))?;
        let is_complete = objects.iter().all(|it| table.get(&it.kind).is_some());
        if is_complete || Instant::now() >= deadline {
            return Ok(table);
        }
        run.cancel.check()?;
        sleep(KIND_POLL_INTERVAL).await;
    }
}

fn unknown_kind(kind: &ObjectKind) -> RunFailure {
    let sentence = format!("waits for kind {} ({})", kind.kind, kind.api_version());
    RunFailure::new(FailureClass::Waiting, Code::DeploymentWaits, sentence)
}

/// Waits for definitions and namespaces.
async fn wait_until_ready(run: &RunContext, objects: &[AppliedObject]) -> Result<(), RunFailure> {
    let deadline = Instant::now() + Duration::from_secs(run.spec.timeout_seconds);
    let mut poll = HealthPoll::new(&run.kube, &run.discovery, objects);
    loop {
        let summary = poll.read().await;
        let summary = summary.map_err(|error| RunFailure::of_kube(&error))?;
        if summary.worst.state == HealthState::Ready {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let sentence = summary.worst.reason;
            let class = FailureClass::Retry;
            return Err(RunFailure::new(class, Code::NotReadyInTime, sentence));
        }
        run.cancel.check()?;
        poll.pause().await;
    }
}
