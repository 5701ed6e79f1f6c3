//! Scenarios with long-running peers that are measured in turn: requests, bodies, and requests or echoes
//! during a bulk transfer. Far links are in `far`.

mod sample;

use std::{ffi::OsString, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use super::{Metric, Pace, Sample, Title, goal::Goal};
use crate::{
    load::{Outcome, TcpWork},
    peers::{Bed, Kind, Peer},
    upstream::{LARGE_BODY_BYTES, SMALL_BODY_BYTES, count_socket},
    way::Legs,
};

/// Time of a measurement beyond its span: connecting, warm-up, a minimum number of answers, the last answers.
const EXTRA_TIME: Duration = Duration::from_secs(100);
/// Request rate of the open loop, over all connections; less than the slowest peer can do on one core.
const OPEN_LOOP_RATE: f64 = 1500.0;
/// Connections that send requests during a bulk transfer, each ten times per second. With several of them a
/// slow answer does not delay the next requests.
const CONCURRENT_CONNECTIONS: u32 = 10;
const BESIDE_RATE: f64 = 100.0;
/// Seconds of bulk transfer before and after the requests.
const TRANSFER_MARGIN_SECONDS: f64 = 0.5;
/// Factor of the duration of these scenarios. Their 99th percentile is a figure of its own and needs more
/// samples.
const CONCURRENT_DURATION_FACTOR: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    Small,
    Down,
    Up,
    /// An endless body, counted by its receiver.
    Flow,
    Pour,
    Echo,
    /// All pods of a real API server.
    Pods,
    /// Raw TCP, through a local port.
    Tcp(TcpWork),
}

/// Smallest size of a LIST of all pods, in bytes.
const MIN_PODS_BYTES: usize = 20_000_000;

impl Traffic {
    /// Arguments of the load client.
    fn args(self, bed: &Bed<'_>) -> Vec<OsString> {
        let (small, large, pods) = (
            SMALL_BODY_BYTES.to_string(),
            LARGE_BODY_BYTES.to_string(),
            MIN_PODS_BYTES.to_string(),
        );
        let words: &[&str] = match self {
            Self::Small => &["/bytes/1024", "--expect", &small],
            Self::Down => &["/bytes/8388608", "--expect", &large],
            Self::Up => &["/sink", "--upload", &large],
            Self::Flow => &["/endless", "--cut"],
            Self::Pour => &["/sink", "--pour", "--cut"],
            Self::Echo => &["/echo", "--echo"],
            Self::Pods => &["/api/v1/pods", "--at-least", &pods, "--answers", "4"],
            Self::Tcp(work @ (TcpWork::Echo | TcpWork::Exchange)) => &[work.name()],
            Self::Tcp(work @ (TcpWork::Down | TcpWork::Up)) => &[work.name(), "--cut"],
        };
        let first = match self {
            Self::Tcp(_) => "--tcp",
            _ => "--path",
        };
        let mut args = vec![first.into()];
        args.extend(words.iter().map(OsString::from));
        if matches!(self, Self::Pour | Self::Tcp(TcpWork::Up)) {
            args.extend(["--counted-at".into(), count_socket(bed.dir()).into()]);
        }
        args
    }

    fn is_bulk(self) -> bool {
        matches!(
            self,
            Self::Down
                | Self::Up
                | Self::Flow
                | Self::Pour
                | Self::Tcp(TcpWork::Down | TcpWork::Up)
        )
    }
}

/// Durations in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatencySpan {
    pub(crate) warmup: f64,
    pub(crate) seconds: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Steady {
    pub(crate) title: Title,
    pub(super) traffic: Traffic,
    pub(super) connections: u32,
    pub(super) rate: Option<f64>,
    /// Bulk transfer during the measurement.
    pub(super) beside: Option<Traffic>,
    /// Replaces the durations of the run.
    pub(super) span: Option<LatencySpan>,
    /// All peers in parallel, for scenarios that use little processor time and much wall-clock time.
    pub(crate) together: bool,
    /// Microseconds per unit of its latencies.
    pub(super) micros: f64,
    /// Connections are streams of one HTTP/2 connection.
    pub(super) http2: bool,
}

impl Steady {
    pub(super) fn new(title: Title, traffic: Traffic, connections: u32) -> Self {
        Self {
            title,
            traffic,
            connections,
            rate: None,
            beside: None,
            span: None,
            together: false,
            micros: 1.0,
            http2: false,
        }
    }

    fn requests(connections: u32) -> Self {
        let title = Title {
            name: format!("get-1k-c{connections}"),
            about: format!("GET of 1 KiB over {connections} connections, closed loop"),
            metrics: requests_metrics(),
            goals: requests_goals(connections),
        };
        Self::new(title, Traffic::Small, connections)
    }

    /// Streams of one connection, as of a program with one client for the cluster.
    fn http2() -> Self {
        let title = Title {
            name: "get-1k-h2".to_owned(),
            about: "GET of 1 KiB over 16 streams of one HTTP/2 connection, closed loop".to_owned(),
            metrics: requests_metrics(),
            goals: vec![Goal::First, Goal::times(Kind::Proxy, 0.85)],
        };
        Self {
            http2: true,
            ..Self::new(title, Traffic::Small, 16)
        }
    }

    /// Requests with every role on two cores.
    fn two_cores() -> Self {
        let title = Title {
            name: "get-1k-two-cores".to_owned(),
            about: "requests on two cores, 16 clients: GET of 1 KiB, closed loop, every role on the same two cores"
                .to_owned(),
            metrics: requests_metrics(),
            goals: vec![Goal::First, Goal::times(Kind::Proxy, 0.85)],
        };
        Self::new(title, Traffic::Small, 16)
    }

    /// The LIST of `kubectl get pods -A` and of every controller's start.
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
            span: Some(LatencySpan {
                warmup: 0.1,
                seconds: 1.5,
            }),
            ..Self::new(title, Traffic::Pods, 1)
        }
    }

    fn open() -> Self {
        let mut metrics = latency_metrics();
        metrics.push(Metric::lower("hub + agent CPU", "us/req"));
        Self {
            title: Title {
                name: "get-1k-open".to_owned(),
                about: format!(
                    "GET of 1 KiB over 16 connections, open loop at {OPEN_LOOP_RATE} a second; a latency counts from when its request was due"
                ),
                metrics,
                goals: vec![Goal::First],
            },
            rate: Some(OPEN_LOOP_RATE),
            ..Self::requests(16)
        }
    }

    fn bulk(traffic: Traffic, connections: u32) -> Self {
        let (name, about) = match traffic {
            Traffic::Up => ("up", "POST"),
            _ => ("down", "GET"),
        };
        let title = Title {
            name: format!("{name}-8m-c{connections}"),
            about: format!("{about} of 8 MiB over {connections} connections, closed loop"),
            metrics: vec![
                Metric::higher("rate", "MB/s"),
                Metric::lower("hub + agent CPU", "us/MiB"),
                Metric::lower("all CPU", "us/MiB"),
                Metric::lower("hub CPU", "us/MiB"),
                Metric::lower("agent CPU", "us/MiB"),
            ],
            goals: vec![
                Goal::First,
                Goal::times(Kind::Proxy, 0.35),
                Goal::times(Kind::Frp, 1.2),
                Goal::times(Kind::Wstunnel, 1.0),
                Goal::times(Kind::Remotedialer, 4.0),
            ],
        };
        Self::new(title, traffic, connections)
    }

    fn beside(place: &str, how: &str, traffic: Traffic, most: Option<[f64; 2]>) -> Self {
        let (what, about) = match traffic {
            Traffic::Echo => ("echo", "64 bytes echoed over upgraded connections"),
            _ => ("get-1k", "GET of 1 KiB"),
        };
        let mut metrics = latency_metrics();
        metrics.push(Metric::higher("the body", "MB/s"));
        let most = most.into_iter().flatten().enumerate();
        let title = Title {
            name: format!("{what}-beside-bulk-{place}"),
            about: format!(
                "{about}, open loop at {BESIDE_RATE} a second over {CONCURRENT_CONNECTIONS} connections, beside one body of 8 MiB after another, {how}"
            ),
            metrics,
            goals: [Goal::First]
                .into_iter()
                .chain(most.map(|(figure, value)| Goal::most(figure, value)))
                .collect(),
        };
        Self {
            rate: Some(BESIDE_RATE),
            beside: Some(Traffic::Down),
            ..Self::new(title, traffic, CONCURRENT_CONNECTIONS)
        }
    }

    /// `true` if clients use the peer's local port for raw TCP.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.traffic, Traffic::Tcp(_))
    }

    /// Durations of one measurement.
    pub(crate) fn span(&self, pace: Pace) -> LatencySpan {
        let run = LatencySpan {
            warmup: pace.warmup,
            seconds: pace.seconds,
        };
        match self.span {
            Some(own) if pace.quick => LatencySpan {
                warmup: own.warmup.min(0.3),
                seconds: own.seconds.min(1.5),
            },
            Some(own) => own,
            None if self.beside.is_some() => LatencySpan {
                seconds: run.seconds * CONCURRENT_DURATION_FACTOR,
                ..run
            },
            None => run,
        }
    }

    /// Approximate duration of a measurement, in seconds.
    pub(crate) fn takes(&self, pace: Pace) -> f64 {
        const START_SECONDS: f64 = 0.3;
        let LatencySpan { warmup, seconds } = self.span(pace);
        let margin = self
            .beside
            .map_or(0.0, |_| TRANSFER_MARGIN_SECONDS + warmup);
        warmup + seconds + margin + START_SECONDS
    }

    pub(crate) async fn measure(
        &self,
        bed: &Bed<'_>,
        peer: &mut Peer,
        pace: Pace,
    ) -> anyhow::Result<Sample> {
        peer.alive()?;
        let watched = peer.watched(bed)?;
        // Over far links the baseline is TCP itself, without TLS.
        let legs = match (self.traffic, peer.kind) {
            (Traffic::Flow | Traffic::Pour, Kind::Direct) => Legs::Plain,
            (Traffic::Pods, _) => Legs::Tls,
            _ => pace.legs,
        };
        let reach = if self.is_tcp() {
            let forwarder = peer.forwarder.as_ref().context("it has no local port")?;
            vec!["--to".into(), forwarder.address.to_string().into()]
        } else {
            peer.way(legs).context("it takes no plain HTTP")?.args()
        };
        let span = self.span(pace);
        let limit = EXTRA_TIME + Duration::try_from_secs_f64(span.seconds + span.warmup)?;
        let step = format!("load {} {}", peer.kind.name(), self.title.name);
        let mut asking = load(bed, &reach, self.traffic, self.connections, span);
        if self.http2 {
            ensure!(legs == Legs::Tls, "HTTP/2 needs TLS at the client");
            asking.arg("--h2");
        }
        if let Some(rate) = self.rate {
            asking.args(["--rate", &rate.to_string()]);
        }
        let Some(beside) = self.beside else {
            watch(&mut asking, &watched);
            let outcome: Outcome = bed.launcher.output(&step, asking, limit).await?;
            return Ok(self.sample(&outcome, None));
        };
        // The bulk transfer starts before the first counted request and ends after the last.
        let longer = LatencySpan {
            seconds: span.seconds + span.warmup + TRANSFER_MARGIN_SECONDS,
            ..span
        };
        let body = load(bed, &reach, beside, 1, longer);
        let (asked, flowed) = tokio::join!(
            bed.launcher.output::<Outcome>(&step, asking, limit),
            bed.launcher.output::<Outcome>(&step, body, limit),
        );
        Ok(self.sample(&asked?, Some(&flowed?)))
    }
}

fn requests_metrics() -> Vec<Metric> {
    vec![
        Metric::higher("rate", "req/s"),
        Metric::lower("hub + agent CPU", "us/req"),
        Metric::lower("all CPU", "us/req"),
        Metric::lower("p50", "us"),
        Metric::lower("p99", "us"),
        Metric::lower("hub CPU", "us/req"),
        Metric::lower("agent CPU", "us/req"),
    ]
}

/// Goals beside each peer. Copiers of raw TCP wake fewer processes for a single client, so theirs are lower there.
fn requests_goals(connections: u32) -> Vec<Goal> {
    let (proxy, frp, copier, remotedialer) = match connections {
        1 => (0.6, 1.0, 0.8, 1.8),
        _ => (0.85, 1.2, 1.0, 2.5),
    };
    let mut goals = vec![
        Goal::First,
        Goal::times(Kind::Proxy, proxy),
        Goal::times(Kind::Frp, frp),
        Goal::times(Kind::Rathole, copier),
        Goal::times(Kind::Wstunnel, copier),
        Goal::times(Kind::Remotedialer, remotedialer),
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

pub(super) fn load(
    bed: &Bed<'_>,
    reach: &[OsString],
    traffic: Traffic,
    connections: u32,
    span: LatencySpan,
) -> Command {
    let mut command = bed.launcher.bench("load");
    command.args(reach).args(traffic.args(bed));
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

/// Small requests and bodies with every role on one core, where throughput is 1 / (sum of the roles'
/// processor time).
pub(crate) fn throughput() -> Vec<Steady> {
    let mut all: Vec<Steady> = [1, 16, 128].map(Steady::requests).into();
    all.push(Steady::http2());
    all.push(Steady::open());
    for traffic in [Traffic::Down, Traffic::Up] {
        all.extend([1, 8].map(|connections| Steady::bulk(traffic, connections)));
    }
    all
}

/// Small requests with every role on two cores.
pub(crate) fn two_cores() -> Vec<Steady> {
    vec![Steady::two_cores()]
}

/// Latency of a terminal during a bulk transfer of another user. `most` are the goals for the p50 and p99 of
/// an echo, in microseconds.
pub(crate) fn beside(place: &str, how: &str, most: [f64; 2]) -> Vec<Steady> {
    vec![
        Steady::beside(place, how, Traffic::Small, None),
        Steady::beside(place, how, Traffic::Echo, Some(most)),
    ]
}

/// LISTs of a real API server.
pub(crate) fn lists() -> Vec<Steady> {
    vec![Steady::pods()]
}
