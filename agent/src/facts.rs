//! Facts of the cluster: collected slowly, one collector after the other, within bounds; and sent to the hub when something
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
    context::Site,
    hub_request::{self, AskError},
};

mod bounded;
mod collector;
mod collectors;
mod items;
mod known;
mod read;
mod round;
mod source;

use known::{Known, Millis};

/// Between two looks, if nobody says otherwise.
const EVERY: Duration = Duration::from_secs(300);
/// However often somebody wants it.
const OFTEN: Duration = Duration::from_secs(1);
/// At the latest, the hub is told that all is as it was.
const HOURLY: Duration = Duration::from_secs(3600);
const FIRST: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(60);
/// The longest that the first look waits, so that a fleet does not look at once.
const BEGIN: Duration = Duration::from_secs(10);

/// One agent's facts.
pub(crate) struct Facts {
    site: Arc<Site>,
    /// Of this process: it counts its reports from 1.
    run: Instance,
    namespace: String,
    /// How often, as the agent was started.
    every: Option<Duration>,
    settings: watch::Receiver<Arc<AgentConfig>>,
    known: Known,
    told: Option<Instant>,
}

impl Facts {
    /// `run` tells this process from others; `namespace` is the agent's own; `every` wins over the hub's word.
    pub(crate) fn new(
        (site, run): (Arc<Site>, Instance),
        namespace: String,
        every: Option<Duration>,
    ) -> Self {
        let settings = site.told.configuration();
        Facts {
            site,
            run,
            namespace,
            every,
            settings,
            known: Known::default(),
            told: None,
        }
    }

    /// Collects and tells until the process drains.
    pub(crate) async fn run(mut self) {
        let process = self.site.process.clone();
        tokio::select! {
            () = self.collect_and_tell() => {}
            () = process.draining() => {}
        }
    }

    async fn collect_and_tell(&mut self) {
        // Without a session there is nobody to tell.
        drop(self.site.sessions.any().await);
        let begin = (self.every() / 10).min(BEGIN).mul_f64(chance());
        sleep_until(Instant::now() + begin).await;
        loop {
            let settings = self.settings.borrow_and_update().clone();
            self.look(&settings.facts).await;
            let every = self.every();
            let next = Instant::now() + between(every.mul_f64(0.9), every.mul_f64(1.1), chance());
            let due = self.told.is_none_or(|told| next > told + HOURLY);
            if due || self.known.has_news() {
                // What has not been told by then is told with what is found next.
                let _ = timeout_at(next, self.tell(every)).await;
            }
            tokio::select! {
                () = sleep_until(next) => {}
                Ok(()) = self.settings.changed() => {}
            }
        }
    }

    fn every(&self) -> Duration {
        let wanted = self.settings.borrow().facts.interval_seconds;
        let wanted = wanted.map(|seconds| Duration::from_secs(seconds.into()));
        (self.every.or(wanted))
            .unwrap_or(EVERY)
            .clamp(OFTEN, HOURLY)
    }

    async fn look(&mut self, settings: &FactCollection) {
        for kind in CollectorKind::ALL {
            if !settings.has(kind) {
                self.known.forget(kind, now());
                continue;
            }
            let collector = collectors::of(kind, settings, &self.namespace);
            // What cannot be read now goes on to be as it was.
            if let Some(round) = round::round(&self.site.upstream, collector).await {
                self.known.learn(kind, round, now());
            }
        }
        self.known.note(now());
    }

    /// Until the hub has taken it.
    async fn tell(&mut self, every: Duration) {
        let mut backoff = Backoff::new(FIRST, CAP);
        loop {
            let again = match self.tell_once(every).await {
                Ok(true) => {
                    self.told = Some(Instant::now());
                    return;
                }
                Ok(false) => {
                    debug!("the hub asks for all facts");
                    self.known.start_over();
                    backoff.next(chance())
                }
                Err(error) => {
                    let cause = error_chain(&error);
                    warn!(cause, "the hub has not taken the facts; trying again");
                    backoff.next(chance()).max(FIRST)
                }
            };
            sleep_until(Instant::now() + again).await;
        }
    }

    /// Whether the hub has taken it; else it wants the whole.
    async fn tell_once(&mut self, every: Duration) -> Result<bool, AskError> {
        let exchanges = self.site.sessions.any().await;
        let latest = (HOURLY + every).as_secs();
        let latest = u32::try_from(latest).unwrap_or(u32::MAX);
        let report = self.known.report(self.run, latest);
        let report = report.map_err(|_| AskError::Refused(Code::Internal.into()))?;
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

fn now() -> Millis {
    let nanos = OffsetDateTime::now_utc().unix_timestamp_nanos();
    i64::try_from(nanos / 1_000_000).unwrap_or_default()
}
