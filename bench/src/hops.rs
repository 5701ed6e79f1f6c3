//! `make bench-hops`: processor time of requests that reach the hub with the session, beside requests that another hub forwards
//! to it. Both ways are measured in turn, with the same processes, clients and agent.

mod pair;

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::ensure;
use serde::Serialize;
use tempfile::TempDir;

use self::pair::BenchHubPair;
use crate::{
    launch::{Launcher, until_stopped},
    load::Outcome,
    machine::Machine,
    peers::{Bed, Built, Kind},
    results::results_folder,
    stats::{median, range},
};

/// Numbers of concurrent clients.
const CLIENT_COUNTS: [u32; 2] = [1, 16];
/// Goal: processor time of hubs and agent for a forwarded request, as a multiple of that for a direct one.
const MAX_RATIO: f64 = 1.4;
/// Warm-up of each measurement, in seconds.
const WARM_UP_SECONDS: f64 = 0.5;
const OUTPUT_MARGIN: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The `fairlead` binary
    #[arg(long)]
    fairlead: PathBuf,
    /// Rounds that count, each with both ways
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Bind all processes to one core
    #[arg(long)]
    pin: bool,
    /// Folder in which this run's folder is created
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    /// Exit with 1 if the goal is missed
    #[arg(long)]
    check: bool,
}

/// The way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestPath {
    /// The hub with the session.
    Direct,
    /// Another hub first.
    Forwarded,
}

/// Both ways of one round.
#[derive(Debug, Serialize)]
struct HopRound {
    clients: u32,
    direct: HopFigures,
    forwarded: HopFigures,
}

/// Figures of one way.
#[derive(Debug, Clone, Serialize)]
struct HopFigures {
    requests_per_second: f64,
    p50_us: f64,
    /// Processor time per request in microseconds.
    hub_of_session_us: f64,
    other_hub_us: f64,
    agent_us: f64,
}

impl HopFigures {
    fn of(outcome: &Outcome) -> anyhow::Result<Self> {
        ensure!(
            outcome.errors == 0 && outcome.requests > 0,
            "{} errors: {:?}",
            outcome.errors,
            outcome.first_error
        );
        let number = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let requests = number(outcome.requests);
        let of = |role| {
            outcome
                .cpu_us
                .get(role)
                .map_or(0.0, |us| number(*us) / requests)
        };
        Ok(Self {
            requests_per_second: requests / outcome.seconds,
            p50_us: outcome.p50_us,
            hub_of_session_us: of(pair::HUB_OF_SESSION),
            other_hub_us: of(pair::OTHER_HUB),
            agent_us: of(pair::AGENT),
        })
    }

    /// Processor time of hubs and agent per request, in microseconds.
    fn total_us(&self) -> f64 {
        self.hub_of_session_us + self.other_hub_us + self.agent_us
    }
}

impl HopRound {
    fn ratio(&self) -> f64 {
        self.forwarded.total_us() / self.direct.total_us()
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    until_stopped(measure(args)).await
}

async fn measure(args: Args) -> anyhow::Result<ExitCode> {
    let results = results_folder(&args.out)?;
    let secrets = TempDir::with_prefix("fairlead-bench-")?;
    let launcher = Launcher::new(args.pin, None, results.join("logs")).await?;
    let built = Built::default().with_fairlead(Kind::Fairlead, args.fairlead.clone());
    let bed = Bed::make(&launcher, secrets.path(), built).await?;
    let mut pair = BenchHubPair::start(&bed, &args.fairlead).await?;
    let mut rounds = Vec::new();
    for clients in CLIENT_COUNTS {
        // The first round warms up.
        for number in 0..=args.rounds {
            let round = one_round(&mut pair, &bed, clients, number, args.seconds).await?;
            eprintln!(
                "{clients} clients, round {number}: ratio {:.3}",
                round.ratio()
            );
            if number > 0 {
                rounds.push(round);
            }
        }
    }
    pair.stop().await?;
    std::fs::write(
        results.join("hops.json"),
        serde_json::to_vec_pretty(&rounds)?,
    )?;
    let (table, is_good) = table(&rounds);
    let machine = Machine::this();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} cores of {}, Linux {}\n{table}",
        machine.cores, machine.cpu, machine.kernel
    )?;
    Ok(match is_good || !args.check {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Measures both ways, in the opposite order every second round.
async fn one_round(
    pair: &mut BenchHubPair,
    bed: &Bed<'_>,
    clients: u32,
    number: usize,
    seconds: f64,
) -> anyhow::Result<HopRound> {
    let order = match number.is_multiple_of(2) {
        true => [RequestPath::Direct, RequestPath::Forwarded],
        false => [RequestPath::Forwarded, RequestPath::Direct],
    };
    let (mut direct, mut forwarded) = (None, None);
    for path in order {
        let mut command = bed.launcher.bench("load");
        command
            .args(pair.way(path).args())
            .args(["--path", "/bytes/1024", "--expect", "1024"])
            .args(["--connections", &clients.to_string()])
            .args(["--seconds", &seconds.to_string()])
            .args(["--warmup", &WARM_UP_SECONDS.to_string()]);
        for watched in pair.watched() {
            command.args(["--cpu", &watched]);
        }
        let limit = Duration::try_from_secs_f64(seconds + WARM_UP_SECONDS)? + OUTPUT_MARGIN;
        let outcome = bed.launcher.output("load", command, limit).await?;
        pair.alive()?;
        let measured = HopFigures::of(&outcome)?;
        match path {
            RequestPath::Direct => direct = Some(measured),
            RequestPath::Forwarded => {
                ensure!(measured.other_hub_us > 0.0, "nothing was forwarded");
                forwarded = Some(measured);
            }
        }
    }
    match (direct, forwarded) {
        (Some(direct), Some(forwarded)) => Ok(HopRound {
            clients,
            direct,
            forwarded,
        }),
        _ => anyhow::bail!("a way was not measured"),
    }
}

/// Table of medians, and whether the goal is met.
fn table(rounds: &[HopRound]) -> (String, bool) {
    let mut text = String::from(
        "| clients | direct, µs | forwarded, µs | hub of the session | other hub | agent | ratio | requests per second |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut is_good = true;
    for clients in CLIENT_COUNTS {
        let of = || rounds.iter().filter(move |round| round.clients == clients);
        let middle = |figure: fn(&HopRound) -> f64| median(of().map(figure)).unwrap_or_default();
        let (low, high) = range(of().map(HopRound::ratio)).unwrap_or_default();
        let ratio = middle(HopRound::ratio);
        is_good &= ratio <= MAX_RATIO;
        text.push_str(&format!(
            "| {clients} | {:.0} | {:.0} | {:.0}, {:.0} | {:.0} | {:.0}, {:.0} | {ratio:.2} ({low:.2} to {high:.2}) | {:.0}, {:.0} |\n",
            middle(|it| it.direct.total_us()),
            middle(|it| it.forwarded.total_us()),
            middle(|it| it.direct.hub_of_session_us),
            middle(|it| it.forwarded.hub_of_session_us),
            middle(|it| it.forwarded.other_hub_us),
            middle(|it| it.direct.agent_us),
            middle(|it| it.forwarded.agent_us),
            middle(|it| it.direct.requests_per_second),
            middle(|it| it.forwarded.requests_per_second),
        ));
    }
    let goal = match is_good {
        true => "met",
        false => "missed",
    };
    text.push_str(&format!("goal: at most {MAX_RATIO}, {goal}\n"));
    (text, is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_of_hubs_and_agent_together() {
        let measured = |session, other, agent| HopFigures {
            requests_per_second: 1.0,
            p50_us: 1.0,
            hub_of_session_us: session,
            other_hub_us: other,
            agent_us: agent,
        };
        let round = |clients| HopRound {
            clients,
            direct: measured(60.0, 0.0, 40.0),
            forwarded: measured(40.0, 60.0, 40.0),
        };
        assert!((round(1).ratio() - 1.4).abs() < 1e-9);
        let (text, is_good) = table(&[round(1), round(16)]);
        assert!(is_good && text.contains("| 1 | 100 | 140 |"), "{text}");
        let worse = HopRound {
            forwarded: measured(41.0, 60.0, 40.0),
            ..round(16)
        };
        assert!(!table(&[round(1), worse]).1);
    }
}
