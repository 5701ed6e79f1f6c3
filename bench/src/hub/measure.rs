//! One operation repeated for a while: its latencies, and the processor time of the hub meanwhile.

use std::time::Duration;

use tokio::{task::JoinSet, time::Instant};

use super::{
    client::{BenchCaller, HubRequest},
    process::Hub,
};
use crate::stats::Latencies;

/// Requests before the measurement.
const WARM_UP_REQUESTS: usize = 20;

pub(crate) struct MeasuredCalls {
    pub(crate) latencies: Latencies,
    /// Processor time of the hub per operation.
    pub(crate) cpu_ms: f64,
    /// Size of the last answer.
    pub(crate) bytes: usize,
}

impl MeasuredCalls {
    pub(crate) fn ms(&self, share: f64) -> f64 {
        self.latencies.micros(share) / 1000.0
    }
}

/// Repeats an operation for `time` on `connections` connections. `next` returns the request of a number and
/// its token. Numbers are unique over all connections.
pub(crate) async fn measure<Next>(
    hub: &Hub,
    connections: usize,
    time: Duration,
    next: Next,
) -> anyhow::Result<MeasuredCalls>
where
    Next: Fn(usize) -> (HubRequest, String) + Clone + Send + 'static,
{
    let mut callers = Vec::new();
    for at in 0..connections {
        let mut caller = hub.caller()?;
        for number in 0..WARM_UP_REQUESTS.div_ceil(connections) {
            let (request, token) = next(at + number * connections);
            caller.good(&request, &token).await?;
        }
        callers.push(caller);
    }
    let (before, end) = (hub.micros()?, Instant::now() + time);
    let mut running = JoinSet::new();
    for (at, mut caller) in callers.into_iter().enumerate() {
        let first = at + WARM_UP_REQUESTS.div_ceil(connections) * connections;
        let next = next.clone();
        running.spawn(async move { ask_until(&mut caller, end, first, connections, next).await });
    }
    let mut all = MeasuredCalls {
        latencies: Latencies::default(),
        cpu_ms: 0.0,
        bytes: 0,
    };
    while let Some(done) = running.join_next().await {
        let (latencies, bytes) = done??;
        all.latencies.merge(&latencies);
        all.bytes = bytes;
    }
    let micros = hub.micros()? - before;
    all.cpu_ms = micros as f64 / 1000.0 / all.latencies.count().max(1) as f64;
    Ok(all)
}

/// Sends requests one after the other and returns their number and the size of the last answer.
pub(crate) async fn ask_until<Next>(
    caller: &mut BenchCaller,
    end: Instant,
    first: usize,
    step: usize,
    next: Next,
) -> anyhow::Result<(Latencies, usize)>
where
    Next: Fn(usize) -> (HubRequest, String),
{
    let (mut latencies, mut bytes) = (Latencies::default(), 0);
    let mut number = first;
    while Instant::now() < end {
        let (request, token) = next(number);
        number += step;
        let answer = caller.good(&request, &token).await?;
        latencies.record(answer.took);
        bytes = answer.body.len();
    }
    Ok((latencies, bytes))
}
