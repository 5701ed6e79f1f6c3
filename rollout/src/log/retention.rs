//! Choice of logs to delete.

use std::time::Duration;

use fairlead_api::RunId;

use crate::clock::UnixMillis;

/// Limits of all logs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Maximum age of the log of an ended run.
    pub max_age: Duration,
    /// Maximum number of bytes of all logs.
    pub max_total_bytes: u64,
}

impl Default for LogLimits {
    /// 14 days, and 2 GiB.
    fn default() -> Self {
        LogLimits {
            max_age: Duration::from_secs(14 * 86_400),
            max_total_bytes: 2 << 30,
        }
    }
}

/// Age and size of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogAge<R> {
    /// The run.
    pub run: R,
    /// End of the run; `None` while it goes on.
    pub ended_at: Option<UnixMillis>,
    /// Stored bytes.
    pub bytes: u64,
}

/// Runs whose logs go: too old ones, then the oldest ones until the rest fits. Logs of running runs stay, but count.
#[must_use]
pub fn expired_logs<R>(
    logs: impl IntoIterator<Item = LogAge<R>>,
    now: UnixMillis,
    limits: LogLimits,
) -> Vec<R> {
    let mut total = 0_u64;
    let mut ended = Vec::new();
    for log in logs {
        total = total.saturating_add(log.bytes);
        if let Some(at) = log.ended_at {
            ended.push((at, log));
        }
    }
    ended.sort_by_key(|(at, _)| *at);
    let expires = |(at, log): (UnixMillis, LogAge<R>)| {
        let expired = now.since(at) > limits.max_age || total > limits.max_total_bytes;
        expired.then(|| {
            total = total.saturating_sub(log.bytes);
            log.run
        })
    };
    ended.into_iter().map_while(expires).collect()
}

/// Creation time of a run: the first 48 bits of its ULID.
#[must_use]
pub fn run_created_at(run: &RunId) -> UnixMillis {
    let ulid = run.as_str().trim_start_matches(RunId::PREFIX);
    let value = |digit: char| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".find(digit);
    let digits = ulid.chars().take(10).filter_map(value);
    let digits = digits.filter_map(|it| u64::try_from(it).ok());
    UnixMillis(digits.fold(0, |millis, digit| millis << 5 | digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MILLIS: u64 = 86_400_000;

    fn log(run: u32, ended_day: Option<u64>, bytes: u64) -> LogAge<u32> {
        LogAge {
            run,
            ended_at: ended_day.map(|day| UnixMillis(day * DAY_MILLIS)),
            bytes,
        }
    }

    fn expired(logs: &[LogAge<u32>], day: u64, max_total_bytes: u64) -> Vec<u32> {
        let limits = LogLimits {
            max_total_bytes,
            ..LogLimits::default()
        };
        expired_logs(logs.iter().copied(), UnixMillis(day * DAY_MILLIS), limits)
    }

    #[test]
    fn logs_go_after_fourteen_days() {
        let logs = [
            log(1, Some(2), 5),
            log(2, Some(1), 5),
            log(3, None, 5),
            log(4, Some(3), 5),
        ];
        assert_eq!(expired(&logs, 15, 100), Vec::<u32>::new());
        assert_eq!(expired(&logs, 16, 100), [2]);
        assert_eq!(expired(&logs, 400, 100), [2, 1, 4]);
    }

    #[test]
    fn oldest_logs_go_until_the_rest_fits() {
        let logs = [
            log(1, Some(3), 40),
            log(2, Some(1), 40),
            log(3, None, 40),
            log(4, Some(2), 40),
        ];
        assert_eq!(expired(&logs, 4, 160), Vec::<u32>::new());
        assert_eq!(expired(&logs, 4, 159), [2]);
        assert_eq!(expired(&logs, 4, 80), [2, 4]);
        assert_eq!(expired(&logs, 4, 1), [2, 4, 1], "the running one stays");
    }

    #[test]
    fn id_of_a_run_has_its_time() {
        let run = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        assert_eq!(run_created_at(&run), UnixMillis(1_469_922_850_259));
    }
}
