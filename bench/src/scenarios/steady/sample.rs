//! Figures of one measurement, in the order of the scenario's metrics.

use super::{Steady, Traffic};
use crate::{load::Outcome, peers::FORWARDER, scenarios::Sample};

const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;
const BYTES_PER_MB: f64 = 1e6;

impl Steady {
    pub(super) fn sample(&self, outcome: &Outcome, body: Option<&Outcome>) -> Sample {
        let requests = outcome.requests as f64;
        let cost = CpuCost::of(outcome, requests);
        let mebibytes = outcome.bytes as f64 / BYTES_PER_MIB;
        let latency = [outcome.p50_us, outcome.p99_us, outcome.p999_us];
        let latency = latency.map(|micros| micros / self.micros);
        let rate = outcome.bytes as f64 / BYTES_PER_MB / outcome.seconds;
        let mut sample = match (self.traffic, self.rate, body) {
            (Traffic::Tcp(_), ..) if self.traffic.is_bulk() => {
                let cost = CpuCost::of(outcome, mebibytes);
                Sample::of([
                    rate,
                    cost.between,
                    cost.forwarder,
                    cost.all,
                    cost.hub,
                    cost.agent,
                ])
            }
            (Traffic::Tcp(_), ..) => Sample::of([
                requests / outcome.seconds,
                cost.between,
                cost.forwarder,
                cost.all,
                outcome.p50_us,
                outcome.p99_us,
                cost.hub,
                cost.agent,
            ]),
            (traffic, ..) if traffic.is_bulk() => {
                let cost = CpuCost::of(outcome, mebibytes);
                Sample::of([rate, cost.between, cost.all, cost.hub, cost.agent])
            }
            (Traffic::Pods, ..) => {
                Sample::of([outcome.p50_us / 1000.0, cost.between / 1000.0, rate])
            }
            (_, None, _) => Sample::of([
                requests / outcome.seconds,
                cost.between,
                cost.all,
                outcome.p50_us,
                outcome.p99_us,
                cost.hub,
                cost.agent,
            ]),
            (_, Some(_), None) => Sample::of(latency.into_iter().chain([cost.between])),
            (_, Some(_), Some(body)) => {
                let rate = body.bytes as f64 / BYTES_PER_MB / body.seconds;
                Sample::of(latency.into_iter().chain([rate]))
            }
        };
        if requests == 0.0 && !self.traffic.is_bulk() {
            // Without samples the latencies are missing; a latency of 0 would look best.
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

/// Processor time of roles per unit of work, in microseconds. A role that is not on the path has none, not 0.
struct CpuCost {
    /// Hub, agent, and anything else between client and upstream.
    between: f64,
    /// Client's end of raw TCP.
    forwarder: f64,
    /// The process that clients connect to: a hub or a proxy.
    hub: f64,
    agent: f64,
    all: f64,
}

impl CpuCost {
    fn of(outcome: &Outcome, count: f64) -> Self {
        let sum = |counts: &dyn Fn(&str) -> bool| {
            let roles = outcome.cpu_us.iter().filter(|(role, _)| counts(role));
            roles.map(|(_, micros)| *micros).sum::<u64>() as f64 / count
        };
        let one = |names: &[&str]| {
            let micros = names.iter().find_map(|name| outcome.cpu_us.get(*name));
            micros.map_or(f64::NAN, |micros| *micros as f64 / count)
        };
        let ends = ["load", "upstream", FORWARDER];
        Self {
            between: sum(&|role| !ends.contains(&role)),
            forwarder: one(&[FORWARDER]),
            hub: one(&["hub", "proxy"]),
            agent: one(&["agent"]),
            all: sum(&|_| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::steady::throughput;

    fn outcome(roles: &[(&str, u64)]) -> Outcome {
        let roles = roles
            .iter()
            .map(|(role, micros)| ((*role).to_owned(), *micros));
        Outcome {
            seconds: 2.0,
            requests: 10,
            bytes: 10 * 1024,
            errors: 0,
            first_error: None,
            p50_us: 3.0,
            p99_us: 4.0,
            p999_us: 5.0,
            max_us: 6.0,
            cpu_us: roles.collect(),
        }
    }

    /// Figures by the names of the scenario's metrics.
    fn figures(scenario: &Steady, outcome: &Outcome) -> Vec<(String, Option<f64>)> {
        let sample = scenario.sample(outcome, None);
        let names = scenario.title.metrics.iter();
        assert_eq!(names.len(), sample.figures.len(), "{}", scenario.title.name);
        let names = names.map(|metric| metric.name.clone().into_owned());
        names.zip(sample.figures).collect()
    }

    fn of(figures: &[(String, Option<f64>)], name: &str) -> Option<f64> {
        let found = figures.iter().find(|(metric, _)| metric == name);
        found.unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn hub_and_agent_have_figures_of_their_own_where_they_are_on_the_path() {
        let roles = [("load", 10), ("upstream", 20), ("hub", 40), ("agent", 30)];
        let direct = [("load", 10), ("upstream", 20)];
        let proxy = [("load", 10), ("upstream", 20), ("proxy", 50)];
        let requests = throughput();
        let requests = requests
            .iter()
            .filter(|one| one.rate.is_none() && !one.traffic.is_bulk());
        for scenario in requests {
            let tunnel = figures(scenario, &outcome(&roles));
            assert_eq!(of(&tunnel, "hub CPU"), Some(4.0));
            assert_eq!(of(&tunnel, "agent CPU"), Some(3.0));
            assert_eq!(of(&tunnel, "hub + agent CPU"), Some(7.0));
            assert_eq!(of(&tunnel, "all CPU"), Some(10.0));
            let direct = figures(scenario, &outcome(&direct));
            assert_eq!(of(&direct, "hub CPU"), None);
            let proxy = figures(scenario, &outcome(&proxy));
            assert_eq!(
                (of(&proxy, "hub CPU"), of(&proxy, "agent CPU")),
                (Some(5.0), None)
            );
        }
    }

    #[test]
    fn each_metric_of_tcp_has_its_figure_and_the_forwarder_is_not_between() {
        let roles = [
            ("load", 10),
            ("upstream", 20),
            ("hub", 40),
            ("agent", 30),
            (FORWARDER, 60),
        ];
        for scenario in crate::scenarios::tcp::scenarios() {
            let all = figures(&scenario, &outcome(&roles));
            assert!(all.iter().all(|(_, figure)| figure.is_some()), "{all:?}");
            let ratio = of(&all, "forwarder CPU").unwrap() / of(&all, "hub + agent CPU").unwrap();
            assert!((ratio - 60.0 / 70.0).abs() < 1e-9, "{all:?}");
            if !scenario.traffic.is_bulk() {
                assert_eq!(of(&all, "p50"), Some(3.0));
            }
        }
    }
}
