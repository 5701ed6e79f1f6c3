//! Measures every scenario on every route, round after round, so that disturbances of the machine affect all
//! routes alike.

use std::time::Duration;

use anyhow::Context as _;

use super::plan::{Load, Route, SmokeScenario};
use crate::{
    load::Outcome,
    peers::{Bed, Peer},
    way::Legs,
};

/// Time of a measurement beyond its span: connecting, warm-up, the last answers.
const EXTRA_TIME: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) warmup: f64,
}

/// All counted rounds of one scenario on one route.
pub(super) struct MeasuredRound {
    pub(super) scenario: SmokeScenario,
    pub(super) route: Route,
    pub(super) rounds: Vec<Outcome>,
}

/// Samples in the order of scenarios, then routes.
pub(super) async fn measure(
    bed: &Bed<'_>,
    ways: &mut [(Route, Peer)],
    scenarios: &[SmokeScenario],
    pace: Pace,
) -> anyhow::Result<Vec<MeasuredRound>> {
    let empty = |scenario: &SmokeScenario, route: Route| MeasuredRound {
        scenario: *scenario,
        route,
        rounds: Vec::new(),
    };
    let routes: Vec<Route> = ways.iter().map(|(route, _)| *route).collect();
    let mut all: Vec<MeasuredRound> = scenarios
        .iter()
        .flat_map(|scenario| routes.iter().map(|route| empty(scenario, *route)))
        .collect();
    for round in 0..=pace.rounds {
        for cells in all.chunks_mut(ways.len()) {
            let mut turns: Vec<_> = cells.iter_mut().zip(ways.iter_mut()).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for (cell, (_, peer)) in turns {
                peer.alive()?;
                let outcome = once(bed, peer, &cell.scenario, pace).await?;
                show(round, pace.rounds, cell, &outcome);
                // Round 0 warms pools, caches and branch predictors and is not counted.
                if round > 0 {
                    cell.rounds.push(outcome);
                }
            }
        }
    }
    Ok(all)
}

async fn once(
    bed: &Bed<'_>,
    peer: &mut Peer,
    scenario: &SmokeScenario,
    pace: Pace,
) -> anyhow::Result<Outcome> {
    let mut command = bed.launcher.bench("load");
    command.args(peer.way(Legs::Tls).context("there is no way")?.args());
    command.args(["--connections", &scenario.connections.to_string()]);
    command.args([
        "--seconds",
        &pace.seconds.to_string(),
        "--warmup",
        &pace.warmup.to_string(),
    ]);
    match scenario.load {
        Load::Get { path, size } => command.args(["--path", path, "--expect", &size.to_string()]),
        Load::Post { path, size } => command.args(["--path", path, "--upload", &size.to_string()]),
    };
    for watched in peer.watched(bed)? {
        command.args(["--cpu", &watched]);
    }
    let step = format!("load {} {}", peer.kind.name(), scenario.name);
    let limit = EXTRA_TIME + Duration::try_from_secs_f64(pace.seconds + pace.warmup)?;
    bed.launcher.output(&step, command, limit).await
}

fn show(round: u32, of: u32, cell: &MeasuredRound, outcome: &Outcome) {
    let (scenario, route) = (cell.scenario.name, cell.route.name());
    let rate = cell.scenario.unit.rate(outcome);
    let unit = cell.scenario.unit.per_second();
    eprint!("round {round}/{of}  {scenario:<12} {route:<9} {rate:>9.0} {unit}");
    match &outcome.first_error {
        None => eprintln!(),
        Some(error) => eprintln!("  {} errors, the first: {error}", outcome.errors),
    }
}
