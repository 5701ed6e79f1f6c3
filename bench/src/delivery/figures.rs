//! Measured values of delivery with their goals, each an upper bound.

use std::fmt::Write as _;

use serde::Serialize;

use crate::registry::figures::short;

#[derive(Debug, Clone, Serialize)]
pub(super) struct DeliveryFigure {
    /// Store of the hub, or `agent`.
    setup: &'static str,
    figure: String,
    value: f64,
    unit: &'static str,
    /// Upper bound.
    goal: Option<f64>,
    met: Option<bool>,
}

/// Figures of one setup.
pub(super) struct DeliveryFigures {
    setup: &'static str,
    all: Vec<DeliveryFigure>,
}

impl DeliveryFigures {
    pub(super) fn of(setup: &'static str) -> Self {
        DeliveryFigures {
            setup,
            all: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        figure: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: Option<f64>,
    ) {
        let figure = DeliveryFigure {
            setup: self.setup,
            figure: figure.into(),
            value,
            unit,
            goal,
            met: goal.map(|goal| value <= goal),
        };
        eprintln!("  {}: {}", figure.figure, with_unit(value, unit));
        self.all.push(figure);
    }

    pub(super) fn into_all(self) -> Vec<DeliveryFigure> {
        self.all
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let number = match value.abs() {
        whole if whole == whole.trunc() && whole < 1e6 => format!("{whole:.0}"),
        other => short(other),
    };
    format!("{sign}{number} {unit}").trim_end().to_owned()
}

/// Renders a Markdown table.
pub(super) fn table(figures: &[DeliveryFigure]) -> String {
    let mut table =
        String::from("| setup | figure | measured | goal | met |\n|---|---|--:|--:|---|\n");
    for it in figures {
        let goal = it.goal.map(|goal| with_unit(goal, it.unit));
        let met = match it.met {
            None => "",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {met} |",
            it.setup,
            it.figure,
            with_unit(it.value, it.unit),
            goal.unwrap_or_default()
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_met_and_missed_goals() {
        let mut figures = DeliveryFigures::of("sqlite");
        figures.add("memory", 151.2, "MB", Some(150.0));
        figures.add("rows", 0.0, "", Some(0.0));
        figures.add("CPU", -0.25, "%", None);
        let table = table(&figures.into_all());
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| sqlite | memory | 151 MB | 150 MB | **no** |",
                "| sqlite | rows | 0 | 0 | yes |",
                "| sqlite | CPU | -0.250 % |  |  |",
            ]
        );
    }
}
