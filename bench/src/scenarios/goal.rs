//! Goals of Fairlead's figures, as data, so that the table itself reports them as met or missed.

use serde::{Deserialize, Serialize};

use super::metric::Metric;
use crate::peers::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "is")]
pub(crate) enum Goal {
    /// The first figure is at least as good as that of every other tunnel.
    First,
    /// The first figure is at least this many times as good as the other peer's.
    Times { of: Kind, least: f64 },
    /// Upper bound of a figure.
    Most { figure: usize, value: f64 },
    /// Lower bound of a figure.
    Least { figure: usize, value: f64 },
    /// Upper bound of a figure's excess over that of direct access.
    Added { figure: usize, most: f64 },
}

impl Goal {
    pub(crate) const fn times(of: Kind, least: f64) -> Self {
        Self::Times { of, least }
    }

    pub(crate) const fn most(figure: usize, value: f64) -> Self {
        Self::Most { figure, value }
    }

    /// The goal as a phrase for the report.
    pub(crate) fn said(&self, metrics: &[Metric]) -> String {
        let named = |figure: usize| {
            let metric = metrics.get(figure);
            metric.map_or(("", ""), |metric| (&*metric.name, &*metric.unit))
        };
        match *self {
            Self::First => format!("{}: first of all tunnels", named(0).0),
            Self::Times { of, least } => {
                format!("{}: at least {least} x {}'s", named(0).0, of.name())
            }
            Self::Most { figure, value } => {
                let (name, unit) = named(figure);
                format!("{name}: at most {value} {unit}")
            }
            Self::Least { figure, value } => {
                let (name, unit) = named(figure);
                format!("{name}: at least {value} {unit}")
            }
            Self::Added { figure, most } => {
                let (name, unit) = named(figure);
                format!("{name}: at most {most} {unit} more than direct")
            }
        }
    }
}
