//! What is measured: scenarios in groups, each with its figures and its goals. A scenario gives one sample for each peer and
//! round, or says why there is none.

pub(crate) mod agents;
pub(crate) mod far;
pub(crate) mod goal;
pub(crate) mod recovery;
pub(crate) mod steady;
pub(crate) mod stopped;
pub(crate) mod watches;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::goal::Goal;
use crate::way::Legs;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Those that count.
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
    pub(crate) legs: Legs,
    /// How long agents are left alone, and then watched.
    pub(crate) calm: agents::Calm,
    /// Only to see that all works: what has its own times takes the shortest.
    pub(crate) quick: bool,
}

/// One figure of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub(crate) name: Cow<'static, str>,
    pub(crate) unit: Cow<'static, str>,
    pub(crate) better: Better,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Metric {
    pub(crate) const fn higher(name: &'static str, unit: &'static str) -> Self {
        Self::new(name, unit, Better::Higher)
    }

    pub(crate) const fn lower(name: &'static str, unit: &'static str) -> Self {
        Self::new(name, unit, Better::Lower)
    }

    const fn new(name: &'static str, unit: &'static str, better: Better) -> Self {
        let (name, unit) = (Cow::Borrowed(name), Cow::Borrowed(unit));
        Self { name, unit, better }
    }
}

/// What a scenario is called, its figures and what is wanted of them; the first figure is the one that ratios and plots are
/// about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Title {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) goals: Vec<Goal>,
}

/// The figures of one peer in one round, in the order of the metrics; `None` where there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) figures: Vec<Option<f64>>,
    /// What went wrong on the way, or what else is worth knowing.
    pub(crate) remark: Option<String>,
}

impl Sample {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        Self::some(figures.into_iter().map(Some))
    }

    /// A quotient of nothing is no figure.
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
