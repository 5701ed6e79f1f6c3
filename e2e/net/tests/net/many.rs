//! What a path does in months, in one go: many cuts one after the other, and a long black hole. How many and how long may be set;
//! `NET_LONG` asks for 200 and for ten minutes.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::eventually;
use fairlead_e2e_net::{Fault, Random, Stage, Toward};
use tokio::time::sleep;

use crate::size;

/// The loss of a path is known after so long.
const NOTICED: Duration = Duration::from_secs(20);
/// And its return after so long.
const BACK: Duration = Duration::from_secs(20);
/// A person who does not want to wait for the link to come back says so: `--request-timeout`.
const IMPATIENT: &str = "--request-timeout=2s";
/// For kubectl to say then what is wrong: two seconds, and what a busy machine takes to start it.
const SENTENCE: Duration = Duration::from_secs(5);
/// The same without a word: a request waits for the link for 20 s at most, less the time that it has been gone.
const PATIENT: Duration = Duration::from_secs(25);
/// The same cuts in every run.
const SEED: u64 = 7;
const FAULTS: [Fault; 7] = [
    Fault::Drop,
    Fault::Reset,
    Fault::Loss(0.5),
    Fault::NatLoss,
    Fault::Silence(Toward::Both),
    Fault::Silence(Toward::Hub),
    Fault::Silence(Toward::Site),
];

/// `FAIRLEAD_NET_CUTS`: how many.
#[tokio::test]
async fn kubectl_works_after_each_of_many_random_cuts() -> anyhow::Result<()> {
    let cuts = size("FAIRLEAD_NET_CUTS", 8, 200)?;
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let mut random = Random::new(SEED);
    for round in 0..cuts {
        let fault = *random.choose(&FAULTS).context("no faults")?;
        let long = Duration::from_secs_f64(8.0 * random.share());
        eprintln!("cut {round}: {fault:?} for {long:?}");
        stage.net.cut(fault)?;
        sleep(long).await;
        stage.net.heal()?;
        let works = stage.works_again().await;
        works.with_context(|| format!("cut {round}, {fault:?} for {long:?}"))?;
    }
    let log = site.process.log()?;
    ensure!(site.process.usage().is_ok(), "the agent has ended: {log}");
    ensure!(log.matches("enrolled").count() == 1, "{log}");
    Ok(())
}

/// `FAIRLEAD_NET_HOLE_SECONDS`: how long.
#[tokio::test]
async fn a_black_hole_is_told_in_a_sentence_and_leaves_nothing_behind() -> anyhow::Result<()> {
    let long = Duration::from_secs(size("FAIRLEAD_NET_HOLE_SECONDS", 60, 600)?);
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await?;
    let (hub_before, site_before) = (stage.hub.process.usage()?, site.process.usage()?);
    stage.net.cut(Fault::Silence(Toward::Both))?;
    stage.state_within("Lost", NOTICED).await?;
    sleep(long).await;
    let get = stage.kubectl().await?.args(["get", "nodes"]);
    let asked = [
        (get.clone().args([IMPATIENT]), SENTENCE),
        (get.clone(), PATIENT),
    ];
    for (get, within) in asked {
        let told = get.deadline(within).run().await?;
        let lost = !told.status.success() && told.stderr.contains("lost its connection");
        ensure!(lost, "{told:?}\n{}", stage.said(&site));
    }
    stage.net.heal()?;
    stage.state_within("Connected", BACK).await?;
    stage.get_nodes().await?;
    // One more on either side may be under way when it is counted.
    let few = eventually(BACK, "as many files open as before", async || {
        let hub = stage.hub.process.usage().ok()?.fds;
        let site = site.process.usage().ok()?.fds;
        (hub <= hub_before.fds + 1 && site <= site_before.fds + 1).then_some(())
    });
    few.await
}
