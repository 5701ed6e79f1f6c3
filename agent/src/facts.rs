//! Facts about the cluster. Collectors run slowly, one after the other, within bounds. A report goes to the hub
//! after a change and at least once an hour. No list is kept in memory, and no Secret's content is read.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code,
    config::{AgentConfig, CollectorKind, FactCollection},
    error_chain,
    facts::{FACTS_PATH, ReportReceipt},
    hello::Instance,
};
use fairlead_gitops::GitOpsStatus;
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

/// Interval of collection without a configured one.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);
/// Lower bound of every configured interval.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time between two reports; without a change a report repeats the last state.
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(3600);
const REPORT_BACKOFF_MIN: Duration = Duration::from_secs(1);
const REPORT_BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Upper bound of the random delay before the first collection, so that a fleet does not collect in step.
const MAX_START_DELAY: Duration = Duration::from_secs(10);

/// Collects the facts of one cluster and reports them.
pub(crate) struct FactReporter {
    context: Arc<AgentContext>,
    /// Random per process: report numbers start at 1 in each run.
    run: Instance,
    namespace: String,
    /// Interval from the command line.
    interval: Option<Duration>,
    settings: watch::Receiver<Arc<AgentConfig>>,
    gitops: watch::Receiver<Option<GitOpsStatus>>,
    known: KnownFacts,
    last_report: Option<Instant>,
}

impl FactReporter {
    /// `run` identifies this process; `namespace` is the agent's own; `every` overrides the hub's
    /// configuration.
    pub(crate) fn new(
        (context, run): (Arc<AgentContext>, Instance),
        namespace: String,
        interval: Option<Duration>,
    ) -> Self {
        let settings = context.configuration.document();
        let gitops = context.gitops.subscribe();
        FactReporter {
            context,
            gitops,
            run,
            namespace,
            interval,
            settings,
            known: KnownFacts::default(),
            last_report: None,
        }
    }

    /// Collects and reports until the process drains.
    pub(crate) async fn run(mut self) {
        let process = self.context.process.clone();
        tokio::select! {
            () = self.collect_and_report() => {}
            () = process.draining() => {}
        }
    }

    async fn collect_and_report(&mut self) {
        // Without a session there is no receiver.
        drop(self.context.sessions.any().await);
        let delay = (self.interval() / 10)
            .min(MAX_START_DELAY)
            .mul_f64(chance());
        sleep_until(Instant::now() + delay).await;
        let mut next = Instant::now();
        loop {
            let is_configured = self.settings.has_changed().unwrap_or(false);
            let settings = self.settings.borrow_and_update().clone();
            let interval = self.interval();
            if is_configured || Instant::now() >= next {
                self.collect(&CollectorKind::ALL, &settings.facts).await;
                let (earliest, latest) = (interval.mul_f64(0.9), interval.mul_f64(1.1));
                next = Instant::now() + between(earliest, latest, chance());
            } else {
                self.collect(&[CollectorKind::GitOps], &settings.facts)
                    .await;
            }
            let due = self
                .last_report
                .is_none_or(|last_report| next > last_report + MAX_REPORT_INTERVAL);
            if due || self.known.has_changes() {
                // Facts unreported at that time go with the next report.
                let _ = timeout_at(next, self.report_until_accepted(interval)).await;
            }
            tokio::select! {
                () = sleep_until(next) => {}
                Ok(()) = self.settings.changed() => {}
                Ok(()) = self.gitops.changed() => {}
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

    async fn collect(&mut self, kinds: &[CollectorKind], settings: &FactCollection) {
        // Also with the collector disabled: an unread change would start the next round at once.
        let gitops = self.gitops.borrow_and_update().clone();
        for kind in kinds.iter().copied() {
            if !settings.has(kind) {
                self.known.remove_kind(kind, now());
                continue;
            }
            let collector = collectors::of(kind, settings, &self.namespace, gitops.clone());
            // Facts of a failed round stay as they are.
            if let Some(round) = round::run_collector(&self.context.upstream, collector).await {
                self.known.update(kind, round, now());
            }
        }
        self.known.update_incomplete(now());
    }

    /// Retries until the hub accepts the report.
    async fn report_until_accepted(&mut self, interval: Duration) {
        let mut backoff = Backoff::new(REPORT_BACKOFF_MIN, REPORT_BACKOFF_MAX);
        loop {
            let again = match self.send_report(interval).await {
                Ok(true) => {
                    self.last_report = Some(Instant::now());
                    return;
                }
                Ok(false) => {
                    debug!("hub requested a full fact report");
                    self.known.reset();
                    backoff.next(chance())
                }
                Err(error) => {
                    let cause = error_chain(&error);
                    warn!(cause, "fact report failed; retrying");
                    backoff.next(chance()).max(REPORT_BACKOFF_MIN)
                }
            };
            sleep_until(Instant::now() + again).await;
        }
    }

    /// Returns whether the hub accepted the report. If not, the hub needs a full report.
    async fn send_report(&mut self, interval: Duration) -> Result<bool, HubRequestError> {
        let exchanges = self.context.sessions.any().await;
        let latest = (MAX_REPORT_INTERVAL + interval).as_secs();
        let latest = u32::try_from(latest).unwrap_or(u32::MAX);
        let report = self.known.report(self.run, latest);
        let report = report.map_err(|_| HubRequestError::Refused(Code::Internal.into()))?;
        let change = report.change();
        let received = hub_request::post(&exchanges, FACTS_PATH, report.json.into()).await?;
        let ReportReceipt { etag } = received;
        let accepted = etag.is_some();
        if let Some(etag) = etag {
            self.known.acknowledge(change, etag);
        }
        Ok(accepted)
    }
}

fn now() -> UnixMillis {
    let nanos = OffsetDateTime::now_utc().unix_timestamp_nanos();
    i64::try_from(nanos / 1_000_000).unwrap_or_default()
}
