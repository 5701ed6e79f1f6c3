//! Counters of one phase of the test, with each failure.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Longest time without an event of a watch at the end of a phase; its cluster sends one each second.
const STALE_AFTER: Duration = Duration::from_secs(15);
/// Failures that a report quotes.
const MAX_QUOTED: usize = 40;

/// Counters of the present phase.
#[derive(Debug, Default)]
pub(crate) struct PhaseTally(Mutex<LoadPhase>);

/// Counters of one phase.
#[derive(Debug, Default, Clone)]
pub(crate) struct LoadPhase {
    /// Plain requests that have ended.
    pub(crate) sent: usize,
    /// Failed ones, each with its time and reason.
    pub(crate) failures: Vec<String>,
    /// Answers of another cluster, and writes that were carried out twice.
    pub(crate) wrong: Vec<String>,
    /// Longest times of plain requests.
    pub(crate) slowest: Duration,
    /// Watches that ended, by reason.
    pub(crate) watch_ends: BTreeMap<String, usize>,
    /// Watches that had an event after such an end.
    pub(crate) watches_resumed: usize,
    /// Longest time between two events of a watch.
    pub(crate) longest_gap: Duration,
    pub(crate) lost_events: Vec<String>,
    pub(crate) events: usize,
    last_events: BTreeMap<usize, Instant>,
    pub(crate) execs_done: usize,
    pub(crate) execs_cut: Vec<String>,
}

impl PhaseTally {
    fn phase(&self) -> MutexGuard<'_, LoadPhase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the phase and returns its counters.
    pub(crate) fn next_phase(&self) -> LoadPhase {
        let mut phase = self.phase();
        let last_events = phase.last_events.clone();
        let next = LoadPhase {
            last_events,
            ..LoadPhase::default()
        };
        std::mem::replace(&mut *phase, next)
    }

    /// One line about the phase so far.
    pub(crate) fn status(&self) -> String {
        self.phase().line()
    }

    /// Notes the end of a plain request.
    pub(crate) fn request(&self, took: Duration, failure: Option<String>) {
        let mut phase = self.phase();
        phase.sent += 1;
        phase.slowest = phase.slowest.max(took);
        if let Some(failure) = failure {
            eprintln!("request failed: {failure}");
            phase.failures.push(failure);
        }
    }

    pub(crate) fn wrong(&self, what: String) {
        eprintln!("wrong: {what}");
        self.phase().wrong.push(what);
    }

    /// Notes an event of a watch, and whether it is the first one after an end.
    pub(crate) fn event(&self, watch: usize, is_first: bool) {
        let mut phase = self.phase();
        phase.events += 1;
        phase.watches_resumed += usize::from(is_first);
        let now = Instant::now();
        if let Some(last) = phase.last_events.insert(watch, now) {
            phase.longest_gap = phase.longest_gap.max(now - last);
        }
    }

    pub(crate) fn watch_ended(&self, reason: String) {
        *self.phase().watch_ends.entry(reason).or_default() += 1;
    }

    pub(crate) fn lost_event(&self, what: String) {
        eprintln!("lost: {what}");
        self.phase().lost_events.push(what);
    }

    /// Notes the end of an exec.
    pub(crate) fn exec(&self, cut: Option<String>) {
        let mut phase = self.phase();
        match cut {
            None => phase.execs_done += 1,
            Some(cut) => phase.execs_cut.push(cut),
        }
    }
}

impl LoadPhase {
    pub(crate) fn failed_share(&self) -> f64 {
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        number(self.failures.len()) / number(self.sent.max(1))
    }

    /// Watches without a recent event.
    pub(crate) fn stale_watches(&self) -> usize {
        let last = self.last_events.values().max();
        let Some(last) = last else {
            return super::watches::WATCH_COUNT;
        };
        let live = self.last_events.values();
        let live = live.filter(|it| **it + STALE_AFTER > *last).count();
        super::watches::WATCH_COUNT - live
    }

    fn line(&self) -> String {
        let ended: usize = self.watch_ends.values().sum();
        format!(
            "{} requests, {} failed ({:.4} %), slowest {:.1?}, {} wrong; {} events, {} watches ended, {} resumed, longest gap {:.1?}, \
             {} lost; {} exec done, {} cut",
            self.sent,
            self.failures.len(),
            self.failed_share() * 100.0,
            self.slowest,
            self.wrong.len(),
            self.events,
            ended,
            self.watches_resumed,
            self.longest_gap,
            self.lost_events.len(),
            self.execs_done,
            self.execs_cut.len(),
        )
    }
}

impl fmt::Display for LoadPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.line())?;
        for (reason, count) in &self.watch_ends {
            writeln!(f, "  {count} watches ended: {reason}")?;
        }
        for failure in self.failures.iter().take(MAX_QUOTED) {
            writeln!(f, "  failed: {failure}")?;
        }
        for cut in self.execs_cut.iter().take(MAX_QUOTED) {
            writeln!(f, "  exec: {cut}")?;
        }
        Ok(())
    }
}
