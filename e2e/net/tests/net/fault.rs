//! Faults of the path while users work: the agent notices them, reconnects, and kubectl works again.

use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::Site;
use fairlead_e2e_net::{Fault, Haproxy, Mode, Squid, SquidPlan, Stage, Toward};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::work::Work;

/// Deadline for a silent path to be detected and shown by `cluster get`.
const DETECTION_DEADLINE: Duration = Duration::from_secs(20);

/// Checks the state after a fault, with nothing restarted.
async fn recovered(stage: &Stage, site: &Site) -> anyhow::Result<()> {
    stage.works_again().await?;
    Work::start(stage).await?.go_on(stage).await?;
    let log = site.process.log()?;
    ensure!(site.process.usage().is_ok(), "the agent has ended: {log}");
    ensure!(
        log.matches("enrolled").count() == 1,
        "it enrolled again: {log}"
    );
    Ok(())
}

/// Waits until packets match the fault's rule. A fault on an idle path breaks nothing.
async fn met(stage: &Stage) -> anyhow::Result<()> {
    let met = fairlead_e2e::eventually(
        DETECTION_DEADLINE,
        "packets that meet the fault",
        async || stage.net.hits().ok().filter(|hits| *hits > 0),
    );
    met.await.map(drop)
}

#[tokio::test]
async fn reset_from_a_firewall_costs_one_dial() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let mut work = Work::start(&stage).await?;
    stage.net.cut(Fault::Reset)?;
    drop(work.feed(&stage).await);
    met(&stage).await?;
    stage.net.heal()?;
    recovered(&stage, &site).await
}

#[tokio::test]
async fn orderly_end_by_a_load_balancer_costs_one_dial() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let front = Haproxy::start(&stage.net, Mode::Tcp, Duration::from_secs(60)).await?;
    let site = stage.agent(|agent| agent).await?;
    let _work = Work::start(&stage).await?;
    front.end_sessions()?;
    recovered(&stage, &site).await
}

#[tokio::test]
async fn firewall_that_drops_for_10_s_is_waited_out() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let _work = Work::start(&stage).await?;
    stage.net.cut(Fault::Drop)?;
    sleep(Duration::from_secs(10)).await;
    stage.net.heal()?;
    recovered(&stage, &site).await
}

#[tokio::test]
async fn proxy_that_dies_and_comes_back_is_dialled_through_again() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let mut squid = Squid::start(&stage.net, &SquidPlan::open()).await?;
    let site = stage
        .agent(|agent| agent.env("HTTPS_PROXY", squid.url(None)))
        .await?;
    let _work = Work::start(&stage).await?;
    squid.kill()?;
    stage.state_within("Lost", DETECTION_DEADLINE).await?;
    squid.restart().await?;
    recovered(&stage, &site).await
}

#[tokio::test]
async fn nat_that_forgets_is_noticed() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let _work = Work::start(&stage).await?;
    stage.net.cut(Fault::NatLoss)?;
    recovered(&stage, &site).await
}

async fn silence(toward: Toward) -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let _work = Work::start(&stage).await?;
    stage.net.cut(Fault::Silence(toward))?;
    stage.state_within("Lost", DETECTION_DEADLINE).await?;
    stage.net.heal()?;
    recovered(&stage, &site).await
}

#[tokio::test]
async fn silent_link_is_lost_within_20_s() -> anyhow::Result<()> {
    silence(Toward::Both).await
}

#[tokio::test]
async fn link_that_is_silent_towards_the_site_only_is_lost_within_20_s() -> anyhow::Result<()> {
    silence(Toward::Site).await
}

#[tokio::test]
async fn link_that_is_silent_towards_the_hub_only_is_lost_within_20_s() -> anyhow::Result<()> {
    silence(Toward::Hub).await
}

#[tokio::test]
async fn stopped_agent_is_lost_within_20_s_and_continues_later() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let mut site = stage.agent(|agent| agent).await?;
    site.process.signal(Signal::STOP)?;
    stage.state_within("Lost", DETECTION_DEADLINE).await?;
    site.process.signal(Signal::CONT)?;
    recovered(&stage, &site).await
}
