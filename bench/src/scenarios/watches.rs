//! A thousand watches through each peer, and an event for all of them. Peers are restarted in every round,
//! because allocators seldom return memory.

use std::time::Duration;

use anyhow::Context as _;

use super::{Metric, Pace, Sample, Title, goal::Goal};
use crate::{
    peers::{Bed, Kind, Link, Peer},
    watchers::WatchOutcome,
    way::Legs,
};

const EVENT_COUNT: u32 = 20;
const MEASURE_DEADLINE: Duration = Duration::from_secs(120);
const BYTES_PER_KIB: f64 = 1024.0;

#[derive(Debug, Clone)]
pub(crate) struct Watches {
    pub(crate) title: Title,
    count: u32,
}

impl Watches {
    pub(crate) fn of(count: u32) -> Self {
        let title = Title {
            name: format!("watch-{count}"),
            about: format!(
                "{count} watches, each over a connection of its own; an event is 1 KiB, and counts from when the upstream has it"
            ),
            metrics: vec![
                Metric::lower("all have it after", "ms"),
                Metric::lower("half have it after", "ms"),
                Metric::lower("hub + agent CPU", "us/watch and event"),
                Metric::lower("hub memory per watch", "KiB"),
                Metric::lower("agent memory per watch", "KiB"),
                Metric::lower("all open after", "s"),
            ],
            goals: vec![Goal::First],
        };
        Self { title, count }
    }

    /// # Errors
    /// The peer is missing, or carries fewer watches.
    pub(crate) async fn measure(
        &self,
        bed: &Bed<'_>,
        kind: Kind,
        pace: Pace,
    ) -> anyhow::Result<Sample> {
        let mut peer = Peer::start(kind, bed, Link::Straight).await?;
        let measured = self.heard(bed, &mut peer, pace).await;
        peer.end().await;
        Ok(self.sample(&measured?))
    }

    async fn heard(
        &self,
        bed: &Bed<'_>,
        peer: &mut Peer,
        pace: Pace,
    ) -> anyhow::Result<WatchOutcome> {
        let way = peer.way(Legs::Tls).context("there is no way")?.clone();
        let mut command = bed.launcher.bench("watch");
        command.args(way.args());
        command.args(["--upstream", &bed.upstream.plain_url]);
        command.args(["--watches", &self.count.to_string()]);
        let events = if pace.quick { 3 } else { EVENT_COUNT };
        command.args(["--events", &events.to_string()]);
        for process in peer.watched(bed)? {
            command.args(["--cpu", &process]);
        }
        let step = format!("watch {}", peer.kind.name());
        bed.launcher.output(&step, command, MEASURE_DEADLINE).await
    }

    fn sample(&self, heard: &WatchOutcome) -> Sample {
        let between = |role: &str| role == "hub" || role == "agent";
        let spent = heard.cpu_us.iter().filter(|(role, _)| between(role));
        let spent = spent.map(|(_, micros)| *micros).sum::<u64>() as f64;
        let memory = |role: &str| {
            let bytes = heard.memory.get(role)?;
            Some(*bytes as f64 / f64::from(self.count) / BYTES_PER_KIB)
        };
        Sample::some([
            Some(heard.all_us / 1000.0),
            Some(heard.half_us / 1000.0),
            Some(spent / heard.lines as f64),
            memory("hub"),
            memory("agent"),
            Some(heard.opened_s),
        ])
    }
}
