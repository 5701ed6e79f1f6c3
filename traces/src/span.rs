//! Spans of requests, and their beginning and end in a process.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use fairlead_api::{Code, Failure};
use fairlead_runtime::Process;
use http::{HeaderMap, StatusCode};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Span as _, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider, Span, SpanExporter as _},
};
use time::OffsetDateTime;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    client::CollectorClient,
    context,
    queue::{Export, QUEUE_SPANS, SpanCounters, SpanQueue},
    settings::TraceSettings,
};

/// Time for the last spans at the end of the process.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the scope of all spans.
const SCOPE: &str = "fairlead";

/// Part of a request's path that a span covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanRole {
    /// A request at the hub, until its last byte.
    Front,
    /// From the hub over a session to the head of the answer.
    Session,
    /// From one hub over another to the head of the answer.
    Hop,
    /// A forwarded request at the hub with the session, until its last byte.
    Relay,
    /// A request at the agent, until its last byte.
    Agent,
    /// From the agent to the head of the API server's answer.
    ApiServer,
}

impl SpanRole {
    /// Name of the span.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SpanRole::Front => "front",
            SpanRole::Session => "session",
            SpanRole::Hop => "hop",
            SpanRole::Relay => "relay",
            SpanRole::Agent => "agent",
            SpanRole::ApiServer => "api-server",
        }
    }

    /// True for a part that ends with the head of an answer.
    const fn waits_for_answer(self) -> bool {
        matches!(self.kind(), SpanKind::Client)
    }

    const fn kind(self) -> SpanKind {
        match self {
            SpanRole::Front | SpanRole::Relay | SpanRole::Agent => SpanKind::Server,
            SpanRole::Session | SpanRole::Hop | SpanRole::ApiServer => SpanKind::Client,
        }
    }
}

/// Tracing of a process; clones share it. The default one is off.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<ActiveTraces>>);

struct ActiveTraces {
    tracer: SdkTracer,
    finish: CancellationToken,
    export: Mutex<Option<JoinHandle<()>>>,
}

impl Traces {
    /// Tracing that is off.
    #[must_use]
    pub fn off() -> Self {
        Traces::default()
    }

    /// Starts the export to a collector; without settings tracing is off. Registers metrics in any case.
    ///
    /// # Errors
    /// `FL-4101` for settings that the exporter refuses, and for authorities without a certificate.
    pub fn start(
        settings: Option<&TraceSettings>,
        instance: &str,
        process: &Process,
    ) -> Result<Self, Failure> {
        let counters = SpanCounters::register(process.registry());
        let counters = counters.map_err(|error| Failure::because(Code::Internal, error))?;
        let Some(settings) = settings else {
            return Ok(Traces::off());
        };
        let client = CollectorClient::new(settings.ca.as_deref())?;
        let builder = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_headers(settings.headers.to_map())
            .with_endpoint(settings.endpoint.as_str())
            .with_protocol(Protocol::HttpBinary)
            // It would sleep on a thread of the runtime.
            .with_retry_policy(RetryPolicy::disabled());
        let exporter = builder.build();
        let mut exporter = exporter.map_err(|error| Failure::because(Code::BadConfig, error))?;
        let resource = resource(settings, instance);
        exporter.set_resource(&resource);
        let (sender, spans) = mpsc::channel(QUEUE_SPANS);
        let queue = SpanQueue {
            sender,
            counters: counters.clone(),
        };
        let export = Export {
            exporter,
            client,
            counters,
            warned: None,
        };
        let root = Sampler::TraceIdRatioBased(settings.ratio.get());
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(Sampler::ParentBased(Box::new(root)))
            .with_resource(resource)
            .build();
        let finish = CancellationToken::new();
        // No task of the drain: it waits for spans of requests that end in the drain.
        let export = tokio::spawn(export.run(spans, finish.clone()));
        info!(endpoint = %settings.endpoint, ratio = settings.ratio.get(), "traces are exported");
        let traces = Traces(Some(Arc::new(ActiveTraces {
            tracer: provider.tracer(SCOPE),
            finish,
            export: Mutex::new(Some(export)),
        })));
        let last = traces.clone();
        process.run_last(async move { last.finish().await });
        Ok(traces)
    }

    /// True while requests have traces.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Trace of a request with these headers; `None` while tracing is off.
    #[inline]
    #[must_use]
    pub fn request(&self, headers: &HeaderMap) -> Option<Box<RequestTrace>> {
        let traces = self.0.as_ref()?;
        Some(Box::new(RequestTrace {
            traces: Arc::clone(traces),
            parent: context::extract(headers),
            arrived: now(),
            span: OnceLock::new(),
        }))
    }

    /// Exports the spans that have ended so far, and no later one.
    pub async fn finish(&self) {
        let Some(traces) = &self.0 else { return };
        traces.finish.cancel();
        let export = traces.export.lock();
        let export = export.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(export) = export
            && timeout(FINISH_TIMEOUT, export).await.is_err()
        {
            warn!(code = %Code::TracesNotExported, cause = "no answer in time", "traces not exported");
        }
    }
}

fn resource(settings: &TraceSettings, instance: &str) -> Resource {
    Resource::builder()
        .with_service_name(settings.service.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new("service.instance.id", instance.to_owned()))
        .build()
}

/// The time of spans is that of the machine.
fn now() -> SystemTime {
    OffsetDateTime::now_utc().into()
}

/// Trace of a request that has arrived, until it is known that it is a caller's.
///
/// Strangers have no spans: they could fill the collector.
pub struct RequestTrace {
    traces: Arc<ActiveTraces>,
    parent: Context,
    arrived: SystemTime,
    span: OnceLock<RequestSpan>,
}

impl RequestTrace {
    /// The span of the request, from its arrival on. Repeated calls return the same one.
    pub fn begin(&self, role: SpanRole) -> &RequestSpan {
        self.span
            .get_or_init(|| RequestSpan::new(&self.traces, role, &self.parent, self.arrived))
    }

    /// The span, if it has begun.
    #[must_use]
    pub fn span(&self) -> Option<&RequestSpan> {
        self.span.get()
    }
}

/// A span. It ends when it is dropped; without an answer that it waits for, it has failed.
pub struct RequestSpan {
    traces: Arc<ActiveTraces>,
    lacks_answer: AtomicBool,
    context: SpanContext,
    span: Mutex<Span>,
}

impl RequestSpan {
    fn new(
        traces: &Arc<ActiveTraces>,
        role: SpanRole,
        parent: &Context,
        started: SystemTime,
    ) -> Self {
        let builder = traces.tracer.span_builder(role.as_str());
        let builder = builder.with_kind(role.kind()).with_start_time(started);
        let span = traces.tracer.build_with_context(builder, parent);
        RequestSpan {
            traces: Arc::clone(traces),
            lacks_answer: AtomicBool::new(role.waits_for_answer()),
            context: span.span_context().clone(),
            span: Mutex::new(span),
        }
    }

    /// A part of this span that begins now.
    #[must_use]
    pub fn child(&self, role: SpanRole) -> Self {
        let parent = Context::new().with_remote_span_context(self.context.clone());
        RequestSpan::new(&self.traces, role, &parent, now())
    }

    /// Sets the context of this span in the headers of a request, in place of its sender's.
    pub fn inject(&self, headers: &mut HeaderMap) {
        context::inject(&self.context, headers);
    }

    /// The trace in hexadecimal digits, if it is exported.
    #[must_use]
    pub fn sampled_trace(&self) -> Option<String> {
        let context = &self.context;
        context.is_sampled().then(|| context.trace_id().to_string())
    }

    /// Notes the status of the answer.
    pub fn answered(&self, status: StatusCode) {
        self.lacks_answer.store(false, Ordering::Relaxed);
        self.number("http.response.status_code", i64::from(status.as_u16()));
    }

    /// Sets an attribute with a text.
    pub fn text(&self, key: &'static str, value: &str) {
        if self.context.is_sampled() {
            self.span()
                .set_attribute(KeyValue::new(key, value.to_owned()));
        }
    }

    /// Sets an attribute with a number.
    pub fn number(&self, key: &'static str, value: i64) {
        self.span().set_attribute(KeyValue::new(key, value));
    }

    /// Sets an attribute with a time in seconds.
    pub fn seconds(&self, key: &'static str, value: Duration) {
        let value = KeyValue::new(key, value.as_secs_f64());
        self.span().set_attribute(value);
    }

    /// Marks the span as failed. `cause` is a constant or a code: causes of errors can hold names.
    pub fn fail(&self, cause: &str) {
        if self.context.is_sampled() {
            self.span().set_status(Status::error(cause.to_owned()));
        }
    }

    /// Gives the span the name of another part.
    pub fn rename(&self, role: SpanRole) {
        self.span().update_name(role.as_str());
    }

    fn span(&self) -> MutexGuard<'_, Span> {
        self.span.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if *self.lacks_answer.get_mut() {
            self.fail("no answer");
        }
    }
}
