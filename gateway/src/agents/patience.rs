//! A cluster whose links are all down is likely to be back in a moment: requests for it wait a while, instead of failing with
//! every blink of a network. A watch does not: whoever watches has a retry of its own, and wants to know.

use std::{sync::Arc, time::Duration};

use fairlead_api::{ClusterId, Code, Failure};
use http::uri::PathAndQuery;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    entry::{Entry, Running},
    group::Down,
    table::{Held, Sessions},
};

const LONGEST: Duration = Duration::from_secs(20);
const MOMENT: Duration = Duration::from_millis(5);

/// How long a request for this path may wait: not longer than the client itself does, and a watch not at all.
pub(crate) fn patience(path: &PathAndQuery) -> Duration {
    let parameters = || path.query().unwrap_or_default().split('&');
    if parameters().any(|one| matches!(one, "watch=true" | "watch=1" | "follow=true")) {
        return Duration::ZERO;
    }
    parameters()
        .find_map(|one| span(one.strip_prefix("timeout=")?))
        .map_or(LONGEST, |own| own.min(LONGEST))
}

/// A duration as Go writes it: what API servers take is whole seconds, minutes or hours, one after the other.
fn span(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..unit)?.parse().ok()?;
        let (seconds, size) = match rest.get(unit..)?.as_bytes() {
            [b'm', b's', ..] => (0, 2),
            [b's', ..] => (1, 1),
            [b'm', ..] => (60, 1),
            [b'h', ..] => (3600, 1),
            _ => return None,
        };
        total = total.checked_add(Duration::from_secs(number.checked_mul(seconds)?))?;
        rest = rest.get(unit + size..)?;
    }
    Some(total)
}

/// The best session of a cluster, for one request, once a link is up.
///
/// # Errors
/// `None` without a session, `FL-1402` where all links stay down, `FL-1403` as for [`Sessions::hold`].
pub(crate) async fn hold(
    sessions: &Sessions,
    cluster: &ClusterId,
    patience: Duration,
) -> Result<(Arc<Entry>, Running), Option<Failure>> {
    let until = Instant::now() + patience;
    loop {
        let mut down = match sessions.hold(cluster)? {
            Held::Up(entry, running) => return Ok((entry, running)),
            Held::Down(down) => down,
        };
        if timeout_at(until, down.over()).await.is_err() {
            return Err(Some(lost(&down)));
        }
        // A session that has ended is in the table until its own task has run.
        sleep(MOMENT).await;
    }
}

fn lost(down: &Down) -> Failure {
    let Some((since, last_error)) = down.since() else {
        return Failure::new(Code::Lost);
    };
    let since = OffsetDateTime::now_utc() - since.elapsed();
    let since = since.format(&Rfc3339).unwrap_or_default();
    let code = Code::SessionBroke;
    Failure::because(
        Code::Lost,
        format_args!("since {since}, last error {code}: {last_error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_no_longer_than_its_client_and_a_watch_not_at_all() {
        for (path, seconds) in [
            ("/api/v1/pods", 20),
            ("/api/v1/pods?limit=500", 20),
            ("/api/v1/pods?timeout=5s", 5),
            ("/api/v1/pods?limit=500&timeout=1m30s", 20),
            ("/api/v1/pods?timeout=1m", 20),
            ("/api/v1/pods?timeout=500ms", 0),
            ("/api/v1/pods?timeout=soon", 20),
            ("/api/v1/pods?timeout=99999999999999999999h", 20),
            ("/api/v1/pods?watch=true&timeout=5s", 0),
            ("/api/v1/pods?watch=1", 0),
            ("/api/v1/pods?watch=false", 20),
            ("/api/v1/namespaces/a/pods/b/log?follow=true", 0),
        ] {
            let waits = patience(&path.parse().unwrap());
            assert_eq!(waits, Duration::from_secs(seconds), "{path}");
        }
    }
}
