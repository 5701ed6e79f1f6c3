//! Free memory goes back to the kernel after the start and after bursts, and so do the pages of the program that only they used.
//!
//! glibc keeps the memory of a burst of connections or reports: blocks that live on stand above it. A
//! trim locks each heap in turn, so it waits for a quiet time, and takes at most one percent of the time.

use std::{io, time::Duration};

use rustix::{
    param::page_size,
    time::{ClockId, clock_gettime},
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tracing::debug;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);
/// Processor time within one interval. A process that takes more is busy.
const QUIET_CPU_TIME: Duration = Duration::from_secs(5);
/// Growth since the last trim that makes the next one worth it: this much, and a twentieth.
const MIN_GROWTH_BYTES: u64 = 1 << 20;
const MIN_GROWTH_DIVISOR: u64 = 20;
/// Time from a trim to the one after it: idle connections and caches of the burst have ended by then.
const FOLLOW_UP_DELAY: Duration = Duration::from_secs(120);
/// Time between two trims, as a multiple of the time that the last one took.
const MIN_PAUSE_FACTOR: u32 = 100;

/// Use of resources by this process.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Resident memory that no file backs, in bytes.
    memory: u64,
    /// Processor time since the start.
    cpu: Duration,
}

impl Sample {
    fn read() -> io::Result<Self> {
        // proc(5): total, resident, and file-backed resident pages.
        let statm = std::fs::read_to_string("/proc/self/statm")?;
        let mut pages = statm.split_ascii_whitespace().skip(1);
        let mut next = || pages.next()?.parse::<u64>().ok();
        let (Some(resident), Some(shared)) = (next(), next()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Sample {
            memory: resident.saturating_sub(shared) * page_size() as u64,
            cpu: Duration::try_from(cpu).unwrap_or_default(),
        })
    }
}

/// Decides when a trim is worth its time.
#[derive(Debug, Default)]
struct TrimPolicy {
    /// Lowest memory since the last trim.
    floor: u64,
    cpu: Duration,
    /// Time in which no trim begins.
    pause: Duration,
    /// Time to the second trim after a burst.
    follow_up: Option<Duration>,
}

impl TrimPolicy {
    /// True if the process is quiet, and has grown or ended the work of a burst. To be called once in each interval.
    fn is_due(&mut self, sample: Sample) -> bool {
        let is_quiet = sample.cpu.saturating_sub(self.cpu) < QUIET_CPU_TIME;
        self.cpu = sample.cpu;
        self.pause = self.pause.saturating_sub(SAMPLE_INTERVAL);
        self.floor = self.floor.min(sample.memory);
        let growth = sample.memory - self.floor;
        let is_large = growth >= MIN_GROWTH_BYTES.max(self.floor / MIN_GROWTH_DIVISOR);
        self.follow_up = self.follow_up.map(|it| it.saturating_sub(SAMPLE_INTERVAL));
        let is_second = self.follow_up.is_some_and(|it| it.is_zero());
        if !is_quiet || !self.pause.is_zero() || !is_large && !is_second {
            return false;
        }
        self.follow_up = is_large.then_some(FOLLOW_UP_DELAY);
        true
    }

    /// Notes a trim that took `long`, and the memory after it.
    fn trimmed(&mut self, long: Duration, memory: u64) {
        self.floor = memory;
        self.pause = long * MIN_PAUSE_FACTOR;
    }
}

fn return_memory() {
    fairlead_glibc::trim();
    fairlead_glibc::release_program_pages();
}

/// Trims for the life of the process. Returns where `/proc` tells nothing.
pub(crate) async fn run() {
    let mut policy = TrimPolicy::default();
    loop {
        sleep(SAMPLE_INTERVAL).await;
        let Ok(before) = Sample::read() else {
            return;
        };
        if !policy.is_due(before) {
            continue;
        }
        let start = Instant::now();
        if spawn_blocking(return_memory).await.is_err() {
            return;
        }
        let long = start.elapsed();
        let after = Sample::read().map_or(before.memory, |sample| sample.memory);
        policy.trimmed(long, after);
        debug!(
            before = before.memory,
            after,
            milliseconds = long.as_millis(),
            "free memory returned"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB_BYTES: u64 = 1 << 20;

    fn sample(mebibytes: u64, cpu_seconds: u64) -> Sample {
        Sample {
            memory: mebibytes * MIB_BYTES,
            cpu: Duration::from_secs(cpu_seconds),
        }
    }

    #[test]
    fn growth_is_trimmed_once_the_process_is_quiet() {
        let mut policy = TrimPolicy::default();
        assert!(!policy.is_due(sample(700, 9)), "busy");
        assert!(policy.is_due(sample(700, 10)));
        policy.trimmed(Duration::from_millis(10), 400 * MIB_BYTES);
        assert!(!policy.is_due(sample(410, 11)), "less than a twentieth");
        assert!(policy.is_due(sample(420, 12)));
    }

    #[test]
    fn memory_that_shrinks_by_itself_lowers_the_floor() {
        let mut policy = TrimPolicy::default();
        policy.trimmed(Duration::ZERO, 400 * MIB_BYTES);
        assert!(!policy.is_due(sample(100, 0)));
        assert!(policy.is_due(sample(110, 0)));
    }

    #[test]
    fn second_trim_follows_a_burst() {
        let mut policy = TrimPolicy::default();
        assert!(policy.is_due(sample(700, 0)));
        policy.trimmed(Duration::ZERO, 400 * MIB_BYTES);
        let due = (0..30).filter(|_| policy.is_due(sample(400, 0)));
        assert_eq!(due.collect::<Vec<_>>(), [11], "once, after two minutes");
    }

    #[test]
    fn slow_trims_are_rare() {
        let mut policy = TrimPolicy::default();
        policy.trimmed(Duration::from_millis(300), 10 * MIB_BYTES);
        let due = (0..4).map(|_| policy.is_due(sample(20, 0)));
        assert_eq!(due.collect::<Vec<_>>(), [false, false, true, true]);
    }

    #[test]
    fn own_sample_is_plausible() {
        let sample = Sample::read().unwrap();
        assert!(sample.memory > 100_000, "{sample:?}");
        assert!(!sample.cpu.is_zero());
    }
}
