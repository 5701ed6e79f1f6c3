//! The long Markdown table: a section per scenario, a row per peer, and the results of its goals.

use std::fmt::Write as _;

use super::{
    model::{ReportFigure, ReportHead, Row, RunReport, Scenario, Verdict},
    number::{number, one_line},
};
use crate::{machine::Machine, way::Legs};

impl RunReport {
    /// Renders all figures.
    pub(crate) fn table(&self) -> String {
        let mut text = self.head.lines();
        for scenario in &self.scenarios {
            scenario.section(&mut text);
        }
        text
    }
}

impl ReportHead {
    pub(super) fn lines(&self) -> String {
        let Machine { cpu, cores, kernel } = &self.machine;
        let core = self.core.map_or(String::new(), |core| {
            format!(" Where throughput is measured, every role runs on core {core}.")
        });
        let given = match &*self.given {
            [] => String::new(),
            all => format!(" Programs from `BENCH_PEERS`: {}.", all.join(", ")),
        };
        let legs = match self.legs {
            Legs::Tls => "TLS",
            Legs::Plain => "plain",
        };
        let commit = match &self.commit {
            Some(commit) => format!("Commit `{commit}`, {}", self.day),
            None => self.day.clone(),
        };
        let whole = if self.whole {
            ""
        } else {
            " **This run has not come to its end.**"
        };
        format!(
            "{commit}.{whole} {cpu}, {cores} cores, Linux {kernel}. Medians of {} rounds of {} s, lowest and highest behind them. Clients and the \
             upstream speak {legs}, hub and agent TLS.{core}{given} `Fairlead x` is Fairlead's first figure to the row's, the median of \
             the ratios of each round: above 1 where Fairlead is better.\n",
            self.rounds, self.seconds
        )
    }
}

impl Scenario {
    fn section(&self, text: &mut String) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n## {}\n\n{}.\n", self.title.name, self.title.about);
        let metrics = &self.title.metrics;
        let heads: String = metrics
            .iter()
            .map(|metric| format!(" {}, {} |", metric.name, metric.unit))
            .collect();
        let _ = writeln!(text, "| |{heads} Fairlead x |");
        let _ = writeln!(text, "|---|{}---:|", "---:|".repeat(metrics.len()));
        for row in &self.rows {
            let _ = writeln!(text, "{}", row.line(metrics.len()));
        }
        for row in &self.rows {
            row.remarks(text);
        }
        for Verdict { goal, measured, is } in &self.verdicts {
            let _ = writeln!(text, "\n- goal, {goal}: {measured}, {is}");
        }
    }
}

impl Row {
    fn line(&self, metrics: usize) -> String {
        let name = self.peer.name();
        if self.figures.iter().all(Option::is_none) {
            return format!("| {name} |{} |", " - |".repeat(metrics));
        }
        let cells: String = (0..metrics)
            .map(|metric| {
                let figure = self.figures.get(metric).copied().flatten();
                format!(" {} |", figure.map_or("-".to_owned(), cell))
            })
            .collect();
        let ratio = self.fairlead.map_or(String::new(), cell);
        format!("| {name} |{cells} {ratio} |")
    }

    fn remarks(&self, text: &mut String) {
        let name = self.peer.name();
        let why = self.absent.iter().map(String::as_str);
        let mut said = why
            .chain(
                self.rounds
                    .iter()
                    .filter_map(|round| round.remark.as_deref()),
            )
            .map(one_line)
            .collect::<Vec<_>>();
        said.dedup();
        // The first remarks are enough; the JSON holds all of them.
        for remark in said.iter().take(3) {
            let _ = writeln!(text, "\n- {name}: {remark}");
        }
    }
}

fn cell(figure: ReportFigure) -> String {
    let ReportFigure { median, low, high } = figure;
    if low.to_bits() == high.to_bits() {
        number(median)
    } else {
        format!("{} ({}-{})", number(median), number(low), number(high))
    }
}
