//! Far links: one endless body down and up, counted at its receiver, and small requests. Plain TCP uses the
//! same emulated path in the same run.

use std::time::Duration;

use fairlead_e2e::link::LinkShape;

use super::{
    Metric, Title,
    goal::Goal,
    steady::{LatencySpan, Steady, Traffic},
};
use crate::peers::Kind;

/// Rate of each direction, in bytes per second (200 Mbit/s).
const LINK_BYTES_PER_SECOND: u64 = 25_000_000;
/// Size of the link's queue, in bytes.
const QUEUE_BYTES: u64 = 1024 * 1024;
/// Requests per second over all connections, less than one connection per round trip allows.
const REQUEST_RATE: f64 = 50.0;
const CONNECTION_COUNT: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Path {
    name: &'static str,
    round_trip: Duration,
    loss: f64,
}

pub(crate) const PATHS: [Path; 4] = [
    Path::new("wan-20ms", 20, 0.0),
    Path::new("wan-60ms", 60, 0.0),
    Path::new("wan-150ms", 150, 0.0),
    Path::new("wan-loss", 20, 0.01),
];

impl Path {
    const fn new(name: &'static str, millis: u64, loss: f64) -> Self {
        Self {
            name,
            round_trip: Duration::from_millis(millis),
            loss,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    pub(crate) fn shape(self) -> LinkShape {
        LinkShape::round_trip(self.round_trip)
            .loss(self.loss)
            .rate(LINK_BYTES_PER_SECOND, QUEUE_BYTES)
    }

    /// Time until the link carries nothing of the last measurement.
    pub(crate) fn rest(self) -> Duration {
        Duration::from_millis(100) + self.round_trip
    }

    fn said(self) -> String {
        let lossy = match self.loss {
            0.0 => String::new(),
            share => format!(" that loses {} % of its packets", share * 100.0),
        };
        format!(
            "over a link of {} ms round trip and 25 MB/s{lossy}",
            self.round_trip.as_millis()
        )
    }

    pub(crate) fn scenarios(self) -> Vec<Steady> {
        vec![
            self.bulk("down", "one body without an end", Traffic::Flow),
            self.bulk("up", "one upload without an end", Traffic::Pour),
            self.requests(),
        ]
    }

    fn share_of_plain_tcp(self) -> Goal {
        let share = if self.round_trip < Duration::from_millis(150) {
            0.95
        } else {
            0.9
        };
        Goal::times(Kind::Direct, share)
    }

    fn bulk(self, name: &str, about: &str, traffic: Traffic) -> Steady {
        let mut goals = vec![Goal::First];
        if self.loss == 0.0 {
            goals.push(self.share_of_plain_tcp());
        }
        let title = Title {
            name: format!("{}-{name}", self.name),
            about: format!("{about}, {}; direct is plain TCP", self.said()),
            metrics: vec![
                Metric::higher("rate", "MB/s"),
                Metric::lower("hub + agent CPU", "us/MiB"),
            ],
            goals,
        };
        Steady {
            span: Some(LatencySpan {
                // TCP first has to probe the capacity of the path.
                warmup: 0.6 + 10.0 * self.round_trip.as_secs_f64(),
                seconds: if self.loss > 0.0 { 2.0 } else { 1.2 },
            }),
            ..Steady::new(title, traffic, 1)
        }
    }

    fn requests(self) -> Steady {
        let title = Title {
            name: format!("{}-get", self.name),
            about: format!(
                "GET of 1 KiB over {CONNECTION_COUNT} connections, open loop at {REQUEST_RATE} a second, {}; all peers side by side",
                self.said()
            ),
            metrics: vec![
                Metric::lower("p50", "ms"),
                Metric::lower("p99", "ms"),
                Metric::lower("p99.9", "ms"),
                Metric::lower("hub + agent CPU", "us/req"),
            ],
            goals: vec![Goal::First],
        };
        Steady {
            rate: Some(REQUEST_RATE),
            span: Some(LatencySpan {
                warmup: 0.5,
                seconds: 3.0,
            }),
            together: true,
            micros: 1000.0,
            ..Steady::new(title, Traffic::Small, CONNECTION_COUNT)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_body_each_way_and_requests() {
        let names: Vec<String> = PATHS
            .iter()
            .flat_map(|path| path.scenarios())
            .map(|scenario| scenario.title.name)
            .collect();
        assert_eq!(names.len(), 12);
        assert!(names.contains(&"wan-150ms-up".to_owned()), "{names:?}");
    }

    #[test]
    fn only_lossless_paths_are_held_to_a_share_of_plain_tcp() {
        let held = |path: &Path| {
            let body = path.scenarios().swap_remove(0);
            body.title.goals.contains(&path.share_of_plain_tcp())
        };
        assert_eq!(PATHS.each_ref().map(held), [true, true, true, false]);
    }
}
