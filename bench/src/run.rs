//! `make bench`: every scenario against Fairlead and its peers, in turn, round after round.
//!
//! Disturbances of the machine thereby affect all peers alike. Figures are written after each round, tables
//! and plots at the end.

mod anew;
mod phases;
mod progress;
mod stage;
mod turns;

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use self::{phases::Phases, progress::Progress, stage::Stage};
use crate::{
    launch::{Launcher, until_stopped},
    peers::{Bed, Built, Kind},
    report::{ReportHead, RunReport},
    results::results_folder,
    scenarios::{Pace, agents::Calm},
    way::Legs,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary to measure; without it Fairlead is reported as missing
    #[arg(long)]
    fairlead: Option<PathBuf>,
    /// An earlier `fairlead` binary, measured in the same rounds as the peer `fairlead-before`
    #[arg(long, requires = "fairlead")]
    before: Option<PathBuf>,
    /// Script that builds the peers and prints their paths
    #[arg(long, default_value = "bench/peers/build")]
    build: PathBuf,
    /// Only these peers
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Kind>,
    /// Only scenarios with one of these names, or with these as their first words: `get-1k` is `get-1k-c1` and more
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Counted rounds; one more warms up where a scenario needs it
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a measurement, where its scenario does not set them
    #[arg(long, default_value_t = 0.7)]
    seconds: f64,
    /// Seconds of warm-up before each measurement
    #[arg(long, default_value_t = 0.2)]
    warmup: f64,
    /// One short round of each scenario, to check that it works; its figures mean nothing
    #[arg(long)]
    quick: bool,
    /// TLS or plain, for clients and the upstream; raw TCP peers pass a client's TLS through
    #[arg(long, value_enum, default_value = "tls")]
    legs: Legs,
    /// Core to pin every role to where throughput is measured; default: the last one
    #[arg(long)]
    core: Option<usize>,
    /// Numbers of open watches, one scenario each
    #[arg(long, value_delimiter = ',', default_values_t = [1000], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    watches: Vec<u32>,
    /// Numbers of idle agents, two scenarios each
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 5000, 10_000], value_parser = clap::value_parser!(u16).range(1..=10_000))]
    agents: Vec<u16>,
    /// End peers with SIGTERM instead of SIGKILL: an instrumented program writes its profile when it drains
    #[arg(long)]
    drain: bool,
    /// Exit with 1 if a goal is missed
    #[arg(long)]
    check: bool,
    /// List the scenarios and their approximate duration, and exit
    #[arg(long)]
    list: bool,
    /// Folder in which this run's folder is created
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    until_stopped(Box::pin(bench(args))).await
}

async fn bench(args: Args) -> anyhow::Result<ExitCode> {
    let pace = args.pace();
    let phases = Phases::chosen(&args.only, &args.agents, &args.watches);
    phases.check_names(&args.only)?;
    let kinds = args.kinds();
    if args.list {
        phases.list(&kinds, pace)?;
        return Ok(ExitCode::SUCCESS);
    }
    let binaries = args.binaries()?;
    let results = results_folder(&args.out)?;
    let secrets =
        TempDir::with_prefix("fairlead-bench-").context("making a folder for keys and tokens")?;
    let mut pinned = Launcher::new(true, args.core, results.join("logs")).await?;
    pinned.set_drain(args.drain);
    let mut free = Launcher::new(false, None, results.join("logs")).await?;
    free.set_drain(args.drain);
    let mut built = if kinds.iter().any(|kind| kind.is_built()) {
        Built::by(&args.build).await?
    } else {
        Built::default()
    };
    for (kind, binary) in binaries {
        built = built.with_fairlead(kind, binary);
    }
    let (pinned_dir, free_dir) = (secrets.path().join("pinned"), secrets.path().join("free"));
    std::fs::create_dir(&pinned_dir)?;
    std::fs::create_dir(&free_dir)?;
    let pinned = Bed::make(&pinned, &pinned_dir, built.clone()).await?;
    let pinned = pinned.with_legs(args.legs);
    let free = Bed::make(&free, &free_dir, built.clone()).await?;
    let free = free.with_legs(args.legs);

    let present: Vec<Kind> = kinds
        .iter()
        .copied()
        .filter(|kind| built.has(*kind))
        .collect();
    let head = ReportHead::new(pace.rounds, pace.seconds, pace.legs, pinned.launcher.core());
    let mut stage = Stage {
        pinned: &pinned,
        free: &free,
        kinds: &kinds,
        pace,
        report: RunReport::new(head.with_given(built.given(&kinds))),
        progress: Progress::new(phases.takes(&present, pace)),
        present: &present,
        built: &built,
        secrets: secrets.path(),
        results: &results,
    };
    phases.measure(&mut stage).await;
    let mut report = stage.report;
    report.write(&results)?;
    write!(std::io::stdout().lock(), "{}", report.table())?;
    eprintln!("figures, tables, plots and logs: {}", results.display());
    Ok(if args.check && !report.passed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

impl Args {
    fn kinds(&self) -> Vec<Kind> {
        let by_default = |kind: Kind| match kind {
            Kind::FairleadBefore => self.before.is_some(),
            _ => self.peers.is_empty(),
        };
        let all = Kind::ALL.into_iter();
        all.filter(|kind| self.peers.contains(kind) || by_default(*kind))
            .collect()
    }

    /// Binaries of Fairlead that exist.
    fn binaries(&self) -> anyhow::Result<Vec<(Kind, PathBuf)>> {
        let binaries = [
            (Kind::Fairlead, &self.fairlead),
            (Kind::FairleadBefore, &self.before),
        ];
        let named = binaries
            .into_iter()
            .filter_map(|(kind, binary)| Some((kind, binary.as_ref()?)));
        named
            .map(|(kind, binary)| {
                ensure!(
                    binary.is_file(),
                    "no binary {}; build it: cargo build --release -p fairlead",
                    binary.display()
                );
                // Absolute, because a process in another network namespace may have another working directory.
                Ok((kind, std::path::absolute(binary)?))
            })
            .collect()
    }

    fn pace(&self) -> Pace {
        let calm = |settle, watch| Calm {
            settle: Duration::from_secs(settle),
            watch: Duration::from_secs(watch),
        };
        let pace = Pace {
            rounds: self.rounds,
            seconds: self.seconds,
            warmup: self.warmup,
            legs: self.legs,
            calm: calm(5, 30),
            quick: self.quick,
        };
        if !self.quick {
            return pace;
        }
        Pace {
            rounds: 1,
            seconds: 0.2,
            warmup: 0.0,
            calm: calm(1, 1),
            ..pace
        }
    }
}
