//! Decisions about a change that a GitOps tool made of itself: a state machine without requests.

use std::time::Duration;

use fairlead_api::{Code, Failure};
use tokio::time::Instant;

use super::super::super::deployment::RollbackNote;

/// Time in which a broken tool may recover by itself.
const BROKEN_TIME_MAX: Duration = Duration::from_secs(20);
/// Longest start of new pods that do not fail.
const START_TIME_MAX: Duration = Duration::from_secs(300);
/// Time in which a tool must work with its change before that is good.
const SETTLE_TIME: Duration = Duration::from_secs(60);
/// Pauses between returns because of the same change.
const COOL_DOWNS: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(480)];
/// Returns because of the same change.
const MAX_ROLLBACKS: u32 = 3;
/// Time to the next try after a failed step, and between reads without an event.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// State of the tool with its own change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolState {
    /// Not all of its objects were read yet.
    Unknown,
    /// All workloads are available in their new version.
    Working {
        /// Text that changes with each sync.
        mark: String,
        /// True if all syncs succeeded last, or if the deployment has none.
        is_synced: bool,
        /// True if the deployment has objects that report syncs.
        has_syncs: bool,
    },
    /// New pods start.
    Starting(String),
    /// It does not work, with the reason.
    Broken(String),
}

/// Next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing to do before [`RepairState::due`].
    Wait,
    /// The change is part of the last good state.
    Accept,
    /// The objects return to the last good state, for this reason.
    RollBack(String),
}

/// The change so far.
#[derive(Debug)]
struct Change {
    name: String,
    since: Instant,
    broken_since: Option<Instant>,
    working: Option<Working>,
}

#[derive(Debug)]
struct Working {
    since: Instant,
    /// Mark at the start.
    mark: String,
    is_proven: bool,
}

/// State of repairs of a deployment.
#[derive(Debug)]
pub(in super::super) struct RepairState {
    change: Option<Change>,
    note: RollbackNote,
    cool_until: Option<Instant>,
    not_before: Option<Instant>,
    due: Option<Instant>,
    stopped: Option<Failure>,
}

impl RepairState {
    pub(in super::super) fn new(note: RollbackNote, now: Instant) -> Self {
        Self {
            change: None,
            cool_until: cool_down(note.count).map(|pause| now + pause),
            note,
            not_before: None,
            due: None,
            stopped: None,
        }
    }

    /// Time of the next step.
    pub(in super::super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Alarm after the last return. It ends with the change.
    pub(in super::super) fn stopped(&self) -> Option<&Failure> {
        self.stopped.as_ref()
    }

    /// Lets the next step wait.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.not_before = Some(now + RETRY_INTERVAL);
        self.due = self.not_before;
    }

    /// Notes a return because of the current change.
    pub(super) fn note_rollback(&mut self, now: Instant) -> RollbackNote {
        if let Some(change) = self.change.take() {
            let is_same = change.name == self.note.change;
            self.note.count = if is_same { self.note.count + 1 } else { 1 };
            self.note.change = change.name;
        }
        self.cool_until = cool_down(self.note.count).map(|pause| now + pause);
        self.due = None;
        self.note.clone()
    }

    /// Decides about the change with this name.
    pub(super) fn step(&mut self, now: Instant, change: Option<&str>, tool: ToolState) -> Step {
        self.due = None;
        let Some(name) = change else {
            self.change = None;
            self.stopped = None;
            return Step::Wait;
        };
        if self.change.as_ref().is_none_or(|it| it.name != name) {
            self.stopped = None;
            self.change = Some(Change {
                name: name.to_owned(),
                since: now,
                broken_since: None,
                working: None,
            });
        }
        let step = self.judge(now, tool);
        match self.not_before {
            Some(at) if at > now && step != Step::Wait => {
                self.due = Some(at);
                Step::Wait
            }
            _ => step,
        }
    }

    fn judge(&mut self, now: Instant, tool: ToolState) -> Step {
        let Some(change) = &mut self.change else {
            return Step::Wait;
        };
        match tool {
            ToolState::Unknown => {
                self.due = Some(now + RETRY_INTERVAL);
                Step::Wait
            }
            ToolState::Working {
                mark,
                is_synced,
                has_syncs,
            } => {
                self.stopped = None;
                change.broken_since = None;
                let working = change.working.get_or_insert_with(|| Working {
                    since: now,
                    mark: mark.clone(),
                    is_proven: !has_syncs,
                });
                working.is_proven |= is_synced && mark != working.mark;
                let settled = working.since + SETTLE_TIME;
                if working.is_proven && is_synced && now >= settled {
                    return Step::Accept;
                }
                // A sync is an event; its proof waits for the end of the time.
                self.due = (now < settled).then_some(settled);
                Step::Wait
            }
            ToolState::Starting(reason) => {
                change.working = None;
                change.broken_since = None;
                let deadline = change.since + START_TIME_MAX;
                self.roll_back_at(now, deadline, reason)
            }
            ToolState::Broken(reason) => {
                change.working = None;
                let deadline = *change.broken_since.get_or_insert(now) + BROKEN_TIME_MAX;
                self.roll_back_at(now, deadline, reason)
            }
        }
    }

    fn roll_back_at(&mut self, now: Instant, deadline: Instant, reason: String) -> Step {
        let is_same = self
            .change
            .as_ref()
            .is_some_and(|it| it.name == self.note.change);
        if is_same && self.note.count >= MAX_ROLLBACKS {
            let sentence =
                format!("{reason}, after {MAX_ROLLBACKS} returns to the last good state");
            self.stopped = Some(Failure::with_cause(Code::GitOpsRollbackStopped, sentence));
            return Step::Wait;
        }
        let cool_until = self.cool_until.filter(|_| is_same);
        let at = cool_until.map_or(deadline, |it| it.max(deadline));
        if now >= at {
            return Step::RollBack(reason);
        }
        // Pods fail without an event of their workload.
        self.due = Some(at.min(now + RETRY_INTERVAL));
        Step::Wait
    }
}

fn cool_down(count: u32) -> Option<Duration> {
    let place = usize::try_from(count.checked_sub(1)?).ok()?;
    COOL_DOWNS.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn working(mark: &str) -> ToolState {
        ToolState::Working {
            mark: mark.to_owned(),
            is_synced: true,
            has_syncs: true,
        }
    }

    fn broken() -> ToolState {
        ToolState::Broken("it crashes".to_owned())
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn change_is_good_after_a_sync_and_the_settle_time() {
        let start = Instant::now();
        let mut state = RepairState::new(RollbackNote::default(), start);
        let mut at = |seconds, tool| state.step(after(start, seconds), Some("a"), tool);
        assert_eq!(at(0, working("1")), Step::Wait);
        assert_eq!(at(70, working("1")), Step::Wait, "it has not synced");
        assert_eq!(at(80, broken()), Step::Wait);
        assert_eq!(
            at(90, working("2")),
            Step::Wait,
            "the settle time begins again"
        );
        assert_eq!(at(100, working("3")), Step::Wait, "it has synced too early");
        assert_eq!(at(151, working("3")), Step::Accept);
    }

    #[test]
    fn failed_sync_is_no_proof() {
        let start = Instant::now();
        let mut state = RepairState::new(RollbackNote::default(), start);
        state.step(start, Some("a"), working("1"));
        let failed = ToolState::Working {
            mark: "2".to_owned(),
            is_synced: false,
            has_syncs: true,
        };
        assert_eq!(state.step(after(start, 100), Some("a"), failed), Step::Wait);
        let none = ToolState::Working {
            mark: String::new(),
            is_synced: true,
            has_syncs: false,
        };
        state.step(start, Some("b"), none.clone());
        assert_eq!(state.step(after(start, 61), Some("b"), none), Step::Accept);
    }

    #[test]
    fn broken_tool_returns_within_the_grace_time_and_starting_one_later() {
        let start = Instant::now();
        let mut state = RepairState::new(RollbackNote::default(), start);
        let mut at = |seconds, tool| state.step(after(start, seconds), Some("a"), tool);
        assert_eq!(at(0, broken()), Step::Wait);
        assert_eq!(at(19, broken()), Step::Wait);
        assert!(matches!(at(20, broken()), Step::RollBack(_)));
        let starting = || ToolState::Starting("it starts".to_owned());
        assert_eq!(at(30, starting()), Step::Wait);
        assert!(matches!(at(300, starting()), Step::RollBack(_)));
    }

    #[test]
    fn same_change_is_taken_back_three_times_with_growing_pauses() {
        let start = Instant::now();
        let mut state = RepairState::new(RollbackNote::default(), start);
        let mut times = Vec::new();
        for second in 0..3600 {
            let now = after(start, second);
            if let Step::RollBack(_) = state.step(now, Some("a"), broken()) {
                times.push(second);
                state.note_rollback(now);
            }
        }
        assert_eq!(times, [20, 140, 620]);
        let stopped = state.stopped().unwrap();
        assert_eq!(stopped.code, Code::GitOpsRollbackStopped);
        // Another change is judged anew.
        state.step(after(start, 3600), Some("b"), broken());
        assert!(state.stopped().is_none());
        assert!(matches!(
            state.step(after(start, 3620), Some("b"), broken()),
            Step::RollBack(_)
        ));
    }

    #[test]
    fn restarted_agent_knows_the_returns_so_far() {
        let start = Instant::now();
        let note = RollbackNote {
            change: "a".to_owned(),
            count: 1,
        };
        let mut state = RepairState::new(note, start);
        state.step(start, Some("a"), broken());
        assert_eq!(
            state.step(after(start, 60), Some("a"), broken()),
            Step::Wait
        );
        assert!(matches!(
            state.step(after(start, 120), Some("a"), broken()),
            Step::RollBack(_)
        ));
        assert_eq!(state.note_rollback(after(start, 120)).count, 2);
    }

    #[test]
    fn end_of_the_change_ends_the_alarm() {
        let start = Instant::now();
        let note = RollbackNote {
            change: "a".to_owned(),
            count: 3,
        };
        let mut state = RepairState::new(note, start);
        assert_eq!(state.step(start, Some("a"), broken()), Step::Wait);
        assert!(state.stopped().is_some());
        state.step(start, None, ToolState::Unknown);
        assert!(state.stopped().is_none());
    }

    #[test]
    fn postponed_step_waits() {
        let start = Instant::now();
        let mut state = RepairState::new(RollbackNote::default(), start);
        state.step(start, Some("a"), broken());
        state.postpone(after(start, 20));
        assert_eq!(
            state.step(after(start, 25), Some("a"), broken()),
            Step::Wait
        );
        assert_eq!(state.due(), Some(after(start, 30)));
        assert!(matches!(
            state.step(after(start, 30), Some("a"), broken()),
            Step::RollBack(_)
        ));
    }
}
