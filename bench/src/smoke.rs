//! `make bench-smoke`: starts every role as a process, measures direct access, proxy and Fairlead in turn,
//! and prints the ratios.
//!
//! It does no work during a measurement and leaves no process behind.

mod plan;
mod report;
mod rounds;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use time::{OffsetDateTime, macros::format_description};
use tokio::signal::unix::{SignalKind, signal};

use self::plan::{Route, SmokeScenario};
use crate::{
    launch::Launcher,
    peers::{Bed, Built, Kind, Link, Peer},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary to measure; without it only direct access and the proxy are measured
    #[arg(long)]
    fairlead: Option<PathBuf>,
    /// Pin every role to one core: throughput is then 1 / (processor time of all roles), which repeats best
    #[arg(long)]
    pin: bool,
    /// Core to pin to; default: the last one that this process may use
    #[arg(long, requires = "pin")]
    core: Option<usize>,
    /// Counted rounds; one more warms up
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Seconds of warm-up before each measurement
    #[arg(long, default_value_t = 0.25)]
    warmup: f64,
    /// Only these scenarios, such as `get-1k-c16`
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// Folder in which this run's folder of figures and logs is created
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    /// Exit with 1 if a goal is missed or a request fails
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Dropping the other branch kills its child processes.
    tokio::select! {
        result = smoke(args) => result,
        name = interrupted() => bail!("stopped by {}; every role is ended", name?),
    }
}

async fn smoke(args: Args) -> anyhow::Result<ExitCode> {
    let scenarios = chosen(&args.only)?;
    if let Some(binary) = &args.fairlead {
        ensure!(
            binary.is_file(),
            "no binary {}; build it: cargo build --release -p fairlead",
            binary.display()
        );
    }
    let results = results_folder(&args.out)?;
    let secrets =
        TempDir::with_prefix("fairlead-bench-").context("making a folder for keys and tokens")?;
    let launcher = Launcher::new(args.pin, args.core, results.join("logs")).await?;

    let binary = args.fairlead.as_deref();
    let bed = Bed::make(&launcher, secrets.path(), binary, Built::default()).await?;
    let mut ways = Vec::new();
    for route in Route::ALL {
        let kind = route.kind();
        if kind != Kind::Fairlead || binary.is_some() {
            ways.push((route, Peer::start(kind, &bed, Link::Straight).await?));
        }
    }
    let pace = rounds::Pace {
        rounds: args.rounds,
        seconds: args.seconds,
        warmup: args.warmup,
    };
    let measured = rounds::measure(&bed, &mut ways, &scenarios, pace).await?;
    for (_, peer) in ways {
        peer.end().await;
    }

    let report = report::Report::new(pace, launcher.core(), &measured);
    let figures = results.join("smoke.json");
    std::fs::write(&figures, serde_json::to_vec_pretty(&report)?)
        .with_context(|| format!("writing {}", figures.display()))?;
    write!(std::io::stdout().lock(), "{}", report.table())?;
    eprintln!("figures of every round and all logs: {}", results.display());
    Ok(if args.check && !report.passed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<SmokeScenario>> {
    let known = || {
        plan::SCENARIOS
            .iter()
            .map(|scenario| scenario.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    for name in only {
        ensure!(
            plan::SCENARIOS.iter().any(|scenario| scenario.name == name),
            "no scenario {name}; there are {}",
            known()
        );
    }
    let wanted =
        |scenario: &SmokeScenario| only.is_empty() || only.iter().any(|name| name == scenario.name);
    Ok(plan::SCENARIOS.into_iter().filter(wanted).collect())
}

pub(crate) fn results_folder(out: &Path) -> anyhow::Result<PathBuf> {
    let name = OffsetDateTime::now_utc().format(format_description!(
        "[year]-[month]-[day]T[hour]-[minute]-[second]Z"
    ))?;
    let folder = out.join(name);
    std::fs::create_dir_all(folder.join("logs"))
        .with_context(|| format!("making {}", folder.display()))?;
    Ok(std::path::absolute(folder)?)
}

pub(crate) async fn interrupted() -> std::io::Result<&'static str> {
    let (mut interrupt, mut terminate, mut hangup) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    );
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        _ = hangup.recv() => "SIGHUP",
    })
}
