//! Figures from rounds: medians, ratios of routes within a round, processor time per request or MiB, as a
//! table and as JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{
    plan::{Route, Unit},
    rounds::{MeasuredRound, Pace},
};
use crate::{
    load::Outcome,
    machine::Machine,
    stats::{median, range},
};

const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;
const BYTES_PER_MB: f64 = 1e6;
/// Smallest share of its core that a pinned measurement needs to be credible.
const MIN_CORE_SHARE: f64 = 0.85;

impl Unit {
    /// Requests or megabytes (10^6) per second.
    pub(super) fn rate(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Requests => outcome.requests as f64 / outcome.seconds,
            Self::Bodies => outcome.bytes as f64 / BYTES_PER_MB / outcome.seconds,
        }
    }

    pub(super) fn per_second(self) -> &'static str {
        match self {
            Self::Requests => "req/s",
            Self::Bodies => "MB/s",
        }
    }

    /// Divisor of the processor time: requests, or MiB of bodies.
    fn amount(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Requests => outcome.requests as f64,
            Self::Bodies => outcome.bytes as f64 / BYTES_PER_MIB,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    /// The core to which every role was pinned.
    core: Option<usize>,
    rounds: u32,
    seconds: f64,
    rows: Vec<Row>,
}

/// One scenario on one route.
#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    route: Route,
    connections: usize,
    unit: Unit,
    /// Requests or megabytes per second, median of rounds.
    rate: f64,
    to_direct: Option<Ratio>,
    to_proxy: Option<Ratio>,
    /// Set for Fairlead only.
    goal: Option<SmokeGoal>,
    p50_us: f64,
    p99_us: f64,
    /// Processor time per request or MiB, in microseconds, by role.
    cpu_us: BTreeMap<String, f64>,
    /// Processor time of the proxy's route divided by that of this route, over all roles. It equals the ratio
    /// of rates on one otherwise idle core.
    cpu_to_proxy: Option<f64>,
    /// Processor time of all roles divided by the measured time, in cores.
    cores_used: f64,
    errors: u64,
    rounds: Vec<Outcome>,
}

/// Median, lowest and highest of the ratios of each round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Ratio {
    median: f64,
    low: f64,
    high: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct SmokeGoal {
    least: f64,
    met: bool,
}

impl Report {
    pub(super) fn new(pace: Pace, core: Option<usize>, measured: &[MeasuredRound]) -> Self {
        let rows = measured
            .iter()
            .map(|cell| Row::new(cell, measured))
            .collect();
        Self {
            machine: Machine::this(),
            core,
            rounds: pace.rounds,
            seconds: pace.seconds,
            rows,
        }
    }

    /// `true` if every goal is met and nothing failed.
    pub(super) fn passed(&self) -> bool {
        self.rows
            .iter()
            .all(|row| row.errors == 0 && row.goal.is_none_or(|goal| goal.met))
    }

    pub(super) fn table(&self) -> String {
        let mut lines = vec![HEAD.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let mut text = self.headline();
        let widths: [usize; HEAD.len()] = std::array::from_fn(|column| {
            lines
                .iter()
                .filter_map(|cells| cells.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        });
        let mut scenario = String::new();
        for mut cells in lines {
            // A scenario is named once, above its routes.
            if let Some(first) = cells.first_mut() {
                if *first == scenario {
                    first.clear();
                } else {
                    text.push('\n');
                    scenario.clone_from(first);
                }
            }
            let padded: Vec<String> = cells
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            text.push_str(padded.join("  ").trim_end());
            text.push('\n');
        }
        self.mistakes(&mut text);
        self.disturbed(&mut text);
        text
    }

    fn headline(&self) -> String {
        let Machine { cpu, cores, kernel } = &self.machine;
        let place = self.core.map_or("not pinned".to_owned(), |core| {
            format!("every role on core {core}")
        });
        format!(
            "{cpu}, {cores} cores, Linux {kernel}; {place}; medians of {} rounds of {} s\n",
            self.rounds, self.seconds
        )
    }

    /// Warns about rounds without a whole core. With one connection the roles wait for each other, so only
    /// the busier scenarios count.
    fn disturbed(&self, text: &mut String) {
        let busy = self
            .rows
            .iter()
            .filter(|row| row.connections > 1)
            .map(|row| row.cores_used);
        if let (Some(_), Some((least, _))) = (self.core, range(busy))
            && least < MIN_CORE_SHARE
        {
            let other = 100.0 * (1.0 - least);
            let _ = writeln!(
                text,
                "\nnot quiet: up to {other:.0} % of the core went to other work; measure again when there is none"
            );
        }
    }

    fn mistakes(&self, text: &mut String) {
        for row in self.rows.iter().filter(|row| row.errors > 0) {
            let first = row
                .rounds
                .iter()
                .find_map(|outcome| outcome.first_error.as_deref())
                .unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "\n{} {}: {} errors, the first: {first}",
                row.scenario,
                row.route.name(),
                row.errors
            );
        }
    }
}

const HEAD: [&str; 10] = [
    "scenario",
    "route",
    "rate",
    "x direct",
    "x proxy (range)",
    "goal",
    "x proxy, CPU",
    "p50 us",
    "p99 us",
    "CPU us by role",
];

impl Row {
    fn new(cell: &MeasuredRound, all: &[MeasuredRound]) -> Self {
        let unit = cell.scenario.unit;
        let of = |figure: &dyn Fn(&Outcome) -> f64| {
            median(cell.rounds.iter().map(figure)).unwrap_or(f64::NAN)
        };
        let beside = |route| {
            all.iter()
                .find(|other| other.route == route && other.scenario.name == cell.scenario.name)
        };
        let to_proxy = beside(Route::Proxy).and_then(|proxy| Ratio::of(cell, proxy));
        let goal = to_proxy
            .filter(|_| cell.route == Route::Fairlead)
            .map(|ratio| {
                let least = unit.goal();
                SmokeGoal {
                    least,
                    met: ratio.median >= least,
                }
            });
        let roles = cell
            .rounds
            .first()
            .map(|outcome| outcome.cpu_us.keys().cloned().collect::<Vec<_>>())
            .unwrap_or_default();
        let cpu_us = roles.into_iter().map(|role| {
            let spent = of(&|outcome| {
                *outcome.cpu_us.get(&role).unwrap_or(&0) as f64 / unit.amount(outcome)
            });
            (role, spent)
        });
        Self {
            scenario: cell.scenario.name,
            route: cell.route,
            connections: cell.scenario.connections,
            unit,
            rate: of(&|outcome| unit.rate(outcome)),
            to_direct: beside(Route::Direct).and_then(|direct| Ratio::of(cell, direct)),
            to_proxy,
            goal,
            p50_us: of(&|outcome| outcome.p50_us),
            p99_us: of(&|outcome| outcome.p99_us),
            cpu_us: cpu_us.collect(),
            cpu_to_proxy: beside(Route::Proxy)
                .map(|proxy| cpu_per_unit(proxy) / cpu_per_unit(cell)),
            cores_used: of(&|outcome| cpu(outcome) / 1e6 / outcome.seconds),
            errors: cell.rounds.iter().map(|outcome| outcome.errors).sum(),
            rounds: cell.rounds.clone(),
        }
    }

    fn cells(&self) -> [String; HEAD.len()] {
        let ratio = |ratio: Option<Ratio>| {
            ratio.map_or(String::new(), |ratio| format!("{:.2}", ratio.median))
        };
        let to_proxy = match self.to_proxy.filter(|_| self.route == Route::Fairlead) {
            Some(ratio) => format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.low, ratio.high),
            None => ratio(self.to_proxy),
        };
        let goal = self.goal.map_or(String::new(), |goal| {
            format!(
                ">= {:.2} {}",
                goal.least,
                if goal.met { "met" } else { "MISSED" }
            )
        });
        let cpu = ROLES
            .iter()
            .filter_map(|role| Some(format!("{role} {:.1}", self.cpu_us.get(*role)?)));
        [
            self.scenario.to_owned(),
            self.route.name().to_owned(),
            format!("{:.0} {}", self.rate, self.unit.per_second()),
            ratio(self.to_direct),
            to_proxy,
            goal,
            self.cpu_to_proxy
                .filter(|_| self.route == Route::Fairlead)
                .map_or(String::new(), |ratio| format!("{ratio:.2}")),
            format!("{:.0}", self.p50_us),
            format!("{:.0}", self.p99_us),
            cpu.collect::<Vec<_>>().join(", "),
        ]
    }
}

/// Processor time of all roles, in microseconds.
fn cpu(outcome: &Outcome) -> f64 {
    outcome.cpu_us.values().sum::<u64>() as f64
}

fn cpu_per_unit(cell: &MeasuredRound) -> f64 {
    let unit = cell.scenario.unit;
    median(
        cell.rounds
            .iter()
            .map(|outcome| cpu(outcome) / unit.amount(outcome)),
    )
    .unwrap_or(f64::NAN)
}

/// Roles in the order of the request path.
const ROLES: [&str; 5] = ["load", "proxy", "hub", "agent", "upstream"];

impl Ratio {
    /// Computed per round, where both measurements had the same machine.
    fn of(cell: &MeasuredRound, other: &MeasuredRound) -> Option<Self> {
        let unit = cell.scenario.unit;
        let pairs = cell.rounds.iter().zip(&other.rounds);
        let ratios: Vec<f64> = pairs
            .map(|(one, other)| unit.rate(one) / unit.rate(other))
            .collect();
        let (low, high) = range(ratios.iter().copied())?;
        Some(Self {
            median: median(ratios)?,
            low,
            high,
        })
    }
}

#[cfg(test)]
mod tests;
