use fairlead_api::delivery::SpecId;

use super::*;
use crate::journal::{RetryState, StoredFailure};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn accepted(generation: u64, byte: u8) -> AcceptedSpec {
    AcceptedSpec {
        generation,
        spec: SpecId::of_sha256(&[byte; 32]),
    }
}

fn desired(generation: u64, byte: u8) -> DesiredBundle {
    DesiredBundle {
        bundle: "b-shop".parse().unwrap(),
        generation,
        spec: Some(SpecId::of_sha256(&[byte; 32])),
        remove: false,
        suspended: false,
    }
}

fn tombstone(generation: u64) -> DesiredBundle {
    DesiredBundle {
        spec: None,
        remove: true,
        ..desired(generation, 0)
    }
}

/// Journal of a deployment with this generation applied.
fn applied(generation: u64) -> JournalRecord {
    JournalRecord {
        highest: generation,
        accepted: Some(accepted(generation, 1)),
        applied: Some(accepted(generation, 1)),
        ..JournalRecord::default()
    }
}

fn failed(class: FailureClass, failed: u32, next_try: Option<OffsetDateTime>) -> JournalRecord {
    let failure = StoredFailure {
        class,
        code: "FL-6201".to_owned(),
        sentence: "it failed".to_owned(),
    };
    JournalRecord {
        applied: None,
        retry: RetryState {
            failed,
            next_try,
            failure: Some(failure),
            ..RetryState::default()
        },
        ..applied(8)
    }
}

fn situation<'a>(desired: DesiredView<'a>, record: &'a JournalRecord) -> Situation<'a> {
    Situation {
        now: NOW,
        desired,
        record,
        has_journal: *record != JournalRecord::default(),
        retries: 5,
        is_paused: false,
        is_suspended: matches!(desired, DesiredView::Named(desired) if desired.suspended),
        missing: None,
        command: None,
        is_stale: false,
        is_overwritten: false,
    }
}

fn sync(generation: u64) -> NextStep {
    run(RunKind::Sync, RunOrigin::Desired, generation)
}

fn run(kind: RunKind, origin: RunOrigin, generation: u64) -> NextStep {
    NextStep::Run(RunOrder {
        kind,
        origin,
        is_confirmed: false,
        generation,
    })
}

#[test]
fn absence_never_deletes() {
    let record = applied(8);
    for view in [DesiredView::Unknown, DesiredView::Absent] {
        assert_eq!(decide(&situation(view, &record)), NextStep::Settled);
    }
    let fresh = JournalRecord::default();
    for view in [DesiredView::Unknown, DesiredView::Absent] {
        assert_eq!(decide(&situation(view, &fresh)), NextStep::Forget);
    }
}

#[test]
fn new_content_is_accepted_and_applied() {
    let fresh = JournalRecord::default();
    let wish = desired(8, 1);
    let view = DesiredView::Named(&wish);
    assert_eq!(
        decide(&situation(view, &fresh)),
        NextStep::Accept(accepted(8, 1))
    );
    let record = JournalRecord {
        applied: None,
        ..applied(8)
    };
    assert_eq!(decide(&situation(view, &record)), sync(8));
    assert_eq!(decide(&situation(view, &applied(8))), NextStep::Settled);
    let other = desired(8, 2);
    let step = decide(&situation(DesiredView::Named(&other), &record));
    assert_eq!(
        step,
        NextStep::Accept(accepted(8, 2)),
        "facts changed the content"
    );
}

#[test]
fn overwritten_release_is_applied_again_because_of_drift() {
    let record = applied(8);
    let wish = desired(8, 1);
    let overwritten = Situation {
        is_overwritten: true,
        ..situation(DesiredView::Named(&wish), &record)
    };
    let correction = run(RunKind::Sync, RunOrigin::Drift, 8);
    assert_eq!(decide(&overwritten), correction);
    let suspended = DesiredBundle {
        suspended: true,
        ..wish.clone()
    };
    let paused = Situation {
        desired: DesiredView::Named(&suspended),
        is_suspended: true,
        ..overwritten
    };
    let held = NextStep::Wait(WaitCause::Suspended, None);
    assert_eq!(decide(&paused), held);
}

#[test]
fn suspended_deployment_waits_while_the_hub_is_away() {
    let record = failed(FailureClass::Retry, 1, None);
    let suspended = Situation {
        is_suspended: true,
        ..situation(DesiredView::Unknown, &record)
    };
    let held = NextStep::Wait(WaitCause::Suspended, None);
    assert_eq!(decide(&suspended), held);
}

#[test]
fn content_of_a_bundle_that_is_targeted_again_is_applied_again() {
    let record = JournalRecord {
        needs_apply: true,
        ..applied(8)
    };
    let wish = desired(8, 1);
    let of = situation(DesiredView::Named(&wish), &record);
    assert_eq!(decide(&of), sync(8));
    let of = situation(DesiredView::Absent, &record);
    assert_eq!(decide(&of), NextStep::Settled);
}

#[test]
fn lower_generation_is_refused_for_content_and_tombstones() {
    let record = applied(8);
    let refusal = NextStep::RefuseGeneration {
        offered: 7,
        highest: 8,
    };
    for old in [desired(7, 1), tombstone(7)] {
        assert_eq!(
            decide(&situation(DesiredView::Named(&old), &record)),
            refusal
        );
    }
}

#[test]
fn tombstone_removes_and_a_second_one_is_forgotten() {
    let record = applied(8);
    let grave = tombstone(9);
    let view = DesiredView::Named(&grave);
    let removal = run(RunKind::Remove, RunOrigin::Desired, 9);
    assert_eq!(decide(&situation(view, &record)), removal);
    assert_eq!(
        decide(&situation(view, &JournalRecord::default())),
        NextStep::Forget
    );
    let begun = JournalRecord {
        removing: Some(9),
        ..applied(8)
    };
    let without_hub = decide(&situation(DesiredView::Unknown, &begun));
    assert_eq!(
        without_hub, removal,
        "a removal goes on while the hub is away"
    );
}

#[test]
fn interrupted_run_goes_on_without_the_hub() {
    let mut record = applied(8);
    record.applied = Some(accepted(7, 3));
    assert_eq!(decide(&situation(DesiredView::Unknown, &record)), sync(8));
}

#[test]
fn failures_are_retried_by_class() {
    let later = NOW + Duration::seconds(30);
    let wish = desired(8, 1);
    let view = DesiredView::Named(&wish);
    let wait = NextStep::Wait(WaitCause::Backoff, Some(later));
    for (record, step) in [
        (failed(FailureClass::Retry, 1, Some(later)), wait.clone()),
        (failed(FailureClass::Retry, 1, Some(NOW)), sync(8)),
        (failed(FailureClass::Retry, 5, Some(NOW)), sync(8)),
        (failed(FailureClass::Retry, 6, Some(NOW)), NextStep::Stop),
        (failed(FailureClass::Waiting, 9, Some(later)), wait),
        // A wait counts no attempt, so that it never exhausts the retries.
        (failed(FailureClass::Waiting, 9, Some(NOW)), sync(8)),
        (failed(FailureClass::Permanent, 1, None), NextStep::Stop),
        (failed(FailureClass::Blocked, 0, None), NextStep::Stop),
        (failed(FailureClass::Unknown, 0, None), NextStep::Stop),
    ] {
        assert_eq!(
            decide(&situation(view, &record)),
            step,
            "{:?}",
            record.retry
        );
    }
}

#[test]
fn person_starts_again_what_stopped() {
    let record = failed(FailureClass::Blocked, 9, None);
    let wish = desired(8, 1);
    let mut of = situation(DesiredView::Named(&wish), &record);
    of.command = Some(CommandView {
        kind: RunKind::Sync,
        is_confirmed: true,
    });
    let order = RunOrder {
        kind: RunKind::Sync,
        origin: RunOrigin::Command,
        is_confirmed: true,
        generation: 8,
    };
    assert_eq!(decide(&of), NextStep::Run(order));
}

#[test]
fn command_takes_new_content_over_first() {
    let record = applied(8);
    let wish = desired(9, 2);
    let mut of = situation(DesiredView::Named(&wish), &record);
    of.command = Some(CommandView {
        kind: RunKind::Sync,
        is_confirmed: false,
    });
    assert_eq!(decide(&of), NextStep::Accept(accepted(9, 2)));
}

#[test]
fn removal_by_command_needs_an_untargeted_bundle() {
    let record = applied(8);
    let command = Some(CommandView {
        kind: RunKind::Remove,
        is_confirmed: false,
    });
    let wish = desired(8, 1);
    let mut of = situation(DesiredView::Named(&wish), &record);
    of.command = command;
    assert!(matches!(decide(&of), NextStep::RefuseCommand(_)));
    let mut of = situation(DesiredView::Absent, &record);
    of.command = command;
    assert_eq!(decide(&of), run(RunKind::Remove, RunOrigin::Command, 8));
}

#[test]
fn dependency_suspension_and_pause_hold_a_run() {
    let record = JournalRecord {
        applied: None,
        ..applied(8)
    };
    let other: BundleId = "b-crds".parse().unwrap();
    let mut wish = desired(8, 1);
    let mut of = situation(DesiredView::Named(&wish), &record);
    of.missing = Some(&other);
    let cause = WaitCause::Dependency(other.clone());
    assert_eq!(decide(&of), NextStep::Wait(cause, None));
    of.missing = None;
    of.is_paused = true;
    assert_eq!(decide(&of), NextStep::Wait(WaitCause::Paused, None));
    wish.suspended = true;
    let of = situation(DesiredView::Named(&wish), &record);
    assert_eq!(decide(&of), NextStep::Wait(WaitCause::Suspended, None));
}

#[test]
fn damaged_journal_takes_the_content_over_again() {
    let mut record = applied(8);
    record.damage = Some("gone".to_owned());
    let wish = desired(8, 1);
    let step = decide(&situation(DesiredView::Named(&wish), &record));
    assert_eq!(step, NextStep::Accept(accepted(8, 1)));
}

#[test]
fn waits_double_up_to_a_bound() {
    let seconds = |class, failed, waited| {
        let retry = RetryState {
            failed,
            waited,
            ..RetryState::default()
        };
        let at = next_try(class, &retry, None, NOW).unwrap();
        (at - NOW).whole_seconds()
    };
    let failed = |failed| seconds(FailureClass::Retry, failed, 9);
    assert_eq!([1, 2, 3, 4].map(failed), [30, 60, 120, 240]);
    assert_eq!([7, 20].map(failed), [1800, 1800]);
    let waited = |waited| seconds(FailureClass::Waiting, 9, waited);
    assert_eq!([0, 1, 2, 3, 4, 90].map(waited), [10, 20, 40, 80, 120, 120]);
    let retry = RetryState::default();
    let later = NOW + Duration::hours(1);
    let at = next_try(FailureClass::Retry, &retry, Some(later), NOW);
    assert_eq!(at, Some(later));
    assert_eq!(next_try(FailureClass::Permanent, &retry, None, NOW), None);
}
