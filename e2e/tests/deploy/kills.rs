//! Kills of agent, runner, Helm and hub at random moments, while bundles of both kinds change. Kills of the agent at
//! each step of the journal.
//!
//! `FAIRLEAD_E2E_KILLS` sets the number of kills, `FAIRLEAD_E2E_SEED` the parts and moments, which otherwise differ in each run.

mod change;
mod check;
mod steps;
mod tap;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context;
use fairlead_e2e::{Cluster, Launch, Process, children, eventually, helm, link::Random, setting};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::world::{ROLLOUT_DEADLINE, World};
use change::change_all;

const DEFAULT_KILLS: u32 = 10;
/// Longest time between a restart and the next kill.
const MAX_LIFE: Duration = Duration::from_secs(1);
/// Longest time between the start of Helm and its kill.
const MAX_HELM_LIFE: Duration = Duration::from_millis(600);
/// Kills between two progress messages.
const KILLS_PER_MESSAGE: u32 = 25;
/// First line of a working agent. Before it, an agent waits 30 s for the end of its killed predecessor's Lease.
const AGENT_WORKS: &str = "delivery lease acquired";

/// Target of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Agent,
    Runner,
    Helm,
    Hub,
}

/// Choices of victims. A killed agent or hub costs 30 s without new work, so the hub is rare.
const VICTIMS: [Victim; 20] = {
    use Victim::{Agent, Helm, Hub, Runner};
    [
        Helm, Helm, Helm, Helm, Helm, Helm, Helm, Helm, Helm, Helm, Runner, Runner, Runner, Runner,
        Runner, Runner, Agent, Agent, Agent, Hub,
    ]
};

/// World with a separate runner process, as in a pod. The test restarts the runner, as the kubelet does.
struct Trial {
    world: World,
    launch: Launch,
    log: PathBuf,
    runner: Process,
    moments: Random,
    kills: BTreeMap<Victim, u32>,
    /// Length of the agent's log at its last start.
    agent_log: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: `make kills`"]
async fn kills_leave_the_cluster_as_the_last_generations_want_it() -> anyhow::Result<()> {
    let kills: u32 = match setting("FAIRLEAD_E2E_KILLS") {
        Some(kills) => kills.parse()?,
        None => DEFAULT_KILLS,
    };
    let seed = match setting("FAIRLEAD_E2E_SEED") {
        Some(seed) => seed.parse()?,
        None => RandomState::new().hash_one(0),
    };
    eprintln!("FAIRLEAD_E2E_SEED={seed}");
    let mut trial = Trial::start(seed).await?;
    let home = trial.world.hub.dir().to_owned();
    let is_over = AtomicBool::new(false);
    let killing = async {
        let killed = trial.kill_all(kills).await;
        is_over.store(true, Ordering::SeqCst);
        killed
    };
    let (killed, contents) = tokio::join!(killing, change_all(&home, seed, &is_over));
    killed?;
    let contents = contents?;
    let generations: u32 = contents.iter().sum();
    eprintln!(
        "{kills} kills: {:?}; {generations} contents of {} bundles",
        trial.kills,
        contents.len()
    );
    check::all(&trial.world, &contents, &trial.log).await
}

/// Command line of a runner in a process of its own, and its socket.
fn runner(world: &World) -> anyhow::Result<(Launch, String)> {
    let folder = world.hub.dir().join("runner");
    let place = |name: &str| folder.join(name).display().to_string();
    let (socket, work) = (place("run/socket"), place("work"));
    std::fs::create_dir_all(&folder)?;
    let launch = Launch::agent()?
        .args(["runner", "--socket", &socket, "--work", &work, "--helm"])
        .args([helm::program()?]);
    Ok((launch, socket))
}

impl Trial {
    async fn start(seed: u64) -> anyhow::Result<Self> {
        let mut world = World::alone(&[]).await?;
        let log = world.hub.dir().join("runner.log");
        let (launch, socket) = runner(&world)?;
        let runner = launch.clone().spawn(&log)?;
        let flags = ["--delivery", "on", "--runner-socket", &socket];
        world.join(Cluster::start_lite().await?, &flags).await?;
        let mut trial = Trial {
            world,
            launch,
            log,
            runner,
            moments: Random::new(seed),
            kills: BTreeMap::new(),
            agent_log: 0,
        };
        trial.agent_works().await?;
        Ok(trial)
    }

    async fn kill_all(&mut self, kills: u32) -> anyhow::Result<()> {
        for number in 1..=kills {
            let killed = self.kill().await;
            killed.with_context(|| format!("kill {number} of {kills}"))?;
            if number % KILLS_PER_MESSAGE == 0 {
                eprintln!("{number} kills: {:?}", self.kills);
            }
        }
        Ok(())
    }

    /// Kills a part at a random moment, and restarts it.
    async fn kill(&mut self) -> anyhow::Result<()> {
        let mut victim = *self.moments.choose(&VICTIMS).context("no victim")?;
        if victim == Victim::Agent && !self.is_agent_at_work() {
            victim = Victim::Runner;
        }
        let moment = self.moments.share();
        match victim {
            Victim::Agent => {
                sleep(MAX_LIFE.mul_f64(moment)).await;
                let site = &mut self.world.members[0].site;
                site.process.kill_9()?;
                self.agent_log = site.process.log()?.len();
                site.restart()?;
            }
            Victim::Runner => {
                sleep(MAX_LIFE.mul_f64(moment)).await;
                self.runner.kill_9()?;
                self.runner = self.launch.clone().spawn(&self.log)?;
            }
            Victim::Helm => self.kill_helm(MAX_HELM_LIFE.mul_f64(moment)).await?,
            Victim::Hub => {
                sleep(MAX_LIFE.mul_f64(moment)).await;
                self.world.hub.kill_and_restart().await?;
            }
        }
        *self.kills.entry(victim).or_default() += 1;
        Ok(())
    }

    /// Kills a program of the runner, this time after its start. An ended program does not count.
    async fn kill_helm(&self, life: Duration) -> anyhow::Result<()> {
        let runner = self.runner.pid();
        loop {
            let found = eventually(ROLLOUT_DEADLINE, "a program of the runner", async || {
                children(runner).ok()?.pop()
            });
            let program = found.await.with_context(|| self.world.log(0))?;
            sleep(life).await;
            let is_alive = children(runner)?.contains(&program);
            let pid = i32::try_from(program).ok().and_then(Pid::from_raw);
            let pid = pid.context("a process id")?;
            if is_alive && kill_process(pid, Signal::KILL).is_ok() {
                return Ok(());
            }
        }
    }

    fn is_agent_at_work(&self) -> bool {
        let log = self.world.log(0);
        let new = log.get(self.agent_log..).unwrap_or_default();
        new.contains(AGENT_WORKS)
    }

    async fn agent_works(&mut self) -> anyhow::Result<()> {
        let works = eventually(ROLLOUT_DEADLINE, AGENT_WORKS, async || {
            self.is_agent_at_work().then_some(())
        });
        works.await.with_context(|| self.world.log(0))
    }
}
