use std::time::Duration;

use fairlead_api::{
    RunId,
    delivery::{AttemptOutcome, CancelMode, RunKind, RunState},
};
use proptest::{collection::vec, prelude::*};

use super::{policy::retry_backoff, *};
use crate::clock::UnixMillis;

fn id(number: u32) -> RunId {
    format!("run-01ARZ3NDEKTSV4RRFF{number:08}")
        .parse()
        .unwrap()
}

fn at(seconds: u64) -> UnixMillis {
    UnixMillis(1_000_000 + seconds * 1000)
}

fn new(number: u32) -> NewRun {
    NewRun {
        id: id(number),
        kind: RunKind::Sync,
        priority: 0,
        deadline: None,
    }
}

fn queue(runs: impl IntoIterator<Item = NewRun>) -> RunQueue {
    let mut queue = RunQueue::default();
    runs.into_iter().for_each(|it| queue.push(at(0), it));
    queue
}

fn result(outcome: AttemptOutcome, digest: &str) -> AttemptResult {
    AttemptResult {
        outcome,
        digest: digest.to_owned(),
        log_bytes: 10,
    }
}

fn state(queue: &RunQueue, number: u32) -> RunState {
    queue.run(&id(number)).unwrap().state
}

/// Restores the queue from its stored runs.
fn stored(queue: &RunQueue) -> RunQueue {
    let text = serde_json::to_string(queue.runs()).unwrap();
    RunQueue::restore(serde_json::from_str(&text).unwrap())
}

#[test]
fn run_is_claimed_once_and_ends_with_one_result() {
    let mut queue = queue([new(1)]);
    let lease = queue.claim(at(1)).unwrap();
    assert_eq!((lease.attempt, lease.until), (1, at(61)));
    assert_eq!(queue.claim(at(2)), None);
    let renewal = queue.renew(at(30), &id(1), 1, true).unwrap();
    assert_eq!((renewal.until, renewal.cancel), (at(90), None));
    assert_eq!(state(&queue, 1), RunState::Running);
    let good = result(AttemptOutcome::Succeeded, "a");
    let refused = queue.finish(at(40), &id(1), 1, &good, 9).unwrap_err();
    let incomplete = ResultRefusal::LogIncomplete {
        stored: 9,
        expected: 10,
    };
    assert_eq!(refused, incomplete);
    let mut queue = stored(&queue);
    let finish = |queue: &mut RunQueue, digest| {
        let result = result(AttemptOutcome::Succeeded, digest);
        queue.finish(at(41), &id(1), 1, &result, 10)
    };
    assert_eq!(finish(&mut queue, "a"), Ok(ResultReceipt::Accepted));
    let mut queue = stored(&queue);
    assert_eq!(finish(&mut queue, "a"), Ok(ResultReceipt::AlreadyAccepted));
    let conflict = ResultRefusal::Conflict { attempt: 1 };
    assert_eq!(finish(&mut queue, "b"), Err(conflict));
    assert_eq!(state(&queue, 1), RunState::Succeeded);
    let ended = StopReason::Ended(RunState::Succeeded);
    assert_eq!(queue.renew(at(42), &id(1), 1, true), Err(ended));
    assert_eq!(queue.cancel(at(42), &id(1), CancelMode::Soft), Err(ended));
    queue.forget_ended();
    let gone = StopReason::NoSuchRun;
    assert_eq!(queue.renew(at(43), &id(1), 1, true), Err(gone));
}

#[test]
fn lost_lease_lapses_after_the_delay_of_a_takeover() {
    let mut queue = queue([
        new(1),
        NewRun {
            kind: RunKind::Diff,
            ..new(2)
        },
    ]);
    queue.claim(at(0)).unwrap();
    assert_eq!(queue.wake(at(0)), Some(at(90)));
    assert_eq!(queue.claim(at(89)), None, "not even another run");
    let renewal = queue.renew(at(89), &id(1), 1, true);
    assert_eq!(renewal.unwrap().until, at(149), "nobody else has it");
    let mut queue = stored(&queue);
    assert_eq!(queue.claim(at(178)), None);
    let second = queue.claim(at(179)).unwrap();
    assert_eq!((second.run, second.attempt), (id(1), 2));
    let stale = StopReason::StaleAttempt {
        sent: 1,
        current: 2,
    };
    assert_eq!(queue.renew(at(180), &id(1), 1, false), Err(stale));
    let late = result(AttemptOutcome::Succeeded, "a");
    assert_eq!(
        queue.finish(at(180), &id(1), 1, &late, 10),
        Err(ResultRefusal::Stop(stale))
    );
}

#[test]
fn frequent_renewals_write_nothing() {
    let mut queue = queue([new(1)]);
    queue.claim(at(0)).unwrap();
    queue.take_changed();
    for (seconds, until, changes) in [(5, 60, 1), (10, 60, 0), (15, 75, 1), (20, 75, 0)] {
        let renewal = queue.renew(at(seconds), &id(1), 1, true).unwrap();
        assert_eq!(renewal.until, at(until));
        assert_eq!(queue.take_changed().len(), changes, "{seconds} s");
    }
}

#[test]
fn late_result_counts_until_the_next_attempt_begins() {
    let mut queue = queue([new(1)]);
    queue.claim(at(0)).unwrap();
    queue.tick(at(100));
    assert_eq!(state(&queue, 1), RunState::Queued);
    let lost = StopReason::LeaseLost;
    assert_eq!(queue.renew(at(101), &id(1), 1, true), Err(lost));
    let late = result(AttemptOutcome::Succeeded, "a");
    let receipt = queue.finish(at(102), &id(1), 1, &late, 10);
    assert_eq!(receipt, Ok(ResultReceipt::Accepted));
    assert_eq!(queue.claim(at(200)), None);
}

#[test]
fn failed_attempts_back_off_and_end_after_five() {
    let mut queue = queue([new(1)]);
    let mut now = 0;
    for (attempt, backoff) in [(1, 30), (2, 60), (3, 120), (4, 240)] {
        assert_eq!(queue.claim(at(now)).unwrap().attempt, attempt);
        let failed = result(AttemptOutcome::Failed, "x");
        queue.finish(at(now), &id(1), attempt, &failed, 10).unwrap();
        let repeated = queue.finish(at(now), &id(1), attempt, &failed, 10);
        assert_eq!(repeated, Ok(ResultReceipt::AlreadyAccepted));
        assert_eq!(queue.claim(at(now + backoff - 1)), None);
        now += backoff;
        assert_eq!(queue.wake(at(now - 1)), Some(at(now)));
        assert!(queue.has_claimable(at(now)));
    }
    queue.claim(at(now)).unwrap();
    let failed = result(AttemptOutcome::Failed, "x");
    queue.finish(at(now), &id(1), 5, &failed, 10).unwrap();
    let run = queue.run(&id(1)).unwrap();
    assert_eq!(run.state, RunState::Failed);
    assert_eq!(run.end, Some(RunEnd::AttemptsExhausted { attempts: 5 }));
    assert_eq!(retry_backoff(9), RETRY_BACKOFF_MAX);
}

#[test]
fn agent_lost_five_times_fails_the_run() {
    let mut queue = queue([new(1)]);
    for attempt in 1..=5 {
        let now = queue.wake(at(0)).unwrap_or(at(0));
        assert_eq!(queue.claim(now).unwrap().attempt, attempt);
        queue.tick(now + LEASE_DURATION + TAKEOVER_DELAY);
    }
    let run = queue.run(&id(1)).unwrap();
    assert_eq!(run.state, RunState::Failed);
    assert_eq!(run.end, Some(RunEnd::LeaseLost { attempts: 5 }));
    assert_eq!(queue.wake(at(0)), None);
}

#[test]
fn rejected_and_unknown_results_are_final() {
    for (outcome, expected) in [
        (AttemptOutcome::Rejected, RunState::Failed),
        (AttemptOutcome::Unknown, RunState::Unknown),
        (AttemptOutcome::Cancelled, RunState::Cancelled),
    ] {
        let mut queue = queue([new(1)]);
        queue.claim(at(0)).unwrap();
        queue
            .finish(at(1), &id(1), 1, &result(outcome, "a"), 10)
            .unwrap();
        assert_eq!(state(&queue, 1), expected);
    }
}

#[test]
fn deadline_expires_queued_runs_only() {
    let deadline = |number| NewRun {
        deadline: Some(at(50)),
        ..new(number)
    };
    let mut waiting = queue([deadline(1)]);
    assert_eq!(waiting.wake(at(0)), Some(at(50)));
    assert_eq!(waiting.claim(at(50)), None);
    assert_eq!(state(&waiting, 1), RunState::Expired);

    let mut running = queue([deadline(1)]);
    running.claim(at(49)).unwrap();
    running.tick(at(60));
    assert_eq!(state(&running, 1), RunState::Leased);
    let failed = result(AttemptOutcome::Failed, "a");
    running.finish(at(61), &id(1), 1, &failed, 10).unwrap();
    let run = running.run(&id(1)).unwrap();
    assert_eq!(
        (run.state, &run.end),
        (RunState::Failed, &Some(RunEnd::NoTimeLeft))
    );
}

#[test]
fn newer_run_supersedes_queued_ones_of_its_kind() {
    let kind = |number, kind| NewRun {
        kind,
        ..new(number)
    };
    let mut queue = queue([
        new(1),
        kind(2, RunKind::Diff),
        kind(3, RunKind::Remove),
        kind(4, RunKind::Sync),
    ]);
    assert_eq!(state(&queue, 1), RunState::Superseded);
    assert_eq!(state(&queue, 2), RunState::Queued);
    assert_eq!(state(&queue, 3), RunState::Superseded);
    let end = queue.run(&id(3)).unwrap().end.clone().unwrap();
    assert_eq!(end.to_string(), format!("replaced by {}", id(4)));
    let changed = queue.take_changed();
    assert_eq!(changed.len(), 4);
    assert_eq!(queue.take_changed(), []);

    queue.claim(at(1)).unwrap();
    queue.push(at(2), kind(5, RunKind::Diff));
    assert_eq!(
        state(&queue, 2),
        RunState::Leased,
        "the oldest one is claimed, and stays"
    );
}

#[test]
fn higher_priority_is_claimed_first_and_not_superseded() {
    let priority = |number, priority| NewRun {
        priority,
        ..new(number)
    };
    let mut queue = queue([
        priority(1, COMMAND_PRIORITY),
        priority(2, DRIFT_PRIORITY),
        priority(3, 100),
    ]);
    assert_eq!(state(&queue, 1), RunState::Superseded);
    assert_eq!(queue.run(&id(3)).unwrap().priority, 10);
    queue.push(at(1), priority(4, COMMAND_PRIORITY));
    queue.push(at(1), priority(4, COMMAND_PRIORITY));
    assert_eq!(queue.runs().len(), 4);
    assert_eq!(queue.claim(at(2)).unwrap().run, id(3));
}

#[test]
fn cancel_ends_queued_runs_and_is_sent_to_claimed_ones() {
    let mut waiting = queue([new(1)]);
    waiting.cancel(at(1), &id(1), CancelMode::Soft).unwrap();
    assert_eq!(state(&waiting, 1), RunState::Cancelled);

    let mut running = queue([new(1)]);
    running.claim(at(0)).unwrap();
    for (mode, expected) in [
        (CancelMode::Soft, CancelMode::Soft),
        (CancelMode::Hard, CancelMode::Hard),
        (CancelMode::Soft, CancelMode::Hard),
    ] {
        running.cancel(at(1), &id(1), mode).unwrap();
        let renewal = running.renew(at(2), &id(1), 1, true).unwrap();
        assert_eq!(renewal.cancel, Some(expected));
    }
    let mut failed = running.clone();
    let result = result(AttemptOutcome::Failed, "a");
    failed.finish(at(3), &id(1), 1, &result, 10).unwrap();
    assert_eq!(state(&failed, 1), RunState::Failed, "no further attempt");
    running.tick(at(200));
    assert_eq!(state(&running, 1), RunState::Unknown, "it had begun");
}

#[derive(Debug, Clone)]
enum Call {
    Pass(u64),
    Push(u32, i8),
    Claim,
    Renew(u32, u32),
    Finish(u32, u32, AttemptOutcome, u8),
    Cancel(u32),
    Restore,
}

fn call() -> impl Strategy<Value = Call> {
    let outcome = proptest::sample::select(vec![
        AttemptOutcome::Succeeded,
        AttemptOutcome::Failed,
        AttemptOutcome::Rejected,
        AttemptOutcome::Unknown,
    ]);
    prop_oneof![
        (0_u64..200).prop_map(Call::Pass),
        (0_u32..6, -5_i8..6).prop_map(|(run, priority)| Call::Push(run, priority)),
        Just(Call::Claim),
        (0_u32..6, 1_u32..6).prop_map(|(run, attempt)| Call::Renew(run, attempt)),
        (0_u32..6, 1_u32..6, outcome, 0_u8..2)
            .prop_map(|(run, attempt, it, digest)| Call::Finish(run, attempt, it, digest)),
        (0_u32..6).prop_map(Call::Cancel),
        Just(Call::Restore),
    ]
}

proptest! {
    #[test]
    fn one_lease_is_live_and_one_result_counts(calls in vec(call(), 0..120)) {
        let mut queue = RunQueue::default();
        let mut now = at(0);
        let mut accepted = std::collections::BTreeMap::new();
        for call in calls {
            let before = queue.clone();
            match call {
                Call::Pass(seconds) => now = now + Duration::from_secs(seconds),
                Call::Push(run, priority) => queue.push(now, NewRun {
                    priority,
                    deadline: run.is_multiple_of(2).then(|| now + Duration::from_secs(300)),
                    ..new(run)
                }),
                Call::Claim => {
                    if let Some(lease) = queue.claim(now) {
                        let live = before.runs.iter().filter_map(|it| it.lease_until);
                        prop_assert!(live.max().is_none_or(|it| it + TAKEOVER_DELAY <= now));
                        let earlier = before.run(&lease.run).map_or(0, |it| it.attempt);
                        prop_assert!(lease.attempt == earlier + 1 && lease.attempt <= MAX_ATTEMPTS);
                    }
                }
                Call::Renew(run, attempt) => {
                    if queue.renew(now, &id(run), attempt, true).is_ok() {
                        prop_assert_eq!(before.run(&id(run)).unwrap().attempt, attempt);
                    }
                }
                Call::Finish(run, attempt, outcome, digest) => {
                    let result = result(outcome, &digest.to_string());
                    if let Ok(receipt) = queue.finish(now, &id(run), attempt, &result, 10) {
                        let known = accepted.insert((run, attempt), digest);
                        prop_assert_eq!(known.is_some(), receipt == ResultReceipt::AlreadyAccepted);
                        prop_assert!(known.is_none_or(|it| it == digest));
                    }
                }
                Call::Cancel(run) => drop(queue.cancel(now, &id(run), CancelMode::Hard)),
                Call::Restore => queue = stored(&queue),
            }
            let live = queue.runs.iter().filter(|it| it.lease_until.is_some());
            prop_assert!(live.count() <= 1);
            for run in &queue.runs {
                let leased = matches!(run.state, RunState::Leased | RunState::Running);
                prop_assert_eq!(leased, run.lease_until.is_some());
                prop_assert_eq!(run.state.is_final(), run.finished_at.is_some());
                prop_assert_eq!(run.state.is_final(), run.end.is_some());
                if let Some(old) = before.run(&run.id).filter(|it| it.state.is_final()) {
                    prop_assert_eq!(old, run, "an ended run never changes");
                }
            }
        }
    }
}
