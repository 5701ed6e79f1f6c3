//! Role `load`: the load client. Each of N connections sends its next request when the last answer is
//! complete (closed loop), or at fixed times (open loop). Every route is measured by the same client, so its
//! own cost is the same in every figure.

pub(crate) mod cpu;
mod fixed;
mod schedule;
mod sender;
mod target;
mod tcp;
mod window;

use std::{
    collections::BTreeMap,
    io::Write as _,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use hyper::Uri;
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    task::JoinSet,
    time::{self, Instant},
};

use self::{
    cpu::Watched,
    schedule::{SendSchedule, schedules},
    window::LoadWindow,
};
pub(crate) use self::{
    fixed::FixedLoad,
    target::{Sent, Target, Wanted},
    tcp::{TcpTarget, TcpWork},
};
use crate::stats::Latencies;

/// Deadline of the requests in flight when the window ends.
const LAST_ANSWERS_DEADLINE: Duration = Duration::from_secs(20);
/// Longest window, and the interval at which its length is checked.
const MAX_WINDOW: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time that aborted requests get to end.
const ABORT_TIME: Duration = Duration::from_millis(100);
const COUNT_DEADLINE: Duration = Duration::from_secs(2);
/// Pause of a worker after a failed request.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// https://HOST:PORT with the prefix of every path, such as `/k8s/clusters/ID`
    #[arg(long, required_unless_present = "tcp", requires = "path")]
    url: Option<Uri>,
    /// Path after the prefix
    #[arg(long, requires = "url")]
    path: Option<String>,
    /// Work over raw TCP instead of requests
    #[arg(long, value_enum, requires = "to", conflicts_with = "url")]
    tcp: Option<TcpWork>,
    /// Address for raw TCP
    #[arg(long, requires = "tcp")]
    to: Option<SocketAddr>,
    /// Send POST with this many bytes instead of GET, and expect the number back
    #[arg(long)]
    upload: Option<usize>,
    /// Send POST with an endless body
    #[arg(long, conflicts_with_all = ["upload", "expect", "at_least"], requires = "cut")]
    pour: bool,
    /// Exact size of every answer, in bytes
    #[arg(long)]
    expect: Option<usize>,
    /// Smallest size of every answer, in bytes
    #[arg(long, conflicts_with = "expect")]
    at_least: Option<usize>,
    /// Abort requests in flight when the time is over instead of waiting for their end
    #[arg(long)]
    cut: bool,
    /// Take the number of bytes from this socket of the upstream, which counts them
    #[arg(long, value_name = "SOCKET")]
    counted_at: Option<PathBuf>,
    /// Name in SNI and certificate; default: host of the URL
    #[arg(long)]
    server_name: Option<String>,
    /// Host header; default: authority of the URL
    #[arg(long)]
    host: Option<String>,
    /// Trusted CA certificates, PEM; required for https
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// Connect through this Unix socket, with CONNECT
    #[arg(long, value_name = "SOCKET")]
    via: Option<PathBuf>,
    /// Send all requests over one HTTP/2 connection, one stream for each of the connections
    #[arg(long, conflicts_with_all = ["echo", "tcp"], requires = "ca_file")]
    h2: bool,
    /// Upgrade each connection and have 64 bytes echoed, instead of requests
    #[arg(long, conflicts_with_all = ["upload", "expect"])]
    echo: bool,
    /// Requests per second over all connections, however long the answers take; latency counts from the time
    /// at which a request was due
    #[arg(long)]
    rate: Option<f64>,
    /// File that holds the bearer token
    #[arg(long)]
    token_file: Option<PathBuf>,
    #[arg(long, default_value = "1")]
    connections: NonZeroUsize,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Seconds of warm-up before the measurement
    #[arg(long, default_value_t = 0.25)]
    warmup: f64,
    /// Extend the measurement until there are this many answers, to at most 20 s
    #[arg(long, default_value_t = 0)]
    answers: u64,
    /// Read the processor time of these processes too
    #[arg(long, value_name = "ROLE=PID")]
    cpu: Vec<Watched>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let plan = args.plan()?;
    let outcome = match args.tcp.zip(args.to) {
        Some((work, to)) => measure(TcpTarget::new(to, work), plan).await?,
        None => measure(args.target()?, plan).await?,
    };
    writeln!(
        std::io::stdout().lock(),
        "{}",
        serde_json::to_string(&outcome)?
    )?;
    Ok(())
}

impl Args {
    fn target(&self) -> anyhow::Result<Target> {
        let token = match &self.token_file {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .with_context(|| format!("reading {}", file.display()))?,
            ),
            None => None,
        };
        let url = self.url.as_ref().context("no URL")?;
        let tls = match self.h2 {
            true => crate::tls::client_of_http2,
            false => crate::tls::client,
        };
        let target = Target::new(Wanted {
            url,
            path: self.path.as_deref().context("no path")?,
            body: match (self.pour, self.upload) {
                (true, _) => Sent::Endless,
                (false, Some(bytes)) => Sent::Bytes(bytes),
                (false, None) => Sent::Nothing,
            },
            expect: match (self.expect, self.at_least) {
                (Some(bytes), _) => bytes..=bytes,
                (None, least) => least.unwrap_or(0)..=usize::MAX,
            },
            server_name: self.server_name.as_deref(),
            host: self.host.as_deref(),
            token: token.as_deref().map(str::trim),
            tls: self.ca_file.as_deref().map(tls).transpose()?,
            via: self.via.clone(),
            echo: self.echo,
        })?;
        if self.h2 {
            target.over_http2(url)
        } else {
            Ok(target)
        }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        Ok(Plan {
            connections: self.connections.get(),
            rate: self.rate,
            warmup: Duration::try_from_secs_f64(self.warmup)?,
            window: Duration::try_from_secs_f64(self.seconds)?,
            answers: self.answers,
            watched: self.cpu.clone(),
            cut: self.cut,
            counted_at: self.counted_at.clone(),
        })
    }
}

pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// Requests per second; `None` is a closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
    /// The window is extended until there are this many answers.
    pub(crate) answers: u64,
    pub(crate) watched: Vec<Watched>,
    /// Requests in flight at the end are aborted, and are no errors.
    pub(crate) cut: bool,
    /// Socket on which the upstream reports the bytes of bodies that it has received.
    pub(crate) counted_at: Option<PathBuf>,
}

/// Figures of the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    /// Complete answers.
    pub(crate) requests: u64,
    /// Bytes of bodies, up or down, including requests still in flight.
    pub(crate) bytes: u64,
    /// Failed requests of the whole run, including warm-up and last answers.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    /// Processor time of each watched role and of this client (`load`), in microseconds.
    pub(crate) cpu_us: BTreeMap<String, u64>,
}

/// Target of the load: how to connect, and one unit of work over a connection.
trait LoadRoute: Send + Sync + 'static {
    type Connection: Send + 'static;

    fn connect(&self) -> impl Future<Output = anyhow::Result<Self::Connection>> + Send;

    fn exchange(
        &self,
        connection: &mut Self::Connection,
        window: &Arc<LoadWindow>,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Runs the load and measures it.
///
/// # Errors
/// A first connection cannot be made, or the processor time of a role cannot be read. Failed requests are
/// counted instead.
async fn measure<R: LoadRoute>(target: R, plan: Plan) -> anyhow::Result<Outcome> {
    let run = Arc::new(Run {
        target,
        window: Arc::new(LoadWindow::new(plan.cut)),
    });
    let mut dialing = JoinSet::new();
    for _ in 0..plan.connections {
        dialing.spawn({
            let run = run.clone();
            async move { run.target.connect().await }
        });
    }
    let mut connections = Vec::with_capacity(plan.connections);
    while let Some(connection) = dialing.join_next().await {
        connections.push(connection??);
    }

    let mut workers = JoinSet::new();
    let schedules = schedules(plan.rate, plan.connections)?;
    for (connection, schedule) in connections.into_iter().zip(schedules) {
        workers.spawn(work(run.clone(), connection, schedule));
    }
    time::sleep(plan.warmup).await;
    let before = cpu::read(&plan.watched)?;
    let before_that = counted(plan.counted_at.as_deref()).await?;
    let begin = Instant::now();
    run.window.begin();
    time::sleep(plan.window).await;
    while run.window.answers() < plan.answers && begin.elapsed() < MAX_WINDOW {
        time::sleep(POLL_INTERVAL).await;
    }
    run.window.end();
    let seconds = begin.elapsed().as_secs_f64();
    let there = counted(plan.counted_at.as_deref()).await?;
    let cpu_us = cpu::since(&before, &cpu::read(&plan.watched)?);
    let there = there
        .zip(before_that)
        .map(|(now, before)| now - before.min(now));

    let tally = collect(workers, plan.cut).await?;
    Ok(Outcome {
        seconds,
        requests: tally.latency.count(),
        bytes: there.unwrap_or_else(|| run.window.bytes()),
        errors: tally.errors,
        first_error: tally.first_error,
        p50_us: tally.latency.micros(0.5),
        p99_us: tally.latency.micros(0.99),
        p999_us: tally.latency.micros(0.999),
        max_us: tally.latency.micros(1.0),
        cpu_us,
    })
}

/// Target and window that the workers of one run share.
struct Run<R> {
    target: R,
    window: Arc<LoadWindow>,
}

#[derive(Default)]
struct LoadTally {
    latency: Latencies,
    errors: u64,
    first_error: Option<String>,
}

impl LoadTally {
    fn failed(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }

    fn add(&mut self, other: Self) {
        self.latency.merge(&other.latency);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

async fn work<R: LoadRoute>(
    run: Arc<Run<R>>,
    first: R::Connection,
    mut schedule: SendSchedule,
) -> LoadTally {
    let mut tally = LoadTally::default();
    let mut connection = Some(first);
    while !run.window.ended() {
        let begin = schedule.next().await;
        if let Err(error) = step(&run, &mut connection, &mut tally, begin).await {
            tally.failed(&error);
            connection = None;
            time::sleep(FAILURE_PAUSE).await;
        }
    }
    tally
}

async fn step<R: LoadRoute>(
    run: &Arc<Run<R>>,
    slot: &mut Option<R::Connection>,
    tally: &mut LoadTally,
    begin: Instant,
) -> anyhow::Result<()> {
    let connection = match slot {
        Some(connection) => connection,
        None => slot.insert(run.target.connect().await?),
    };
    run.target.exchange(connection, &run.window).await?;
    if run.window.measuring() {
        run.window.count_answer();
        tally.latency.record(begin.elapsed());
    }
    Ok(())
}

async fn collect(mut workers: JoinSet<LoadTally>, cut: bool) -> anyhow::Result<LoadTally> {
    let mut all = LoadTally::default();
    let limit = if cut {
        ABORT_TIME
    } else {
        LAST_ANSWERS_DEADLINE
    };
    let ended = time::timeout(limit, async {
        while let Some(tally) = workers.join_next().await {
            all.add(tally?);
        }
        anyhow::Ok(())
    })
    .await;
    match ended {
        Ok(result) => result?,
        Err(_) if cut => {}
        Err(_) => {
            all.errors += workers.len() as u64;
            all.first_error.get_or_insert_with(|| {
                format!(
                    "{} requests had no whole answer after {LAST_ANSWERS_DEADLINE:?}",
                    workers.len()
                )
            });
        }
    }
    Ok(all)
}

/// Bytes that the upstream has received so far.
async fn counted(socket: Option<&Path>) -> anyhow::Result<Option<u64>> {
    let Some(socket) = socket else {
        return Ok(None);
    };
    let asked = time::timeout(COUNT_DEADLINE, async {
        let mut said = String::new();
        let stream = UnixStream::connect(socket).await?;
        stream.take(64).read_to_string(&mut said).await?;
        Ok(said.trim().parse()?)
    });
    let number: anyhow::Result<u64> = asked.await.context("no number in time")?;
    number
        .map(Some)
        .context("reading the counters of the upstream")
}

#[cfg(test)]
mod tests;
