//! Facts in an InfluxDB 1.x: each version of a fact that this hub accepts becomes a point there, without any request waiting
//! for it, and queries of `/inventory` may be answered by it, within what the caller may see (`docs/facts.md`).

pub(crate) mod ask;
mod batch;
mod client;
mod cursor;
mod feed;
mod line;
mod meter;
mod source;
mod spool;

#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_runtime::{Process, backoff::ExponentialDelay};
use fairlead_store::{Clock, DataDir, Store, random};
use reqwest::Url;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use client::Client;
use feed::{Feed, Step};
use meter::Meter;

pub use client::InfluxLogin;

/// In the data directory.
const FOLDER: &str = "influx";
/// How long what is new is gathered before it is sent.
const GATHER: Duration = Duration::from_secs(1);
/// How long it is left alone after the first failure; twice as long each time.
const REST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
/// The smallest spool, in bytes.
const MIN_SPOOL: u64 = 1024 * 1024;

/// An InfluxDB 1.x to which facts are written.
#[derive(Debug, Clone)]
pub struct InfluxConfig {
    pub url: InfluxUrl,
    /// It must exist.
    pub database: String,
    pub login: InfluxLogin,
    /// PEM of who vouches for it, beside the machine's roots.
    pub ca_pem: Option<String>,
    /// What may wait on the disk while it is away, in bytes.
    pub spool: u64,
    /// It answers queries, too, where nobody says otherwise.
    pub answers: bool,
}

/// `http[s]://host[:port][/path]`, with nobody in it.
#[derive(Clone, PartialEq, Eq)]
pub struct InfluxUrl(Url);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is http://HOST:PORT or https://HOST:PORT, with user and password in settings of their own"
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

pub struct Influx {
    client: Arc<Client>,
    meter: Meter,
    folder: PathBuf,
    max: u64,
    target: u32,
    answers: bool,
}

impl Influx {
    /// # Errors
    /// `FL-4101` for settings that cannot be.
    pub fn open(config: InfluxConfig, data_dir: &DataDir, clock: Clock) -> Result<Self, Failure> {
        if config.spool < MIN_SPOOL {
            let detail = "influx-spool is a MiB at least";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        let url = &config.url.0;
        let client = Client::new(
            url,
            &config.database,
            config.login,
            config.ca_pem.as_deref(),
        )?;
        let meter = Meter::new(clock);
        Ok(Influx {
            client: Arc::new(client),
            meter: meter.map_err(|error| Failure::because(Code::Internal, error))?,
            folder: data_dir.join(FOLDER),
            max: config.spool,
            target: cursor::target(url.as_str(), &config.database),
            answers: config.answers,
        })
    }

    /// Until the process drains. What is under way then is done again by the next one.
    pub(super) async fn run(&self, store: &Store, process: &Process) {
        if let Err(error) = process.measure(self.meter.clone()) {
            warn!(%error, "metrics of InfluxDB are not there");
        }
        tokio::select! {
            () = process.draining() => {}
            () = self.feed(store) => {}
        }
    }

    async fn feed(&self, store: &Store) {
        let mut rest = Pause::default();
        let mut feed = loop {
            let (place, client) = ((self.folder.clone(), self.max), Arc::clone(&self.client));
            let opened = Feed::open(
                place,
                self.target,
                store.clone(),
                client,
                self.meter.clone(),
            );
            match opened.await {
                Ok(feed) => break feed,
                Err(error) => {
                    self.meter.stands(meter::State::Stuck);
                    warn!(%error, folder = %self.folder.display(), "facts cannot be kept for InfluxDB");
                    sleep(rest.next()).await;
                }
            }
        };
        let mut changed = store.watch();
        // Until when it is left alone.
        let mut until: Option<Instant> = None;
        rest = Pause::default();
        loop {
            changed.mark_unchanged();
            let may_send = until.is_none_or(|until| until <= Instant::now());
            match feed.step(may_send).await {
                Ok(Step::More) => {
                    if may_send {
                        (until, rest) = (None, Pause::default());
                    }
                }
                Ok(Step::Rest) => until = Some(Instant::now() + rest.next()),
                Ok(Step::Idle) => {
                    let again = until.filter(|_| feed.waits());
                    let again = async {
                        match again {
                            Some(until) => sleep_until(until).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        // The store tells until it is closed, which comes behind the end of this.
                        _ = changed.changed() => sleep(GATHER).await,
                        () = again => {}
                    }
                }
                Err(trouble) => {
                    feed.is_stuck();
                    let cause = std::error::Error::source(&trouble).map(ToString::to_string);
                    warn!(error = %trouble, cause, "facts do not get on their way to InfluxDB");
                    sleep(rest.next()).await;
                }
            }
        }
    }
}

/// How long to wait: longer each time, and never all hubs as long.
struct Pause(ExponentialDelay);

impl Default for Pause {
    fn default() -> Self {
        Pause(ExponentialDelay::new(REST, LONGEST))
    }
}

impl Pause {
    fn next(&mut self) -> Duration {
        let whole = self.0.next_delay();
        // Without random numbers it is half of it.
        let [share] = random::bytes::<1>().unwrap_or([0]);
        whole / 2 + (whole / 2).mul_f64(f64::from(share) / 255.0)
    }
}
