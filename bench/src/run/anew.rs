//! Scenarios that restart their peers in every round, so that no round affects the next.

use std::time::Duration;

use futures_util::future::join_all;

use super::stage::{Stage, again};
use crate::{
    peers::{Bed, Kind, Link, Peer},
    scenarios::{
        Sample, Title,
        agents::Agents,
        recovery::Recovery,
        stopped::{self, Stopped},
        watches::Watches,
    },
};

/// The samples of a round.
type Samples<'a> = Vec<(&'a Title, Kind, anyhow::Result<Sample>)>;

/// Measures all peers in parallel, since they mostly wait. Breaks that wait longest run in parallel to the
/// others, with peers of their own.
pub(super) async fn recover(scenarios: &[Recovery], stage: &mut Stage<'_>) {
    for scenario in scenarios {
        stage.report.begin(&scenario.title);
    }
    let (slow, quick): (Vec<&Recovery>, Vec<&Recovery>) =
        scenarios.iter().partition(|scenario| scenario.is_slow());
    let planned = recovery_takes(scenarios, 1);
    for round in 1..=stage.pace.rounds {
        stage.round(round, "recover");
        let bed = stage.free;
        let mut some = start(&quick, stage).await;
        let mut others = start(&slow, stage).await;
        let (one, other) = tokio::join!(
            one_by_one(&quick, bed, &mut some),
            one_by_one(&slow, bed, &mut others),
        );
        for (title, kind, sample) in one.into_iter().chain(other) {
            stage.report.take(title, kind, sample);
        }
        for peer in some.into_iter().chain(others) {
            peer.end().await;
        }
        stage.keep(planned);
    }
}

/// Approximate duration.
pub(super) fn recovery_takes(scenarios: &[Recovery], rounds: u32) -> Duration {
    let sum = |slow: bool| -> f64 {
        let all = scenarios.iter().filter(|one| one.is_slow() == slow);
        all.map(Recovery::takes).sum()
    };
    Duration::from_secs_f64(sum(true).max(sum(false)) + 15.0) * rounds
}

async fn start(scenarios: &[&Recovery], stage: &mut Stage<'_>) -> Vec<Peer> {
    let mut peers = Vec::new();
    if scenarios.is_empty() {
        return peers;
    }
    let titles: Vec<&Title> = scenarios.iter().map(|one| &one.title).collect();
    for kind in stage.tunnels() {
        match Peer::start(kind, stage.free, Link::Relayed { rate: None }).await {
            Ok(peer) => peers.push(peer),
            Err(error) => stage.absent(&titles, &[kind], &error),
        }
    }
    peers
}

async fn one_by_one<'a>(
    scenarios: &[&'a Recovery],
    bed: &Bed<'_>,
    peers: &mut [Peer],
) -> Samples<'a> {
    let mut samples = Vec::new();
    for scenario in scenarios {
        let all = peers.iter_mut().map(async |peer| {
            let kind = peer.kind;
            (&scenario.title, kind, scenario.measure(bed, peer).await)
        });
        samples.extend(join_all(all).await);
    }
    samples
}

/// Measures one peer after the other.
pub(super) async fn stop(scenario: &Stopped, stage: &mut Stage<'_>) {
    for title in scenario.titles() {
        stage.report.begin(title);
    }
    for round in 1..=stage.pace.rounds {
        stage.round(round, "rest, stopped");
        for kind in stage.tunnels() {
            let all = match stopped::measure(stage.free, kind, stage.pace).await {
                Ok(all) => all,
                Err(error) => [Err(again(&error)), Err(again(&error)), Err(error)],
            };
            for (title, sample) in scenario.titles().into_iter().zip(all) {
                stage.report.take(title, kind, sample);
            }
        }
        let peers = stage.tunnels_present();
        stage.keep(stopped_takes(peers, stage.pace.seconds));
    }
}

/// Approximate duration of a round.
pub(super) fn stopped_takes(peers: usize, seconds: f64) -> Duration {
    Duration::from_secs_f64(peers as f64 * (7.5 + 4.0 * seconds))
}

/// Measures one peer after the other, including direct access and the proxy.
pub(super) async fn watch(scenario: &Watches, stage: &mut Stage<'_>) {
    let title = &scenario.title;
    stage.report.begin(title);
    for round in 1..=stage.pace.rounds {
        stage.round(round, &title.name);
        for kind in stage.kinds {
            let sample = scenario.measure(stage.free, *kind, stage.pace).await;
            stage.report.take(title, *kind, sample);
        }
        stage.keep(watches_take(stage.present.len()));
    }
}

/// Approximate duration of a round.
pub(super) fn watches_take(peers: usize) -> Duration {
    Duration::from_secs(8) * u32::try_from(peers).unwrap_or(u32::MAX)
}

/// Measures one peer after the other, with one hub and a process full of agents.
pub(super) async fn crowds(scenario: &Agents, stage: &mut Stage<'_>) {
    stage.report.begin(&scenario.idle);
    stage.report.begin(&scenario.storm);
    for round in 1..=stage.pace.rounds {
        stage.round(round, &scenario.idle.name);
        for kind in stage.tunnels() {
            let measured = scenario.measure(stage.free, kind, stage.pace.calm).await;
            let (idle, storm) = match measured {
                Ok((idle, storm)) => (Ok(idle), storm),
                Err(error) => (Err(again(&error)), Err(error)),
            };
            stage.report.take(&scenario.idle, kind, idle);
            stage.report.take(&scenario.storm, kind, storm);
        }
        let peers = u32::try_from(stage.tunnels_present()).unwrap_or(u32::MAX);
        stage.keep(scenario.takes(stage.pace.calm) * peers);
    }
}
