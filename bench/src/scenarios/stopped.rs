//! Clients that stop reading in the middle of a body: what one of them costs the others, and what eight of them cost in memory.
//! Each peer is started anew in every round, because some never get over it.

use std::time::Duration;

use anyhow::Context as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time;

use super::{
    Metric, Pace, Sample, Title,
    steady::{Ask, load},
};
use crate::{
    load::{Outcome, Target},
    peers::{Bed, Kind, Link, Peer},
    proc,
    way::Legs,
};

const OTHERS: u32 = 200;
const READERS: u32 = 8;
/// Until every buffer on the way is full.
const FULL: Duration = Duration::from_secs(3);
const BEGIN: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(90);
const KIB: f64 = 1024.0;

#[derive(Debug, Clone)]
pub(crate) struct Stopped {
    pub(crate) others: Title,
    pub(crate) memory: Title,
}

pub(crate) fn scenario() -> Stopped {
    Stopped {
        others: Title {
            name: "stopped-others".to_owned(),
            about: format!(
                "{OTHERS} clients that GET 1 KiB, closed loop, beside one that has stopped reading an endless body, against the same without it"
            ),
            metrics: vec![
                Metric::higher("rate beside it", "x without"),
                Metric::lower("p99 beside it", "us"),
                Metric::lower("p99 without", "us"),
            ],
        },
        memory: Title {
            name: "stopped-memory".to_owned(),
            about: format!("{READERS} clients that have stopped reading an endless body"),
            metrics: vec![
                Metric::lower("hub memory per reader", "KiB"),
                Metric::lower("agent memory per reader", "KiB"),
            ],
        },
    }
}

/// For the others, and for memory.
pub(crate) type Both = (anyhow::Result<Sample>, anyhow::Result<Sample>);

/// # Errors
/// If the peer is not here, or does not work even before anyone stops.
pub(crate) async fn measure(bed: &Bed<'_>, kind: Kind, pace: Pace) -> anyhow::Result<Both> {
    let mut peer = Peer::start(kind, bed, Link::Straight).await?;
    let measured = both(bed, &mut peer, pace).await;
    peer.end().await;
    measured
}

async fn both(bed: &Bed<'_>, peer: &mut Peer, pace: Pace) -> anyhow::Result<Both> {
    // Once for pools and caches, once to count.
    others(bed, peer, pace).await?;
    let without = others(bed, peer, pace).await?;
    let endless = peer
        .way(Legs::Tls)
        .context("there is no way")?
        .target("/endless")?;
    let (hub, agent) = (memory(&peer.hub)?, memory(&peer.agent)?);
    let first = stop(&endless).await?;
    let rest = stop_more(&endless).await;
    time::sleep(FULL).await;
    let grown = |before: f64, after: f64| (after - before) / f64::from(READERS) / KIB;
    let hub = grown(hub, memory(&peer.hub)?);
    let agent = grown(agent, memory(&peer.agent)?);
    // With fewer readers than eight there is no figure for eight.
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
        // A hub that one reader stops is what this is about.
        Err(error) => Sample {
            figures: vec![Some(0.0), None, Some(without.p99_us)],
            remark: Some(format!("the others get no answers: {}", error.root_cause())),
        },
    };
    drop(first);
    Ok((Ok(beside), memory))
}

/// Those beyond the first.
async fn stop_more(endless: &Target) -> anyhow::Result<Vec<Incoming>> {
    let mut readers = Vec::new();
    for number in 2..=READERS {
        let reader = stop(endless).await;
        readers.push(reader.with_context(|| format!("reader {number} of {READERS}"))?);
    }
    Ok(readers)
}

fn rate(outcome: &Outcome) -> f64 {
    outcome.requests as f64 / outcome.seconds
}

fn memory(part: &Option<crate::peers::Part>) -> anyhow::Result<f64> {
    let part = part.as_ref().context("it has no such part")?;
    Ok(proc::memory(part.pid()?)? as f64)
}

async fn others(bed: &Bed<'_>, peer: &mut Peer, pace: Pace) -> anyhow::Result<Outcome> {
    peer.alive()?;
    let way = peer.way(Legs::Tls).context("there is no way")?;
    let command = load(bed, way, Ask::Small, OTHERS, pace);
    let step = format!("load {} stopped", peer.kind.name());
    bed.launcher.ask(&step, command, LIMIT).await
}

/// Reads the beginning, and then no more for as long as the body is held.
async fn stop(endless: &Target) -> anyhow::Result<Incoming> {
    let began = time::timeout(BEGIN, async {
        let mut body = endless.open().await?;
        body.frame().await.context("the body has no beginning")??;
        anyhow::Ok(body)
    });
    began.await.context("the body does not begin")?
}
