//! IPv6, names with several addresses, and names whose addresses change.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Launch};
use fairlead_e2e_net::net::{HUB_ADDRESS, HUB_V6};
use fairlead_e2e_net::{Dns, HUB, Net, Squid, SquidPlan, Stage};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::process::Command;

const STEP_DEADLINE: Duration = Duration::from_secs(60);
/// Limit of a connection while all IPv6 is dropped.
const CONNECTED_WITHIN: Duration = Duration::from_secs(3);
/// All addresses of both families.
const ANY: &str = "[::]:443";

/// A stage whose hub is reached by IPv6, too.
async fn stage_at(name: &str) -> anyhow::Result<Stage> {
    let net = Net::build().await?;
    net.add_ipv6()?;
    for at in [&net.user, &net.corp, &net.site] {
        at.set_hosts(&[(HUB, HUB_V6)])?;
    }
    let hub = Hub::serve_at(name, ANY, &net.hub, &net.user).await?;
    Stage::with(net, hub).await
}

#[tokio::test]
async fn everything_works_over_ipv6_alone() -> anyhow::Result<()> {
    let stage = stage_at(HUB).await?;
    stage.net.remove_ipv4()?;
    let mut site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await?;
    let address = format!("address=[{HUB_V6}]:443");
    site.process.wait_for_log(&address, STEP_DEADLINE).await?;
    let shown = stage
        .hub
        .cli(["cluster", "sessions", "demo"])
        .await?
        .success()?;
    ensure!(shown.contains("fd00:1::2"), "{shown}");
    Ok(())
}

#[tokio::test]
async fn hub_with_an_ipv6_address_in_its_url_works() -> anyhow::Result<()> {
    let stage = stage_at(&format!("[{HUB_V6}]")).await?;
    let _site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await
}

#[tokio::test]
async fn ipv6_address_in_a_url_works_through_a_proxy() -> anyhow::Result<()> {
    let stage = stage_at(&format!("[{HUB_V6}]")).await?;
    stage.net.by_proxy_only()?;
    let plan = SquidPlan::open().for_person("robot", "v6-s3cret/&");
    let squid = Squid::start(&stage.net, &plan).await?;
    let url = squid.url(Some("robot:v6-s3cret%2F%26"));
    let _site = stage.agent(|agent| agent.env("HTTPS_PROXY", &url)).await?;
    stage.get_nodes().await?;
    // The command line, from the site.
    let ready = stage.hub.ready();
    let home = tempfile::tempdir()?;
    let fairlead = async |words: &[&str]| -> anyhow::Result<String> {
        let launch = Launch::hub()?.args(words).env("HOME", home.path());
        let launch = launch.env("HTTPS_PROXY", &url).inside(&stage.net.site);
        let output = Command::from(launch.command()).output().await?;
        ensure!(output.status.success(), "{words:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let token = ready.token_file.display().to_string();
    let ca = ready.ca_file.display().to_string();
    let login = [
        "login",
        &ready.url,
        "--token-file",
        &token,
        "--ca-file",
        &ca,
    ];
    fairlead(&login).await?;
    let clusters = fairlead(&["cluster", "list"]).await?;
    ensure!(clusters.contains("demo"), "{clusters}");
    let log = squid.access_log()?;
    let connects = log.matches(&format!("CONNECT [{HUB_V6}]:443")).count();
    ensure!(connects >= 2, "{log}");
    Ok(())
}

/// Time between the first line of a log and the first with this text, by the log itself.
fn time_until(log: &str, text: &str) -> anyhow::Result<Duration> {
    let time = |line: &str| -> anyhow::Result<OffsetDateTime> {
        let stamp = line.split_whitespace().next().unwrap_or_default();
        OffsetDateTime::parse(stamp, &Rfc3339).with_context(|| line.to_owned())
    };
    let first = time(log.lines().next().context("an empty log")?)?;
    let found = log.lines().find(|line| line.contains(text));
    let found = time(found.with_context(|| format!("no {text:?}"))?)?;
    Ok((found - first).try_into()?)
}

#[tokio::test]
async fn dropped_ipv6_costs_less_than_3_seconds() -> anyhow::Result<()> {
    let stage = stage_at(HUB).await?;
    for at in [&stage.net.user, &stage.net.site] {
        at.set_hosts(&[(HUB, HUB_V6), (HUB, HUB_ADDRESS)])?;
    }
    stage.net.drop_ipv6()?;
    let mut site = stage.agent(|agent| agent).await?;
    let connected = "connected to the hub";
    site.process.wait_for_log(connected, STEP_DEADLINE).await?;
    let log = site.process.log()?;
    let took = time_until(&log, connected)?;
    eprintln!("connected after {took:?} while IPv6 is dropped");
    ensure!(took < CONNECTED_WITHIN, "{took:?}: {log}");
    ensure!(log.contains(&format!("address={HUB_ADDRESS}:443")), "{log}");
    stage.get_nodes().await
}

#[tokio::test]
async fn changed_dns_is_followed() -> anyhow::Result<()> {
    const NEXT: &str = "203.0.113.3";
    let stage = Stage::set().await?;
    let mut dns = Dns::start(&stage.net, &[HUB_ADDRESS]).await?;
    let mut site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await?;
    // The hub moves to another address.
    let add = ["ip", "address", "add", "203.0.113.3/24", "dev", "edge"];
    stage.net.hub.run(&add)?;
    stage.net.user.set_hosts(&[(HUB, NEXT)])?;
    dns.change(&[NEXT]).await?;
    let delete = ["ip", "address", "del", "203.0.113.2/24", "dev", "edge"];
    stage.net.hub.run(&delete)?;
    // With the first address of its network the kernel takes the others and the routes.
    drop(stage.net.hub.run(&add));
    drop(
        stage
            .net
            .hub
            .run(&["ip", "route", "add", "default", "via", "203.0.113.1"]),
    );
    let address = format!("address={NEXT}:443");
    site.process.wait_for_log(&address, STEP_DEADLINE).await?;
    stage.works_again().await?;
    ensure!(site.process.log()?.matches("enrolled").count() == 1);
    Ok(())
}

#[tokio::test]
async fn dead_address_of_a_name_is_passed_over() -> anyhow::Result<()> {
    // Nobody has the other address: the last hop reports that, or nothing.
    const DEAD: &str = "203.0.113.77";
    let stage = Stage::set().await?;
    for addresses in [[DEAD, HUB_ADDRESS], [HUB_ADDRESS, DEAD]] {
        let _dns = Dns::start(&stage.net, &addresses).await?;
        let launch = Launch::agent()?
            .args(["doctor", "--kubeconfig"])
            .args([stage.cluster.kubeconfig()])
            .args([
                "--state".as_ref(),
                stage.net.folder().join("none").as_os_str(),
            ])
            .env("HOME", stage.hub.dir())
            .env("FAIRLEAD_JOIN", &stage.joining.join);
        let output = Command::from(launch.inside(&stage.net.site).command())
            .output()
            .await?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(text.contains(DEAD) && text.contains(HUB_ADDRESS), "{text}");
        ensure!(output.status.success(), "{text}");
    }
    let _dns = Dns::start(&stage.net, &[DEAD, HUB_ADDRESS]).await?;
    let _site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await
}
