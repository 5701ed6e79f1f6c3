//! Renewal of the certificate over the live session, at two thirds of its life, with the same key. The session
//! stays; the next dial uses the new certificate. Each session renews its own certificate, since the hub ends a
//! session with its certificate. A session with an expired certificate may renew it and do nothing else.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code, Failure,
    config::AgentConfig,
    enroll::{RENEW_PATH, RenewRequest},
    moment::timestamp,
};
use fairlead_certs::renew_at;
use fairlead_exchange::Exchanges;
use time::OffsetDateTime;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};

use crate::{
    backoff::{Backoff, chance},
    hub_request,
    identity::Identity,
};

/// Poll interval of the wall clock: clocks are set, and machines sleep.
const CLOCK_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Share of the certificate's life over which renewals are spread, after two thirds.
const RENEWAL_SPREAD: f64 = 0.05;
/// Minimum time between renewals of a session. With a wrong clock each fresh certificate is due at once.
pub(crate) const RENEWAL_INTERVAL_MIN: Duration = Duration::from_secs(15 * 60);
/// Period over which the agents of a hub renew after a rotation of its CA.
const CA_RENEWAL_SPREAD: Duration = Duration::from_secs(2);
/// As [`RENEWAL_INTERVAL_MIN`], for a CA that a renewal has not brought.
const CA_RENEWAL_INTERVAL_MIN: Duration = Duration::from_secs(15);
const RENEWAL_BACKOFF_MIN: Duration = Duration::from_secs(1);
const RENEWAL_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Waits for the due time, then retries until the hub issues. `last`: the session's last renewal.
pub(crate) async fn renew_when_due(
    identity: &Identity,
    last: Option<Instant>,
    exchanges: &Exchanges,
    version: &str,
) -> Identity {
    let at = due(identity.not_before, identity.not_after, chance());
    wait_until_due(at, last).await;
    renew_until_issued(identity, exchanges, version).await
}

async fn renew_until_issued(identity: &Identity, exchanges: &Exchanges, version: &str) -> Identity {
    let mut backoff = Backoff::new(RENEWAL_BACKOFF_MIN, RENEWAL_BACKOFF_MAX);
    loop {
        match renew(identity, exchanges, version).await {
            Ok(renewed) => {
                info!(not_after = timestamp(renewed.not_after), "identity renewed");
                return renewed;
            }
            Err(failure) => {
                warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(), not_after = timestamp(identity.not_after),
                    "identity renewal failed; retrying");
            }
        }
        sleep(backoff.next(chance())).await;
    }
}

/// Waits until the hub's configuration names other authorities than the identity has, then renews, which brings them.
pub(crate) async fn renew_for_ca(
    identity: &Identity,
    last: Option<Instant>,
    mut configuration: watch::Receiver<Arc<AgentConfig>>,
    exchanges: &Exchanges,
    version: &str,
) -> Identity {
    let outdated = |document: &Arc<AgentConfig>| !identity.has_authorities(&document.ca);
    if configuration.wait_for(outdated).await.is_err() {
        // The sender is gone: the process drains.
        return std::future::pending().await;
    }
    // The hub that answers may learn of the rotation later than the one that announced it.
    if let Some(last) = last {
        sleep_until(last + CA_RENEWAL_INTERVAL_MIN).await;
    }
    sleep(CA_RENEWAL_SPREAD.mul_f64(chance())).await;
    renew_until_issued(identity, exchanges, version).await
}

async fn wait_until_due(at: OffsetDateTime, last: Option<Instant>) {
    if let Some(last) = last {
        sleep_until(last + RENEWAL_INTERVAL_MIN).await;
    }
    while let Ok(left) = Duration::try_from(at - OffsetDateTime::now_utc()) {
        sleep(left.min(CLOCK_POLL_INTERVAL)).await;
    }
}

fn due(not_before: OffsetDateTime, not_after: OffsetDateTime, chance: f64) -> OffsetDateTime {
    renew_at(not_before, not_after) + (not_after - not_before) * (RENEWAL_SPREAD * chance)
}

/// Sends one renewal request.
///
/// # Errors
///
/// The hub rejects the request, or cannot be reached.
pub(crate) async fn renew(
    identity: &Identity,
    exchanges: &Exchanges,
    version: &str,
) -> Result<Identity, Failure> {
    let request = RenewRequest {
        csr: identity.key.csr()?,
        agent_version: version.to_owned(),
    };
    let json = serde_json::to_string(&request).map_err(|_| Failure::from(Code::Internal))?;
    identity.renewed(hub_request::post(exchanges, RENEW_PATH, json.into()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wrong_clock_does_not_lead_to_renewals_in_a_loop() {
        let begin = Instant::now();
        let past = OffsetDateTime::UNIX_EPOCH;
        wait_until_due(past, None).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        wait_until_due(past, Some(begin)).await;
        assert!(begin.elapsed() >= RENEWAL_INTERVAL_MIN);
    }

    #[test]
    fn renewal_is_due_at_two_thirds_with_a_small_spread() {
        let from = OffsetDateTime::UNIX_EPOCH;
        let to = from + Duration::from_secs(24 * 3600);
        assert_eq!(due(from, to, 0.0), from + Duration::from_secs(16 * 3600));
        let latest = due(from, to, 1.0) - from;
        assert!(
            latest > time::Duration::hours(17) && latest < time::Duration::hours(18),
            "{latest}"
        );
    }
}
