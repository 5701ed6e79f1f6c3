//! What is wanted of Fairlead's figures, as data beside the scenarios, so that the table itself says what is met and what is
//! missed.

use serde::{Deserialize, Serialize};

use super::Metric;
use crate::peers::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "is")]
pub(crate) enum Goal {
    /// The first figure is at least as good as that of every other tunnel.
    First,
    /// The first figure is at least so many times as good as this one's.
    Times { of: Kind, least: f64 },
    /// This figure is at most so much.
    Most { figure: usize, value: f64 },
    /// This figure is at least so much.
    Least { figure: usize, value: f64 },
    /// This figure is at most so much more than that of direct access.
    Added { figure: usize, most: f64 },
}

impl Goal {
    pub(crate) const fn times(of: Kind, least: f64) -> Self {
        Self::Times { of, least }
    }

    pub(crate) const fn most(figure: usize, value: f64) -> Self {
        Self::Most { figure, value }
    }

    /// For people.
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
