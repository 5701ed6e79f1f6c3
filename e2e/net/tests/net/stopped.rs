//! A user who suspends a long `kubectl logs` with Ctrl-Z: it costs the hub one window, affects nobody else,
//! and continues without loss. `NET_LONG` makes it a log of 1 GiB.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::RawClient;
use fairlead_e2e_net::net::HUB_ADDRESS;
use fairlead_e2e_net::{HUB, Stage};
use rustix::process::Signal;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::size;

const BYTES_PER_MIB: u64 = 1024 * 1024;
const LINE_BYTES: u64 = 64 * 1024;
const CLIENT_COUNT: usize = 200;
/// Clients that connect at the same time, to avoid a connection burst.
const MAX_CONNECTING: usize = 8;
/// Time during which other clients are measured, before and while one is suspended.
const MEASURE_TIME: Duration = Duration::from_secs(10);
/// Memory that a hub may use for a suspended reader: a window, which grows to 1 MiB, and the allocator's
/// share.
const MAX_READER_BYTES: u64 = 4 * BYTES_PER_MIB;
/// Interval between two requests of a client. All clients together send 400 requests per second, a light
/// load.
const REQUEST_INTERVAL: Duration = Duration::from_millis(500);
const TEST_DEADLINE: Duration = Duration::from_secs(900);

/// Line `n`. No two lines are equal at any position.
fn line(n: u64) -> String {
    let word = format!("{:016x}", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word.repeat(LINE_BYTES as usize / word.len())
}

/// Latencies of the requests of many clients, sorted.
async fn watch(front: &RawClient, request: &str) -> anyhow::Result<Vec<Duration>> {
    let over = Arc::new(AtomicBool::new(false));
    let doors = Arc::new(Semaphore::new(MAX_CONNECTING));
    let mut clients = JoinSet::new();
    for n in 0..CLIENT_COUNT {
        let (front, request, over) = (front.clone(), request.to_owned(), Arc::clone(&over));
        let doors = Arc::clone(&doors);
        clients.spawn(async move {
            let door = doors.acquire().await?;
            let mut exchange = front.open(request.as_bytes()).await?;
            exchange.body().await?;
            drop(door);
            sleep(REQUEST_INTERVAL.mul_f64(n as f64 / CLIENT_COUNT as f64)).await;
            let mut took = Vec::new();
            while !over.load(Ordering::Relaxed) {
                sleep(REQUEST_INTERVAL).await;
                let begun = Instant::now();
                exchange.again(request.as_bytes()).await?;
                ensure!(exchange.status == 200, "{}", exchange.head);
                took.push(begun.elapsed());
            }
            anyhow::Ok(took)
        });
    }
    sleep(MEASURE_TIME).await;
    over.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    while let Some(took) = clients.join_next().await {
        all.extend(took??);
    }
    all.sort();
    Ok(all)
}

fn p99(sorted: &[Duration]) -> anyhow::Result<Duration> {
    sorted
        .get(sorted.len() * 99 / 100)
        .copied()
        .context("no requests")
}

#[tokio::test]
async fn stopped_reader_costs_a_window_and_affects_nobody_else() -> anyhow::Result<()> {
    let lines = size("FAIRLEAD_NET_MIB", 64, 1024)? * BYTES_PER_MIB / LINE_BYTES;
    let stage = Stage::set().await?;
    let _site = stage.agent(|agent| agent).await?;
    let pod = stage.pod().await?;
    let path = stage.cluster.container_log("default", &pod, "demo");
    let mut log = BufWriter::new(File::create(path)?);
    for n in 0..lines {
        writeln!(log, "2026-01-01T00:00:00.000000000Z stdout F {}", line(n))?;
    }
    log.flush()?;

    let at = SocketAddr::new(HUB_ADDRESS.parse()?, 443);
    let ca = std::fs::read_to_string(&stage.hub.ready().ca_file)?;
    let front =
        fairlead_e2e::admin::in_net(RawClient::at(at, HUB.try_into()?, &ca)?, &stage.net.user);
    let request = format!(
        "GET /k8s/clusters/{}/version HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer {}\r\n\r\n",
        stage.joining.id,
        stage.hub.token()?.trim()
    );
    // One run warms up, one is the baseline.
    watch(&front, &request).await?;
    let before = p99(&watch(&front, &request).await?)?;
    let memory = stage.hub.process.usage()?.rss;

    let logs = stage.kubectl().await?.deadline(TEST_DEADLINE);
    let mut logs = logs.args(["logs", &pod]).spawn()?;
    for n in 0..lines / 2 {
        ensure!(logs.next_line().await? == Some(line(n)), "line {n}");
    }
    logs.signal(Signal::STOP)?;
    let beside = p99(&watch(&front, &request).await?)?;
    let more = stage.hub.process.usage()?.rss.saturating_sub(memory);
    eprintln!(
        "p99 of {CLIENT_COUNT} clients {before:?}, beside one that has stopped {beside:?}, ratio {:.2}; the hub has {:.2} MiB more",
        beside.as_secs_f64() / before.as_secs_f64(),
        more as f64 / BYTES_PER_MIB as f64
    );

    ensure!(more <= MAX_READER_BYTES, "the hub holds {more} bytes more");

    logs.signal(Signal::CONT)?;
    for n in lines / 2..lines {
        ensure!(logs.next_line().await? == Some(line(n)), "line {n}");
    }
    ensure!(
        logs.next_line().await?.is_none(),
        "there is more than there was"
    );
    ensure!(logs.wait().await?.success(), "{}", logs.stderr());
    Ok(())
}
