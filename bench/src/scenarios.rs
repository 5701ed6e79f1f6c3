//! Scenarios in groups, each with its figures and its goals. A scenario returns one sample per peer and
//! round, or the reason why there is none.

pub(crate) mod agents;
pub(crate) mod far;
pub(crate) mod goal;
mod metric;
pub(crate) mod recovery;
pub(crate) mod steady;
pub(crate) mod stopped;
pub(crate) mod tcp;
pub(crate) mod watches;

use serde::{Deserialize, Serialize};

use self::goal::Goal;
pub(crate) use self::metric::{Better, Metric};
use crate::way::Legs;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Counted rounds.
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
    pub(crate) legs: Legs,
    /// Times during which agents are idle and observed.
    pub(crate) calm: agents::Calm,
    /// Checks only that everything works: scenarios with their own durations use the shortest.
    pub(crate) quick: bool,
}

/// Name, figures and goals of a scenario. Ratios and plots use the first figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Title {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) goals: Vec<Goal>,
}

/// Figures of one peer in one round, in the order of the metrics; `None` where there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) figures: Vec<Option<f64>>,
    /// A failure on the way, or another fact for the reader.
    pub(crate) remark: Option<String>,
}

impl Sample {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        Self::some(figures.into_iter().map(Some))
    }

    /// A sample from figures that may be missing. A division by zero is no figure.
    pub(crate) fn some(figures: impl IntoIterator<Item = Option<f64>>) -> Self {
        let figures = figures.into_iter();
        Self {
            figures: figures
                .map(|figure| figure.filter(|figure| figure.is_finite()))
                .collect(),
            remark: None,
        }
    }
}
