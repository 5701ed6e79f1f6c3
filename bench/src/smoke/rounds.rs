//! The measuring itself: every scenario on every route, round after round, so that whatever else the machine does falls on all alike.

use std::time::Duration;

use super::{
    launch::Launcher,
    plan::{Load, Route, Scenario},
    site::{Site, Way},
};
use crate::load::Outcome;

/// Beyond its own time: connecting, warming up, the last answers.
const SLACK: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) warmup: f64,
}

/// Every counted round of one scenario on one route.
pub(super) struct Measured {
    pub(super) scenario: Scenario,
    pub(super) route: Route,
    pub(super) rounds: Vec<Outcome>,
}

/// In the order of scenarios, then routes.
pub(super) async fn measure(
    launcher: &Launcher,
    site: &mut Site,
    scenarios: &[Scenario],
    pace: Pace,
) -> anyhow::Result<Vec<Measured>> {
    let ways = site.ways.len();
    let empty = |scenario: &Scenario, way: &Way| Measured {
        scenario: *scenario,
        route: way.route,
        rounds: Vec::new(),
    };
    let mut all: Vec<Measured> = scenarios
        .iter()
        .flat_map(|scenario| site.ways.iter().map(move |way| empty(scenario, way)))
        .collect();
    for round in 0..=pace.rounds {
        for cells in all.chunks_mut(ways) {
            let mut turns: Vec<_> = cells.iter_mut().zip(0..ways).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for (cell, way) in turns {
                site.alive()?;
                let Some(way) = site.ways.get(way) else {
                    continue;
                };
                let outcome = once(launcher, way, &cell.scenario, pace).await?;
                show(round, pace.rounds, cell, &outcome);
                // The first round warms pools, caches and branch predictors, and is not counted.
                if round > 0 {
                    cell.rounds.push(outcome);
                }
            }
        }
    }
    Ok(all)
}

async fn once(
    launcher: &Launcher,
    way: &Way,
    scenario: &Scenario,
    pace: Pace,
) -> anyhow::Result<Outcome> {
    let mut command = launcher.bench("load");
    command
        .args(["--url", &way.url])
        .arg("--ca-file")
        .arg(&way.ca_file)
        .arg("--token-file")
        .arg(&way.token_file);
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
    for watched in &way.watched {
        command.args(["--cpu", watched]);
    }
    let step = format!("load {} {}", way.route.name(), scenario.name);
    let limit = SLACK + Duration::try_from_secs_f64(pace.seconds + pace.warmup)?;
    launcher.ask(&step, command, limit).await
}

fn show(round: u32, of: u32, cell: &Measured, outcome: &Outcome) {
    let (scenario, route) = (cell.scenario.name, cell.route.name());
    let rate = cell.scenario.unit.rate(outcome);
    let unit = cell.scenario.unit.per_second();
    eprint!("round {round}/{of}  {scenario:<12} {route:<9} {rate:>9.0} {unit}");
    match &outcome.first_error {
        None => eprintln!(),
        Some(error) => eprintln!("  {} errors, the first: {error}", outcome.errors),
    }
}
