//! `make bench-delivery`: cost of delivery. The hub's part has thousands of clusters with agents that apply nothing,
//! the agent's part has a real API server. All measured programs are the built ones.

mod agent_part;
mod bundles;
mod database;
mod flux;
mod helm_upgrades;
mod hub_part;
mod light_agent;
mod light_fleet;
mod site;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use serde::Serialize;

use crate::{
    hub::{
        figures::{Figure, table},
        store::StoreKind,
    },
    launch::{Launcher, until_stopped},
    machine::Machine,
    results::results_folder,
};

/// Tenant of all clusters and bundles.
const TENANT: &str = "t-bench";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary to measure
    #[arg(long)]
    fairlead: PathBuf,
    /// Parts to measure
    #[arg(long = "part", value_delimiter = ',', default_value = "hub,agent,many")]
    parts: Vec<Part>,
    /// Stores of the hub's part
    #[arg(long, value_delimiter = ',', default_value = "sqlite,postgres")]
    stores: Vec<StoreKind>,
    /// Clusters of the hub's part; the goals refer to 10,000
    #[arg(long, default_value_t = 10_000)]
    clusters: usize,
    /// Bundles in each cluster; the goals refer to 50
    #[arg(long, default_value_t = 50)]
    bundles: usize,
    /// Bundles of 20 objects of the agent's part; the goals refer to 50
    #[arg(long, default_value_t = 50)]
    agent_bundles: usize,
    /// Bundles of 4 objects of the part with many bundles; the goals refer to 500
    #[arg(long, default_value_t = 500)]
    many_bundles: usize,
    /// Seconds of each measurement at rest
    #[arg(long, default_value_t = 60.0)]
    rest_seconds: f64,
    /// Seconds that pages are requested
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Folder in which this run's folder of figures and logs is created
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// A hub with many clusters, whose agents apply nothing
    Hub,
    /// An agent and its runner beside a real API server
    Agent,
    /// Many small bundles in a cluster, beside Flux's kustomize-controller
    Many,
}

#[derive(Serialize)]
struct DeliveryResults<'a> {
    machine: Machine,
    clusters: usize,
    bundles: usize,
    figures: &'a [Figure],
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    Box::pin(until_stopped(bench(args))).await
}

async fn bench(args: Args) -> anyhow::Result<ExitCode> {
    let results = results_folder(&args.out)?;
    let launcher = Launcher::new(false, None, results.join("logs")).await?;
    let mut figures = Vec::new();
    for part in &args.parts {
        match part {
            Part::Hub => hub(&args, &launcher, &results, &mut figures).await?,
            Part::Agent => figures.extend(agent_part::run(&args, &launcher).await?.into_all()),
            Part::Many => figures.extend(agent_part::many(&args, &launcher).await?.into_all()),
        }
        save(&args, &results, &figures)?;
    }
    write!(std::io::stdout().lock(), "{}", table(&figures))?;
    Ok(ExitCode::SUCCESS)
}

async fn hub(
    args: &Args,
    launcher: &Launcher,
    results: &Path,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<()> {
    for kind in &args.stores {
        let Some(store) = kind.start() else {
            continue;
        };
        let of_store = hub_part::run(args, launcher, store.name, store.url());
        figures.extend(of_store.await?.into_all());
        save(args, results, figures)?;
    }
    Ok(())
}

/// Writes all figures so far, so that a later failure does not lose them.
fn save(args: &Args, results: &Path, figures: &[Figure]) -> anyhow::Result<()> {
    let report = DeliveryResults {
        machine: Machine::this(),
        clusters: args.clusters,
        bundles: args.bundles,
        figures,
    };
    let file = results.join("delivery.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&report)?)
        .with_context(|| format!("writing {}", file.display()))?;
    std::fs::write(results.join("delivery.md"), table(figures))?;
    Ok(())
}
