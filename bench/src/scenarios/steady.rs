//! Scenarios in which all peers run all the time and are measured in turn: requests, bodies, and requests or echoes beside a
//! body that takes all there is.

use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Command;

use super::{Metric, Pace, Sample, Title};
use crate::{
    load::Outcome,
    peers::{Bed, Peer},
    upstream::{LARGE, SMALL},
    way::Way,
};

/// Beyond its own time: connecting, warming up, the last answers.
const SLACK: Duration = Duration::from_secs(60);
const MIB: f64 = 1024.0 * 1024.0;
const MB: f64 = 1e6;
/// What is asked for in an open loop, over all connections: below what the slowest peer can do on one core.
const OPEN_RATE: f64 = 1500.0;
/// How often someone asks beside a body.
const BESIDE_RATE: f64 = 100.0;
/// How long before and after the asking the body flows.
const MARGIN: f64 = 1.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Small,
    Down,
    Up,
    Echo,
}

impl Ask {
    fn args(self) -> Vec<String> {
        let words: [&str; 4] = match self {
            Self::Small => ["--path", "/bytes/1024", "--expect", &SMALL.to_string()],
            Self::Down => ["--path", "/bytes/8388608", "--expect", &LARGE.to_string()],
            Self::Up => ["--path", "/sink", "--upload", &LARGE.to_string()],
            Self::Echo => return ["--path", "/echo", "--echo"].map(str::to_owned).into(),
        };
        words.map(str::to_owned).into()
    }

    fn is_bulk(self) -> bool {
        matches!(self, Self::Down | Self::Up)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Steady {
    pub(crate) title: Title,
    ask: Ask,
    connections: u32,
    rate: Option<f64>,
    /// A body that flows meanwhile.
    beside: Option<Ask>,
}

impl Steady {
    fn requests(connections: u32) -> Self {
        Self {
            title: Title {
                name: format!("get-1k-c{connections}"),
                about: format!("GET of 1 KiB over {connections} connections, closed loop"),
                metrics: requests_metrics(),
            },
            ask: Ask::Small,
            connections,
            rate: None,
            beside: None,
        }
    }

    fn open() -> Self {
        let mut metrics = latency_metrics();
        metrics.push(Metric::lower("hub + agent CPU", "us/req"));
        Self {
            title: Title {
                name: "get-1k-open".to_owned(),
                about: format!(
                    "GET of 1 KiB over 16 connections, open loop at {OPEN_RATE} a second; a latency counts from when its request was due"
                ),
                metrics,
            },
            rate: Some(OPEN_RATE),
            ..Self::requests(16)
        }
    }

    fn bulk(ask: Ask, connections: u32) -> Self {
        let (name, about) = match ask {
            Ask::Up => ("up", "POST"),
            _ => ("down", "GET"),
        };
        Self {
            title: Title {
                name: format!("{name}-8m-c{connections}"),
                about: format!("{about} of 8 MiB over {connections} connections, closed loop"),
                metrics: vec![
                    Metric::higher("rate", "MB/s"),
                    Metric::lower("hub + agent CPU", "us/MiB"),
                    Metric::lower("all CPU", "us/MiB"),
                ],
            },
            ask,
            connections,
            rate: None,
            beside: None,
        }
    }

    fn beside(place: &str, how: &str, ask: Ask) -> Self {
        let (what, about) = match ask {
            Ask::Echo => ("echo", "64 bytes echoed over an upgraded connection"),
            _ => ("get-1k", "GET of 1 KiB over one connection"),
        };
        let mut metrics = latency_metrics();
        metrics.push(Metric::higher("the body", "MB/s"));
        Self {
            title: Title {
                name: format!("{what}-beside-bulk-{place}"),
                about: format!(
                    "{about}, open loop at {BESIDE_RATE} a second, beside one body of 8 MiB after another, {how}"
                ),
                metrics,
            },
            ask,
            connections: 1,
            rate: Some(BESIDE_RATE),
            beside: Some(Ask::Down),
        }
    }

    pub(crate) async fn measure(
        &self,
        bed: &Bed<'_>,
        peer: &mut Peer,
        pace: Pace,
    ) -> anyhow::Result<Sample> {
        peer.alive()?;
        let watched = peer.watched(bed)?;
        let way = peer.way(pace.legs).context("it takes no plain HTTP")?;
        let limit = SLACK + Duration::try_from_secs_f64(pace.seconds + pace.warmup)?;
        let step = format!("load {} {}", peer.kind.name(), self.title.name);
        let Some(beside) = self.beside else {
            let mut command = load(bed, way, self.ask, self.connections, pace);
            self.paced(&mut command);
            watch(&mut command, &watched);
            let outcome: Outcome = bed.launcher.ask(&step, command, limit).await?;
            return Ok(self.sample(&outcome, None));
        };
        let mut asking = load(bed, way, self.ask, self.connections, pace);
        self.paced(&mut asking);
        // The body is there before the first request counts, and still there after the last.
        let longer = Pace {
            seconds: pace.seconds + pace.warmup + MARGIN,
            ..pace
        };
        let body = load(bed, way, beside, 1, longer);
        let (asked, flowed) = tokio::join!(
            bed.launcher.ask::<Outcome>(&step, asking, limit),
            bed.launcher.ask::<Outcome>(&step, body, limit),
        );
        Ok(self.sample(&asked?, Some(&flowed?)))
    }

    fn paced(&self, command: &mut Command) {
        if let Some(rate) = self.rate {
            command.args(["--rate", &rate.to_string()]);
        }
    }

    fn sample(&self, outcome: &Outcome, body: Option<&Outcome>) -> Sample {
        let requests = outcome.requests as f64;
        let between = cpu(outcome, |role| role != "load" && role != "upstream");
        let all = cpu(outcome, |_| true);
        let mebibytes = outcome.bytes as f64 / MIB;
        let latency = [outcome.p50_us, outcome.p99_us, outcome.p999_us];
        let mut sample = match (self.ask.is_bulk(), self.rate, body) {
            (true, ..) => Sample::of([
                outcome.bytes as f64 / MB / outcome.seconds,
                between / mebibytes,
                all / mebibytes,
            ]),
            (false, None, _) => Sample::of([
                requests / outcome.seconds,
                between / requests,
                all / requests,
                outcome.p50_us,
                outcome.p99_us,
            ]),
            (false, Some(_), None) => Sample::of(latency.into_iter().chain([between / requests])),
            (false, Some(_), Some(body)) => {
                let rate = body.bytes as f64 / MB / body.seconds;
                Sample::of(latency.into_iter().chain([rate]))
            }
        };
        // A quotient of nothing is no figure.
        for figure in &mut sample.figures {
            *figure = figure.filter(|figure| figure.is_finite());
        }
        let failed = [Some(outcome), body].into_iter().flatten();
        sample.remark = failed
            .filter_map(|outcome| Some((outcome.errors, outcome.first_error.as_ref()?)))
            .map(|(errors, first)| format!("{errors} errors, the first: {first}"))
            .next();
        sample
    }
}

fn requests_metrics() -> Vec<Metric> {
    vec![
        Metric::higher("rate", "req/s"),
        Metric::lower("hub + agent CPU", "us/req"),
        Metric::lower("all CPU", "us/req"),
        Metric::lower("p50", "us"),
        Metric::lower("p99", "us"),
    ]
}

fn latency_metrics() -> Vec<Metric> {
    vec![
        Metric::lower("p50", "us"),
        Metric::lower("p99", "us"),
        Metric::lower("p99.9", "us"),
    ]
}

/// Microseconds, of these roles.
fn cpu(outcome: &Outcome, counts: impl Fn(&str) -> bool) -> f64 {
    let roles = outcome.cpu_us.iter().filter(|(role, _)| counts(role));
    roles.map(|(_, micros)| *micros).sum::<u64>() as f64
}

pub(super) fn load(bed: &Bed<'_>, way: &Way, ask: Ask, connections: u32, pace: Pace) -> Command {
    let mut command = bed.launcher.bench("load");
    command.args(way.args()).args(ask.args());
    command.args(["--connections", &connections.to_string()]);
    command.args(["--seconds", &pace.seconds.to_string()]);
    command.args(["--warmup", &pace.warmup.to_string()]);
    command
}

fn watch(command: &mut Command, watched: &[String]) {
    for process in watched {
        command.args(["--cpu", process]);
    }
}

/// Small requests and bodies: every role on one core, where throughput is 1 / (processor time of all of them).
pub(crate) fn throughput() -> Vec<Steady> {
    let mut all: Vec<Steady> = [1, 16, 128].map(Steady::requests).into();
    all.push(Steady::open());
    for ask in [Ask::Down, Ask::Up] {
        all.extend([1, 8].map(|connections| Steady::bulk(ask, connections)));
    }
    all
}

/// What a user at a terminal feels while another one copies.
pub(crate) fn beside(place: &str, how: &str) -> Vec<Steady> {
    [Ask::Small, Ask::Echo]
        .map(|ask| Steady::beside(place, how, ask))
        .into()
}
