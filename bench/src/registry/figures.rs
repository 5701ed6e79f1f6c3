//! Measured values, their goals, and the ratio of the two.

use std::fmt::Write as _;

use serde::Serialize;

use super::measure::MeasuredRegistry;

#[derive(Debug, Clone, Serialize)]
pub(super) struct RegistryFigure {
    pub(super) store: &'static str,
    pub(super) what: String,
    pub(super) unit: &'static str,
    pub(super) value: f64,
    pub(super) goal: Option<f64>,
}

/// Figures of one store.
pub(super) struct Figures {
    store: &'static str,
    all: Vec<RegistryFigure>,
}

impl Figures {
    pub(super) fn of(store: &'static str) -> Self {
        Figures {
            store,
            all: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: Option<f64>,
    ) {
        let figure = RegistryFigure {
            store: self.store,
            what: what.into(),
            unit,
            value,
            goal,
        };
        eprintln!("  {}: {} {unit}", figure.what, short(value));
        self.all.push(figure);
    }

    /// Adds the hub's processor time and the latencies of an operation.
    pub(super) fn operation(
        &mut self,
        what: &str,
        it: &MeasuredRegistry,
        cpu: Option<f64>,
        p99: Option<f64>,
    ) {
        self.add(format!("{what}: CPU"), it.cpu_ms, "ms", cpu);
        self.add(format!("{what}: p50"), it.ms(0.5), "ms", None);
        self.add(format!("{what}: p99"), it.ms(0.99), "ms", p99);
    }

    pub(super) fn into_all(self) -> Vec<RegistryFigure> {
        self.all
    }
}

/// Renders a Markdown table.
pub(super) fn table(figures: &[RegistryFigure]) -> String {
    let mut table =
        String::from("| store | figure | measured | goal | ratio |\n|---|---|--:|--:|--:|\n");
    for it in figures {
        let goal = it
            .goal
            .map_or(String::new(), |goal| format!("{} {}", short(goal), it.unit));
        let ratio = it
            .goal
            .map_or(String::new(), |goal| format!("{:.2}", it.value / goal));
        let value = format!("{} {}", short(it.value), it.unit);
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {} | {} | {value} | {goal} | {ratio} |",
            it.store, it.what
        );
    }
    table
}

/// At most three significant digits.
pub(crate) fn short(value: f64) -> String {
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
    fn table_shows_the_ratio_of_each_figure_to_its_goal() {
        let mut figures = Figures::of("sqlite");
        figures.add("get: CPU", 0.05, "ms", Some(0.1));
        figures.add("get: p50", 12.34, "ms", None);
        let table = table(&figures.into_all());
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| sqlite | get: CPU | 0.050 ms | 0.100 ms | 0.50 |",
                "| sqlite | get: p50 | 12.3 ms |  |  |",
            ]
        );
    }
}
