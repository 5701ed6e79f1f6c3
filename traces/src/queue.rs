//! Queue of ended spans, and the task that exports them in batches.

use std::time::Duration;

use fairlead_api::Code;
use fairlead_runtime::Registry;
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter as _, SpanProcessor},
};
use prometheus::{IntCounter, IntCounterVec, Opts};
use tokio::{
    sync::mpsc::{Receiver, Sender},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::client::CollectorClient;

/// Ended spans that wait for their export; further ones are dropped.
pub(crate) const QUEUE_SPANS: usize = 4096;
/// Limit of spans in one export.
const BATCH_SPANS: usize = 512;
/// Longest time that a span waits for others.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of warnings while the collector is away.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Counters of spans by their fate.
#[derive(Debug, Clone)]
pub(crate) struct SpanCounters {
    exported: IntCounter,
    failed: IntCounter,
    dropped: IntCounter,
}

impl SpanCounters {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let options = Opts::new(
            "fairlead_spans_total",
            "Spans of traces by outcome: exported, failed at the collector, dropped because too many waited.",
        );
        let counters = IntCounterVec::new(options, &["outcome"])?;
        let of = |outcome: &str| counters.with_label_values(&[outcome]);
        let counts = SpanCounters {
            exported: of("exported"),
            failed: of("failed"),
            dropped: of("dropped"),
        };
        registry.register(Box::new(counters))?;
        Ok(counts)
    }
}

/// End of the queue at which spans enter.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    pub(crate) sender: Sender<SpanData>,
    pub(crate) counters: SpanCounters,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.counters.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends batches of spans to the collector.
pub(crate) struct Export {
    pub(crate) exporter: SpanExporter,
    pub(crate) client: CollectorClient,
    pub(crate) counters: SpanCounters,
    /// Set while exports fail.
    pub(crate) warned: Option<Instant>,
}

impl Export {
    /// Exports until `finish`, and then the rest.
    pub(crate) async fn run(mut self, mut spans: Receiver<SpanData>, finish: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                count = spans.recv_many(&mut batch, BATCH_SPANS) => if count == 0 {
                    return;
                },
                () = finish.cancelled(), if !spans.is_closed() => {
                    spans.close();
                    continue;
                }
            }
            let deadline = Instant::now() + BATCH_INTERVAL;
            while batch.len() < BATCH_SPANS && !finish.is_cancelled() {
                let missing = BATCH_SPANS - batch.len();
                tokio::select! {
                    more = timeout_at(deadline, spans.recv_many(&mut batch, missing)) => {
                        if matches!(more, Ok(0) | Err(_)) {
                            break;
                        }
                    }
                    () = finish.cancelled() => {}
                }
            }
            self.send(std::mem::take(&mut batch)).await;
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        match self.exporter.export(batch).await {
            Ok(()) => {
                self.counters.exported.inc_by(count);
                if self.warned.take().is_some() {
                    info!("traces are exported again");
                }
            }
            Err(error) => {
                self.counters.failed.inc_by(count);
                let is_quiet = self.warned.is_some_and(|it| it.elapsed() < WARN_INTERVAL);
                if !is_quiet {
                    self.warned = Some(Instant::now());
                    let cause = self.client.take_cause();
                    let cause = cause.unwrap_or_else(|| error.to_string());
                    warn!(code = %Code::TracesNotExported, cause, "traces not exported");
                }
            }
        }
    }
}
