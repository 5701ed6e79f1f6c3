//! Raw TCP: programs without TLS use a local port of each peer, and reach the same services of the upstream.

use super::{
    Metric, Title,
    goal::Goal,
    steady::{Steady, Traffic},
};
use crate::load::TcpWork;

/// Connections of small messages.
const CONNECTION_COUNTS: [u32; 2] = [1, 16];

pub(crate) fn scenarios() -> Vec<Steady> {
    let mut all = Vec::new();
    for (name, about, work) in [
        (
            "echo",
            "64 bytes to and fro on open TCP connections",
            TcpWork::Echo,
        ),
        (
            "1k",
            "a new TCP connection, 1 KiB each way, and its end",
            TcpWork::Exchange,
        ),
    ] {
        all.extend(CONNECTION_COUNTS.map(|count| messages(name, about, work, count)));
    }
    all.push(bulk("down", TcpWork::Down));
    all.push(bulk("up", TcpWork::Up));
    all
}

fn messages(name: &str, about: &str, work: TcpWork, connections: u32) -> Steady {
    let title = Title {
        name: format!("tcp-{name}-c{connections}"),
        about: format!("{about}, {connections} at a time, closed loop"),
        metrics: vec![
            Metric::higher("rate", "1/s"),
            Metric::lower("hub + agent CPU", "us"),
            Metric::lower("forwarder CPU", "us"),
            Metric::lower("all CPU", "us"),
            Metric::lower("p50", "us"),
            Metric::lower("p99", "us"),
            Metric::lower("hub CPU", "us"),
            Metric::lower("agent CPU", "us"),
        ],
        goals: vec![Goal::First],
    };
    Steady::new(title, Traffic::Tcp(work), connections)
}

fn bulk(name: &str, work: TcpWork) -> Steady {
    let title = Title {
        name: format!("tcp-bulk-{name}"),
        about: format!("one endless stream {name} a TCP connection"),
        metrics: vec![
            Metric::higher("rate", "MB/s"),
            Metric::lower("hub + agent CPU", "us/MiB"),
            Metric::lower("forwarder CPU", "us/MiB"),
            Metric::lower("all CPU", "us/MiB"),
            Metric::lower("hub CPU", "us/MiB"),
            Metric::lower("agent CPU", "us/MiB"),
        ],
        goals: vec![Goal::First],
    };
    Steady::new(title, Traffic::Tcp(work), 1)
}
