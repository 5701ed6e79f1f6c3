//! What is measured: scenarios in groups, each with its figures. A scenario gives one sample for each peer and round, or says
//! why there is none.

pub(crate) mod agents;
pub(crate) mod recovery;
pub(crate) mod steady;
pub(crate) mod stopped;

use serde::Serialize;

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
}

/// One figure of a scenario.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Metric {
    pub(crate) const fn higher(name: &'static str, unit: &'static str) -> Self {
        let better = Better::Higher;
        Self { name, unit, better }
    }

    pub(crate) const fn lower(name: &'static str, unit: &'static str) -> Self {
        let better = Better::Lower;
        Self { name, unit, better }
    }
}

/// What a scenario is called, and its figures; the first is the one that ratios and plots are about.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Title {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) metrics: Vec<Metric>,
}

/// The figures of one peer in one round, in the order of the metrics; `None` where there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Sample {
    pub(crate) figures: Vec<Option<f64>>,
    /// What went wrong on the way, or what else is worth knowing.
    pub(crate) remark: Option<String>,
}

impl Sample {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        Self {
            figures: figures.into_iter().map(Some).collect(),
            remark: None,
        }
    }
}
