//! Times and limits of runs.

use std::time::Duration;

/// Time of a lease after its start and after each renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(60);

/// Time between the end of a lost lease and the next attempt.
pub const TAKEOVER_DELAY: Duration = Duration::from_secs(30);

/// Maximum number of attempts of a run.
pub const MAX_ATTEMPTS: u32 = 5;

/// Delay before the second attempt; each further one doubles it.
pub const RETRY_BACKOFF_MIN: Duration = Duration::from_secs(30);

/// Maximum delay between attempts.
pub const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(30 * 60);

/// Priority of a person's command.
pub const COMMAND_PRIORITY: i8 = 5;

/// Priority of a correction of drift.
pub const DRIFT_PRIORITY: i8 = -5;

/// Minimum extension of a lease. Calls that follow each other closely write nothing.
pub(super) const RENEWAL_STEP: Duration = Duration::from_secs(15);

/// Delay after this number of attempts.
pub(super) fn retry_backoff(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    let backoff = RETRY_BACKOFF_MIN.saturating_mul(1 << doublings);
    backoff.min(RETRY_BACKOFF_MAX)
}
