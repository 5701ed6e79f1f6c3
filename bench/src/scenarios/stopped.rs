//! Clients that stop reading in the middle of a body: the effect of one on other clients, and the memory for
//! eight of them.
//!
//! Peers are restarted in every round, because some never recover. Their memory at rest is measured as well.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time;

use super::{
    Metric, Pace, Sample, Title,
    goal::Goal,
    steady::{LatencySpan, Traffic, load},
};
use crate::{
    load::{Outcome, Target},
    peers::{Bed, Kind, Link, Peer, PeerPart},
    proc,
    way::Legs,
};

const REQUESTS_OF_OTHERS: u32 = 200;
const STOPPED_READERS: u32 = 8;
/// Time until every buffer on the path is full.
const FILL_TIME: Duration = Duration::from_secs(3);
const BEGIN_DEADLINE: Duration = Duration::from_secs(10);
const MEASURE_DEADLINE: Duration = Duration::from_secs(90);
/// Time from a start until a peer counts as at rest.
const REST_TIME: Duration = Duration::from_secs(15);
const BYTES_PER_KIB: f64 = 1024.0;
const BYTES_PER_MB: f64 = 1e6;

#[derive(Debug, Clone)]
pub(crate) struct Stopped {
    pub(crate) rest: Title,
    pub(crate) others: Title,
    pub(crate) memory: Title,
}

pub(crate) fn scenario() -> Stopped {
    Stopped {
        rest: Title {
            name: "rest".to_owned(),
            about: "one hub and one agent, 15 s after their start, that nobody has asked anything but whether they work"
                .to_owned(),
            metrics: vec![
                Metric::lower("agent memory", "MB"),
                Metric::lower("hub memory", "MB"),
            ],
            goals: vec![Goal::First, Goal::most(0, 10.0)],
        },
        others: Title {
            name: "stopped-others".to_owned(),
            about: format!(
                "{REQUESTS_OF_OTHERS} clients that GET 1 KiB, closed loop, beside one that has stopped reading an endless body, against the same without it"
            ),
            metrics: vec![
                Metric::higher("rate beside it", "x without"),
                Metric::lower("p99 beside it", "us"),
                Metric::lower("p99 without", "us"),
            ],
            goals: vec![Goal::First],
        },
        memory: Title {
            name: "stopped-memory".to_owned(),
            about: format!("{STOPPED_READERS} clients that have stopped reading an endless body"),
            metrics: vec![
                Metric::lower("hub memory per reader", "KiB"),
                Metric::lower("agent memory per reader", "KiB"),
            ],
            goals: vec![Goal::First, Goal::most(0, 1.3 * BYTES_PER_KIB)],
        },
    }
}

impl Stopped {
    pub(crate) fn titles(&self) -> [&Title; 3] {
        [&self.rest, &self.others, &self.memory]
    }
}

/// Samples at rest, for other clients and for memory, in the order of the titles.
pub(crate) type All = [anyhow::Result<Sample>; 3];

/// # Errors
/// The peer is missing or does not start.
pub(crate) async fn measure(bed: &Bed<'_>, kind: Kind, pace: Pace) -> anyhow::Result<All> {
    let mut peer = Peer::start(kind, bed, Link::Straight).await?;
    time::sleep(REST_TIME).await;
    let rest = memory(&peer.agent).and_then(|agent| {
        let hub = memory(&peer.hub)?;
        Ok(Sample::of([agent / BYTES_PER_MB, hub / BYTES_PER_MB]))
    });
    let measured = both(bed, &mut peer, pace).await;
    peer.end().await;
    let [others, memory] = match measured {
        Ok(both) => both,
        Err(error) => [Err(anyhow!("{error:#}")), Err(error)],
    };
    Ok([rest, others, memory])
}

async fn both(
    bed: &Bed<'_>,
    peer: &mut Peer,
    pace: Pace,
) -> anyhow::Result<[anyhow::Result<Sample>; 2]> {
    // The first run fills pools and caches, the second one counts.
    others(bed, peer, pace).await?;
    let without = others(bed, peer, pace).await?;
    let endless = peer
        .way(Legs::Tls)
        .context("there is no way")?
        .target("/endless")?;
    let (hub, agent) = (anonymous(&peer.hub)?, anonymous(&peer.agent)?);
    let first = stop(&endless).await?;
    let rest = stop_more(&endless).await;
    time::sleep(FILL_TIME).await;
    let grown =
        |before: f64, after: f64| (after - before) / f64::from(STOPPED_READERS) / BYTES_PER_KIB;
    let hub = grown(hub, anonymous(&peer.hub)?);
    let agent = grown(agent, anonymous(&peer.agent)?);
    // With fewer than eight readers there is no figure for eight.
    let memory = rest.map(|_| Sample::of([hub, agent]));

    let beside = match others(bed, peer, pace).await {
        Ok(beside) => Sample {
            figures: vec![
                Some(rate(&beside) / rate(&without)).filter(|share| share.is_finite()),
                Some(beside.p99_us),
                Some(without.p99_us),
            ],
            remark: beside
                .first_error
                .map(|error| format!("{} errors, the first: {error}", beside.errors)),
        },
        // A hub that one stopped reader blocks is a valid result.
        Err(error) => Sample {
            figures: vec![Some(0.0), None, Some(without.p99_us)],
            remark: Some(format!("the others get no answers: {}", error.root_cause())),
        },
    };
    drop(first);
    Ok([Ok(beside), memory])
}

/// Opens the readers after the first.
async fn stop_more(endless: &Target) -> anyhow::Result<Vec<Incoming>> {
    let mut readers = Vec::new();
    for number in 2..=STOPPED_READERS {
        let reader = stop(endless).await;
        readers.push(reader.with_context(|| format!("reader {number} of {STOPPED_READERS}"))?);
    }
    Ok(readers)
}

fn rate(outcome: &Outcome) -> f64 {
    outcome.requests as f64 / outcome.seconds
}

fn memory(part: &Option<PeerPart>) -> anyhow::Result<f64> {
    read(part, proc::memory)
}

/// Memory that grows with readers. At times a process gives back pages of its program instead.
fn anonymous(part: &Option<PeerPart>) -> anyhow::Result<f64> {
    read(part, proc::anonymous_memory)
}

fn read(
    part: &Option<PeerPart>,
    figure: impl FnOnce(u32) -> anyhow::Result<u64>,
) -> anyhow::Result<f64> {
    let part = part.as_ref().context("it has no such part")?;
    Ok(figure(part.pid()?)? as f64)
}

async fn others(bed: &Bed<'_>, peer: &mut Peer, pace: Pace) -> anyhow::Result<Outcome> {
    peer.alive()?;
    let way = peer.way(Legs::Tls).context("there is no way")?;
    let span = LatencySpan {
        warmup: pace.warmup,
        seconds: pace.seconds,
    };
    let command = load(bed, &way.args(), Traffic::Small, REQUESTS_OF_OTHERS, span);
    let step = format!("load {} stopped", peer.kind.name());
    bed.launcher.output(&step, command, MEASURE_DEADLINE).await
}

/// Reads the beginning of a body. The body stops there until it is dropped.
async fn stop(endless: &Target) -> anyhow::Result<Incoming> {
    let began = time::timeout(BEGIN_DEADLINE, async {
        let mut body = endless.open().await?;
        body.frame().await.context("the body has no beginning")??;
        anyhow::Ok(body)
    });
    began.await.context("the body does not begin")?
}
