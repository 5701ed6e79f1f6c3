//! Phases of scenarios that need their peers in the same state: all peers are started, measured in turn in
//! every round, and ended.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time;

use super::stage::Stage;
use crate::{
    apiserver::BenchApiServer,
    network::BenchNetwork,
    peers::{Bed, Kind, Link, Peer},
    scenarios::{
        Title,
        far::Path,
        steady::{self, Steady},
        tcp,
    },
};

/// Rate of the agents' link in some scenarios, in bytes per second (200 Mbit/s).
const SLOW_BYTES_PER_SECOND: u64 = 25_000_000;
/// Approximate seconds to start a peer.
const START_SECONDS: f64 = 1.5;
/// Approximate seconds to start and fill a real API server, or to build a network.
const BUILD_SECONDS: f64 = 15.0;

/// Placement of hub, agent and upstream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Placement {
    /// All on one core.
    One,
    /// All on the same two cores.
    Two,
    /// On all cores.
    All,
    /// On all cores, with a rate-limited link of the agent.
    Slow,
    /// On all cores, with a real API server.
    Real,
    /// Agent and upstream behind a far link.
    Far(Path),
}

impl Placement {
    fn takes(self, kind: Kind) -> bool {
        match self {
            Self::One | Self::Two | Self::All | Self::Real => true,
            // Only tunnels have a link between agent and hub that can be slow.
            Self::Slow => kind.is_tunnel(),
            Self::Far(_) => kind != Kind::Proxy,
        }
    }

    /// Number of the first round. Round 0 warms pools, caches and branch predictors and is not counted; far
    /// links need none.
    fn first_round(self) -> u32 {
        u32::from(matches!(self, Self::Far(_)))
    }
}

pub(super) struct RunTurns {
    pub(super) place: Placement,
    pub(super) scenarios: Vec<Steady>,
}

impl RunTurns {
    pub(super) fn titles(&self) -> Vec<&Title> {
        self.scenarios.iter().map(|one| &one.title).collect()
    }

    /// Approximate duration.
    pub(super) fn takes(&self, kinds: &[Kind], pace: crate::scenarios::Pace) -> Duration {
        let peers = kinds.iter().filter(|kind| self.place.takes(**kind)).count() as f64;
        let rounds = f64::from(pace.rounds + 1 - self.place.first_round());
        let building = match self.place {
            Placement::Real | Placement::Far(_) => BUILD_SECONDS,
            _ => 0.0,
        };
        let all = building + START_SECONDS * peers + rounds * self.round_takes(peers, pace);
        Duration::from_secs_f64(all)
    }

    fn round_takes(&self, peers: f64, pace: crate::scenarios::Pace) -> f64 {
        let times = |scenario: &Steady| if scenario.together { 1.0 } else { peers };
        let rest = self.rest().as_secs_f64();
        let all = self.scenarios.iter();
        all.map(|one| times(one) * (one.takes(pace) + rest)).sum()
    }

    fn rest(&self) -> Duration {
        match self.place {
            Placement::Far(path) => path.rest(),
            _ => Duration::ZERO,
        }
    }

    pub(super) async fn measure(&self, stage: &mut Stage<'_>) {
        for scenario in &self.scenarios {
            stage.report.begin(&scenario.title);
        }
        let (pinned, free) = (stage.pinned, stage.free);
        let measured = match self.place {
            Placement::One => self.on(pinned, Link::Straight, stage).await,
            Placement::Two => self.on_two_cores(stage).await,
            Placement::All => self.on(free, Link::Straight, stage).await,
            Placement::Slow => {
                let slow = Link::Relayed {
                    rate: Some(SLOW_BYTES_PER_SECOND),
                };
                self.on(free, slow, stage).await
            }
            Placement::Real => self.before_a_real_server(stage).await,
            Placement::Far(path) => self.far_away(path, stage).await,
        };
        if let Err(error) = measured {
            stage.absent(&self.titles(), stage.kinds, &error);
        }
    }

    async fn on_two_cores(&self, stage: &mut Stage<'_>) -> anyhow::Result<()> {
        let launcher = stage.pinned.launcher.with_another_core()?;
        let folder = stage.folder("two-cores")?;
        let bed = Bed::make(&launcher, &folder, stage.built.clone()).await?;
        let bed = bed.with_legs(stage.pace.legs);
        self.on(&bed, Link::Straight, stage).await
    }

    async fn before_a_real_server(&self, stage: &mut Stage<'_>) -> anyhow::Result<()> {
        let server = BenchApiServer::start().await?;
        let folder = stage.folder("real")?;
        let launcher = stage.free.launcher;
        let bed = Bed::make(launcher, &folder, stage.built.clone()).await?;
        let bed = bed.before(server.server()?);
        self.on(&bed, Link::Straight, stage).await
    }

    async fn far_away(&self, path: Path, stage: &mut Stage<'_>) -> anyhow::Result<()> {
        let folder = stage.folder(path.name())?;
        let network = BenchNetwork::build(&folder).await?;
        let launcher = stage.free.launcher.between(network.sides());
        // This thread, and with it its own connections and commands, moves to the hub's side.
        let inside = network.enter()?;
        let bed = Bed::make(&launcher, &folder, stage.built.clone()).await?;
        let bed = bed.with_legs(stage.pace.legs);
        network.join(bed.upstream_ports()?)?;
        network.shape(path.shape())?;
        let measured = self.on(&bed, Link::Straight, stage).await;
        drop(inside);
        measured
    }

    async fn on(&self, bed: &Bed<'_>, link: Link, stage: &mut Stage<'_>) -> anyhow::Result<()> {
        let kinds = stage.kinds.iter().copied();
        let kinds: Vec<Kind> = kinds.filter(|kind| self.place.takes(*kind)).collect();
        let mut peers = Vec::new();
        for kind in kinds {
            let started = if self.scenarios.iter().any(Steady::is_tcp) {
                Peer::start_for_tcp(kind, bed).await
            } else {
                Peer::start(kind, bed, link).await
            };
            match started {
                Ok(peer) => peers.push(peer),
                Err(error) => stage.absent(&self.titles(), &[kind], &error),
            }
        }
        let first = self.place.first_round();
        let rounds = stage.pace.rounds;
        let planned = self.takes(stage.present, stage.pace) / (rounds + 1 - first);
        for round in first..=rounds {
            for scenario in &self.scenarios {
                stage.round(round, &scenario.title.name);
                if round % 2 == 1 {
                    peers.sort_by_key(|peer| std::cmp::Reverse(peer.kind as u8));
                } else {
                    peers.sort_by_key(|peer| peer.kind as u8);
                }
                self.turn(scenario, bed, &mut peers, round, stage).await;
            }
            stage.keep(planned);
        }
        for peer in peers {
            peer.end().await;
        }
        Ok(())
    }

    /// Measures all peers, in turn or in parallel.
    async fn turn(
        &self,
        scenario: &Steady,
        bed: &Bed<'_>,
        peers: &mut [Peer],
        round: u32,
        stage: &mut Stage<'_>,
    ) {
        let pace = stage.pace;
        let samples = if scenario.together {
            let all = peers.iter_mut();
            let all = all.map(async |peer| (peer.kind, scenario.measure(bed, peer, pace).await));
            join_all(all).await
        } else {
            let mut samples = Vec::new();
            for peer in peers {
                samples.push((peer.kind, scenario.measure(bed, peer, pace).await));
                time::sleep(self.rest()).await;
            }
            samples
        };
        for (kind, sample) in samples {
            match sample {
                Err(error) if round == 0 => stage.absent(&[&scenario.title], &[kind], &error),
                Ok(_) if round == 0 => {}
                counted => stage.report.take(&scenario.title, kind, counted),
            }
        }
    }
}

pub(super) fn all() -> Vec<RunTurns> {
    let of = |place, scenarios| RunTurns { place, scenarios };
    let mut all = vec![
        of(Placement::One, steady::throughput()),
        of(Placement::One, tcp::scenarios()),
        of(Placement::Two, steady::two_cores()),
        of(
            Placement::All,
            steady::beside("full", "at full speed, on all cores", [300.0, 1500.0]),
        ),
        of(
            Placement::Slow,
            steady::beside(
                "25m",
                "the agent's link limited to 25 MB/s each way",
                [3000.0, 5000.0],
            ),
        ),
        of(Placement::Real, steady::lists()),
    ];
    let far = crate::scenarios::far::PATHS;
    all.extend(far.map(|path| of(Placement::Far(path), path.scenarios())));
    all
}
