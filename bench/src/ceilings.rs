//! `make ceilings`: what a request of 1 KiB makes hub and agent do, counted by callgrind: instructions, allocations, system calls, polls of
//! tasks, and locked instructions. The counts depend on the program and on the order of events, not on the speed of the machine, so each has a
//! ceiling. They are counts of user space: the kernel's work is in no figure.

mod atomics;
mod callgrind;
mod figures;
mod profile;

use std::{
    fs::File,
    io::{BufReader, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use self::{
    atomics::Atomics,
    callgrind::Callgrind,
    figures::{Ceilings, Figures, Measured},
    profile::Profile,
};
use crate::{
    launch::{Launcher, until_stopped},
    load::FixedLoad,
    peers::{Bed, Built, Kind, Link, Peer},
    results::results_folder,
    way::Legs,
};

/// Counts of each load, of which the median is judged: a hub has work of its own at times.
const ROUND_COUNT: usize = 3;
/// Concurrent clients, and requests that each of them sends.
const LOADS: [(usize, usize); 2] = [(16, 100), (1, 600)];
/// Requests of each client before the count. Pools and caches are full then.
const WARM_UP_REQUESTS: usize = 60;
/// First argument of the programs that are counted, and their names in the figures.
const ROLES: [(&str, &str); 2] = [("dev", "hub"), ("agent", "agent")];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary, for x86-64
    #[arg(long)]
    fairlead: PathBuf,
    /// Folder with bin/valgrind, as bench/valgrind/build prints it
    #[arg(long)]
    valgrind: PathBuf,
    /// File with the ceilings
    #[arg(long, default_value = "bench/ceilings.json")]
    ceilings: PathBuf,
    /// Write the ceilings anew from this run
    #[arg(long)]
    update: bool,
    /// Folder in which this run's folder is created
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    until_stopped(measure(args)).await
}

async fn measure(args: Args) -> anyhow::Result<ExitCode> {
    let results = results_folder(&args.out)?;
    let secrets = TempDir::with_prefix("fairlead-bench-")?;
    let fairlead = args.fairlead.canonicalize();
    let fairlead = fairlead.with_context(|| format!("no program {}", args.fairlead.display()))?;
    eprintln!("reading {}", fairlead.display());
    let atomics = Atomics::of(&fairlead)?;
    let callgrind = Callgrind::new(args.valgrind, fairlead, results.clone());
    // All processes share one core, as in `make bench`.
    let launcher = Launcher::new(true, None, results.join("logs")).await?;
    let built = Built::default().with_fairlead(Kind::Fairlead, callgrind.stand_in()?);
    let bed = Bed::make(&launcher, secrets.path(), built).await?;
    eprintln!("starting hub and agent under callgrind: a minute");
    let mut peer = Peer::start(Kind::Fairlead, &bed, Link::Straight).await?;
    let mut measured = Measured::default();
    let loads = std::iter::repeat_n(LOADS, ROUND_COUNT).flatten();
    for (index, (clients, requests)) in loads.enumerate() {
        eprintln!("{clients} clients, {requests} requests each");
        let profiles = count(&mut peer, &callgrind, index + 1, clients, requests).await?;
        for ((_, role), path) in ROLES.into_iter().zip(profiles) {
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            let program = callgrind.program().display().to_string();
            let profile = Profile::read(BufReader::new(file), &program, &atomics)
                .with_context(|| format!("reading {}", path.display()))?;
            measured.insert(
                role,
                clients,
                Figures::per_request(&profile, clients * requests),
            );
        }
    }
    peer.end().await;
    if args.update {
        Ceilings::of(&measured).write(&args.ceilings)?;
    }
    let ceilings = Ceilings::read(&args.ceilings)?;
    let (table, exceeded) = ceilings.judge(&measured)?;
    std::fs::write(results.join("table.md"), &table)?;
    writeln!(std::io::stdout().lock(), "{table}")?;
    for line in &exceeded {
        eprintln!("exceeded: {line}");
    }
    Ok(match exceeded.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Counts one load, and returns the profiles of all roles.
async fn count(
    peer: &mut Peer,
    callgrind: &Callgrind,
    number: usize,
    clients: usize,
    requests: usize,
) -> anyhow::Result<Vec<PathBuf>> {
    let way = peer.way(Legs::Tls).context("no way to the hub")?;
    let mut load = FixedLoad::connect(way.target("/bytes/1024")?, clients).await?;
    load.run(WARM_UP_REQUESTS).await?;
    let mut pids = Vec::new();
    for (part, (role, _)) in [&peer.hub, &peer.agent].into_iter().zip(ROLES) {
        pids.push((role, part.as_ref().context("no process")?.pid()?));
    }
    for (_, pid) in &pids {
        callgrind.begin(*pid).await?;
    }
    load.run(requests).await?;
    let mut profiles = Vec::new();
    for (role, pid) in pids {
        profiles.push(callgrind.end(pid, role, number).await?);
    }
    peer.alive()?;
    ensure!(!profiles.is_empty(), "nothing was counted");
    Ok(profiles)
}
