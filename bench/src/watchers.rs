//! Role `watch`: many watches over one route, and events for all of them.
//!
//! It measures the time until the last watch has an event, and the cost for hub and agent. Events are
//! triggered at the upstream itself, so that only their delivery is measured.

use std::{
    collections::BTreeMap, io::Write as _, num::NonZeroUsize, path::PathBuf, sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{self, Instant},
};

use crate::{
    load::{Target, cpu},
    proc,
    stats::median,
    upstream,
    way::Way,
};

/// Watches opened at the same time.
const MAX_OPENING: usize = 32;
/// Deadline until all watches are open, and until all have an event.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);
const EVENT_DEADLINE: Duration = Duration::from_secs(20);
/// Pause until memory used for opening is returned.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Pause between the last delivery of an event and the next event.
const EVENT_PAUSE: Duration = Duration::from_millis(50);
/// Longest line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// https://HOST:PORT with the prefix of every path, such as `/k8s/clusters/ID`
    #[arg(long)]
    url: String,
    /// Trusted CA certificates, PEM; required for https
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// File that holds the bearer token
    #[arg(long)]
    token_file: PathBuf,
    /// Name in SNI and certificate; default: host of the URL
    #[arg(long)]
    server_name: Option<String>,
    /// Connect through this Unix socket, with CONNECT
    #[arg(long, value_name = "SOCKET")]
    via: Option<PathBuf>,
    /// URL of the upstream itself, without TLS
    #[arg(long)]
    upstream: String,
    #[arg(long, default_value = "1000")]
    watches: NonZeroUsize,
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    events: u32,
    /// Read the memory and the processor time of these processes too
    #[arg(long, value_name = "ROLE=PID")]
    cpu: Vec<cpu::Watched>,
}

/// Figures of the watches. Times are medians over events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WatchOutcome {
    /// Time until half of the watches have an event; the next field is for all of them.
    pub(crate) half_us: f64,
    pub(crate) all_us: f64,
    /// Seconds to open all watches.
    pub(crate) opened_s: f64,
    /// Lines received by all watches together.
    pub(crate) lines: u64,
    /// Processor time of each role and of this client (`load`) for these, in microseconds.
    pub(crate) cpu_us: BTreeMap<String, u64>,
    /// Memory growth of each role since before the watches, in bytes.
    pub(crate) memory: BTreeMap<String, i64>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let event = Way {
        url: args.upstream,
        ca_file: None,
        token_file: args.token_file.clone(),
        server_name: None,
        via: None,
    };
    let way = Way {
        url: args.url,
        ca_file: args.ca_file,
        token_file: args.token_file,
        server_name: args.server_name,
        via: args.via,
    };
    let (watch, event) = (way.target("/watch")?, event.target("/event")?);
    let heard = measure(watch, &event, args.watches.get(), args.events, &args.cpu).await?;
    let line = serde_json::to_string(&heard)?;
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}

/// # Errors
/// A watch cannot be opened or ends, or not all have an event in time.
async fn measure(
    watch: Target,
    event: &Target,
    count: usize,
    events: u32,
    watched: &[cpu::Watched],
) -> anyhow::Result<WatchOutcome> {
    let before = memory(watched)?;
    let begin = Instant::now();
    let (mut lines, _watches) = open(watch, count);
    // Each watch receives one line at once.
    ages(&mut lines, count, OPEN_DEADLINE)
        .await
        .context("opening")?;
    let opened_s = begin.elapsed().as_secs_f64();
    time::sleep(SETTLE_TIME).await;
    let after = memory(watched)?;

    let (mut half, mut all) = (Vec::new(), Vec::new());
    let mut spent = cpu::read(watched)?;
    // The first event is not counted, because buffers are still as opening left them.
    for number in 0..=events {
        if number == 1 {
            spent = cpu::read(watched)?;
        }
        time::timeout(EVENT_DEADLINE, event.once()).await??;
        let mut ages = ages(&mut lines, count, EVENT_DEADLINE).await?;
        ages.sort_unstable();
        if number > 0 {
            let micros = |age: Option<&Duration>| age.map_or(0.0, |age| age.as_secs_f64() * 1e6);
            half.push(micros(ages.get(count / 2)));
            all.push(micros(ages.last()));
        }
        time::sleep(EVENT_PAUSE).await;
    }
    let grown = after.iter().map(|(role, bytes)| {
        let before = before.get(role).copied().unwrap_or_default();
        (role.clone(), bytes - before)
    });
    Ok(WatchOutcome {
        half_us: median(half).unwrap_or_default(),
        all_us: median(all).unwrap_or_default(),
        opened_s,
        lines: count as u64 * u64::from(events),
        cpu_us: cpu::since(&spent, &cpu::read(watched)?),
        memory: grown.collect(),
    })
}

fn memory(watched: &[cpu::Watched]) -> anyhow::Result<BTreeMap<String, i64>> {
    let mut bytes = BTreeMap::new();
    for process in watched {
        let memory = proc::memory(process.pid())?;
        bytes.insert(process.role().to_owned(), i64::try_from(memory)?);
    }
    Ok(bytes)
}

/// Age of each line of each watch, or the reason why a watch ended.
type LineAges = mpsc::Receiver<anyhow::Result<Duration>>;

fn open(target: Target, count: usize) -> (LineAges, JoinSet<()>) {
    let (said, lines) = mpsc::channel(count);
    let (target, gate) = (Arc::new(target), Arc::new(Semaphore::new(MAX_OPENING)));
    let mut watches = JoinSet::new();
    for number in 0..count {
        let (target, gate, said) = (target.clone(), gate.clone(), said.clone());
        watches.spawn(async move {
            let ended = read(&target, &gate, &said).await;
            let why = ended.err().unwrap_or_else(|| anyhow!("it ended"));
            let why = why.context(format!("watch {number} of {count}"));
            // Fails only when nobody receives any more.
            drop(said.send(Err(why)).await);
        });
    }
    (lines, watches)
}

async fn read(
    target: &Target,
    gate: &Semaphore,
    said: &mpsc::Sender<anyhow::Result<Duration>>,
) -> anyhow::Result<()> {
    let mut opening = Some(gate.acquire().await?);
    let mut body = target.open().await?;
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let mut rest = &*frame?.into_data().unwrap_or_default();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = rest.split_at(end + 1);
            line.extend_from_slice(head);
            let age = upstream::age(&line).context("a line that is no event")?;
            said.send(Ok(age)).await?;
            opening = None;
            line.clear();
            rest = tail;
        }
        line.extend_from_slice(rest);
        anyhow::ensure!(line.len() < MAX_LINE_BYTES, "a line without an end");
    }
    drop(opening);
    Ok(())
}

/// Ages of the next line of every watch.
async fn ages(
    lines: &mut LineAges,
    count: usize,
    limit: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let mut ages = Vec::with_capacity(count);
    let all = time::timeout(limit, async {
        while ages.len() < count {
            ages.push(lines.recv().await.context("no watch is left")??);
        }
        anyhow::Ok(())
    });
    match all.await {
        Ok(heard) => heard.map(|()| ages),
        Err(_) => Err(anyhow!(
            "{} of {count} watches had it after {limit:?}",
            ages.len()
        )),
    }
}

#[cfg(test)]
mod tests;
