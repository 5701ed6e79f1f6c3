//! Proxies and load balancers between site and hub.

use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::Site;
use fairlead_e2e_net::{Haproxy, Mode, Nginx, Squid, SquidPlan, Stage};
use fairlead_testkit::tls::TestCa;

const STEP_DEADLINE: Duration = Duration::from_secs(20);
/// Time during which a session carries only ack probes.
const IDLE_TIME: Duration = Duration::from_secs(45);

#[tokio::test]
async fn kubectl_works_over_a_bare_network() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let _site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await
}

#[tokio::test]
async fn agent_gets_out_through_a_proxy_and_by_no_other_way() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let squid = Squid::start(&stage.net, &SquidPlan::open()).await?;
    let site = stage
        .agent(|agent| agent.env("HTTPS_PROXY", squid.url(None)))
        .await?;
    stage.get_nodes().await?;
    let log = site.process.log()?;
    ensure!(log.contains("address=10.1.0.1:3128"), "{log}");
    Ok(())
}

#[tokio::test]
async fn proxy_that_asks_for_a_password_gets_it() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let plan = SquidPlan::open().for_person("robot", "s3cret/&");
    let squid = Squid::start(&stage.net, &plan).await?;
    let url = squid.url(Some("robot:s3cret%2F%26"));
    let site = stage.agent(|agent| agent.env("HTTPS_PROXY", url)).await?;
    stage.get_nodes().await?;
    ensure!(
        !site.process.log()?.contains("s3cret"),
        "the password is in the log"
    );
    Ok(())
}

#[tokio::test]
async fn wrong_proxy_password_is_one_clear_line_without_the_password() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let plan = SquidPlan::open().for_person("robot", "s3cret");
    let squid = Squid::start(&stage.net, &plan).await?;
    let url = squid.url(Some("robot:gu3ssed"));
    let mut site = stage.begin(|agent| agent.env("HTTPS_PROXY", url))?;
    site.process
        .wait_for_log("dial failed", STEP_DEADLINE)
        .await?;
    let log = site.process.log()?;
    let line = log
        .lines()
        .find(|line| line.contains("dial failed"))
        .unwrap_or_default();
    for word in ["stage=proxy", "407", "FL-31"] {
        ensure!(line.contains(word), "no {word} in {line}");
    }
    ensure!(!log.contains("gu3ssed"), "the password is in the log");
    Ok(())
}

#[tokio::test]
async fn hub_that_no_proxy_names_is_dialled_directly() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let squid = Squid::start(&stage.net, &SquidPlan::open()).await?;
    let site = stage
        .agent(|agent| {
            let agent = agent.env("HTTPS_PROXY", squid.url(None));
            agent.env("NO_PROXY", "localhost, .fairlead.test")
        })
        .await?;
    stage.get_nodes().await?;
    let log = site.process.log()?;
    ensure!(log.contains("address=203.0.113.2:443"), "{log}");
    ensure!(
        !squid.access_log()?.contains("CONNECT"),
        "{}",
        squid.access_log()?
    );
    Ok(())
}

#[tokio::test]
async fn proxy_that_terminates_tls_reads_nothing_and_blocks_nothing() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let ca = TestCa::new("corp")?;
    let plan = SquidPlan::open().opening_tls(&ca, &stage.hub.ready().ca_file);
    let squid = Squid::start(&stage.net, &plan).await?;
    let trust = stage.trust(&ca)?;
    let _site = stage
        .agent(|agent| {
            let agent = agent.env("HTTPS_PROXY", squid.url(None));
            agent.args(["--ca-file".as_ref(), trust.as_os_str()])
        })
        .await?;
    stage.get_nodes().await
}

/// Checks that an idle session keeps its connection.
async fn lives_on(stage: &Stage, site: &Site) -> anyhow::Result<()> {
    stage.get_nodes().await?;
    let before = site.dials().await?;
    tokio::time::sleep(IDLE_TIME).await;
    stage.get_nodes().await?;
    ensure!(
        site.dials().await? == before,
        "it was dialled again\n{}",
        stage.said(site)
    );
    Ok(())
}

async fn behind_haproxy(idle: u64) -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let _front = Haproxy::start(&stage.net, Mode::Tcp, Duration::from_secs(idle)).await?;
    let site = stage.agent(|agent| agent).await?;
    lives_on(&stage, &site).await
}

#[tokio::test]
async fn session_outlives_the_idle_limit_of_haproxy_of_60_s() -> anyhow::Result<()> {
    behind_haproxy(60).await
}

#[tokio::test]
async fn session_outlives_the_idle_limit_of_haproxy_of_20_s() -> anyhow::Result<()> {
    behind_haproxy(20).await
}

#[tokio::test]
async fn session_outlives_the_idle_limit_of_a_haproxy_that_ends_tls() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let ca = TestCa::new("edge")?;
    let mode = Mode::Http(&ca);
    let _front = Haproxy::start(&stage.net, mode, Duration::from_secs(20)).await?;
    let trust = stage.trust(&ca)?;
    let site = stage
        .agent(|agent| agent.args(["--ca-file".as_ref(), trust.as_os_str()]))
        .await?;
    lives_on(&stage, &site).await
}

async fn behind_nginx(idle: u64) -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let ca = TestCa::new("edge")?;
    let _front = Nginx::start(&stage.net, &ca, Duration::from_secs(idle)).await?;
    let trust = stage.trust(&ca)?;
    let site = stage
        .agent(|agent| agent.args(["--ca-file".as_ref(), trust.as_os_str()]))
        .await?;
    lives_on(&stage, &site).await
}

#[tokio::test]
async fn session_outlives_the_idle_limit_of_nginx_of_60_s() -> anyhow::Result<()> {
    behind_nginx(60).await
}

#[tokio::test]
async fn session_outlives_the_idle_limit_of_nginx_of_20_s() -> anyhow::Result<()> {
    behind_nginx(20).await
}
