//! Rate limits of a server: headers of its responses, and the pause that they ask for.
//!
//! Sources: RFC 9110, section 10.2.3 (`Retry-After`); GitLab's `RateLimit-Reset`; GitHub's
//! `x-ratelimit-reset`.

use std::{
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

/// Pause if a server limits requests and names no time.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Longest pause; windows of providers have an hour.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Shared pause of all requests with one server's credentials.
#[derive(Debug, Default)]
pub(crate) struct RateLimit(Mutex<Option<Instant>>);

impl RateLimit {
    /// Time until requests are allowed again.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let until = *self.0.lock().unwrap_or_else(|it| it.into_inner());
        let wait = until?.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    pub(crate) fn pause(&self, wait: Duration) {
        let mut until = self.0.lock().unwrap_or_else(|it| it.into_inner());
        let end = Instant::now() + wait;
        *until = Some(until.map_or(end, |known| known.max(end)));
    }
}

/// Pause that a response asks for. A successful response asks for one if it was the last of its
/// window.
pub(super) fn wait_of(
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
) -> Option<Duration> {
    let retry = retry_after(headers, now);
    let spent = number(headers, &["x-ratelimit-remaining", "ratelimit-remaining"]) == Some(0);
    let reset = number(headers, &["x-ratelimit-reset", "ratelimit-reset"]);
    let reset = reset.map(|at| since(UNIX_EPOCH + Duration::from_secs(at.min(1 << 40)), now));
    let wait = match status {
        StatusCode::TOO_MANY_REQUESTS => retry.or(reset).unwrap_or(DEFAULT_WAIT),
        // GitHub limits with 403 as well.
        StatusCode::FORBIDDEN if retry.is_some() => retry?,
        StatusCode::FORBIDDEN if spent => reset.unwrap_or(DEFAULT_WAIT),
        StatusCode::SERVICE_UNAVAILABLE => retry?,
        it if it.is_success() && spent => reset?,
        _ => return None,
    };
    Some(wait.clamp(MIN_WAIT, MAX_WAIT))
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(since(httpdate::parse_http_date(text).ok()?, now)),
    }
}

fn since(at: SystemTime, now: SystemTime) -> Duration {
    at.duration_since(now).unwrap_or_default()
}

fn number(headers: &HeaderMap, names: &[&str]) -> Option<u64> {
    let mut found = names.iter().filter_map(|name| headers.get(*name));
    found.next()?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_headers_of_each_provider() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let wait = |status: u16, fields: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(*name, value.parse().unwrap());
            }
            let status = StatusCode::from_u16(status).unwrap();
            wait_of(status, &headers, now).map(|it| it.as_secs())
        };
        assert_eq!(wait(429, &[("retry-after", "7")]), Some(7));
        let date = "Mon, 12 Jan 1970 13:47:10 GMT";
        assert_eq!(wait(429, &[("retry-after", date)]), Some(30));
        assert_eq!(wait(429, &[("ratelimit-reset", "1000042")]), Some(42));
        assert_eq!(wait(429, &[]), Some(60));
        assert_eq!(wait(429, &[("retry-after", "99999")]), Some(3600));
        let spent = [
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1000090"),
        ];
        assert_eq!(wait(403, &spent), Some(90));
        assert_eq!(wait(200, &spent), Some(90), "no request is left");
        assert_eq!(wait(403, &[("retry-after", "5")]), Some(5));
        assert_eq!(wait(403, &[]), None, "a missing right");
        assert_eq!(wait(200, &[("x-ratelimit-remaining", "1")]), None);
        assert_eq!(wait(503, &[("retry-after", "3")]), Some(3));
        assert_eq!(wait(503, &[]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_and_the_longest_one_counts() {
        let limit = RateLimit::default();
        assert_eq!(limit.remaining(), None);
        limit.pause(Duration::from_secs(9));
        limit.pause(Duration::from_secs(2));
        assert_eq!(limit.remaining(), Some(Duration::from_secs(9)));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(limit.remaining(), None);
    }
}
