//! Three hubs on one PostgreSQL behind HAProxy, thirty agents, and a steady load: one hub is killed each minute, then each is
//! restarted in turn.
//!
//! `FAIRLEAD_E2E_MINUTES` sets the length of the kills (30). Each answer names its cluster, so an answer of another cluster is
//! found.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod balancer;
mod execs;
mod light;
mod load;
mod rig;
mod tally;
mod watches;

use std::{
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::setting;
use tokio::time::{Instant, sleep, sleep_until};

use rig::BalancedHubs;
use tally::{LoadPhase, PhaseTally};

/// Time between two kills.
const KILL_INTERVAL: Duration = Duration::from_secs(60);
/// Default number of kills, one in a minute.
const DEFAULT_MINUTES: u32 = 30;
/// Time for the last requests of a phase; longer than the wait budget of a hub.
const SETTLE_TIME: Duration = Duration::from_secs(21);
/// Load before the first kill.
const WARM_UP: Duration = Duration::from_secs(15);
/// Share of plain requests that may fail while hubs are killed.
const MAX_FAILED_SHARE: f64 = 0.001;
/// End of a drained hub: `--drain-timeout` of the rig, and a margin for a busy machine.
const DRAIN_DEADLINE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half an hour: make hubs-killed"]
async fn killed_and_restarted_hubs_behind_haproxy_fail_next_to_no_request() -> anyhow::Result<()> {
    let minutes = match setting("FAIRLEAD_E2E_MINUTES") {
        Some(text) => text.parse().context("FAIRLEAD_E2E_MINUTES")?,
        None => DEFAULT_MINUTES,
    };
    let mut trio = BalancedHubs::start().await?;
    let tally = Arc::<PhaseTally>::default();
    let stop = Arc::<AtomicBool>::default();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(load::run(trio.access(), tally.clone(), stop.clone()));
    for number in 0..watches::WATCH_COUNT {
        tasks.spawn(watches::run(
            trio.access(),
            number,
            tally.clone(),
            stop.clone(),
        ));
    }
    for number in 0..execs::EXEC_COUNT {
        let kubectl = trio.kubectl();
        tasks.spawn(execs::run(kubectl, number, tally.clone(), stop.clone()));
    }
    sleep(WARM_UP).await;
    let before = tally.next_phase();
    eprintln!("warm-up: {before}");

    let killed = kills(&mut trio, &tally, minutes).await?;
    trio.settle().await?;
    sleep(SETTLE_TIME).await;
    let between = tally.next_phase();
    eprintln!("after the kills: {between}");
    let restarted = rolling_restart(&mut trio, &tally).await?;
    stop.store(true, Ordering::Relaxed);
    drop(tasks);
    trio.print_logs_of_balancer()?;
    check(&killed, &restarted)
}

/// Kills one hub in each interval, and starts it again at once.
async fn kills(
    trio: &mut BalancedHubs,
    tally: &Arc<PhaseTally>,
    minutes: u32,
) -> anyhow::Result<LoadPhase> {
    let began = Instant::now();
    for minute in 0..minutes {
        let hub = usize::try_from(minute)? % rig::HUB_COUNT;
        trio.kill_and_restart(hub).await?;
        sleep_until(began + KILL_INTERVAL * (minute + 1)).await;
        eprintln!(
            "kill {} of {minutes}, hub {hub}: {}",
            minute + 1,
            tally.status()
        );
    }
    sleep(SETTLE_TIME).await;
    let killed = tally.next_phase();
    eprintln!("{minutes} kills: {killed}");
    Ok(killed)
}

/// Restarts one hub after the other, each with its drain.
async fn rolling_restart(
    trio: &mut BalancedHubs,
    tally: &Arc<PhaseTally>,
) -> anyhow::Result<LoadPhase> {
    for hub in 0..rig::HUB_COUNT {
        let took = trio.drain_and_restart(hub, DRAIN_DEADLINE).await?;
        eprintln!("restart of hub {hub} in {took:?}: {}", tally.status());
    }
    sleep(SETTLE_TIME).await;
    let restarted = tally.next_phase();
    eprintln!("rolling restart: {restarted}");
    Ok(restarted)
}

fn check(killed: &LoadPhase, restarted: &LoadPhase) -> anyhow::Result<()> {
    for (name, phase) in [("kills", killed), ("rolling restart", restarted)] {
        ensure!(phase.wrong.is_empty(), "{name}: {:#?}", phase.wrong);
        ensure!(
            phase.lost_events.is_empty(),
            "{name}: {:#?}",
            phase.lost_events
        );
        ensure!(
            phase.stale_watches() == 0,
            "{name}: watches without events: {phase}"
        );
        ensure!(
            phase.sent > 0 && phase.execs_done > 0,
            "{name}: no load: {phase}"
        );
    }
    let share = killed.failed_share();
    ensure!(
        share <= MAX_FAILED_SHARE,
        "{share} of the plain requests failed: {killed}"
    );
    ensure!(
        restarted.failures.is_empty(),
        "plain requests failed in the rolling restart: {restarted}"
    );
    ensure!(
        restarted.execs_cut.is_empty(),
        "exec was cut in the rolling restart: {restarted}"
    );
    Ok(())
}
