//! Runs that an agent makes by itself: it decides when they begin and whether they are repeated, and the hub records.
//!
//! Such a run has no lease. A higher attempt opens an ended run again, and a newer run of the deployment ends older ones that
//! go on by the hub's record, because an agent works on one run of a deployment at a time. Without a newer run, reports of
//! the deployment tell that the agent works on it no more.

use std::time::Duration;

use fairlead_api::{
    RunId,
    delivery::{AgentRun, AttemptOutcome, RunOrigin, RunState},
};
use fairlead_rollout::{
    AcceptedResult, AttemptResult, DRIFT_PRIORITY, QueuedRun, ResultReceipt, ResultRefusal, RunEnd,
    StopReason, UnixMillis,
};

use super::{
    open::OpenRuns,
    record::{RunDetails, StoredRun, first},
};
use fairlead_api::{BundleId, ClusterId};

/// Name of the author of an agent's own run.
const AGENT: &str = "agent";
/// Sentence of a run without a result, before a newer one.
const NO_RESULT: &str = "the agent began a newer run before it reported a result";
/// Sentence of a run without a result, whose agent has restarted.
const LOST_RESULT: &str = "the agent works on the run no more, and reported no result";
/// Time without a result after which a run is lost. An agent repeats a failed report after 60 s, with a deadline of 60 s.
pub(super) const RESULT_WAIT: Duration = Duration::from_secs(180);

/// Records the begin of an attempt. The same call again changes nothing.
pub(super) fn register(
    open: &mut OpenRuns,
    now: UnixMillis,
    (cluster, id): (&ClusterId, &RunId),
    sent: &AgentRun,
) -> Result<(), StopReason> {
    let Some(known) = open.get(id) else {
        end_older(open, now, id);
        open.add(new_run(now, (cluster, id), sent));
        return Ok(());
    };
    let current = known.details.queued.attempt;
    let sent_attempt = sent.attempt;
    if known.is_command() || sent_attempt < current {
        return Err(StopReason::StaleAttempt {
            sent: sent_attempt,
            current,
        });
    }
    if sent_attempt > current {
        end_older(open, now, id);
        open.amend(id, |details| {
            details.generation = sent.generation;
            let queued = &mut details.queued;
            queued.attempt = sent_attempt;
            queued.state = RunState::Running;
            queued.finished_at = None;
            queued.end = None;
            queued.cancel = None;
        });
    }
    Ok(())
}

fn new_run(now: UnixMillis, (cluster, id): (&ClusterId, &RunId), sent: &AgentRun) -> StoredRun {
    // The agent's clock may be ahead.
    let started_at = UnixMillis::from(sent.started_at).min(now);
    let bundle: &BundleId = &sent.bundle;
    StoredRun {
        cluster: cluster.clone(),
        bundle: bundle.clone(),
        version: 0,
        details: RunDetails {
            queued: QueuedRun {
                state: RunState::Running,
                attempt: sent.attempt,
                started_at: Some(started_at),
                priority: match sent.origin {
                    RunOrigin::Drift => DRIFT_PRIORITY,
                    RunOrigin::Desired | RunOrigin::Command => 0,
                },
                ..first(id.clone(), sent.kind, now)
            },
            origin: sent.origin,
            created_by: AGENT.to_owned(),
            generation: sent.generation,
            content: None,
            confirm: false,
            step: None,
            log_bytes: 0,
            sentence: None,
            code: None,
        },
    }
}

/// True for an own run without a result that began before `at`.
pub(super) fn began_before(run: &StoredRun, at: UnixMillis) -> bool {
    let begin = run.details.queued.started_at;
    !run.is_command() && !run.state().is_final() && begin.is_some_and(|begin| begin <= at)
}

/// Ends an own run whose agent works on it no more. A late result still counts.
pub(super) fn end_lost(open: &mut OpenRuns, now: UnixMillis, id: &RunId) {
    let is_lost = |it: &StoredRun| !it.is_command() && !it.state().is_final();
    if !open.get(id).is_some_and(is_lost) {
        return;
    }
    open.amend(id, |details| {
        details.sentence = Some(LOST_RESULT.to_owned());
        end(&mut details.queued, now, RunState::Unknown);
    });
}

/// Ends older own runs that have no result.
fn end_older(open: &mut OpenRuns, now: UnixMillis, newer: &RunId) {
    let is_older = |it: &&StoredRun| !it.is_command() && !it.state().is_final() && it.id() < newer;
    let older: Vec<RunId> = open
        .iter()
        .filter(is_older)
        .map(|it| it.id().clone())
        .collect();
    for id in older {
        open.amend(&id, |details| {
            details.sentence = Some(NO_RESULT.to_owned());
            end(&mut details.queued, now, RunState::Unknown);
        });
    }
}

fn end(queued: &mut QueuedRun, now: UnixMillis, state: RunState) {
    queued.state = state;
    queued.finished_at = Some(now);
    queued.end = Some(RunEnd::Reported);
}

/// Checks the number of an attempt that goes on.
pub(super) fn check_attempt(run: &StoredRun, sent: u32) -> Result<(), StopReason> {
    let queued = &run.details.queued;
    if sent != queued.attempt {
        let current = queued.attempt;
        return Err(StopReason::StaleAttempt { sent, current });
    }
    match &queued.accepted {
        Some(accepted) if accepted.attempt == sent => Err(StopReason::Ended(queued.state)),
        _ => Ok(()),
    }
}

/// Takes the result of an attempt. One that arrives after a newer run has begun still counts.
pub(super) fn finish(
    open: &mut OpenRuns,
    now: UnixMillis,
    id: &RunId,
    (attempt, result, stored_log): (u32, &AttemptResult, u64),
) -> Result<ResultReceipt, ResultRefusal> {
    let run = open.get(id).ok_or(StopReason::NoSuchRun)?;
    let accepted = run.details.queued.accepted.as_ref();
    if let Some(accepted) = accepted.filter(|it| it.attempt == attempt) {
        return match accepted.digest == result.digest {
            true => Ok(ResultReceipt::AlreadyAccepted),
            false => Err(ResultRefusal::Conflict { attempt }),
        };
    }
    check_attempt(run, attempt)?;
    if stored_log < result.log_bytes {
        return Err(ResultRefusal::LogIncomplete {
            stored: stored_log,
            expected: result.log_bytes,
        });
    }
    open.amend(id, |details| {
        let queued = &mut details.queued;
        queued.accepted = Some(AcceptedResult {
            attempt,
            digest: result.digest.clone(),
        });
        let state = match result.outcome {
            AttemptOutcome::Succeeded => RunState::Succeeded,
            AttemptOutcome::Failed | AttemptOutcome::Rejected => RunState::Failed,
            AttemptOutcome::Cancelled => RunState::Cancelled,
            AttemptOutcome::Unknown => RunState::Unknown,
        };
        end(queued, now, state);
    });
    Ok(ResultReceipt::Accepted)
}
