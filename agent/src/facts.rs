//! FactReporter of the cluster: collected slowly, one collector after the other, within bounds; and sent to the hub when something
//! has changed, and at least once an hour. No list is held in memory, and no Secret's content is read.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code,
    config::{AgentConfig, CollectorKind, FactCollection},
    error_chain,
    facts::{FACTS_PATH, ReportReceipt},
    hello::Instance,
};
use time::OffsetDateTime;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use tracing::{debug, warn};

use crate::{
    backoff::{Backoff, between, chance},
    context::AgentContext,
    hub_request::{self, HubRequestError},
};

mod bounded;
mod collector;
mod collectors;
mod items;
mod known;
mod read;
mod round;
mod source;

use known::{KnownFacts, UnixMillis};

/// Between two looks, if nobody says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);
/// However often somebody wants it.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// At the latest, the hub is told that all is as it was.
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(3600);
const REPORT_BACKOFF_MIN: Duration = Duration::from_secs(1);
const REPORT_BACKOFF_MAX: Duration = Duration::from_secs(60);
/// The longest that the first look waits, so that a fleet does not look at once.
const MAX_START_DELAY: Duration = Duration::from_secs(10);

/// One agent's facts.
pub(crate) struct FactReporter {
    context: Arc<AgentContext>,
    /// Of this process: it counts its reports from 1.
    run: Instance,
    namespace: String,
    /// How often, as the agent was started.
    interval: Option<Duration>,
    settings: watch::Receiver<Arc<AgentConfig>>,
    known: KnownFacts,
    last_report: Option<Instant>,
}

impl FactReporter {
    /// `run` tells this process from others; `namespace` is the agent's own; `every` wins over the hub's word.
    pub(crate) fn new(
        (context, run): (Arc<AgentContext>, Instance),
        namespace: String,
        interval: Option<Duration>,
    ) -> Self {
        let settings = context.configuration.document();
        FactReporter {
            context,
            run,
            namespace,
            interval,
            settings,
            known: KnownFacts::default(),
            last_report: None,
        }
    }

    /// Collects and tells until the process drains.
    pub(crate) async fn run(mut self) {
        let process = self.context.process.clone();
        tokio::select! {
            () = self.collect_and_report() => {}
            () = process.draining() => {}
        }
    }

    async fn collect_and_report(&mut self) {
        // Without a session there is nobody to tell.
        drop(self.context.sessions.any().await);
        let delay = (self.interval() / 10)
            .min(MAX_START_DELAY)
            .mul_f64(chance());
        sleep_until(Instant::now() + delay).await;
        loop {
            let settings = self.settings.borrow_and_update().clone();
            self.collect(&settings.facts).await;
            let interval = self.interval();
            let next =
                Instant::now() + between(interval.mul_f64(0.9), interval.mul_f64(1.1), chance());
            let due = self
                .last_report
                .is_none_or(|last_report| next > last_report + MAX_REPORT_INTERVAL);
            if due || self.known.has_changes() {
                // Selection has not been told by then is told with what is found next.
                let _ = timeout_at(next, self.report_until_taken(interval)).await;
            }
            tokio::select! {
                () = sleep_until(next) => {}
                Ok(()) = self.settings.changed() => {}
            }
        }
    }

    fn interval(&self) -> Duration {
        let configured = self.settings.borrow().facts.interval_seconds;
        let configured = configured.map(|seconds| Duration::from_secs(seconds.into()));
        (self.interval.or(configured))
            .unwrap_or(DEFAULT_INTERVAL)
            .clamp(MIN_INTERVAL, MAX_REPORT_INTERVAL)
    }

    async fn collect(&mut self, settings: &FactCollection) {
        for kind in CollectorKind::ALL {
            if !settings.has(kind) {
                self.known.remove_kind(kind, now());
                continue;
            }
            let collector = collectors::of(kind, settings, &self.namespace);
            // Selection cannot be read now goes on to be as it was.
            if let Some(round) = round::run_collector(&self.context.upstream, collector).await {
                self.known.update(kind, round, now());
            }
        }
        self.known.update_incomplete(now());
    }

    /// Until the hub has taken it.
    async fn report_until_taken(&mut self, interval: Duration) {
        let mut backoff = Backoff::new(REPORT_BACKOFF_MIN, REPORT_BACKOFF_MAX);
        loop {
            let again = match self.send_report(interval).await {
                Ok(true) => {
                    self.last_report = Some(Instant::now());
                    return;
                }
                Ok(false) => {
                    debug!("the hub asks for all facts");
                    self.known.reset();
                    backoff.next(chance())
                }
                Err(error) => {
                    let cause = error_chain(&error);
                    warn!(cause, "the hub has not taken the facts; trying again");
                    backoff.next(chance()).max(REPORT_BACKOFF_MIN)
                }
            };
            sleep_until(Instant::now() + again).await;
        }
    }

    /// Whether the hub has taken it; else it wants the whole.
    async fn send_report(&mut self, interval: Duration) -> Result<bool, HubRequestError> {
        let exchanges = self.context.sessions.any().await;
        let latest = (MAX_REPORT_INTERVAL + interval).as_secs();
        let latest = u32::try_from(latest).unwrap_or(u32::MAX);
        let report = self.known.report(self.run, latest);
        let report = report.map_err(|_| HubRequestError::Refused(Code::Internal.into()))?;
        let change = report.change();
        let received = hub_request::post(&exchanges, FACTS_PATH, report.json.into()).await?;
        let ReportReceipt { etag } = received;
        let taken = etag.is_some();
        if let Some(etag) = etag {
            self.known.acknowledge(change, etag);
        }
        Ok(taken)
    }
}

fn now() -> UnixMillis {
    let nanos = OffsetDateTime::now_utc().unix_timestamp_nanos();
    i64::try_from(nanos / 1_000_000).unwrap_or_default()
}
