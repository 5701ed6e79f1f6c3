//! `make soak`: an hour of requests through Fairlead, three of four aborted, followed by a pause. Everything
//! open after it that was not open before has leaked.

use std::{
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use http_body_util::BodyExt as _;
use serde::Serialize;
use tempfile::TempDir;
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};

use crate::{
    launch::{Launcher, until_stopped},
    load::Target,
    peers::{Bed, Built, Kind, Link, Peer, PeerPart, number_behind},
    proc,
    results::results_folder,
    way::{Legs, Way},
};

/// Concurrent clients.
const CLIENT_COUNT: u64 = 16;
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Warm-up before the first reading, for pools and caches.
const WARM_UP_TIME: Duration = Duration::from_secs(20);
/// Pause after the last request, in which everything may be closed.
const SETTLE_TIME: Duration = Duration::from_secs(30);
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Most failures that are printed in full.
const MAX_PRINTED_FAILURES: u64 = 10;
/// Tolerated increase of open files, since pools may be fuller than before.
const MAX_MORE_FILES: u64 = 2 * CLIENT_COUNT;
const MAX_MORE_THREADS: u64 = 4;
const MAX_MORE_BYTES: u64 = 32 * 1024 * 1024;
/// Gauges of the hub, and their tolerated differences.
const HUB_GAUGES: [(&str, u64); 3] = [
    ("fairlead_requests_open", 2),
    ("fairlead_upgrades_open", 0),
    ("fairlead_streams_open", CLIENT_COUNT),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary
    #[arg(long)]
    fairlead: PathBuf,
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Folder in which this run's folder is created
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    until_stopped(soak(args)).await
}

async fn soak(args: Args) -> anyhow::Result<ExitCode> {
    let length = Duration::try_from_secs_f64(args.minutes * 60.0)?;
    let results = results_folder(&args.out)?;
    let secrets = TempDir::with_prefix("fairlead-bench-")?;
    let launcher = Launcher::new(false, None, results.join("logs")).await?;
    let built = Built::default().with_fairlead(Kind::Fairlead, args.fairlead);
    let bed = Bed::make(&launcher, secrets.path(), built).await?;
    let mut peer = Peer::start(Kind::Fairlead, &bed, Link::Straight).await?;

    let counts = Arc::new(SoakCounts::default());
    clients(&peer, &counts, WARM_UP_TIME).await?;
    time::sleep(SETTLE_TIME).await;
    let mut readings = vec![Reading::of(&peer, &counts).await?];
    let end = Instant::now() + length;
    while Instant::now() < end {
        let left = end - Instant::now();
        clients(&peer, &counts, left.min(REPORT_INTERVAL)).await?;
        peer.alive()?;
        readings.push(Reading::of(&peer, &counts).await?);
        eprintln!("{}", readings.last().map_or(String::new(), Reading::line));
    }
    time::sleep(SETTLE_TIME).await;
    readings.push(Reading::of(&peer, &counts).await?);
    peer.end().await;

    let file = results.join("soak.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&readings)?)
        .with_context(|| format!("writing {}", file.display()))?;
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
        bail!("nothing was read");
    };
    let leaks = first.leaks(last);
    let mut out = std::io::stdout().lock();
    writeln!(out, "before: {}\nafter:  {}", first.line(), last.line())?;
    for leak in &leaks {
        writeln!(out, "LEAKED {leak}")?;
    }
    Ok(if leaks.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[derive(Default)]
struct SoakCounts {
    answered: AtomicU64,
    broken_off: AtomicU64,
    failed: AtomicU64,
}

async fn clients(peer: &Peer, counts: &Arc<SoakCounts>, length: Duration) -> anyhow::Result<()> {
    let way = peer.way(Legs::Tls).context("there is no way")?;
    let end = Instant::now() + length;
    let mut clients = JoinSet::new();
    for number in 0..CLIENT_COUNT {
        let asks = Asks::new(way)?;
        clients.spawn(client(asks, counts.clone(), number, end));
    }
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    Ok(())
}

struct Asks {
    small: Target,
    large: Target,
    endless: Target,
    ticks: Target,
}

impl Asks {
    fn new(way: &Way) -> anyhow::Result<Self> {
        Ok(Self {
            small: way.target("/bytes/1024")?,
            large: way.target("/bytes/8388608")?,
            endless: way.target("/endless")?,
            ticks: way.target("/ticks")?,
        })
    }

    /// Sends one request; returns `true` if its answer was read to the end.
    async fn ask(&self, turn: u64) -> anyhow::Result<bool> {
        let broken_off = match turn % 4 {
            0 => return self.small.once().await.map(|_| true),
            1 => &self.large,
            2 => &self.endless,
            _ => &self.ticks,
        };
        let mut body = broken_off.open().await?;
        for _ in 0..turn % 7 {
            body.frame().await.context("the body ended")??;
        }
        Ok(false)
    }
}

async fn client(asks: Asks, counts: Arc<SoakCounts>, first: u64, end: Instant) {
    let mut turn = first;
    while Instant::now() < end {
        let asked = time::timeout(REQUEST_DEADLINE, asks.ask(turn)).await;
        let counted = match asked.context("no answer in time").flatten() {
            Ok(true) => &counts.answered,
            Ok(false) => &counts.broken_off,
            Err(why) => {
                if counts.failed.load(Relaxed) < MAX_PRINTED_FAILURES {
                    eprintln!("failed: {why:#}");
                }
                &counts.failed
            }
        };
        counted.fetch_add(1, Relaxed);
        turn += 1;
    }
}

/// Everything open at one time.
#[derive(Debug, Clone, Serialize)]
struct Reading {
    answered: u64,
    broken_off: u64,
    failed: u64,
    hub: OpenResources,
    agent: OpenResources,
    /// Values of [`HUB_GAUGES`], in that order.
    gauges: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct OpenResources {
    memory: u64,
    files: u64,
    threads: u64,
}

impl OpenResources {
    fn of(part: Option<&PeerPart>) -> anyhow::Result<Self> {
        let pid = part.context("there is no such part")?.pid()?;
        let entries = |what: &str| -> anyhow::Result<u64> {
            Ok(std::fs::read_dir(format!("/proc/{pid}/{what}"))?.count() as u64)
        };
        Ok(Self {
            memory: proc::memory(pid)?,
            files: entries("fd")?,
            threads: entries("task")?,
        })
    }
}

impl Reading {
    async fn of(peer: &Peer, counts: &SoakCounts) -> anyhow::Result<Self> {
        let admin = peer.admin.as_ref().context("there are no metrics")?;
        let page = admin.target("/metrics")?.once().await?;
        let page = String::from_utf8_lossy(&page);
        let gauges = HUB_GAUGES.map(|(name, _)| number_behind(&page, name));
        ensure!(
            gauges.iter().any(Option::is_some),
            "the hub's metrics have none of {HUB_GAUGES:?}"
        );
        Ok(Self {
            answered: counts.answered.load(Relaxed),
            broken_off: counts.broken_off.load(Relaxed),
            failed: counts.failed.load(Relaxed),
            hub: OpenResources::of(peer.hub.as_ref())?,
            agent: OpenResources::of(peer.agent.as_ref())?,
            gauges: gauges.map(Option::unwrap_or_default).to_vec(),
        })
    }

    fn line(&self) -> String {
        let open = |open: OpenResources| {
            let mebibytes = open.memory / 1024 / 1024;
            format!(
                "{mebibytes} MiB, {} files, {} threads",
                open.files, open.threads
            )
        };
        let gauges = HUB_GAUGES.iter().zip(&self.gauges);
        let gauges: String = gauges
            .map(|((name, _), value)| format!("; {name} {value}"))
            .collect();
        format!(
            "{} answered, {} broken off, {} failed; hub {}; agent {}{gauges}",
            self.answered,
            self.broken_off,
            self.failed,
            open(self.hub),
            open(self.agent),
        )
    }

    /// Differences beyond the tolerated ones.
    fn leaks(&self, after: &Self) -> Vec<String> {
        let mut leaks = Vec::new();
        let mut check = |what: String, before: u64, after: u64, more: u64| {
            if after > before + more {
                leaks.push(format!("{what}: {before} before, {after} after"));
            }
        };
        for (role, before, after) in [
            ("hub", self.hub, after.hub),
            ("agent", self.agent, after.agent),
        ] {
            check(
                format!("{role} memory"),
                before.memory,
                after.memory,
                MAX_MORE_BYTES,
            );
            check(
                format!("{role} files"),
                before.files,
                after.files,
                MAX_MORE_FILES,
            );
            check(
                format!("{role} threads"),
                before.threads,
                after.threads,
                MAX_MORE_THREADS,
            );
        }
        for (((name, more), before), after) in
            HUB_GAUGES.iter().zip(&self.gauges).zip(&after.gauges)
        {
            check((*name).to_owned(), *before, *after, *more);
        }
        if after.failed > 0 {
            leaks.push(format!("{} requests failed", after.failed));
        }
        leaks
    }
}

#[cfg(test)]
mod tests;
