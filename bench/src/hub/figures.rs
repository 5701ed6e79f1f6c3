//! Measured values with their goals, each an upper bound.

use std::fmt::Write as _;

use serde::Serialize;

use super::measure::MeasuredCalls;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// Store of the hub, or the measured part.
    setup: &'static str,
    figure: String,
    value: f64,
    unit: &'static str,
    /// Upper bound.
    goal: Option<f64>,
    met: Option<bool>,
}

/// Figures of one setup.
pub(crate) struct Figures {
    setup: &'static str,
    all: Vec<Figure>,
}

impl Figures {
    pub(crate) fn of(setup: &'static str) -> Self {
        Figures {
            setup,
            all: Vec::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        figure: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: Option<f64>,
    ) {
        let figure = Figure {
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

    /// Adds the hub's processor time and the latencies of an operation.
    pub(crate) fn operation(
        &mut self,
        what: &str,
        it: &MeasuredCalls,
        cpu: Option<f64>,
        p99: Option<f64>,
    ) {
        self.add(format!("{what}: CPU"), it.cpu_ms, "ms", cpu);
        self.add(format!("{what}: p50"), it.ms(0.5), "ms", None);
        self.add(format!("{what}: p99"), it.ms(0.99), "ms", p99);
    }

    pub(crate) fn into_all(self) -> Vec<Figure> {
        self.all
    }
}

/// Renders a Markdown table.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut table = String::from(
        "| setup | figure | measured | goal | ratio | met |\n|---|---|--:|--:|--:|---|\n",
    );
    for it in figures {
        let goal = it.goal.map(|goal| with_unit(goal, it.unit));
        let ratio = it.goal.filter(|goal| *goal != 0.0);
        let ratio = ratio.map(|goal| format!("{:.2}", it.value / goal));
        let met = match it.met {
            None => "",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {met} |",
            it.setup,
            it.figure,
            with_unit(it.value, it.unit),
            goal.unwrap_or_default(),
            ratio.unwrap_or_default()
        );
    }
    table
}

fn with_unit(value: f64, unit: &str) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let number = match value.abs() {
        whole if whole == whole.trunc() && whole < 1e6 => format!("{whole:.0}"),
        other => short(other),
    };
    format!("{sign}{number} {unit}").trim_end().to_owned()
}

/// At most three significant digits.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_ratios_and_whether_goals_are_met() {
        let mut figures = Figures::of("sqlite");
        figures.add("get: CPU", 0.05, "ms", Some(0.1));
        figures.add("get: p50", 12.34, "ms", None);
        figures.add("memory", 151.2, "MB", Some(150.0));
        figures.add("rows", 0.0, "", Some(0.0));
        figures.add("CPU", -0.25, "%", None);
        let table = table(&figures.into_all());
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| sqlite | get: CPU | 0.050 ms | 0.100 ms | 0.50 | yes |",
                "| sqlite | get: p50 | 12.3 ms |  |  |  |",
                "| sqlite | memory | 151 MB | 150 MB | 1.01 | **no** |",
                "| sqlite | rows | 0 | 0 |  | yes |",
                "| sqlite | CPU | -0.250 % |  |  |  |",
            ]
        );
    }
}
