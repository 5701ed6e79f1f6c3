//! Contents of `results.json`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    machine::Machine,
    peers::Kind,
    scenarios::{Sample, Title},
    stats::{median, range},
    way::Legs,
};

/// Facts about the whole run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReportHead {
    /// Commit of the checkout, with `-dirty` where files were changed.
    pub(super) commit: Option<String>,
    /// Day on which the run started, UTC.
    pub(super) day: String,
    pub(super) machine: Machine,
    /// The core to which every role was pinned where throughput was measured.
    pub(super) core: Option<usize>,
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) legs: Legs,
    /// Programs of peers that the user gave; nothing pins their versions.
    #[serde(default)]
    pub(super) given: Vec<String>,
    /// `true` if the run was not aborted.
    pub(super) whole: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunReport {
    #[serde(flatten)]
    pub(super) head: ReportHead,
    pub(super) scenarios: Vec<Scenario>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Scenario {
    #[serde(flatten)]
    pub(super) title: Title,
    pub(super) rows: Vec<Row>,
    pub(super) verdicts: Vec<Verdict>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) peer: Kind,
    /// Reason why there are no figures.
    pub(super) absent: Option<String>,
    /// One sample per counted round; empty where the round failed.
    pub(super) rounds: Vec<Sample>,
    pub(super) figures: Vec<Option<ReportFigure>>,
    /// Ratio of Fairlead's first figure to this one's; above 1 where Fairlead is better.
    pub(super) fairlead: Option<ReportFigure>,
}

/// Median, lowest and highest of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ReportFigure {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl ReportFigure {
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let (low, high) = range(values.iter().copied())?;
        Some(Self {
            median: median(values.iter().copied())?,
            low,
            high,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) goal: String,
    /// The figure that the goal refers to.
    pub(super) measured: String,
    pub(super) is: Is,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Is {
    Met,
    /// Missed by less than the rounds differ from each other.
    Level,
    Missed,
    /// A peer that the goal refers to was not measured.
    Open,
}

impl fmt::Display for Is {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Met => "met",
            Self::Level => "level",
            Self::Missed => "**missed**",
            Self::Open => "not measured",
        })
    }
}

impl Scenario {
    pub(super) fn of(&self, peer: Kind) -> Option<&Row> {
        self.rows.iter().find(|row| row.peer == peer)
    }
}

impl Row {
    pub(super) fn figure(&self, metric: usize) -> Option<ReportFigure> {
        let rounds = self.rounds.iter();
        let values: Vec<f64> = rounds
            .filter_map(|sample| sample.figures.get(metric).copied().flatten())
            .collect();
        ReportFigure::of(&values)
    }

    /// Median of that figure.
    pub(super) fn median(&self, metric: usize) -> Option<f64> {
        let figure = self.figures.get(metric).copied().flatten();
        figure.map(|figure| figure.median)
    }
}
