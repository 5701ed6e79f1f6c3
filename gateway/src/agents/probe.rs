//! Probes a cluster's API server through the tunnel: at the start of a session, and then every five seconds.
//!
//! An idle session with a ready API server is probed every half minute. Meanwhile its agent checks the API server, and reports a change.
//! The link itself notices within 10.5 s that the agent is gone.
//!
//! The drain of the hub, a changed configuration and changed deliveries trigger a probe at once, because the agent learns of them from it.
//! In a burst of new sessions the first probe waits for up to five seconds, to leave the CPU to the others.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use fairlead_api::{
    Code,
    config::{APPLIED_REVISION_HEADER, DESIRED_REVISION_HEADER},
    delivery::DESIRED_DELIVERY_HEADER,
    headers::{CHECK_INTERVAL, DRAINING, HUBS, PROBE_PATH, SPREAD, WATCH_SECONDS},
    resources::LastError,
};
use fairlead_dialer::LinkState;
use fairlead_exchange::Answer;
use http::{HeaderMap, Request, StatusCode, header};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::info;

use crate::{
    agents::{
        entry::SessionEntry,
        health::{HealthTracker, ProbeResult},
        silence::SilenceDetector,
    },
    http::{agent_failure, body},
    hub::Hub,
};

/// Interval of probes of an idle session whose agent watches its API server.
const IDLE_PROBE_INTERVAL: Duration = Duration::from_secs(30);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of a good answer's body, in bytes, which is not used.
const MAX_READY_BODY: usize = 256;
/// Reconnect spread per agent. A core establishes a session in half a millisecond.
const SPREAD_PER_AGENT: Duration = Duration::from_micros(750);

/// Probes until the session ends.
pub(crate) async fn run(hub: &Hub, entry: &Arc<SessionEntry>) {
    let mut observed = Observed::new(Instant::now());
    // Spreads the probes of sessions that began together, after an outage.
    let mut wait = jitter(CHECK_INTERVAL);
    if hub.sessions.in_connection_burst() {
        tokio::select! {
            () = sleep(wait) => wait = CHECK_INTERVAL,
            () = entry.probe_triggered() => {}
            () = hub.process.draining() => {}
        }
    }
    let mut link = entry.session().link();
    // A notification interrupts a probe that hangs, but not two in a row: else frequent changes would leave no probe
    // complete.
    let mut was_interrupted = false;
    let mut is_ready = false;
    loop {
        let began = Instant::now();
        entry.set_probe_time(began);
        if entry.take_change() {
            // Until then the agent has found it ready.
            observed.ready(began - CHECK_INTERVAL);
        }
        let lost = observed.loss(&link.borrow_and_update());
        let (is_up, down_since) = (lost.is_none(), lost.as_ref().map(|(since, _)| *since));
        let is_draining = hub.process.is_draining();
        let watches = is_ready && !is_draining && entry.load() == 0;
        let probed = match lost {
            Some((_, error)) => ProbeResult::Down(error),
            // A lost link says nothing about the API server.
            None => tokio::select! {
                // Boxed: it takes no memory between two probes.
                probed = Box::pin(probe(hub, entry, watches)) => probed,
                Ok(()) = link.changed() => continue,
                () = entry.probe_triggered(), if !was_interrupted => {
                    was_interrupted = true;
                    continue;
                }
                () = hub.process.draining(), if !is_draining => continue,
            },
        };
        was_interrupted = false;
        is_ready = probed == ProbeResult::Good;
        if watches && is_ready {
            wait = IDLE_PROBE_INTERVAL - jitter(IDLE_PROBE_INTERVAL / 6);
        }
        let silent_at = observed.note(hub, entry, probed, down_since);
        // No probe without a link, but the session becomes silent after some time.
        let pause = async {
            match silent_at {
                _ if is_up => sleep(wait.saturating_sub(began.elapsed())).await,
                None => std::future::pending().await,
                Some(at) => sleep_until(at).await,
            }
        };
        tokio::select! {
            () = pause => {}
            Ok(()) = link.changed() => {}
            () = entry.probe_triggered(), if is_up => {}
            () = hub.process.draining(), if !is_draining => {}
        }
        wait = CHECK_INTERVAL;
    }
}

/// Conclusions from the probes of a session.
struct Observed {
    health: HealthTracker,
    silence: SilenceDetector,
}

impl Observed {
    fn new(now: Instant) -> Self {
        Observed {
            health: HealthTracker::new(now),
            silence: SilenceDetector::new(now),
        }
    }

    /// The API server was ready then.
    fn ready(&mut self, at: Instant) {
        self.health.ready(at);
        self.silence.ready(at);
    }

    /// Time and cause of the link's loss, if there is none.
    fn loss(&mut self, link: &LinkState) -> Option<(Instant, LastError)> {
        let LinkState::Down {
            since,
            heard,
            last_error,
        } = link
        else {
            return None;
        };
        self.silence.heard(*heard);
        let error = LastError {
            code: Code::SessionBroke,
            cause: last_error.clone(),
        };
        Some((*since, error))
    }

    /// Notes the result of a probe for requests, metrics and the status of the cluster. Returns the time at which the session becomes
    /// silent, if that is not decided yet.
    fn note(
        &mut self,
        hub: &Hub,
        entry: &Arc<SessionEntry>,
        probed: ProbeResult,
        down_since: Option<Instant>,
    ) -> Option<Instant> {
        let rtt = entry.session().stats().rtt;
        if let Some(rtt) = rtt {
            hub.metrics.rtt(rtt);
        }
        hub.sessions.record_probe(entry, &probed, rtt);
        let answered = matches!(probed, ProbeResult::Good | ProbeResult::Bad(_));
        let silence = self.silence.after(&probed, down_since, Instant::now());
        let silent_at = silence.as_ref().err().map(|unchanged| unchanged.until);
        entry.set_probed(answered, silence);
        if let Some(status) = self.health.after(probed, Instant::now()) {
            let code = status.last_error.as_ref().map(|error| error.code);
            info!(
                cluster = %entry.cluster(),
                state = %status.state,
                code = code.map(tracing::field::display),
                "cluster status"
            );
            hub.sessions.record_status(entry, status);
        }
        silent_at
    }
}

fn spread_millis(agents: usize) -> u64 {
    let agents = u32::try_from(agents).unwrap_or(u32::MAX);
    let spread = SPREAD_PER_AGENT.saturating_mul(agents);
    u64::try_from(spread.as_millis()).unwrap_or(u64::MAX)
}

fn jitter(up_to: Duration) -> Duration {
    let random = RandomState::new().hash_one(0);
    let millis = u64::try_from(up_to.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(random % millis)
}

/// Probes once. With `watches` the agent is to check the API server until the next probe.
async fn probe(hub: &Hub, entry: &SessionEntry, watches: bool) -> ProbeResult {
    let mut request = Request::builder()
        .uri(PROBE_PATH)
        .header(header::HOST, "kubernetes.default.svc")
        .header(SPREAD, spread_millis(hub.sessions.count()));
    if watches {
        request = request.header(WATCH_SECONDS, IDLE_PROBE_INTERVAL.as_secs());
    }
    if let Some(wanted) = hub.seam.directory.desired_config(entry.cluster()) {
        request = request.header(DESIRED_REVISION_HEADER, &*wanted);
    }
    if let Some(etag) = hub.seam.directory.desired_delivery(entry.cluster()) {
        request = request.header(DESIRED_DELIVERY_HEADER, &*etag);
    }
    if let Some(list) = hub.seam.directory.agent_hubs().list {
        request = request.header(HUBS, &*list);
    }
    if hub.process.is_draining() {
        request = request.header(DRAINING, "1");
    }
    let Ok(request) = request.body(body::empty()) else {
        return bad(Code::Internal, "the probe is not a valid request");
    };
    let silent = |code: Code, cause: String| ProbeResult::Silent(LastError { code, cause });
    let end = Instant::now() + PROBE_TIMEOUT;
    match timeout_at(end, entry.exchanges().send(request)).await {
        Err(_) => silent(
            Code::Timeout,
            format!("no answer to a probe within {} s", PROBE_TIMEOUT.as_secs()),
        ),
        Ok(Err(error)) => silent(Code::TunnelBroke, error.to_string()),
        Ok(Ok(Answer::Upgraded(..))) => bad(Code::Internal, "the agent upgraded a probe"),
        Ok(Ok(Answer::Response(response))) => {
            record_applied_config(hub, entry, response.headers());
            if let Some(code) = agent_failure::agent_code(response.headers()) {
                let failure = agent_failure::failure_from(code, response.into_body()).await;
                return ProbeResult::Bad(LastError {
                    code: failure.code,
                    cause: failure.cause,
                });
            }
            match response.status() {
                StatusCode::OK => {
                    // An unread body would end its stream, and each probe would need a new one.
                    let _ = timeout_at(end, body::read(response.into_body(), MAX_READY_BODY)).await;
                    ProbeResult::Good
                }
                status => bad(
                    Code::ApiUnreachable,
                    format!("its /readyz answered {}", status.as_u16()),
                ),
            }
        }
    }
}

/// The agent reports its applied configuration on every answer, also for an unready API server.
fn record_applied_config(hub: &Hub, entry: &SessionEntry, headers: &HeaderMap) {
    let reported = headers.get(APPLIED_REVISION_HEADER);
    if let Some(revision) = reported.and_then(|value| value.to_str().ok()) {
        let directory = &hub.seam.directory;
        directory.record_applied_config(entry.cluster(), revision);
    }
}

fn bad(code: Code, cause: impl Into<String>) -> ProbeResult {
    ProbeResult::Bad(LastError {
        code,
        cause: cause.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_spread_grows_with_the_number_of_agents() {
        for (agents, millis) in [(0, 0), (100, 75), (5_000, 3_750), (100_000, 75_000)] {
            assert_eq!(spread_millis(agents), millis, "{agents}");
        }
        assert_eq!(spread_millis(usize::MAX), 3_221_225_471);
    }
}
