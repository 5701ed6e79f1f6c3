//! Out of samples: medians, ranges and ratios, as JSON, as a Markdown table, and as plots. A ratio is taken within a round,
//! where neighbours in time had the same machine, and then the median of rounds.

mod plot;
mod table;

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use crate::{
    machine::Machine,
    peers::Kind,
    scenarios::{Better, Sample, Title},
    stats::{median, range},
    way::Legs,
};

/// What holds for the whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Head {
    machine: Machine,
    /// The one core that every role was bound to where throughput was measured.
    core: Option<usize>,
    rounds: u32,
    seconds: f64,
    legs: Legs,
}

impl Head {
    pub(crate) fn new(rounds: u32, seconds: f64, legs: Legs, core: Option<usize>) -> Self {
        let machine = Machine::this();
        Self {
            machine,
            core,
            rounds,
            seconds,
            legs,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    head: Head,
    scenarios: Vec<Scenario>,
}

#[derive(Debug, Serialize)]
struct Scenario {
    #[serde(flatten)]
    title: Title,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    peer: Kind,
    /// Why there are no figures.
    absent: Option<String>,
    rounds: Vec<Sample>,
    figures: Vec<Option<Figure>>,
    /// Fairlead's first figure to this one's, above 1 where Fairlead is better.
    fairlead: Option<Figure>,
}

/// Median, lowest and highest of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Figure {
    median: f64,
    low: f64,
    high: f64,
}

impl Figure {
    fn of(values: &[f64]) -> Option<Self> {
        let (low, high) = range(values.iter().copied())?;
        Some(Self {
            median: median(values.iter().copied())?,
            low,
            high,
        })
    }
}

impl Report {
    pub(crate) fn new(head: Head) -> Self {
        let scenarios = Vec::new();
        Self { head, scenarios }
    }

    /// Makes room for a scenario; the table keeps this order.
    pub(crate) fn begin(&mut self, title: &Title) {
        eprintln!("== {}: {}", title.name, title.about);
        self.scenarios.push(Scenario {
            title: title.clone(),
            rows: Vec::new(),
        });
    }

    /// The figures of a round, or why there are none.
    pub(crate) fn take(&mut self, title: &Title, peer: Kind, sample: anyhow::Result<Sample>) {
        match sample {
            Ok(sample) => self.add(title, peer, sample),
            Err(error) => self.absent(title, peer, &error),
        }
    }

    fn add(&mut self, title: &Title, peer: Kind, sample: Sample) {
        let (first, unit) = title.metrics.first().map_or(("", ""), |m| (m.name, m.unit));
        let figure = sample.figures.first().copied().flatten();
        eprintln!(
            "{:<26} {:<13} {first} {} {unit}  {}",
            title.name,
            peer.name(),
            figure.map_or("-".to_owned(), table::number),
            sample.remark.as_deref().unwrap_or_default()
        );
        if let Some(row) = self.row(title, peer) {
            row.rounds.push(sample);
        }
    }

    /// A peer that cannot do a scenario stands there with the reason, and without figures where it has none.
    pub(crate) fn absent(&mut self, title: &Title, peer: Kind, why: &anyhow::Error) {
        eprintln!("{:<26} {:<13} {why:#}", title.name, peer.name());
        if let Some(row) = self.row(title, peer) {
            row.absent.get_or_insert_with(|| format!("{why:#}"));
        }
    }

    fn row(&mut self, title: &Title, peer: Kind) -> Option<&mut Row> {
        let mut scenarios = self.scenarios.iter_mut();
        let scenario = scenarios.find(|scenario| scenario.title.name == title.name)?;
        let place = scenario.rows.iter().position(|row| row.peer == peer);
        let place = place.unwrap_or_else(|| {
            scenario.rows.push(Row {
                peer,
                absent: None,
                rounds: Vec::new(),
                figures: Vec::new(),
                fairlead: None,
            });
            scenario.rows.len() - 1
        });
        scenario.rows.get_mut(place)
    }

    /// Medians, ranges and ratios of what has been added; rows in the order of peers.
    pub(crate) fn finish(&mut self) {
        for scenario in &mut self.scenarios {
            let order = |row: &Row| Kind::ALL.iter().position(|kind| *kind == row.peer);
            scenario.rows.sort_by_key(order);
            let main = |row: &Row| -> Vec<Option<f64>> {
                let rounds = row.rounds.iter();
                rounds
                    .map(|sample| sample.figures.first().copied().flatten())
                    .collect()
            };
            let better = scenario.title.metrics.first().map(|metric| metric.better);
            let fairlead = scenario
                .rows
                .iter()
                .find(|row| row.peer == Kind::Fairlead)
                .map(main);
            for row in &mut scenario.rows {
                let count = scenario.title.metrics.len();
                row.figures = (0..count).map(|metric| row.figure(metric)).collect();
                if let (Some(fairlead), Some(better)) = (&fairlead, better)
                    && row.peer != Kind::Fairlead
                {
                    row.fairlead = ratio(fairlead, &main(row), better);
                }
            }
        }
    }

    /// `results.json`, `table.md` and a plot of each scenario.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let write = |name: &str, bytes: &[u8]| {
            let file = folder.join(name);
            std::fs::write(&file, bytes).with_context(|| format!("writing {}", file.display()))
        };
        write("results.json", &serde_json::to_vec_pretty(self)?)?;
        write("table.md", self.table().as_bytes())?;
        plot::draw(self, &folder.join("plots"))
    }
}

impl Row {
    fn figure(&self, metric: usize) -> Option<Figure> {
        let rounds = self.rounds.iter();
        let values: Vec<f64> = rounds
            .filter_map(|sample| sample.figures.get(metric).copied().flatten())
            .collect();
        Figure::of(&values)
    }
}

fn ratio(fairlead: &[Option<f64>], other: &[Option<f64>], better: Better) -> Option<Figure> {
    let pairs = fairlead.iter().zip(other);
    let ratios: Vec<f64> = pairs
        .filter_map(|(fairlead, other)| {
            let (fairlead, other) = ((*fairlead)?, (*other)?);
            let ratio = match better {
                Better::Higher => fairlead / other,
                Better::Lower => other / fairlead,
            };
            ratio.is_finite().then_some(ratio)
        })
        .collect();
    Figure::of(&ratios)
}

#[cfg(test)]
mod tests;
