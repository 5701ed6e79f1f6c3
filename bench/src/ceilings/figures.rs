//! Figures per request, their ceilings, and the verdict.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::profile::Profile;
use crate::stats::median;

/// Ceilings as multiples of the figures that they were made from. Instructions and allocations repeat closely. The other counts depend on
/// how events meet, and on the time of a run: a busy machine gives up to a tenth more.
const INSTRUCTION_RATIO: f64 = 1.03;
const ALLOCATION_RATIO: f64 = 1.05;
const EVENT_RATIO: f64 = 1.15;
/// Steps to which ceilings are rounded up.
const INSTRUCTION_STEP: f64 = 500.0;
const COUNT_STEP: f64 = 0.5;

/// What one request makes one process do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figures {
    instructions: f64,
    allocations: f64,
    system_calls: f64,
    clock_reads: f64,
    task_polls: f64,
    swaps: f64,
    locked: f64,
}

impl Figures {
    pub(super) fn per_request(profile: &Profile, requests: usize) -> Self {
        let requests = u32::try_from(requests).map_or(f64::INFINITY, f64::from);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a count of one run has fewer than 53 bits"
        )]
        let each = |count: u64| count as f64 / requests;
        Self {
            instructions: each(profile.instructions),
            allocations: each(profile.allocations),
            system_calls: each(profile.system_calls),
            clock_reads: each(profile.clock_reads),
            task_polls: each(profile.task_polls),
            swaps: each(profile.swaps),
            locked: each(profile.locked),
        }
    }

    fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("instructions", self.instructions),
            ("allocations", self.allocations),
            ("system calls", self.system_calls),
            ("clock reads", self.clock_reads),
            ("task polls", self.task_polls),
            ("atomic swaps", self.swaps),
            ("locked instructions", self.locked),
        ]
    }

    /// Medians of each figure.
    fn median_of(counts: &[Self]) -> Self {
        let middle = |figure: fn(&Self) -> f64| median(counts.iter().map(figure)).unwrap_or(0.0);
        Self {
            instructions: middle(|it| it.instructions),
            allocations: middle(|it| it.allocations),
            system_calls: middle(|it| it.system_calls),
            clock_reads: middle(|it| it.clock_reads),
            task_polls: middle(|it| it.task_polls),
            swaps: middle(|it| it.swaps),
            locked: middle(|it| it.locked),
        }
    }

    fn ceiling(&self) -> Self {
        let above = |figure: f64, ratio: f64, step: f64| (figure * ratio / step).ceil() * step;
        let event = |figure: f64| above(figure, EVENT_RATIO, COUNT_STEP);
        Self {
            instructions: above(self.instructions, INSTRUCTION_RATIO, INSTRUCTION_STEP),
            allocations: above(self.allocations, ALLOCATION_RATIO, COUNT_STEP),
            system_calls: event(self.system_calls),
            clock_reads: event(self.clock_reads),
            task_polls: event(self.task_polls),
            swaps: event(self.swaps),
            locked: event(self.locked),
        }
    }
}

/// Figures by process and number of clients.
type Table = BTreeMap<String, BTreeMap<usize, Figures>>;

/// Figures of each count.
#[derive(Debug, Default)]
pub(super) struct Measured(BTreeMap<String, BTreeMap<usize, Vec<Figures>>>);

impl Measured {
    pub(super) fn insert(&mut self, role: &str, clients: usize, figures: Figures) {
        let rows = self.0.entry(role.to_owned()).or_default();
        rows.entry(clients).or_default().push(figures);
    }

    fn medians(&self) -> Table {
        let medians = |rows: &BTreeMap<usize, Vec<Figures>>| {
            let rows = rows.iter();
            rows.map(|(clients, counts)| (*clients, Figures::median_of(counts)))
                .collect()
        };
        let roles = self.0.iter();
        roles
            .map(|(role, rows)| (role.clone(), medians(rows)))
            .collect()
    }
}

/// Highest figures that pass.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Ceilings(Table);

impl Ceilings {
    pub(super) fn of(measured: &Measured) -> Self {
        let mut table = measured.medians();
        for figures in table.values_mut().flat_map(BTreeMap::values_mut) {
            *figures = figures.ceiling();
        }
        Self(table)
    }

    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// A table of figures with their ceilings, and a line for each figure above its ceiling.
    ///
    /// # Errors
    /// A figure has no ceiling.
    pub(super) fn judge(&self, measured: &Measured) -> anyhow::Result<(String, Vec<String>)> {
        let mut table = String::from(
            "| process | clients | instructions | allocations | system calls | clock reads | task polls | atomic swaps | locked instructions |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        let mut exceeded = Vec::new();
        for (role, rows) in &measured.medians() {
            for (clients, figures) in rows {
                let ceiling = self.0.get(role).and_then(|rows| rows.get(clients));
                let ceiling =
                    ceiling.with_context(|| format!("no ceiling for {role} at {clients}"))?;
                table.push_str(&format!("| {role} | {clients} |"));
                for ((name, figure), (_, most)) in figures.named().into_iter().zip(ceiling.named())
                {
                    let digits = usize::from(figure < 1000.0);
                    table.push_str(&format!(" {figure:.digits$} of {most} |"));
                    if figure > most {
                        exceeded.push(format!(
                            "{name} of the {role} at {clients} clients: {figure:.1}, ceiling {most}"
                        ));
                    }
                }
                table.push('\n');
            }
        }
        Ok((table, exceeded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(instructions: u64) -> Measured {
        let profile = Profile {
            instructions,
            allocations: 500,
            system_calls: 40,
            clock_reads: 30,
            task_polls: 20,
            swaps: 100,
            locked: 300,
        };
        let mut measured = Measured::default();
        measured.insert("hub", 16, Figures::per_request(&profile, 10));
        measured
    }

    #[test]
    fn figure_above_its_ceiling_is_named() {
        let ceilings = Ceilings::of(&measured(1_000_000));
        let (table, exceeded) = ceilings.judge(&measured(1_000_000)).unwrap();
        assert!(
            exceeded.is_empty() && table.contains("| hub | 16 | 100000 of 103000 | 50.0 of 52.5 |"),
            "{table}"
        );
        let (_, exceeded) = ceilings.judge(&measured(1_040_000)).unwrap();
        assert_eq!(
            exceeded,
            ["instructions of the hub at 16 clients: 104000.0, ceiling 103000"]
        );
    }

    #[test]
    fn one_count_with_other_work_exceeds_nothing() {
        let ceilings = Ceilings::of(&measured(1_000_000));
        let mut counts = measured(1_000_000);
        for other in [1_000_000, 3_000_000] {
            let other = measured(other).0.remove("hub").unwrap();
            let rows = counts.0.get_mut("hub").unwrap();
            rows.get_mut(&16).unwrap().extend(other.get(&16).unwrap());
        }
        assert!(ceilings.judge(&counts).unwrap().1.is_empty());
    }

    #[test]
    fn missing_ceiling_is_an_error() {
        assert!(Ceilings(Table::new()).judge(&measured(1)).is_err());
    }
}
