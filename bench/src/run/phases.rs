//! Phases of a run: their scenarios, order and duration.

use std::{io::Write as _, time::Duration};

use anyhow::ensure;

use super::{
    anew,
    stage::Stage,
    turns::{self, RunTurns},
};
use crate::{
    peers::Kind,
    scenarios::{
        Pace, Title,
        agents::Agents,
        recovery::{self, Recovery},
        stopped::{self, Stopped},
        watches::Watches,
    },
};

enum Phase {
    Turns(RunTurns),
    Watches(Watches),
    Recovery(Vec<Recovery>),
    Stopped(Stopped),
    Agents(Agents),
}

pub(super) struct Phases(Vec<Phase>);

impl Phases {
    pub(super) fn chosen(only: &[String], agents: &[u16], watches: &[u32]) -> Self {
        let mut phases: Vec<Phase> = turns::all().into_iter().map(Phase::Turns).collect();
        phases.extend(watches.iter().copied().map(Watches::of).map(Phase::Watches));
        phases.push(Phase::Recovery(recovery::all()));
        phases.push(Phase::Stopped(stopped::scenario()));
        phases.extend(agents.iter().copied().map(Agents::of).map(Phase::Agents));
        for phase in &mut phases {
            match phase {
                Phase::Turns(turns) => turns.scenarios.retain(|one| wanted(only, &one.title)),
                Phase::Recovery(all) => all.retain(|one| wanted(only, &one.title)),
                // Always measured as a whole, even for a single figure.
                Phase::Watches(_) | Phase::Stopped(_) | Phase::Agents(_) => {}
            }
        }
        phases.retain(|phase| phase.titles().iter().any(|title| wanted(only, title)));
        Self(phases)
    }

    /// Refuses a name in `only` that chooses nothing: such a run would measure less than was asked.
    pub(super) fn check_names(&self, only: &[String]) -> anyhow::Result<()> {
        let titles: Vec<&Title> = self.0.iter().flat_map(Phase::titles).collect();
        for name in only {
            ensure!(
                titles.iter().any(|title| has_words(title, name)),
                "--only {name}: no scenario is called that or begins with these words; `--list` without `--only` names all"
            );
        }
        Ok(())
    }

    pub(super) fn list(&self, kinds: &[Kind], pace: Pace) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        for phase in &self.0 {
            let minutes = phase.takes(kinds, pace).as_secs_f64() / 60.0;
            for (place, title) in phase.titles().into_iter().enumerate() {
                let minutes = match place {
                    0 => format!("{minutes:>5.1} min"),
                    _ => " ".repeat(9),
                };
                writeln!(out, "{minutes}  {:<28} {}", title.name, title.about)?;
            }
        }
        let all = self.takes(kinds, pace).as_secs_f64() / 60.0;
        writeln!(out, "{all:>5.1} min  in all, about")?;
        Ok(())
    }

    /// Approximate duration of the whole run.
    pub(super) fn takes(&self, kinds: &[Kind], pace: Pace) -> Duration {
        let phases = self.0.iter();
        phases.map(|phase| phase.takes(kinds, pace)).sum()
    }

    pub(super) async fn measure(&self, stage: &mut Stage<'_>) {
        for phase in &self.0 {
            match phase {
                Phase::Turns(turns) => turns.measure(stage).await,
                Phase::Watches(scenario) => anew::watch(scenario, stage).await,
                Phase::Recovery(all) => anew::recover(all, stage).await,
                Phase::Stopped(scenario) => anew::stop(scenario, stage).await,
                Phase::Agents(scenario) => anew::crowds(scenario, stage).await,
            }
        }
    }
}

impl Phase {
    fn titles(&self) -> Vec<&Title> {
        match self {
            Self::Turns(turns) => turns.titles(),
            Self::Watches(scenario) => vec![&scenario.title],
            Self::Recovery(all) => all.iter().map(|one| &one.title).collect(),
            Self::Stopped(scenario) => scenario.titles().into(),
            Self::Agents(scenario) => vec![&scenario.idle, &scenario.storm],
        }
    }

    fn takes(&self, kinds: &[Kind], pace: Pace) -> Duration {
        let tunnels = kinds.iter().filter(|kind| kind.is_tunnel()).count();
        let tunnels_u32 = u32::try_from(tunnels).unwrap_or(u32::MAX);
        match self {
            Self::Turns(turns) => turns.takes(kinds, pace),
            Self::Watches(_) => anew::watches_take(kinds.len()) * pace.rounds,
            Self::Recovery(all) => anew::recovery_takes(all, pace.rounds),
            Self::Stopped(_) => anew::stopped_takes(tunnels, pace.seconds) * pace.rounds,
            Self::Agents(scenario) => scenario.takes(pace.calm) * tunnels_u32 * pace.rounds,
        }
    }
}

/// `true` if `only` contains the name or its first words.
fn wanted(only: &[String], title: &Title) -> bool {
    only.is_empty() || only.iter().any(|words| has_words(title, words))
}

/// `true` if the name is `words`, or has them as its first words.
fn has_words(title: &Title, words: &str) -> bool {
    let rest = title.name.strip_prefix(words);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<String> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let phases = Phases::chosen(&only, &[1000], &[1000]);
        let titles = phases.0.iter().flat_map(Phase::titles);
        titles.map(|title| title.name.clone()).collect()
    }

    #[test]
    fn scenario_is_chosen_by_its_name_or_its_first_words() {
        assert_eq!(names(&["get-1k-c1"]), ["get-1k-c1"]);
        assert_eq!(
            names(&["wan-20ms", "list"]),
            [
                "list-5000-pods",
                "wan-20ms-down",
                "wan-20ms-up",
                "wan-20ms-get"
            ]
        );
        assert_eq!(names(&["idle"]), ["idle-1000", "storm-1000"]);
        assert!(names(&["nothing"]).is_empty());
    }

    #[test]
    fn name_that_chooses_nothing_is_refused_beside_others() {
        let check = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            Phases::chosen(&only, &[1000], &[1000]).check_names(&only)
        };
        assert!(check(&[]).is_ok());
        assert!(check(&["get-1k-c1", "down"]).is_ok());
        let refused = check(&["down", "get-1k-c"]).unwrap_err().to_string();
        assert!(refused.contains("--only get-1k-c:"), "{refused}");
        assert!(check(&["idle-5000"]).is_err());
    }

    #[test]
    fn no_two_scenarios_have_the_same_name_and_each_has_a_goal() {
        let all = Phases::chosen(&[], &[1000, 5000], &[100, 1000]);
        let titles: Vec<&Title> = all.0.iter().flat_map(Phase::titles).collect();
        let mut names: Vec<&str> = titles.iter().map(|title| title.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), titles.len());
        assert!(titles.iter().all(|title| !title.goals.is_empty()));
    }
}
