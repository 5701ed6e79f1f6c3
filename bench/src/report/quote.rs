//! Tables for a README: the first figure of each scenario for all peers in one row, and the results of the
//! goals.

use std::fmt::Write as _;

use super::{
    model::{Is, RunReport, Scenario},
    number::{number, one_line},
};
use crate::{peers::Kind, scenarios::Better};

impl RunReport {
    pub(crate) fn quote(&self) -> String {
        let mut text = self.head.lines();
        text.push_str(
            "\nThe first figure of each scenario; in brackets, how many times as good Fairlead is as that peer, the median of the \
             ratios of each round.\n\n",
        );
        let peers: Vec<Kind> = Kind::ALL
            .into_iter()
            .filter(|peer| self.has(*peer))
            .collect();
        self.figures(&peers, &mut text);
        self.goals(&mut text);
        self.missing(&mut text);
        text
    }

    /// `true` if the peer has any figure.
    fn has(&self, peer: Kind) -> bool {
        let mut rows = self.scenarios.iter().filter_map(|one| one.of(peer));
        rows.any(|row| row.figures.iter().any(Option::is_some))
    }

    fn figures(&self, peers: &[Kind], text: &mut String) {
        let heads: String = peers
            .iter()
            .map(|peer| format!(" {} |", peer.name()))
            .collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| scenario | figure |{heads}");
        let _ = writeln!(text, "|---|---|{}", "---:|".repeat(peers.len()));
        for scenario in &self.scenarios {
            let cells: String = peers
                .iter()
                .map(|peer| format!(" {} |", scenario.cell(*peer)))
                .collect();
            let figure = scenario.title.metrics.first().map(|metric| {
                let better = match metric.better {
                    Better::Higher => "more is better",
                    Better::Lower => "less is better",
                };
                format!("{}, {}; {better}", metric.name, metric.unit)
            });
            let figure = figure.unwrap_or_default();
            let _ = writeln!(text, "| {} | {figure} |{cells}", scenario.title.name);
        }
    }

    fn goals(&self, text: &mut String) {
        let all = self.scenarios.iter().flat_map(|one| &one.verdicts);
        let (mut met, mut judged) = (0, 0);
        for verdict in all {
            met += usize::from(verdict.is == Is::Met);
            judged += usize::from(verdict.is != Is::Open);
        }
        let _ = writeln!(
            text,
            "\n{met} of {judged} goals are met. Level: missed by less than the difference between rounds.\n"
        );
        let _ = writeln!(text, "| scenario | goal | measured | |");
        let _ = writeln!(text, "|---|---|---|---|");
        for scenario in &self.scenarios {
            for verdict in &scenario.verdicts {
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {} |",
                    scenario.title.name, verdict.goal, verdict.measured, verdict.is
                );
            }
        }
    }

    /// Lists peers without a figure and the reason. A peer without any figure is listed once.
    fn missing(&self, text: &mut String) {
        let _ = writeln!(text);
        for peer in Kind::ALL {
            let mut said: Vec<(String, Vec<&str>)> = Vec::new();
            for scenario in &self.scenarios {
                let Some(row) = scenario.of(peer) else {
                    continue;
                };
                if row.median(0).is_some() {
                    continue;
                }
                let remarks = row.rounds.iter().filter_map(|round| round.remark.as_ref());
                let why = row.absent.iter().chain(remarks).next();
                let why = why.map_or("it has no figure".to_owned(), |why| one_line(why));
                let name = scenario.title.name.as_str();
                match said.iter_mut().find(|(before, _)| *before == why) {
                    Some((_, names)) => names.push(name),
                    None => said.push((why, vec![name])),
                }
            }
            for (why, names) in said {
                let place = if self.has(peer) || peer == Kind::Fairlead {
                    format!(" in {}", names.join(", "))
                } else {
                    String::new()
                };
                let _ = writeln!(text, "- {}{place}: {why}", peer.name());
            }
        }
    }
}

impl Scenario {
    fn cell(&self, peer: Kind) -> String {
        let Some(median) = self.of(peer).and_then(|row| row.median(0)) else {
            return "-".to_owned();
        };
        let times = self.of(peer).and_then(|row| row.fairlead);
        match (peer, times) {
            (Kind::Fairlead, _) => format!("**{}**", number(median)),
            (_, Some(times)) => format!("{} ({:.2})", number(median), times.median),
            (_, None) => number(median),
        }
    }
}
