//! The order of a run. Scenarios that need their peers in the same state share a phase: all peers are started, measured in
//! turn in every round, and ended.

use std::io::Write as _;

use futures_util::future::join_all;

use crate::{
    peers::{Bed, Kind, Link, Peer},
    report::Report,
    scenarios::{
        Pace, Title,
        agents::Agents,
        recovery::{self, Recovery},
        steady::{self, Steady},
        stopped::{self, Stopped},
    },
};

/// What the agents' link is limited to in some scenarios, in bytes a second: 200 Mbit/s.
const SLOW: u64 = 25_000_000;

/// The core that everything shares, or all there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cores {
    One,
    All,
}

struct Phase {
    cores: Cores,
    link: Link,
    scenarios: Vec<Steady>,
}

pub(super) struct Phases {
    steady: Vec<Phase>,
    recovery: Vec<Recovery>,
    stopped: Option<Stopped>,
    agents: Vec<Agents>,
}

impl Phases {
    pub(super) fn chosen(only: &[String], agents: &[u16]) -> Self {
        let mut steady = vec![
            Phase {
                cores: Cores::One,
                link: Link::Straight,
                scenarios: steady::throughput(),
            },
            Phase {
                cores: Cores::All,
                link: Link::Straight,
                scenarios: steady::beside("full", "at full speed, on all cores"),
            },
            Phase {
                cores: Cores::All,
                link: Link::Relayed { rate: Some(SLOW) },
                scenarios: steady::beside("25m", "the agent's link limited to 25 MB/s each way"),
            },
        ];
        for phase in &mut steady {
            phase
                .scenarios
                .retain(|scenario| wanted(only, &scenario.title.name));
        }
        steady.retain(|phase| !phase.scenarios.is_empty());
        let mut recovery = recovery::all();
        recovery.retain(|scenario| wanted(only, &scenario.title.name));
        let mut agents: Vec<Agents> = agents.iter().copied().map(Agents::of).collect();
        agents.retain(|one| wanted(only, &one.idle.name) || wanted(only, &one.storm.name));
        let stopped = Some(stopped::scenario())
            .filter(|one| wanted(only, &one.others.name) || wanted(only, &one.memory.name));
        Self {
            steady,
            recovery,
            stopped,
            agents,
        }
    }

    fn titles(&self) -> impl Iterator<Item = &Title> {
        let steady = self.steady.iter().flat_map(|phase| &phase.scenarios);
        let recovery = self.recovery.iter().map(|scenario| &scenario.title);
        let stopped = self
            .stopped
            .iter()
            .flat_map(|one| [&one.others, &one.memory]);
        let agents = self.agents.iter().flat_map(|one| [&one.idle, &one.storm]);
        steady
            .map(|scenario| &scenario.title)
            .chain(recovery)
            .chain(stopped)
            .chain(agents)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.titles().next().is_none()
    }

    pub(super) fn list(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        for title in self.titles() {
            writeln!(out, "{:<28} {}", title.name, title.about)?;
        }
        Ok(())
    }

    pub(super) async fn measure(
        &self,
        pinned: &Bed<'_>,
        free: &Bed<'_>,
        kinds: &[Kind],
        pace: Pace,
        report: &mut Report,
    ) {
        for phase in &self.steady {
            let bed = match phase.cores {
                Cores::One => pinned,
                Cores::All => free,
            };
            phase.measure(bed, kinds, pace, report).await;
        }
        recover(&self.recovery, free, kinds, pace, report).await;
        if let Some(scenario) = &self.stopped {
            stop(scenario, free, kinds, pace, report).await;
        }
        for scenario in &self.agents {
            crowds(scenario, free, kinds, pace, report).await;
        }
    }
}

impl Phase {
    async fn measure(&self, bed: &Bed<'_>, kinds: &[Kind], pace: Pace, report: &mut Report) {
        for scenario in &self.scenarios {
            report.begin(&scenario.title);
        }
        let mut peers = Vec::new();
        for kind in kinds {
            // A slow link is between agent and hub, which these have not.
            if !kind.is_tunnel() && !matches!(self.link, Link::Straight) {
                continue;
            }
            match Peer::start(*kind, bed, self.link).await {
                Ok(peer) => peers.push(peer),
                Err(error) => absent(&self.scenarios, |one| &one.title, *kind, &error, report),
            }
        }
        for round in 0..=pace.rounds {
            for scenario in &self.scenarios {
                let mut turns: Vec<&mut Peer> = peers.iter_mut().collect();
                if round % 2 == 1 {
                    turns.reverse();
                }
                for peer in turns {
                    let kind = peer.kind;
                    let sample = scenario.measure(bed, peer, pace).await;
                    // The first round warms pools, caches and branch predictors, and is not counted.
                    if round > 0 || sample.is_err() {
                        report.take(&scenario.title, kind, sample);
                    }
                }
            }
        }
        for peer in peers {
            peer.end().await;
        }
    }
}

/// All peers side by side, started anew in every round, so that none has to live with what the round before did to it.
async fn recover(
    scenarios: &[Recovery],
    bed: &Bed<'_>,
    kinds: &[Kind],
    pace: Pace,
    report: &mut Report,
) {
    for scenario in scenarios {
        report.begin(&scenario.title);
    }
    let rounds = if scenarios.is_empty() { 0 } else { pace.rounds };
    for _ in 0..rounds {
        let mut peers = Vec::new();
        for kind in kinds.iter().copied().filter(|kind| kind.is_tunnel()) {
            match Peer::start(kind, bed, Link::Relayed { rate: None }).await {
                Ok(peer) => peers.push(peer),
                Err(error) => absent(scenarios, |one| &one.title, kind, &error, report),
            }
        }
        for scenario in scenarios {
            let all = peers.iter_mut().map(async |peer| {
                let kind = peer.kind;
                (kind, scenario.measure(bed, peer).await)
            });
            for (kind, sample) in join_all(all).await {
                report.take(&scenario.title, kind, sample);
            }
        }
        for peer in peers {
            peer.end().await;
        }
    }
}

/// Each peer for itself, with one hub and a process full of agents.
async fn crowds(scenario: &Agents, bed: &Bed<'_>, kinds: &[Kind], pace: Pace, report: &mut Report) {
    report.begin(&scenario.idle);
    report.begin(&scenario.storm);
    for _ in 0..pace.rounds {
        for kind in kinds.iter().copied().filter(|kind| kind.is_tunnel()) {
            let (idle, storm) = match scenario.measure(bed, kind, pace.calm).await {
                Ok((idle, storm)) => (Ok(idle), storm),
                // The same reason for both.
                Err(error) => (Err(anyhow::anyhow!("{error:#}")), Err(error)),
            };
            report.take(&scenario.idle, kind, idle);
            report.take(&scenario.storm, kind, storm);
        }
    }
}

async fn stop(scenario: &Stopped, bed: &Bed<'_>, kinds: &[Kind], pace: Pace, report: &mut Report) {
    report.begin(&scenario.others);
    report.begin(&scenario.memory);
    for _ in 0..pace.rounds {
        for kind in kinds.iter().copied().filter(|kind| kind.is_tunnel()) {
            let (others, memory) = match stopped::measure(bed, kind, pace).await {
                Ok(both) => both,
                Err(error) => (Err(anyhow::anyhow!("{error:#}")), Err(error)),
            };
            report.take(&scenario.others, kind, others);
            report.take(&scenario.memory, kind, memory);
        }
    }
}

fn absent<S>(
    scenarios: &[S],
    title: fn(&S) -> &Title,
    kind: Kind,
    error: &anyhow::Error,
    report: &mut Report,
) {
    for scenario in scenarios {
        report.absent(title(scenario), kind, error);
    }
}

/// A whole name, or its first words.
fn wanted(only: &[String], name: &str) -> bool {
    only.is_empty()
        || only.iter().any(|prefix| {
            let rest = name.strip_prefix(prefix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_chosen_by_its_name_or_its_first_words() {
        let only = ["get-1k-c1".to_owned(), "recover".to_owned()];
        assert!(wanted(&only, "get-1k-c1") && wanted(&only, "recover-cut"));
        assert!(!wanted(&only, "get-1k-c16") && !wanted(&only, "idle-1000"));
        assert!(wanted(&[], "idle-1000"));
    }
}
