//! Role `load`: the load client. Each of N connections sends its next request when the last answer is
//! complete (closed loop), or at fixed times (open loop). Every route is measured by the same client, so its
//! own cost is the same in every figure.

pub(crate) mod cpu;
mod schedule;
mod target;
mod window;

use std::{
    collections::BTreeMap,
    io::Write as _,
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

pub(crate) use self::target::{Sent, Target, Wanted};
use self::{
    cpu::Watched,
    schedule::{SendSchedule, schedules},
    target::Connection,
    window::LoadWindow,
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
    #[arg(long)]
    url: Uri,
    /// Path after the prefix
    #[arg(long)]
    path: String,
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
    let token = match &args.token_file {
        Some(file) => Some(
            std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
        ),
        None => None,
    };
    let target = Target::new(Wanted {
        url: &args.url,
        path: &args.path,
        body: match (args.pour, args.upload) {
            (true, _) => Sent::Endless,
            (false, Some(bytes)) => Sent::Bytes(bytes),
            (false, None) => Sent::Nothing,
        },
        expect: match (args.expect, args.at_least) {
            (Some(bytes), _) => bytes..=bytes,
            (None, least) => least.unwrap_or(0)..=usize::MAX,
        },
        server_name: args.server_name.as_deref(),
        host: args.host.as_deref(),
        token: token.as_deref().map(str::trim),
        tls: args
            .ca_file
            .as_deref()
            .map(crate::tls::client)
            .transpose()?,
        via: args.via,
        echo: args.echo,
    })?;
    let plan = Plan {
        connections: args.connections.get(),
        rate: args.rate,
        warmup: Duration::try_from_secs_f64(args.warmup)?,
        window: Duration::try_from_secs_f64(args.seconds)?,
        answers: args.answers,
        watched: args.cpu,
        cut: args.cut,
        counted_at: args.counted_at,
    };
    let outcome = measure(target, plan).await?;
    writeln!(
        std::io::stdout().lock(),
        "{}",
        serde_json::to_string(&outcome)?
    )?;
    Ok(())
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

/// Runs the load and measures it.
///
/// # Errors
/// A first connection cannot be made, or the processor time of a role cannot be read. Failed requests are
/// counted instead.
pub(crate) async fn measure(target: Target, plan: Plan) -> anyhow::Result<Outcome> {
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
struct Run {
    target: Target,
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

async fn work(run: Arc<Run>, first: Connection, mut schedule: SendSchedule) -> LoadTally {
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

async fn step(
    run: &Arc<Run>,
    slot: &mut Option<Connection>,
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
