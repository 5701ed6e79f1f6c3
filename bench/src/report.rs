//! Reports: medians, ranges, ratios and results of the goals, as JSON, Markdown tables and plots.
//!
//! A ratio is computed within each round, where both measurements had the same machine. The reported ratio is
//! the median over rounds.

mod model;
mod number;
pub(crate) mod page;
mod plot;
mod quote;
mod table;
mod verdict;

use fairlead_runtime::atomic_file;
use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use time::{OffsetDateTime, macros::format_description};

use self::model::{Is, ReportFigure, Row, Scenario};
pub(crate) use self::model::{ReportHead, RunReport};
use crate::{
    machine::Machine,
    peers::Kind,
    scenarios::{Better, Sample, Title},
    way::Legs,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// `results.json` of a run, complete or not
    results: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = || format!("reading {}", args.results.display());
    let text = std::fs::read(&args.results).with_context(file)?;
    let mut report: RunReport = serde_json::from_slice(&text).with_context(file)?;
    report.finish();
    Ok(write!(std::io::stdout().lock(), "{}", report.quote())?)
}

impl ReportHead {
    pub(crate) fn new(rounds: u32, seconds: f64, legs: Legs, core: Option<usize>) -> Self {
        let day = OffsetDateTime::now_utc().format(format_description!("[year]-[month]-[day]"));
        Self {
            commit: commit(),
            day: day.unwrap_or_default(),
            machine: Machine::this(),
            core,
            rounds,
            seconds,
            legs,
            given: Vec::new(),
            whole: false,
        }
    }

    pub(crate) fn with_given(self, given: Vec<String>) -> Self {
        Self { given, ..self }
    }
}

fn commit() -> Option<String> {
    let git = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output();
    let said = git.ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8_lossy(&said).trim().to_owned())
}

impl RunReport {
    pub(crate) fn new(head: ReportHead) -> Self {
        let scenarios = Vec::new();
        Self { head, scenarios }
    }

    /// Adds a scenario. The table keeps this order.
    pub(crate) fn begin(&mut self, title: &Title) {
        eprintln!("== {}: {}", title.name, title.about);
        self.scenarios.push(Scenario {
            title: title.clone(),
            rows: Vec::new(),
            verdicts: Vec::new(),
        });
    }

    /// Adds the figures of a counted round, or the reason why there are none.
    pub(crate) fn take(&mut self, title: &Title, peer: Kind, sample: anyhow::Result<Sample>) {
        let sample = sample.unwrap_or_else(|error| {
            eprintln!("{:<26} {:<13} {error:#}", title.name, peer.name());
            self.absent(title, peer, &error);
            // Keeps the place, so that ratios stay within their rounds.
            Sample::of([])
        });
        if !sample.figures.is_empty() {
            let (first, unit) = match title.metrics.first() {
                Some(metric) => (&*metric.name, &*metric.unit),
                None => ("", ""),
            };
            let figure = sample.figures.first().copied().flatten();
            eprintln!(
                "{:<26} {:<13} {first} {} {unit}  {}",
                title.name,
                peer.name(),
                figure.map_or("-".to_owned(), number::number),
                sample.remark.as_deref().unwrap_or_default()
            );
        }
        if let Some(row) = self.row(title, peer) {
            row.rounds.push(sample);
        }
    }

    /// Records the reason why a peer cannot do a scenario.
    pub(crate) fn absent(&mut self, title: &Title, peer: Kind, why: &anyhow::Error) {
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

    /// `true` if no goal is missed.
    pub(crate) fn passed(&self) -> bool {
        let mut verdicts = self.scenarios.iter().flat_map(|one| &one.verdicts);
        verdicts.all(|verdict| verdict.is != Is::Missed)
    }

    /// Computes medians, ranges, ratios and results of goals. Rows are in the order of peers.
    fn finish(&mut self) {
        self.scenarios.iter_mut().for_each(Scenario::finish);
    }

    /// Writes `results.json` with everything measured so far, in case the run is aborted later.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(&mut self, folder: &Path) -> anyhow::Result<()> {
        self.finish();
        let file = folder.join("results.json");
        atomic_file::replace(&file, &serde_json::to_vec_pretty(self)?, 0o644)
            .with_context(|| format!("writing {}", file.display()))
    }

    /// Writes the complete report: also `table.md`, `readme.md` and a plot of each scenario.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write(&mut self, folder: &Path) -> anyhow::Result<()> {
        self.head.whole = true;
        self.save(folder)?;
        for (name, text) in [("table.md", self.table()), ("readme.md", self.quote())] {
            let file = folder.join(name);
            std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        plot::draw(self, &folder.join("plots"))
    }
}

impl Scenario {
    fn finish(&mut self) {
        let order = |row: &Row| Kind::ALL.iter().position(|kind| *kind == row.peer);
        self.rows.sort_by_key(order);
        let main = |row: &Row| -> Vec<Option<f64>> {
            let rounds = row.rounds.iter();
            rounds
                .map(|sample| sample.figures.first().copied().flatten())
                .collect()
        };
        let better = self.title.metrics.first().map(|metric| metric.better);
        let fairlead = self.of(Kind::Fairlead).map(main);
        for row in &mut self.rows {
            let count = self.title.metrics.len();
            row.figures = (0..count).map(|metric| row.figure(metric)).collect();
            if let (Some(fairlead), Some(better)) = (&fairlead, better)
                && row.peer != Kind::Fairlead
            {
                row.fairlead = ratio(fairlead, &main(row), better);
            }
        }
        self.verdicts = verdict::of(self);
    }
}

fn ratio(fairlead: &[Option<f64>], other: &[Option<f64>], better: Better) -> Option<ReportFigure> {
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
    ReportFigure::of(&ratios)
}

#[cfg(test)]
mod tests;
