//! Months of faults in one test: many cuts in a row, and a long black hole. Number and length are settings;
//! `NET_LONG` sets 200 cuts and ten minutes.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::eventually;
use fairlead_e2e_net::{Fault, Random, Stage, Toward};
use tokio::time::sleep;

use crate::size;

/// Deadline for a loss of the path to be detected.
const DETECTION_DEADLINE: Duration = Duration::from_secs(20);
/// Deadline for the return of the path to be detected.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(20);
/// kubectl's flag for an answer without a wait for a reconnect.
const IMPATIENT: &str = "--request-timeout=2s";
/// Deadline for kubectl to report the fault: two seconds, and its start on a busy machine.
const IMPATIENT_DEADLINE: Duration = Duration::from_secs(5);
/// Deadline without that flag: a request waits for the link at most 20 s, less the time of the outage so far.
const PATIENT_DEADLINE: Duration = Duration::from_secs(25);
/// Fixed, so that every run has the same cuts.
const CUT_SEED: u64 = 7;
const FAULTS: [Fault; 7] = [
    Fault::Drop,
    Fault::Reset,
    Fault::Loss(0.5),
    Fault::NatLoss,
    Fault::Silence(Toward::Both),
    Fault::Silence(Toward::Hub),
    Fault::Silence(Toward::Site),
];

/// `FAIRLEAD_NET_CUTS` sets the number of cuts.
#[tokio::test]
async fn kubectl_works_after_each_of_many_random_cuts() -> anyhow::Result<()> {
    let cuts = size("FAIRLEAD_NET_CUTS", 8, 200)?;
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let mut random = Random::new(CUT_SEED);
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

/// `FAIRLEAD_NET_HOLE_SECONDS` sets the length.
#[tokio::test]
async fn black_hole_is_reported_in_a_sentence_and_leaks_nothing() -> anyhow::Result<()> {
    let long = Duration::from_secs(size("FAIRLEAD_NET_HOLE_SECONDS", 60, 600)?);
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    stage.get_nodes().await?;
    let (hub_before, site_before) = (stage.hub.process.usage()?, site.process.usage()?);
    stage.net.cut(Fault::Silence(Toward::Both))?;
    stage.state_within("Lost", DETECTION_DEADLINE).await?;
    sleep(long).await;
    let get = stage.kubectl().await?.args(["get", "nodes"]);
    let asked = [
        (get.clone().args([IMPATIENT]), IMPATIENT_DEADLINE),
        (get.clone(), PATIENT_DEADLINE),
    ];
    for (get, within) in asked {
        let told = get.deadline(within).run().await?;
        let lost = !told.status.success() && told.stderr.contains("lost its connection");
        ensure!(lost, "{told:?}\n{}", stage.said(&site));
    }
    stage.net.heal()?;
    stage.state_within("Connected", RECOVERY_DEADLINE).await?;
    stage.get_nodes().await?;
    // One connection more on either side may be in progress when files are counted.
    let few = eventually(
        RECOVERY_DEADLINE,
        "as many files open as before",
        async || {
            let hub = stage.hub.process.usage().ok()?.fds;
            let site = site.process.usage().ok()?.fds;
            (hub <= hub_before.fds + 1 && site <= site_before.fds + 1).then_some(())
        },
    );
    few.await
}
