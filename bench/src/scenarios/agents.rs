//! Idle agents: memory and processor time of a hub with thousands of them, and the time until all have
//! reconnected after an outage of the hub. Peers are measured one after the other.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::time::{self, Instant};

use super::{Metric, Sample, Title, goal::Goal};
use crate::{
    load::cpu,
    peers::{Bed, Crowd, Kind, PeerPart},
    proc,
};

const BYTES_PER_KIB: f64 = 1024.0;
const BYTES_PER_MIB: f64 = 1024.0 * BYTES_PER_KIB;
/// Time until a hub without agents is idle, and has given back the pages that only its start used.
const SETTLE_TIME: Duration = Duration::from_secs(15);
/// Deadline until all agents are connected for the first time, including their registration.
const JOIN_DEADLINE: Duration = Duration::from_secs(300);
/// Deadline until all agents have reconnected.
const RECONNECT_DEADLINE: Duration = Duration::from_secs(60);
/// Interval between two counts of the agents, and its minimum as a multiple of the duration of a count. A
/// count costs a hub with thousands of agents much processor time, which is measured as well.
const COUNT_INTERVAL: Duration = Duration::from_millis(50);
const MIN_INTERVAL_FACTOR: u32 = 10;
const OUTAGE_TIME: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(crate) struct Agents {
    pub(crate) idle: Title,
    pub(crate) storm: Title,
    count: u16,
}

/// Time until agents are idle, and the time during which they are then observed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calm {
    pub(crate) settle: Duration,
    pub(crate) watch: Duration,
}

impl Agents {
    pub(crate) fn of(count: u16) -> Self {
        let (memory, cpu) = match count {
            ..=1000 => (24.0, 400.0),
            _ => (20.0, 450.0),
        };
        Self {
            idle: Title {
                name: format!("idle-{count}"),
                about: format!(
                    "{count} agents that nobody asks anything, all in one process where it may have so many files open"
                ),
                metrics: vec![
                    Metric::lower("hub memory per agent", "KiB"),
                    Metric::lower("hub CPU", "ms/s"),
                    Metric::lower("agents' memory per agent", "KiB"),
                    Metric::lower("agents' CPU", "ms/s"),
                    Metric::lower("hub without agents", "MiB"),
                ],
                goals: vec![Goal::First, Goal::most(0, memory)],
            },
            storm: Title {
                name: format!("storm-{count}"),
                about: format!(
                    "the hub of {count} agents is killed and comes back after {} s: time until all are back, and its processor time until then",
                    OUTAGE_TIME.as_secs()
                ),
                metrics: vec![
                    Metric::lower("all back after", "s"),
                    Metric::lower("half back after", "s"),
                    Metric::lower("hub CPU per agent", "us"),
                ],
                goals: vec![Goal::First, Goal::most(0, 5.0), Goal::most(2, cpu)],
            },
            count,
        }
    }

    /// Approximate duration, for agents that connect and reconnect at a thousand per two seconds.
    pub(crate) fn takes(&self, calm: Calm) -> Duration {
        const START_TIME: Duration = Duration::from_secs(3);
        let joining = Duration::from_millis(4) * u32::from(self.count);
        START_TIME + joining + calm.settle + calm.watch + OUTAGE_TIME
    }

    /// Measures both samples; the second is an error if not all agents reconnect.
    ///
    /// # Errors
    /// The peer is missing, or not all agents connect.
    pub(crate) async fn measure(
        &self,
        bed: &Bed<'_>,
        kind: Kind,
        calm: Calm,
    ) -> anyhow::Result<(Sample, anyhow::Result<Sample>)> {
        let mut crowd = Crowd::of(kind, bed, self.count)?;
        let measured = self.both(bed, &mut crowd, calm).await;
        for agents in &mut crowd.agents {
            agents.kill();
        }
        crowd.hub.end().await;
        measured
    }

    async fn both(
        &self,
        bed: &Bed<'_>,
        crowd: &mut Crowd,
        calm: Calm,
    ) -> anyhow::Result<(Sample, anyhow::Result<Sample>)> {
        let per_agent = f64::from(self.count);
        crowd.hub.start(bed.launcher)?;
        crowd.hub.listening(crowd.port).await?;
        time::sleep(SETTLE_TIME).await;
        let hub = crowd.hub.pid()?;
        let empty = proc::memory(hub)? as f64;
        let own = proc::anonymous_memory(hub)? as f64;

        for agents in &mut crowd.agents {
            agents.start(bed.launcher)?;
        }
        let agents = crowd.agents.iter().map(PeerPart::pid);
        let agents: Vec<u32> = agents.collect::<anyhow::Result<_>>()?;
        let (_, there) = self.all(crowd, JOIN_DEADLINE).await?;
        if there.is_none() {
            let step = format!("wait until all are there; {} are", crowd.there().await);
            let agents = crowd.agents.first();
            return Err(agents.context("there are no agents")?.failed(&step));
        }
        time::sleep(calm.settle).await;

        let spent = |before: (u64, u64), after: (u64, u64)| {
            let seconds = calm.watch.as_secs_f64();
            let rate =
                |before: u64, after: u64| (after - before.min(after)) as f64 / 1000.0 / seconds;
            (rate(before.0, after.0), rate(before.1, after.1))
        };
        let now = || {
            let theirs = agents.iter().map(|pid| cpu::of(&pid.to_string()));
            anyhow::Ok((
                cpu::of(&hub.to_string())?,
                theirs.sum::<anyhow::Result<u64>>()?,
            ))
        };
        let before = now()?;
        time::sleep(calm.watch).await;
        let (hub_cpu, agents_cpu) = spent(before, now()?);
        let memory = (proc::anonymous_memory(hub)? as f64 - own) / per_agent / BYTES_PER_KIB;
        let theirs = agents.iter().map(|&pid| proc::memory(pid));
        let theirs = theirs.sum::<anyhow::Result<u64>>()? as f64 / per_agent / BYTES_PER_KIB;
        let idle = Sample::of([memory, hub_cpu, theirs, agents_cpu, empty / BYTES_PER_MIB]);
        Ok((idle, self.storm(bed, crowd).await))
    }

    async fn storm(&self, bed: &Bed<'_>, crowd: &mut Crowd) -> anyhow::Result<Sample> {
        crowd.hub.kill();
        time::sleep(OUTAGE_TIME).await;
        let begin = Instant::now();
        crowd.hub.start(bed.launcher)?;
        let (half, all) = self.all(crowd, RECONNECT_DEADLINE).await?;
        let spent = cpu::of(&crowd.hub.pid()?.to_string())? as f64 / f64::from(self.count);
        let after = |at: Option<Instant>| at.map(|at| (at - begin).as_secs_f64());
        let remark = match all {
            Some(_) => None,
            None => Some(format!(
                "{} of {} are back after {RECONNECT_DEADLINE:?}",
                crowd.there().await,
                self.count
            )),
        };
        Ok(Sample {
            figures: vec![after(all), after(half), all.map(|_| spent)],
            remark,
        })
    }

    /// Times at which half of the agents and all of them were connected.
    async fn all(
        &self,
        crowd: &mut Crowd,
        limit: Duration,
    ) -> anyhow::Result<(Option<Instant>, Option<Instant>)> {
        let end = Instant::now() + limit;
        let count = u64::from(self.count);
        let mut half = None;
        loop {
            crowd.hub.alive().context("the hub ended")?;
            for agents in &mut crowd.agents {
                agents.alive().context("the agents ended")?;
            }
            let asked = Instant::now();
            let there = crowd.there().await;
            let now = Instant::now();
            if there >= count.div_ceil(2) {
                half.get_or_insert(now);
            }
            if there >= count {
                return Ok((half, Some(now)));
            }
            if now > end {
                ensure!(there > 0, "no agent is there");
                return Ok((half, None));
            }
            time::sleep(COUNT_INTERVAL.max(MIN_INTERVAL_FACTOR * (now - asked))).await;
        }
    }
}
