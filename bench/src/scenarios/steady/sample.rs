//! Figures of one measurement, in the order of the scenario's metrics.

use super::{Steady, Traffic};
use crate::{load::Outcome, peers::FORWARDER, scenarios::Sample};

const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;
const BYTES_PER_MB: f64 = 1e6;

impl Steady {
    pub(super) fn sample(&self, outcome: &Outcome, body: Option<&Outcome>) -> Sample {
        let requests = outcome.requests as f64;
        let between = cpu(outcome, |role| {
            !["load", "upstream", FORWARDER].contains(&role)
        });
        let forwarder = cpu(outcome, |role| role == FORWARDER);
        let all = cpu(outcome, |_| true);
        let mebibytes = outcome.bytes as f64 / BYTES_PER_MIB;
        let latency = [outcome.p50_us, outcome.p99_us, outcome.p999_us];
        let latency = latency.map(|micros| micros / self.micros);
        let rate = outcome.bytes as f64 / BYTES_PER_MB / outcome.seconds;
        let mut sample = match (self.traffic, self.rate, body) {
            (Traffic::Tcp(_), ..) => {
                let (done, count) = if self.traffic.is_bulk() {
                    (rate, mebibytes)
                } else {
                    (requests / outcome.seconds, requests)
                };
                let costs = [between, forwarder, all].map(|micros| micros / count);
                Sample::of([done].into_iter().chain(costs).chain(latency))
            }
            (traffic, ..) if traffic.is_bulk() => {
                Sample::of([rate, between / mebibytes, all / mebibytes])
            }
            (Traffic::Pods, ..) => {
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

/// Processor time of these roles, in microseconds.
fn cpu(outcome: &Outcome, counts: impl Fn(&str) -> bool) -> f64 {
    let roles = outcome.cpu_us.iter().filter(|(role, _)| counts(role));
    roles.map(|(_, micros)| *micros).sum::<u64>() as f64
}
