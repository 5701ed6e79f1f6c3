//! Boxes of companies between a hub and its users and sites. For `FAIRLEAD_NET_BOX_SECONDS` each, an exec, an exec on a
//! terminal, a watch and a log get numbers, and files are copied both ways: nothing may be lost.
//!
//! The tests share nothing, so that processes of their own can run them at the same time (`make net-boxes`).

use std::fs;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Kubectl, Site};
use fairlead_e2e_net::{Capture, HUB, Haproxy, Mode, Nginx, Squid, SquidPlan, Stage};
use fairlead_testkit::tls::TestCa;
use tokio::time::{Instant, sleep};

use crate::size;
use crate::work::Work;

/// Pause between two numbers, and between two copies.
const PACE_TIME: Duration = Duration::from_secs(2);
/// Size of a copied file in 4-byte words: 2 MiB.
const FILE_WORDS: u32 = 512 * 1024;
const COPY_DEADLINE: Duration = Duration::from_secs(120);
const STEP_DEADLINE: Duration = Duration::from_secs(30);
/// Idle limits of Debian's configuration of haproxy.
const HAPROXY_LIMIT: Duration = Duration::from_secs(50);
/// Idle limit of the proxy that cuts.
const CUT_IDLE: Duration = Duration::from_secs(20);
/// Age at which that proxy resets a connection, unless the test is shorter.
const CUT_AGE: Duration = Duration::from_secs(300);

/// Length of each test.
fn length() -> anyhow::Result<Duration> {
    let seconds = size("FAIRLEAD_NET_BOX_SECONDS", 90, 900)?;
    Ok(Duration::from_secs(seconds))
}

/// Works until the end of the time while `meanwhile` happens, and checks that nothing was lost.
async fn nothing_is_lost(
    stage: &Stage,
    site: &Site,
    meanwhile: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut work = Work::start(stage).await?;
    let until = Instant::now() + length()?;
    let numbers = async {
        let mut rounds = 0_u32;
        while Instant::now() < until {
            work.feed(stage).await?;
            work.see().await?;
            rounds += 1;
            sleep(PACE_TIME).await;
        }
        anyhow::Ok(rounds)
    };
    let copies = copy_until(stage, until);
    let meanwhile = async {
        meanwhile.await.context("meanwhile")?;
        pending::<anyhow::Result<()>>().await
    };
    let both = async { tokio::try_join!(numbers, copies) };
    let (rounds, copies) = tokio::select! {
        done = both => done.with_context(|| stage.said(site))?,
        failed = meanwhile => return failed.with_context(|| stage.said(site)),
    };
    work.go_on(stage).await?;
    ensure!(site.process.usage().is_ok(), "the agent has ended");
    let log = site.process.log()?;
    ensure!(log.matches("enrolled").count() == 1, "it enrolled again");
    let resumed = log.matches("session resumed").count();
    eprintln!(
        "{:?}: {rounds} numbers by each command, {copies} copies of 2 MiB each way, {} dials, {resumed} sessions resumed",
        length()?,
        site.dials().await?
    );
    ensure!(rounds > 0 && copies > 0, "nothing was done");
    Ok(())
}

/// Copies a file there and back until the end of the time. Returns the number of rounds.
async fn copy_until(stage: &Stage, until: Instant) -> anyhow::Result<u32> {
    let (kubectl, pod) = (stage.kubectl().await?, stage.pod().await?);
    let here = tempfile::tempdir()?;
    let mut rounds = 0_u32;
    while Instant::now() < until {
        // No two rounds, and no two parts of a file, are equal.
        let words =
            (0..FILE_WORDS).map(|n| n.wrapping_add(rounds << 24).wrapping_mul(2_654_435_761));
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let place = |name: &str| here.path().join(name).display().to_string();
        fs::write(place("sent"), &bytes)?;
        let there = format!("{pod}:box-{rounds}");
        copy(&kubectl, &place("sent"), &there).await?;
        copy(&kubectl, &there, &place("received")).await?;
        ensure!(
            fs::read(place("received"))? == bytes,
            "copy {rounds} differs"
        );
        rounds += 1;
        sleep(PACE_TIME).await;
    }
    Ok(rounds)
}

async fn copy(kubectl: &Kubectl, from: &str, to: &str) -> anyhow::Result<()> {
    let cp = kubectl.clone().deadline(COPY_DEADLINE);
    let cp = cp.args(["cp", "--retries=0", from, to]);
    cp.run().await?.success().map(drop)
}

/// Sends users through the box on edge, too, which has a certificate of `ca`. It ends TLS, so the hub does not get the names
/// of clusters in it, and kubectl uses their paths.
async fn users_by_edge(stage: &mut Stage, ca: &TestCa) -> anyhow::Result<()> {
    stage.net.user_by_edge()?;
    let ready = stage.hub.ready();
    let own = fs::read_to_string(&ready.ca_file)?;
    let trust = stage.net.folder().join("users-ca.pem");
    fs::write(&trust, format!("{own}{}", ca.pem()))?;
    let (token, trust) = (ready.token_file.display(), trust.display());
    let files = [token.to_string(), trust.to_string()];
    let [token, trust] = &files;
    let login = [
        "login",
        &ready.url,
        "--token-file",
        token,
        "--ca-file",
        trust,
    ];
    stage.hub.cli(login).await?.success()?;
    let server = format!("{}/k8s/clusters/{}", ready.url, stage.joining.id);
    let flags = ["--server", &server, "--tls-server-name", HUB];
    let flags = [&flags[..], &["--certificate-authority", trust]].concat();
    stage.kubectl_flags = flags.into_iter().map(str::to_owned).collect();
    Ok(())
}

/// File with the URL of a proxy, for `--proxy-file`.
fn proxy_file(stage: &Stage, url: &str) -> anyhow::Result<PathBuf> {
    let file = stage.net.folder().join("proxy-url");
    fs::write(&file, format!("{url}\n"))?;
    Ok(file)
}

#[tokio::test]
async fn proxy_with_a_password_is_the_only_way_out_while_it_rotates() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    // Only the proxy resolves the hub's name; a lookup at the site would be a packet beside the proxy.
    stage.net.site.set_hosts(&[])?;
    let plan = SquidPlan::open().for_person("robot", "b0x-first/&");
    let mut squid = Squid::start(&stage.net, &plan).await?;
    let mut capture = Capture::beside_the_proxy(&stage.net).await?;
    let file = proxy_file(&stage, &squid.url(Some("robot:b0x-first%2F%26")))?;
    let url = squid.url(Some("robot:b0x-second%3A%40"));
    let mut site = stage
        .agent(|agent| agent.args(["--proxy-file".as_ref(), file.as_os_str()]))
        .await?;
    let half = length()? / 2;
    let log = site.process.log_path().to_owned();
    let rotation = async {
        sleep(half).await;
        squid.rotate("robot", "b0x-second:@")?;
        squid.kill()?;
        squid.restart().await?;
        // The agent has the old password still.
        let refused = fairlead_e2e::eventually(STEP_DEADLINE, "a refused password", async || {
            fs::read_to_string(&log)
                .ok()?
                .contains("FL-3104")
                .then_some(())
        });
        refused.await?;
        proxy_file(&stage, &url).map(drop)
    };
    nothing_is_lost(&stage, &site, rotation).await?;
    capture.is_empty().await?;
    site.process.wait_for_log("FL-3104", STEP_DEADLINE).await?;
    let resumed = site.process.wait_for_log("session resumed", STEP_DEADLINE);
    resumed.await?;
    // Its doctor knows no proxy, and looks the hub's name up.
    stage.leaves_no_secret(&site).await
}

#[tokio::test]
async fn proxy_is_reached_by_tls() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let ca = TestCa::new("corp")?;
    let plan = SquidPlan::open()
        .for_person("robot", "b0x-third")
        .reached_by_tls(&ca)?;
    let squid = Squid::start(&stage.net, &plan).await?;
    let (url, trust) = (squid.url(Some("robot:b0x-third")), stage.trust(&ca)?);
    let site = stage
        .agent(|agent| {
            let agent = agent.env("HTTPS_PROXY", url);
            agent.args(["--ca-file".as_ref(), trust.as_os_str()])
        })
        .await?;
    nothing_is_lost(&stage, &site, pending()).await?;
    stage.leaves_no_secret(&site).await
}

#[tokio::test]
async fn proxy_cuts_what_is_idle_and_what_is_old() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let squid = Squid::start(&stage.net, &SquidPlan::open().idle_limit(CUT_IDLE)).await?;
    let url = squid.url(None);
    let mut site = stage.agent(|agent| agent.env("HTTPS_PROXY", url)).await?;
    let age = CUT_AGE.min(length()? / 3);
    let cuts = async {
        loop {
            sleep(age).await;
            squid.reset_clients()?;
        }
    };
    nothing_is_lost(&stage, &site, cuts).await?;
    let resumed = site.process.wait_for_log("session resumed", STEP_DEADLINE);
    resumed.await?;
    stage.leaves_no_secret(&site).await
}

/// People and the agent come through a load balancer that ends TLS with this CA.
async fn nothing_is_lost_behind(mut stage: Stage, ca: &TestCa) -> anyhow::Result<()> {
    users_by_edge(&mut stage, ca).await?;
    let trust = stage.trust(ca)?;
    let site = stage
        .agent(|agent| agent.args(["--ca-file".as_ref(), trust.as_os_str()]))
        .await?;
    nothing_is_lost(&stage, &site, pending()).await?;
    stage.leaves_no_secret(&site).await
}

#[tokio::test]
async fn nginx_with_its_defaults_is_before_the_hub() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let ca = TestCa::new("edge")?;
    let _front = Nginx::start_with_defaults(&stage.net, &ca, false).await?;
    nothing_is_lost_behind(stage, &ca).await
}

#[tokio::test]
async fn haproxy_with_its_defaults_is_before_the_hub() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let ca = TestCa::new("edge")?;
    let _front = Haproxy::start(&stage.net, Mode::Http(&ca), HAPROXY_LIMIT).await?;
    nothing_is_lost_behind(stage, &ca).await
}
