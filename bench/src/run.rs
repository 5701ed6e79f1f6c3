//! `make bench`: every scenario against Fairlead and what it is compared with, in one run, in turn, round after round, so that
//! whatever else the machine does falls on all alike. Writes figures, a table and plots.

mod phases;

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;

use self::phases::Phases;
use crate::{
    launch::Launcher,
    peers::{Bed, Built, Kind},
    report::{Head, Report},
    scenarios::{Pace, agents::Calm},
    smoke::{interrupted, results_folder},
    way::Legs,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary to measure; without it Fairlead is shown as not here
    #[arg(long)]
    fairlead: Option<PathBuf>,
    /// What builds the peers and says where they are
    #[arg(long, default_value = "bench/peers/build")]
    build: PathBuf,
    /// Only these
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Kind>,
    /// Only scenarios whose names begin like this
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds that count; one more runs before them where there is something to warm
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each measurement takes
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How long each one runs before it counts
    #[arg(long, default_value_t = 0.25)]
    warmup: f64,
    /// One short round of each, to see that it works; its figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Of clients and the upstream; raw TCP peers pass a client's TLS through
    #[arg(long, value_enum, default_value = "tls")]
    legs: Legs,
    /// The core that every role is bound to where throughput is measured; the last one otherwise
    #[arg(long)]
    core: Option<usize>,
    /// How many agents do nothing, one scenario each
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 5000], value_parser = clap::value_parser!(u16).range(1..=10_000))]
    agents: Vec<u16>,
    /// List the scenarios and end
    #[arg(long)]
    list: bool,
    /// Where a folder for this run is made
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Whichever way the other branch is left, dropping it kills the children it holds.
    tokio::select! {
        result = bench(args) => result.map(|()| ExitCode::SUCCESS),
        name = interrupted() => bail!("stopped by {}; every role is ended", name?),
    }
}

async fn bench(mut args: Args) -> anyhow::Result<()> {
    if args.quick {
        (args.rounds, args.seconds, args.warmup) = (1, 0.2, 0.0);
    }
    let phases = Phases::chosen(&args.only, &args.agents);
    if args.list {
        return phases.list();
    }
    ensure!(
        !phases.is_empty(),
        "no scenario begins like that; --list names them"
    );
    if let Some(binary) = &args.fairlead {
        ensure!(
            binary.is_file(),
            "no binary {}; build it: cargo build --release -p fairlead",
            binary.display()
        );
    }
    let kinds = if args.peers.is_empty() {
        Kind::ALL.to_vec()
    } else {
        args.peers.clone()
    };
    let results = results_folder(&args.out)?;
    let secrets =
        TempDir::with_prefix("fairlead-bench-").context("making a folder for keys and tokens")?;
    let pinned = Launcher::new(true, args.core, results.join("logs")).await?;
    let free = Launcher::new(false, None, results.join("logs")).await?;
    let built = if kinds.iter().any(|kind| kind.is_built()) {
        Built::by(&args.build).await?
    } else {
        Built::default()
    };
    let binary = args.fairlead.as_deref();
    let (pinned_dir, free_dir) = (secrets.path().join("pinned"), secrets.path().join("free"));
    std::fs::create_dir(&pinned_dir)?;
    std::fs::create_dir(&free_dir)?;
    let pinned = Bed::make(&pinned, &pinned_dir, binary, built.clone()).await?;
    let free = Bed::make(&free, &free_dir, binary, built).await?;

    let pace = Pace {
        rounds: args.rounds,
        seconds: args.seconds,
        warmup: args.warmup,
        legs: args.legs,
        calm: Calm {
            settle: Duration::from_secs(if args.quick { 1 } else { 10 }),
            watch: Duration::from_secs(if args.quick { 1 } else { 20 }),
        },
    };
    let head = Head::new(args.rounds, args.seconds, args.legs, pinned.launcher.core());
    let mut report = Report::new(head);
    phases
        .measure(&pinned, &free, &kinds, pace, &mut report)
        .await;
    report.finish();
    report.write(&results)?;
    write!(std::io::stdout().lock(), "{}", report.table())?;
    eprintln!("figures, table, plots and logs: {}", results.display());
    Ok(())
}
