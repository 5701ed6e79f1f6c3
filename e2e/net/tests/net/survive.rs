//! Sessions outlive their sockets: commands of users continue after an outage without loss or duplication,
//! files arrive complete, and nothing is restarted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Kubectl, Output, Site, eventually};
use fairlead_e2e_net::{Fault, Haproxy, LinkShape, Mode, Squid, SquidPlan, Stage, Toward};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::size;
use crate::work::Work;

/// Deadline for everything to continue after the path is back.
const RESUME_DEADLINE: Duration = Duration::from_secs(5);
const STEP_DEADLINE: Duration = Duration::from_secs(20);
/// Interval of the cuts in the long run.
const CUT_INTERVAL: Duration = Duration::from_secs(20);
/// Deadline of one file in the long run.
const COPY_DEADLINE: Duration = Duration::from_secs(1500);

/// Checks that everything sent meanwhile arrives once, in order and in time, and that the same agent
/// continues to work.
async fn goes_on(stage: &Stage, site: &Site, work: &mut Work) -> anyhow::Result<()> {
    let back = Instant::now();
    work.see().await?;
    let pause = back.elapsed();
    ensure!(
        pause <= RESUME_DEADLINE,
        "a pause of {pause:?} after the path was back"
    );
    work.go_on(stage).await?;
    ensure!(site.process.usage().is_ok(), "the agent has ended");
    Ok(())
}

async fn lives_through(fault: Fault, long: Duration) -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let mut work = Work::start(&stage).await?;
    stage.net.cut(fault)?;
    work.feed(&stage).await?;
    sleep(long).await;
    work.feed(&stage).await?;
    stage.net.heal()?;
    goes_on(&stage, &site, &mut work).await
}

#[tokio::test]
async fn work_survives_a_reset() -> anyhow::Result<()> {
    lives_through(Fault::Reset, Duration::from_secs(3)).await
}

#[tokio::test]
async fn work_survives_10_s_of_drops() -> anyhow::Result<()> {
    lives_through(Fault::Drop, Duration::from_secs(10)).await
}

#[tokio::test]
async fn work_survives_a_nat_that_forgets() -> anyhow::Result<()> {
    lives_through(Fault::NatLoss, Duration::ZERO).await
}

#[tokio::test]
async fn work_survives_detected_silence() -> anyhow::Result<()> {
    lives_through(Fault::Silence(Toward::Both), Duration::from_secs(30)).await
}

#[tokio::test]
async fn work_survives_silence_of_one_direction() -> anyhow::Result<()> {
    lives_through(Fault::Silence(Toward::Hub), Duration::from_secs(30)).await
}

#[tokio::test]
async fn work_survives_an_orderly_end_by_a_load_balancer() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let front = Haproxy::start(&stage.net, Mode::Tcp, Duration::from_secs(60)).await?;
    let site = stage.agent(|agent| agent).await?;
    let mut work = Work::start(&stage).await?;
    front.end_sessions()?;
    work.feed(&stage).await?;
    goes_on(&stage, &site, &mut work).await
}

#[tokio::test]
async fn work_survives_the_death_of_a_proxy() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let mut squid = Squid::start(&stage.net, &SquidPlan::open()).await?;
    let proxy = squid.url(None);
    let site = stage.agent(|agent| agent.env("HTTPS_PROXY", proxy)).await?;
    let mut work = Work::start(&stage).await?;
    squid.kill()?;
    work.feed(&stage).await?;
    squid.restart().await?;
    goes_on(&stage, &site, &mut work).await
}

/// A way to break a path with a load balancer.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Reset,
    End,
    Drop,
    Kill,
    Nat,
}

const CUTS: [Cut; 5] = [Cut::Reset, Cut::End, Cut::Drop, Cut::Kill, Cut::Nat];

impl Cut {
    async fn make(self, stage: &Stage, front: &mut Haproxy) -> anyhow::Result<()> {
        match self {
            Self::End => front.end_sessions(),
            Self::Nat => stage.net.cut(Fault::NatLoss),
            Self::Kill => {
                front.kill()?;
                front.restart().await
            }
            Self::Drop => {
                stage.net.cut(Fault::Drop)?;
                sleep(Duration::from_secs(10)).await;
                stage.net.heal()
            }
            Self::Reset => {
                stage.net.cut(Fault::Reset)?;
                let met = eventually(STEP_DEADLINE, "packets that meet the fault", async || {
                    stage.net.hits().ok().filter(|hits| *hits > 0)
                });
                met.await?;
                stage.net.heal()
            }
        }
    }
}

fn copy(kubectl: &Kubectl, from: &str, to: &str) -> JoinHandle<anyhow::Result<Output>> {
    let cp = kubectl
        .clone()
        .deadline(COPY_DEADLINE)
        .args(["cp", "--retries=0"]);
    tokio::spawn(cp.args([from, to]).run())
}

/// Writes a file without repetitions, so that no two parts of it are equal.
fn make_file(path: &Path, mib: u64) -> anyhow::Result<Vec<u8>> {
    let words = 0..u32::try_from(mib * 256 * 1024)?;
    let bytes: Vec<u8> = words
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    fs::write(path, &bytes)?;
    Ok(bytes)
}

/// `FAIRLEAD_NET_CUTS` cuts while files of `FAIRLEAD_NET_MIB` are copied both ways; with `NET_LONG` for ten
/// minutes, and 1 GiB. It uses BBR, because cubic reaches only 0.2 MB/s here.
#[tokio::test]
async fn nothing_is_lost_on_a_long_lossy_path_that_is_cut_every_20_s() -> anyhow::Result<()> {
    let cuts = usize::try_from(size("FAIRLEAD_NET_CUTS", 5, 30)?)?;
    let mib = size("FAIRLEAD_NET_MIB", 64, 1024)?;
    let stage = Stage::set().await?;
    let mut front = Haproxy::start(&stage.net, Mode::Tcp, Duration::from_secs(60)).await?;
    stage.net.congestion_control("bbr")?;
    let site = stage.agent(|agent| agent).await?;
    let mut work = Work::start(&stage).await?;
    let (kubectl, pod) = (stage.kubectl().await?, stage.pod().await?);
    let here = tempfile::tempdir()?;
    let place = |name: &str| here.path().join(name).display().to_string();
    let bytes = make_file(Path::new(&place("sent")), mib)?;
    copy(&kubectl, &place("sent"), &format!("{pod}:there"))
        .await??
        .success()?;

    stage
        .net
        .link(LinkShape::round_trip(Duration::from_millis(150)).loss(0.005))?;
    let up = copy(&kubectl, &place("sent"), &format!("{pod}:up"));
    let down = copy(&kubectl, &format!("{pod}:there"), &place("down"));
    for (round, cut) in CUTS.iter().cycle().take(cuts).enumerate() {
        sleep(CUT_INTERVAL).await;
        work.feed(&stage).await?;
        cut.make(&stage, &mut front).await?;
        let went = goes_on(&stage, &site, &mut work).await;
        went.with_context(|| format!("cut {round}, {cut:?}"))?;
    }
    up.await??.success()?;
    down.await??.success()?;
    ensure!(
        fs::read(place("down"))? == bytes,
        "the downloaded file differs"
    );
    stage.net.link(LinkShape::default())?;
    copy(&kubectl, &format!("{pod}:up"), &place("up"))
        .await??
        .success()?;
    ensure!(fs::read(place("up"))? == bytes, "the uploaded file differs");
    Ok(())
}
