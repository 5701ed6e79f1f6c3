//! Next step of a deployment: a pure function of desired state, journal, limits and time.

use fairlead_api::{
    BundleId,
    delivery::{DesiredBundle, RunKind, RunOrigin},
};
use time::{Duration, OffsetDateTime};

use super::failure::FailureClass;
use crate::journal::{AcceptedSpec, JournalRecord, RetryState};

/// Shortest time between a failed attempt and the next one.
const RETRY_BACKOFF_MIN: Duration = Duration::seconds(30);
/// Longest time between a failed attempt and the next one.
const RETRY_BACKOFF_MAX: Duration = Duration::minutes(30);
/// Shortest time between two looks at something that must come first.
const WAITING_INTERVAL_MIN: Duration = Duration::seconds(10);
/// Longest time between two looks at something that must come first.
const WAITING_INTERVAL_MAX: Duration = Duration::minutes(2);

/// Knowledge about the hub's wish for a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DesiredView<'a> {
    /// The hub has not been reached since the start.
    Unknown,
    /// The hub does not name the bundle.
    Absent,
    /// The hub names the bundle.
    Named(&'a DesiredBundle),
}

/// Order of a person, claimed from the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommandView {
    pub(super) kind: RunKind,
    pub(super) is_confirmed: bool,
}

/// Everything that decides about the next step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) now: OffsetDateTime,
    pub(super) desired: DesiredView<'a>,
    pub(super) record: &'a JournalRecord,
    /// True if the journal has been written.
    pub(super) has_journal: bool,
    /// Retries of the accepted spec.
    pub(super) retries: u32,
    /// True if the site pauses delivery.
    pub(super) is_paused: bool,
    /// True if the hub suspends the deployment, or did so before it was out of reach.
    pub(super) is_suspended: bool,
    /// First dependency that is not ready.
    pub(super) missing: Option<&'a BundleId>,
    pub(super) command: Option<CommandView>,
    /// True if values of Secrets have changed since the last run.
    pub(super) is_stale: bool,
    /// True if somebody else has changed the release since the last run, and the bundle corrects it.
    pub(super) is_overwritten: bool,
}

/// Next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Neither objects nor journal: the deployment is forgotten.
    Forget,
    /// The hub is older than this cluster.
    RefuseGeneration { offered: u64, highest: u64 },
    /// The command makes no sense here.
    RefuseCommand(&'static str),
    /// Take a spec over into the journal.
    Accept(AcceptedSpec),
    /// Begin a run.
    Run(RunOrder),
    /// Wait for a time, or for something else.
    Wait(WaitCause, Option<OffsetDateTime>),
    /// Wait for a person.
    Stop,
    /// Nothing to do.
    Settled,
}

/// Cause of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WaitCause {
    /// Back-off after a failure; the failure is in the journal.
    Backoff,
    /// A bundle must be ready first.
    Dependency(BundleId),
    /// The hub suspends the deployment.
    Suspended,
    /// The site pauses delivery.
    Paused,
}

/// Run to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunOrder {
    pub(super) kind: RunKind,
    pub(super) origin: RunOrigin,
    pub(super) is_confirmed: bool,
    pub(super) generation: u64,
}

/// Decides about the next step.
pub(super) fn decide(of: &Situation<'_>) -> NextStep {
    if let Some(command) = of.command
        && let Some(step) = command_step(of, command)
    {
        return step;
    }
    if let Some(step) = desired_step(of) {
        return step;
    }
    let Some(accepted) = &of.record.accepted else {
        return if of.has_journal {
            NextStep::Settled
        } else {
            NextStep::Forget
        };
    };
    let is_removal = of.record.removing.is_some();
    let is_done = of.record.applied.as_ref() == Some(accepted)
        && of.record.pending.is_none()
        && of.record.retry.failure.is_none()
        && !of.record.needs_apply
        && !of.is_stale
        && !of.is_overwritten
        && !is_removal;
    if is_done || matches!(of.desired, DesiredView::Absent) && !is_removal {
        return NextStep::Settled;
    }
    let (kind, generation) = match of.record.removing {
        Some(generation) => (RunKind::Remove, generation),
        None => (RunKind::Sync, accepted.generation),
    };
    let order = RunOrder {
        kind,
        origin: match of.is_overwritten && kind == RunKind::Sync {
            true => RunOrigin::Drift,
            false => RunOrigin::Desired,
        },
        is_confirmed: false,
        generation,
    };
    hindrance(of, kind).unwrap_or(NextStep::Run(order))
}

/// Step of a command. None if the spec must be taken over first.
fn command_step(of: &Situation<'_>, command: CommandView) -> Option<NextStep> {
    let order = |generation| {
        NextStep::Run(RunOrder {
            kind: command.kind,
            origin: RunOrigin::Command,
            is_confirmed: command.is_confirmed,
            generation,
        })
    };
    let accepted = of.record.accepted.as_ref();
    let generation = accepted.map_or(0, |accepted| accepted.generation);
    match (command.kind, of.desired) {
        (RunKind::Diff, _) => Some(order(generation)),
        (RunKind::Remove, DesiredView::Named(desired)) if !desired.remove => {
            let cause =
                "the bundle is still targeted at this cluster; remove it from its targets first";
            Some(NextStep::RefuseCommand(cause))
        }
        (RunKind::Remove, _) if accepted.is_none() => Some(NextStep::RefuseCommand(
            "the cluster has no objects of the bundle",
        )),
        (RunKind::Remove, _) => Some(order(of.record.highest)),
        (RunKind::Sync, DesiredView::Named(desired)) if is_old(of, desired) => None,
        (RunKind::Sync, DesiredView::Named(desired)) if needs_accept(of, desired).is_some() => None,
        (RunKind::Sync, _) if accepted.is_none() => Some(NextStep::RefuseCommand(
            "the cluster has no content of the bundle yet",
        )),
        (RunKind::Sync, _) => Some(order(generation)),
    }
}

fn is_old(of: &Situation<'_>, desired: &DesiredBundle) -> bool {
    desired.generation < of.record.highest
}

/// Spec to take over.
fn needs_accept(of: &Situation<'_>, desired: &DesiredBundle) -> Option<AcceptedSpec> {
    let wanted = AcceptedSpec {
        generation: desired.generation,
        spec: desired.spec.clone()?,
    };
    let is_known = of.record.accepted.as_ref() == Some(&wanted) && of.record.damage.is_none();
    (!is_known).then_some(wanted)
}

/// Step because of the hub's wish. None if the journal decides.
fn desired_step(of: &Situation<'_>) -> Option<NextStep> {
    let DesiredView::Named(desired) = of.desired else {
        return None;
    };
    if is_old(of, desired) {
        return Some(NextStep::RefuseGeneration {
            offered: desired.generation,
            highest: of.record.highest,
        });
    }
    if desired.remove {
        if !of.has_journal {
            return Some(NextStep::Forget);
        }
        let order = RunOrder {
            kind: RunKind::Remove,
            origin: RunOrigin::Desired,
            is_confirmed: false,
            generation: desired.generation,
        };
        let is_begun = of.record.removing.is_some();
        let hindrance = hindrance(of, RunKind::Remove).filter(|_| is_begun);
        return Some(hindrance.unwrap_or(NextStep::Run(order)));
    }
    let wanted = needs_accept(of, desired)?;
    let is_held = desired.suspended && of.has_journal;
    if is_held {
        return Some(NextStep::Wait(WaitCause::Suspended, None));
    }
    Some(NextStep::Accept(wanted))
}

/// Cause not to run now.
fn hindrance(of: &Situation<'_>, kind: RunKind) -> Option<NextStep> {
    if of.is_paused {
        return Some(NextStep::Wait(WaitCause::Paused, None));
    }
    if let Some(failure) = &of.record.retry.failure {
        let is_spent = of.record.retry.failed > of.retries && kind == RunKind::Sync;
        match failure.class {
            FailureClass::Permanent
            | FailureClass::Blocked
            | FailureClass::Unknown
            | FailureClass::Cancelled => return Some(NextStep::Stop),
            FailureClass::Retry if is_spent => return Some(NextStep::Stop),
            FailureClass::Retry | FailureClass::Waiting => {}
        }
        if let Some(next_try) = of.record.retry.next_try.filter(|at| *at > of.now) {
            return Some(NextStep::Wait(WaitCause::Backoff, Some(next_try)));
        }
    }
    if of.is_suspended && kind == RunKind::Sync {
        return Some(NextStep::Wait(WaitCause::Suspended, None));
    }
    let missing = of.missing.filter(|_| kind == RunKind::Sync);
    missing.map(|bundle| NextStep::Wait(WaitCause::Dependency(bundle.clone()), None))
}

/// Time of the next attempt after an attempt with this failure, `not_before` at the earliest.
pub(super) fn next_try(
    class: FailureClass,
    retry: &RetryState,
    not_before: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> Option<OffsetDateTime> {
    let doubled = |least: Duration, doublings: u32| least * 2_i32.pow(doublings.min(10));
    let wait = match class {
        FailureClass::Retry => {
            doubled(RETRY_BACKOFF_MIN, retry.failed.saturating_sub(1)).min(RETRY_BACKOFF_MAX)
        }
        FailureClass::Waiting => {
            doubled(WAITING_INTERVAL_MIN, retry.waited).min(WAITING_INTERVAL_MAX)
        }
        FailureClass::Permanent
        | FailureClass::Blocked
        | FailureClass::Unknown
        | FailureClass::Cancelled => return None,
    };
    Some((now + wait).max(not_before.unwrap_or(now)))
}

#[cfg(test)]
mod tests;
