//! Facts in an InfluxDB 1.x: each accepted version of a fact is written as a point, asynchronously
//! to all requests. Queries of `/inventory` may be answered by InfluxDB within the caller's
//! visibility (`docs/facts.md`).

mod batch;
mod client;
mod cursor;
mod feed;
mod line;
mod metrics;
pub(crate) mod query;
mod source;
mod spool;

#[cfg(test)]
mod tests;

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_runtime::{Process, backoff::ExponentialDelay};
use fairlead_store::{Clock, DataDir, Store, random};
use reqwest::Url;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use client::InfluxClient;
use feed::{Feed, Step};
use metrics::InfluxMetrics;

pub use client::InfluxLogin;

/// Folder within the data directory.
const FOLDER: &str = "influx";
/// Time over which new points are batched.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Retry delay after the first failure; it doubles each time.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);
/// Minimum size of the spool, in bytes.
const MIN_SPOOL_BYTES: u64 = 1024 * 1024;

/// An InfluxDB 1.x to which facts are written.
#[derive(Debug, Clone)]
pub struct InfluxConfig {
    /// Base URL of the server.
    pub url: InfluxUrl,
    /// Name of an existing database.
    pub database: String,
    /// Credentials of the hub.
    pub login: InfluxLogin,
    /// PEM of additional CAs, besides the system's roots.
    pub ca_pem: Option<String>,
    /// Limit of the spool on disk during an outage, in bytes.
    pub spool: u64,
    /// True if it answers queries by default.
    pub answers: bool,
}

/// `http[s]://host[:port][/path]`, without user information.
#[derive(Clone, PartialEq, Eq)]
pub struct InfluxUrl(Url);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected http://HOST:PORT or https://HOST:PORT, with user and password in separate settings"
)]
pub struct InfluxUrlError;

impl FromStr for InfluxUrl {
    type Err = InfluxUrlError;
    fn from_str(text: &str) -> Result<Self, InfluxUrlError> {
        let url = Url::parse(text).map_err(|_| InfluxUrlError)?;
        let is_plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        is_plain.then_some(InfluxUrl(url)).ok_or(InfluxUrlError)
    }
}

impl fmt::Display for InfluxUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for InfluxUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_str().fmt(f)
    }
}

/// True if nobody on the network can read requests to this URL.
fn is_confidential(url: &Url) -> bool {
    let is_loopback = match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>()
                .is_ok_and(|ip| ip.to_canonical().is_loopback())
        }
        None => false,
    };
    url.scheme() == "https" || is_loopback
}

/// Writer and reader of facts in one InfluxDB.
pub struct Influx {
    client: Arc<InfluxClient>,
    metrics: InfluxMetrics,
    folder: PathBuf,
    max: u64,
    target: u32,
    answers: bool,
}

impl Influx {
    /// Opens the connection settings and metrics.
    ///
    /// # Errors
    /// `FL-4101` for invalid settings.
    pub fn open(config: InfluxConfig, data_dir: &DataDir, clock: Clock) -> Result<Self, Failure> {
        if config.spool < MIN_SPOOL_BYTES {
            let detail = "influx-spool: at least 1 MiB";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        let url = &config.url.0;
        if !matches!(config.login, InfluxLogin::Nobody) && !is_confidential(url) {
            let detail = "influx-url: credentials need https, except on loopback";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        let client = InfluxClient::new(
            url,
            &config.database,
            config.login,
            config.ca_pem.as_deref(),
        )?;
        let metrics = InfluxMetrics::new(clock);
        Ok(Influx {
            client: Arc::new(client),
            metrics: metrics.map_err(|error| Failure::because(Code::Internal, error))?,
            folder: data_dir.join(FOLDER),
            max: config.spool,
            target: cursor::target(url.as_str(), &config.database),
            answers: config.answers,
        })
    }

    /// Runs until the process drains. Unfinished work is repeated by the next process.
    pub(super) async fn run(&self, store: &Store, process: &Process) {
        if let Err(error) = process.measure(self.metrics.clone()) {
            warn!(%error, "InfluxDB metrics not registered");
        }
        tokio::select! {
            () = process.draining() => {}
            () = self.feed(store) => {}
        }
    }

    async fn feed(&self, store: &Store) {
        let mut pause = Pause::default();
        let mut feed = loop {
            let (place, client) = ((self.folder.clone(), self.max), Arc::clone(&self.client));
            let opened = Feed::open(
                place,
                self.target,
                store.clone(),
                client,
                self.metrics.clone(),
            );
            match opened.await {
                Ok(feed) => break feed,
                Err(error) => {
                    self.metrics.set_state(metrics::FeedState::Stuck);
                    warn!(%error, folder = %self.folder.display(), "InfluxDB spool not opened");
                    sleep(pause.next()).await;
                }
            }
        };
        let mut changed = store.watch();
        // End of the current pause.
        let mut until: Option<Instant> = None;
        pause = Pause::default();
        loop {
            changed.mark_unchanged();
            let may_send = until.is_none_or(|until| until <= Instant::now());
            match feed.step(may_send).await {
                Ok(Step::More) => {
                    if may_send {
                        (until, pause) = (None, Pause::default());
                    }
                }
                Ok(Step::Pause) => until = Some(Instant::now() + pause.next()),
                Ok(Step::Idle) => {
                    let again = until.filter(|_| feed.has_spooled());
                    let again = async {
                        match again {
                            Some(until) => sleep_until(until).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        // The store closes after this task has ended.
                        _ = changed.changed() => sleep(BATCH_DELAY).await,
                        () = again => {}
                    }
                }
                Err(error) => {
                    feed.mark_stuck();
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    warn!(error = %error, cause, "facts not sent to InfluxDB");
                    sleep(pause.next()).await;
                }
            }
        }
    }
}

/// Exponential back-off with jitter.
struct Pause(ExponentialDelay);

impl Default for Pause {
    fn default() -> Self {
        Pause(ExponentialDelay::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX))
    }
}

impl Pause {
    fn next(&mut self) -> Duration {
        let whole = self.0.next_delay();
        // Half of the delay without random bytes.
        let [share] = random::bytes::<1>().unwrap_or([0]);
        whole / 2 + (whole / 2).mul_f64(f64::from(share) / 255.0)
    }
}
