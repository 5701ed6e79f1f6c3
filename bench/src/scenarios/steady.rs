//! Scenarios in which all peers run all the time and are measured in turn: requests, bodies, and requests or echoes beside a
//! body that takes all there is. What they ask for over far links is in `far`.

use std::{ffi::OsString, time::Duration};

use anyhow::Context as _;
use tokio::process::Command;

use super::{Metric, Pace, Sample, Title, goal::Goal};
use crate::{
    load::Outcome,
    peers::{Bed, Kind, Peer},
    upstream::{LARGE, SMALL, count_socket},
    way::{Legs, Way},
};

/// Beyond its own time: connecting, warming up, a few answers at least, the last ones.
const SLACK: Duration = Duration::from_secs(100);
const MIB: f64 = 1024.0 * 1024.0;
const MB: f64 = 1e6;
/// What is asked for in an open loop, over all connections: below what the slowest peer can do on one core.
const OPEN_RATE: f64 = 1500.0;
/// How often someone asks beside a body: so many, each ten times a second, so that one who waits long for an answer does not
/// put off the next ones.
const BESIDE: u32 = 10;
const BESIDE_RATE: f64 = 100.0;
/// How long before and after the asking the body flows.
const MARGIN: f64 = 0.5;
/// What this measures more often than other scenarios, since the slowest of a hundred is a figure of its own.
const BESIDE_LONGER: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Small,
    Down,
    Up,
    /// A body without an end, counted by who receives it.
    Flow,
    Pour,
    Echo,
    /// All pods of a real API server.
    Pods,
}

/// No LIST of all pods is shorter.
const PODS_LEAST: usize = 20_000_000;

impl Ask {
    fn args(self, bed: &Bed<'_>) -> Vec<OsString> {
        let (small, large, pods) = (SMALL.to_string(), LARGE.to_string(), PODS_LEAST.to_string());
        let words: &[&str] = match self {
            Self::Small => &["/bytes/1024", "--expect", &small],
            Self::Down => &["/bytes/8388608", "--expect", &large],
            Self::Up => &["/sink", "--upload", &large],
            Self::Flow => &["/endless", "--cut"],
            Self::Pour => &["/sink", "--pour", "--cut"],
            Self::Echo => &["/echo", "--echo"],
            Self::Pods => &["/api/v1/pods", "--at-least", &pods, "--answers", "4"],
        };
        let mut args = vec!["--path".into()];
        args.extend(words.iter().map(OsString::from));
        if self == Self::Pour {
            args.extend(["--counted-at".into(), count_socket(bed.dir()).into()]);
        }
        args
    }

    fn is_bulk(self) -> bool {
        matches!(self, Self::Down | Self::Up | Self::Flow | Self::Pour)
    }
}

/// In seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) warmup: f64,
    pub(crate) seconds: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Steady {
    pub(crate) title: Title,
    pub(super) ask: Ask,
    pub(super) connections: u32,
    pub(super) rate: Option<f64>,
    /// A body that flows meanwhile.
    pub(super) beside: Option<Ask>,
    /// Instead of the run's own.
    pub(super) span: Option<Span>,
    /// All peers at the same time: for what takes next to no processor time and much of the clock's.
    pub(crate) together: bool,
    /// How many microseconds the unit of its latencies is.
    pub(super) micros: f64,
}

impl Steady {
    pub(super) fn new(title: Title, ask: Ask, connections: u32) -> Self {
        Self {
            title,
            ask,
            connections,
            rate: None,
            beside: None,
            span: None,
            together: false,
            micros: 1.0,
        }
    }

    fn requests(connections: u32) -> Self {
        let title = Title {
            name: format!("get-1k-c{connections}"),
            about: format!("GET of 1 KiB over {connections} connections, closed loop"),
            metrics: requests_metrics(),
            goals: requests_goals(connections),
        };
        Self::new(title, Ask::Small, connections)
    }

    /// What a `kubectl get pods -A` and every controller's start ask for.
    fn pods() -> Self {
        let title = Title {
            name: "list-5000-pods".to_owned(),
            about: "LIST of 5,000 pods, about 25 MB, of a real kube-apiserver, one after the other"
                .to_owned(),
            metrics: vec![
                Metric::lower("p50", "ms"),
                Metric::lower("hub + agent CPU", "ms/LIST"),
                Metric::higher("rate", "MB/s"),
            ],
            goals: vec![Goal::First, Goal::times(Kind::Direct, 0.8)],
        };
        Self {
            span: Some(Span {
                warmup: 0.1,
                seconds: 1.5,
            }),
            ..Self::new(title, Ask::Pods, 1)
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
                goals: vec![Goal::First],
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
        let title = Title {
            name: format!("{name}-8m-c{connections}"),
            about: format!("{about} of 8 MiB over {connections} connections, closed loop"),
            metrics: vec![
                Metric::higher("rate", "MB/s"),
                Metric::lower("hub + agent CPU", "us/MiB"),
                Metric::lower("all CPU", "us/MiB"),
            ],
            goals: vec![
                Goal::First,
                Goal::times(Kind::Wstunnel, 1.0),
                Goal::times(Kind::Remotedialer, 4.0),
            ],
        };
        Self::new(title, ask, connections)
    }

    fn beside(place: &str, how: &str, ask: Ask, most: Option<[f64; 2]>) -> Self {
        let (what, about) = match ask {
            Ask::Echo => ("echo", "64 bytes echoed over upgraded connections"),
            _ => ("get-1k", "GET of 1 KiB"),
        };
        let mut metrics = latency_metrics();
        metrics.push(Metric::higher("the body", "MB/s"));
        let most = most.into_iter().flatten().enumerate();
        let title = Title {
            name: format!("{what}-beside-bulk-{place}"),
            about: format!(
                "{about}, open loop at {BESIDE_RATE} a second over {BESIDE} connections, beside one body of 8 MiB after another, {how}"
            ),
            metrics,
            goals: [Goal::First]
                .into_iter()
                .chain(most.map(|(figure, value)| Goal::most(figure, value)))
                .collect(),
        };
        Self {
            rate: Some(BESIDE_RATE),
            beside: Some(Ask::Down),
            ..Self::new(title, ask, BESIDE)
        }
    }

    /// The time one measurement is given, in seconds.
    pub(crate) fn span(&self, pace: Pace) -> Span {
        let run = Span {
            warmup: pace.warmup,
            seconds: pace.seconds,
        };
        match self.span {
            Some(own) if pace.quick => Span {
                warmup: own.warmup.min(0.3),
                seconds: own.seconds.min(1.5),
            },
            Some(own) => own,
            None if self.beside.is_some() => Span {
                seconds: run.seconds * BESIDE_LONGER,
                ..run
            },
            None => run,
        }
    }

    /// How long a measurement takes in all, about, in seconds.
    pub(crate) fn takes(&self, pace: Pace) -> f64 {
        const STARTING: f64 = 0.3;
        let Span { warmup, seconds } = self.span(pace);
        let margin = self.beside.map_or(0.0, |_| MARGIN + warmup);
        warmup + seconds + margin + STARTING
    }

    pub(crate) async fn measure(
        &self,
        bed: &Bed<'_>,
        peer: &mut Peer,
        pace: Pace,
    ) -> anyhow::Result<Sample> {
        peer.alive()?;
        let watched = peer.watched(bed)?;
        // Over far links what is compared with is TCP itself, without TLS.
        let legs = match (self.ask, peer.kind) {
            (Ask::Flow | Ask::Pour, Kind::Direct) => Legs::Plain,
            (Ask::Pods, _) => Legs::Tls,
            _ => pace.legs,
        };
        let way = peer.way(legs).context("it takes no plain HTTP")?;
        let span = self.span(pace);
        let limit = SLACK + Duration::try_from_secs_f64(span.seconds + span.warmup)?;
        let step = format!("load {} {}", peer.kind.name(), self.title.name);
        let mut asking = load(bed, way, self.ask, self.connections, span);
        if let Some(rate) = self.rate {
            asking.args(["--rate", &rate.to_string()]);
        }
        let Some(beside) = self.beside else {
            watch(&mut asking, &watched);
            let outcome: Outcome = bed.launcher.output(&step, asking, limit).await?;
            return Ok(self.sample(&outcome, None));
        };
        // The body is there before the first request counts, and still there after the last.
        let longer = Span {
            seconds: span.seconds + span.warmup + MARGIN,
            ..span
        };
        let body = load(bed, way, beside, 1, longer);
        let (asked, flowed) = tokio::join!(
            bed.launcher.output::<Outcome>(&step, asking, limit),
            bed.launcher.output::<Outcome>(&step, body, limit),
        );
        Ok(self.sample(&asked?, Some(&flowed?)))
    }

    fn sample(&self, outcome: &Outcome, body: Option<&Outcome>) -> Sample {
        let requests = outcome.requests as f64;
        let between = cpu(outcome, |role| role != "load" && role != "upstream");
        let all = cpu(outcome, |_| true);
        let mebibytes = outcome.bytes as f64 / MIB;
        let latency = [outcome.p50_us, outcome.p99_us, outcome.p999_us];
        let latency = latency.map(|micros| micros / self.micros);
        let rate = outcome.bytes as f64 / MB / outcome.seconds;
        let mut sample = match (self.ask, self.rate, body) {
            (ask, ..) if ask.is_bulk() => Sample::of([rate, between / mebibytes, all / mebibytes]),
            (Ask::Pods, ..) => {
                Sample::of([outcome.p50_us / 1000.0, between / requests / 1000.0, rate])
            }
            (_, None, _) => Sample::of([
                requests / outcome.seconds,
                between / requests,
                all / requests,
                outcome.p50_us,
                outcome.p99_us,
            ]),
            (_, Some(_), None) => Sample::of(latency.into_iter().chain([between / requests])),
            (_, Some(_), Some(body)) => {
                let rate = body.bytes as f64 / MB / body.seconds;
                Sample::of(latency.into_iter().chain([rate]))
            }
        };
        if requests == 0.0 && !self.ask.is_bulk() {
            // A time of 0 would be the best of all.
            sample.figures.fill(None);
            sample.remark = Some("nothing was answered in time".to_owned());
        }
        sample.figures.truncate(self.title.metrics.len());
        let failed = [Some(outcome), body].into_iter().flatten();
        let failure = failed
            .filter_map(|outcome| Some((outcome.errors, outcome.first_error.as_ref()?)))
            .map(|(errors, first)| format!("{errors} errors, the first: {first}"))
            .next();
        sample.remark = failure.or(sample.remark);
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

/// Those of the three numbers of clients that matter.
fn requests_goals(connections: u32) -> Vec<Goal> {
    let (wstunnel, remotedialer, cpu) = match connections {
        1 => (0.95, 2.2, 45.0),
        16 => (1.2, 3.3, 20.0),
        _ => (1.4, 4.5, 20.0),
    };
    let mut goals = vec![
        Goal::First,
        Goal::times(Kind::Wstunnel, wstunnel),
        Goal::times(Kind::Remotedialer, remotedialer),
        Goal::most(1, cpu),
    ];
    if connections == 1 {
        goals.push(Goal::Added {
            figure: 3,
            most: 60.0,
        });
    }
    goals
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

pub(super) fn load(bed: &Bed<'_>, way: &Way, ask: Ask, connections: u32, span: Span) -> Command {
    let mut command = bed.launcher.bench("load");
    command.args(way.args()).args(ask.args(bed));
    command.args(["--connections", &connections.to_string()]);
    command.args(["--seconds", &span.seconds.to_string()]);
    command.args(["--warmup", &span.warmup.to_string()]);
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

/// What a user at a terminal feels while another one copies; `most` are the goals for an echo's p50 and p99, in microseconds.
pub(crate) fn beside(place: &str, how: &str, most: [f64; 2]) -> Vec<Steady> {
    vec![
        Steady::beside(place, how, Ask::Small, None),
        Steady::beside(place, how, Ask::Echo, Some(most)),
    ]
}

/// Of a real API server.
pub(crate) fn lists() -> Vec<Steady> {
    vec![Steady::pods()]
}
