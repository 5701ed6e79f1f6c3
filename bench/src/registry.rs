//! `make bench-registry`: processor time of the registry's operations in a hub with 1,000 and 10,000
//! clusters, and their latencies. The hub is the built program, called over TLS as by its clients.

mod fleet;
mod guesses;
mod history;

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use serde::Serialize;
use tempfile::TempDir;
use time::OffsetDateTime;

use self::guesses::wrong;
use crate::{
    hub::{
        client::HubRequest,
        figures::{Figure, Figures, table},
        measure::measure,
        process::{Hub, HubHome},
        store::StoreKind,
    },
    launch::{Launcher, until_stopped},
    machine::Machine,
    results::results_folder,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary to measure
    #[arg(long)]
    fairlead: PathBuf,
    /// Seconds that each operation is repeated
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Stores to measure
    #[arg(long, value_delimiter = ',', default_value = "sqlite,postgres")]
    stores: Vec<StoreKind>,
    /// Smaller and larger number of clusters, such as 1000,10000; the goals refer to these
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000])]
    clusters: Vec<usize>,
    /// Facts of a cluster in the history; 0 omits the history
    #[arg(long, default_value_t = 50)]
    facts: usize,
    /// Versions of a fact in the history
    #[arg(long, default_value_t = 100)]
    versions: usize,
    /// Folder in which this run's folder of figures and logs is created
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

#[derive(Serialize)]
struct RegistryReport<'a> {
    machine: Machine,
    figures: &'a [Figure],
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    until_stopped(bench(args)).await
}

async fn bench(args: Args) -> anyhow::Result<ExitCode> {
    let results = results_folder(&args.out)?;
    let launcher = Launcher::new(false, None, results.join("logs")).await?;
    let mut figures = Vec::new();
    for kind in &args.stores {
        let Some(store) = kind.start() else {
            continue;
        };
        let of_store = one_store(&args, &launcher, store.name, store.url());
        figures.extend(of_store.await?);
        let report = RegistryReport {
            machine: Machine::this(),
            figures: &figures,
        };
        let file = results.join("registry.json");
        std::fs::write(&file, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    write!(std::io::stdout().lock(), "{}", table(&figures))?;
    Ok(ExitCode::SUCCESS)
}

async fn one_store(
    args: &Args,
    launcher: &Launcher,
    name: &'static str,
    store: Option<String>,
) -> anyhow::Result<Vec<Figure>> {
    let &[fewer, more] = args.clusters.as_slice() else {
        bail!("--clusters takes two numbers");
    };
    let dir = TempDir::with_prefix("fairlead-bench-")?;
    let home = HubHome {
        fairlead: args.fairlead.clone(),
        data: dir.path().join("hub"),
        store,
    };
    let time = Duration::try_from_secs_f64(args.seconds)?;
    let mut figures = Figures::of(name);
    eprintln!("{name}: {fewer} clusters");
    let hub = home.start(launcher).await?;
    fleet::grow(&hub, 0, fewer).await?;
    few(&hub, fewer, time, &mut figures).await?;
    eprintln!("{name}: {more} clusters");
    fleet::grow(&hub, fewer, more).await?;
    let hub = many(hub, &home, launcher, more, time, &mut figures).await?;
    hub.stop().await?;
    if args.facts * args.versions > 0 {
        let shape = history::HistoryShape {
            clusters: more,
            facts: args.facts,
            versions: args.versions,
            now: OffsetDateTime::now_utc().unix_timestamp() * 1000,
        };
        past(&home, launcher, shape, time, &mut figures).await?;
    }
    Ok(figures.into_all())
}

async fn few(hub: &Hub, clusters: usize, time: Duration, to: &mut Figures) -> anyhow::Result<()> {
    let stewards = fleet::stewards(hub).await?;
    let admin = |request: HubRequest| {
        let token = hub.token.clone();
        move |_: usize| (request.clone(), token.clone())
    };
    let list = measure(hub, 1, time, admin(HubRequest::get("/clusters"))).await?;
    to.add(
        format!("list of {clusters}: size"),
        list.bytes as f64 / 1000.0,
        "kB",
        None,
    );
    to.operation(&format!("list of {clusters}"), &list, Some(5.0), None);
    let token = hub.token.clone();
    let one = move |number: usize| {
        (
            HubRequest::get(format!("/clusters/{}", fleet::id(number % clusters))),
            token.clone(),
        )
    };
    let get = measure(hub, 1, time, one.clone()).await?;
    to.operation("get one", &get, Some(0.1), None);

    let by = |counter: fn(usize) -> usize| {
        let stewards = stewards.clone();
        move |number: usize| {
            let steward = stewards.get(number % fleet::STEWARD_COUNT).cloned();
            let (path, token) = steward.unwrap_or_default();
            (
                HubRequest::patch(path, &fleet::stewards_patch(counter(number))),
                token,
            )
        }
    };
    let same = measure(hub, 1, time, by(|_| 0)).await?;
    to.operation("PATCH, unchanged", &same, Some(0.05), None);
    // 10,000 agents report once a minute each.
    to.add(
        "10,000 agents a minute: share of a core",
        same.cpu_ms * 10_000.0 / 60_000.0 * 100.0,
        "%",
        Some(3.0),
    );
    let changed = measure(hub, 1, time, by(|number| number + 1)).await?;
    to.operation("PATCH, changed", &changed, Some(0.3), None);
    let together = measure(hub, 16, time, by(|number| number + 1)).await?;
    to.operation("PATCH, changed, 16 at once", &together, Some(0.3), None);
    wrong(hub, one, time, to).await?;
    let memory = hub.memory()? as f64 / 1e6;
    to.add(
        format!("memory with {clusters}, after all of this"),
        memory,
        "MB",
        Some(60.0),
    );
    Ok(())
}

async fn many(
    hub: Hub,
    home: &HubHome,
    launcher: &Launcher,
    clusters: usize,
    time: Duration,
    to: &mut Figures,
) -> anyhow::Result<Hub> {
    let token = hub.token.clone();
    let asked = move |_: usize| (HubRequest::get("/clusters"), token.clone());
    // A list takes so long that the usual time would give too few samples.
    let list = measure(&hub, 1, time * 3, asked).await?;
    to.operation(&format!("list of {clusters}"), &list, None, Some(150.0));
    let token = hub.token.clone();
    let one = move |number: usize| {
        (
            HubRequest::get(format!("/clusters/{}", fleet::id(number % clusters))),
            token.clone(),
        )
    };
    let get = measure(&hub, 1, time, one).await?;
    to.operation(&format!("get one of {clusters}"), &get, Some(0.1), None);
    let memory = |hub: &Hub| Ok::<_, anyhow::Error>(hub.memory()? as f64 / 1e6);
    to.add(
        format!("memory with {clusters}, after all of this"),
        memory(&hub)?,
        "MB",
        Some(300.0),
    );
    hub.stop().await?;
    let begun = tokio::time::Instant::now();
    let hub = home.start(launcher).await?;
    to.add(
        format!("start with {clusters}"),
        begun.elapsed().as_secs_f64(),
        "s",
        None,
    );
    to.add(
        format!("memory with {clusters}, begun anew"),
        memory(&hub)?,
        "MB",
        Some(300.0),
    );
    Ok(hub)
}

async fn past(
    home: &HubHome,
    launcher: &Launcher,
    shape: history::HistoryShape,
    time: Duration,
    to: &mut Figures,
) -> anyhow::Result<()> {
    eprintln!("  a history of {} versions is made", shape.rows());
    let (backup, filled) = (
        home.data.with_extension("backup"),
        home.data.with_extension("filled"),
    );
    let words = ["backup", "--without-ca"];
    home.whole(launcher, &words, &backup).await?;
    let made = filled.clone();
    tokio::task::spawn_blocking(move || history::fill(&backup, &made, shape)).await??;
    let begun = tokio::time::Instant::now();
    let words = ["restore", "--yes", "--keep-access"];
    home.whole(launcher, &words, &filled).await?;
    let rate = shape.rows() as f64 / begun.elapsed().as_secs_f64() / 1000.0;
    to.add("restore: thousands of rows a second", rate, "", None);
    std::fs::remove_file(&filled)?;
    let hub = home.start(launcher).await?;
    for (name, question) in shape.questions() {
        let token = hub.token.clone();
        let asked = move |number| (question(number), token.clone());
        let it = measure(&hub, 1, time, asked).await?;
        to.operation(&format!("history: {name}"), &it, None, Some(20.0));
        to.add(
            format!("history: {name}: size"),
            it.bytes as f64 / 1000.0,
            "kB",
            None,
        );
    }
    hub.stop().await
}
