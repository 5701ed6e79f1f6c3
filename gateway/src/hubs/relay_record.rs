//! Record of a forwarded request at the hub with the session: its event in the audit log, and its place on the session.
//!
//! The first hub has the event with the caller; both have the same request id.

use std::{
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::SystemTime,
};

use bytes::Bytes;
use fairlead_api::{ClusterId, Code, headers::AUDIT_ID};
use fairlead_audit::{AuditLog, CallerNames, EventKind, RequestHead, RequestParty, RequestResult};
use fairlead_exchange::{Body, BodyError};
use fairlead_runtime::log;
use fairlead_traces::{RequestSpan, RequestTrace, SpanRole};
use http::{HeaderValue, Method, Request, StatusCode, Uri, uri::Authority};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;
use tracing::info;

use super::{relayed::RelayedRequests, serve::HubNames};
use crate::{
    agents::entry::Running,
    front::attempts::SessionUser,
    hub::Hub,
    metrics::{HopDirection, Metrics, RequestEnd},
};

/// Limit of a request id from another hub, in bytes.
const MAX_ID_BYTES: usize = 64;

/// Record of one forwarded request. It ends when the last reference is dropped.
pub(super) struct RelayRecord {
    id: HeaderValue,
    method: Method,
    uri: Uri,
    first_hub: Arc<HubNames>,
    /// Address of the entry of the agent's session.
    session: AtomicUsize,
    relayed: Arc<RelayedRequests>,
    cluster: ClusterId,
    from: SocketAddr,
    audit: Option<AuditLog>,
    trace: Option<Box<RequestTrace>>,
    metrics: Arc<Metrics>,
    started: Instant,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    fields: Mutex<RelayFields>,
}

#[derive(Default)]
struct RelayFields {
    status: Option<StatusCode>,
    code: Option<Code>,
    outcome: Option<RequestEnd>,
    running: Option<Running>,
}

impl RelayRecord {
    pub(super) fn begin(
        hub: &Hub,
        (first_hub, from): (&Arc<HubNames>, IpAddr),
        cluster: &ClusterId,
        request: &Request<Body>,
    ) -> Arc<Self> {
        let id = request.headers().get(AUDIT_ID);
        let traces = hub.traces.get();
        let trace = traces.and_then(|it| it.request(request.headers()));
        if let Some(trace) = &trace {
            // Its caller is known at the first hub.
            trace.begin(SpanRole::Relay);
        }
        let record = Arc::new(RelayRecord {
            id: id.cloned().unwrap_or(HeaderValue::from_static("")),
            method: request.method().clone(),
            uri: request.uri().clone(),
            first_hub: Arc::clone(first_hub),
            session: AtomicUsize::new(0),
            relayed: Arc::clone(&hub.relayed),
            cluster: cluster.clone(),
            from: SocketAddr::new(from, 0),
            audit: hub.audit.get().cloned(),
            trace,
            metrics: Arc::clone(&hub.metrics),
            started: Instant::now(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            fields: Mutex::default(),
        });
        hub.relayed.insert(&record);
        record
    }

    /// Name of the first hub.
    pub(super) fn first_hub(&self) -> &str {
        &self.first_hub.name
    }

    /// Path of the request, or the target of a CONNECT.
    fn path(&self) -> &str {
        let target = self.uri.authority().map(Authority::as_str);
        target.unwrap_or_else(|| self.uri.path())
    }

    pub(super) fn request_id(&self) -> &str {
        let id = self.id.to_str().unwrap_or_default();
        // Only visible ASCII, so each place is one between two characters.
        id.get(..MAX_ID_BYTES).unwrap_or(id)
    }

    /// Whether the request runs on the session with this entry.
    pub(super) fn is_on(&self, session: usize) -> bool {
        self.session.load(Ordering::Relaxed) == session
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Span of the forwarded request; `None` while tracing is off.
    pub(super) fn span(&self) -> Option<&RequestSpan> {
        self.trace.as_ref()?.span()
    }

    fn fields(&self) -> MutexGuard<'_, RelayFields> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the failure of this hub that is the answer.
    pub(super) fn set_failure(&self, code: Code) {
        let mut fields = self.fields();
        fields.code = Some(code);
        fields.outcome = Some(RequestEnd::Failed);
    }

    /// Notes the status of the answer.
    pub(super) fn set_status(&self, status: StatusCode) {
        let mut fields = self.fields();
        fields.status = Some(status);
        fields.outcome = Some(match status.as_u16() {
            ..400 => RequestEnd::Ok,
            400..500 => RequestEnd::Declined,
            _ => RequestEnd::Erred,
        });
    }

    pub(super) fn set_outcome(&self, outcome: RequestEnd) {
        self.fields().outcome = Some(outcome);
    }

    pub(super) fn add_bytes(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    }

    fn head(&self) -> RequestHead<'_> {
        RequestHead {
            id: self.request_id(),
            method: self.method.as_str(),
            path: self.path(),
            query: None,
            from: self.from,
        }
    }

    fn party(&self) -> RequestParty<'_> {
        RequestParty {
            caller: Some(CallerNames {
                name: &self.first_hub.caller,
                ..CallerNames::default()
            }),
            cluster: Some(self.cluster.as_str()),
            kind: EventKind::Forwarded,
            ..RequestParty::default()
        }
    }

    /// Writes the line of a forwarded request to the log of the process.
    fn log(&self, result: &RequestResult) {
        const TARGET: &str = "audit";
        if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return;
        }
        let (head, cluster) = (self.head(), self.cluster.as_str());
        let is_written = log::info_line(SystemTime::now(), TARGET, "forwarded request", |line| {
            line.text("request", head.id);
            line.text("hub", &self.first_hub.caller);
            line.shown("cluster", cluster);
            line.text("method", head.method);
            line.text("path", head.path);
            if let Some(status) = result.status {
                line.number("status", status.into());
            }
            line.text("outcome", result.outcome);
        });
        if !is_written {
            info!(target: TARGET, request = head.id, hub = self.first_hub.caller, %cluster, method = head.method,
                path = head.path, status = result.status, outcome = result.outcome, "forwarded request");
        }
    }
}

impl SessionUser for RelayRecord {
    fn id(&self) -> &str {
        self.request_id()
    }

    fn set_session(&self, session: usize) {
        self.session.store(session, Ordering::Relaxed);
    }

    fn keep_running(&self, running: Running) {
        self.fields().running = Some(running);
    }
}

impl Drop for RelayRecord {
    fn drop(&mut self) {
        self.relayed.remove(std::ptr::from_ref(self).addr());
        let fields = self.fields();
        let outcome = fields.outcome.unwrap_or(RequestEnd::Left);
        self.metrics.forwarded(HopDirection::FromHub, outcome);
        if let Some(span) = self.span() {
            span.text("http.request.method", self.method.as_str());
            span.text("url.path", self.path());
            span.text("fairlead.request.id", self.request_id());
            span.text("fairlead.cluster", self.cluster.as_str());
            span.text("fairlead.outcome", outcome.as_str());
            if let Some(status) = fields.status {
                span.answered(status);
            }
            if let Some(code) = fields.code {
                span.fail(&code.to_string());
            }
        }
        let result = RequestResult {
            status: fields.status.map(|status| status.as_u16()),
            code: fields.code.map(Code::number),
            outcome: outcome.as_str(),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            took: self.started.elapsed(),
        };
        drop(fields);
        self.log(&result);
        if let Some(audit) = &self.audit {
            audit.end_of(&self.head(), &self.party(), &result);
        }
    }
}

/// A body of a forwarded request, in either direction, with the record that lives as long.
///
/// The record is dropped with the body, which is after its last byte was handed to the session.
pub(super) struct RelayedBody {
    inner: Body,
    record: Arc<RelayRecord>,
    direction: BodyDirection,
    over: bool,
}

enum BodyDirection {
    /// With the number of frames taken so far.
    Upload(Arc<AtomicU64>),
    Download,
}

impl RelayedBody {
    pub(super) fn upload(inner: Body, record: &Arc<RelayRecord>, frames: Arc<AtomicU64>) -> Self {
        RelayedBody {
            over: inner.is_end_stream(),
            inner,
            record: Arc::clone(record),
            direction: BodyDirection::Upload(frames),
        }
    }

    pub(super) fn download(inner: Body, record: Arc<RelayRecord>) -> Self {
        RelayedBody {
            over: inner.is_end_stream(),
            inner,
            record,
            direction: BodyDirection::Download,
        }
    }
}

impl HttpBody for RelayedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                match &self.direction {
                    BodyDirection::Upload(frames) => {
                        frames.fetch_add(1, Ordering::Relaxed);
                        self.record.add_bytes(length, 0);
                    }
                    BodyDirection::Download => self.record.add_bytes(0, length),
                }
                self.over = self.inner.is_end_stream();
            }
            Poll::Ready(Some(Err(_))) => {
                self.over = true;
                self.record.set_outcome(RequestEnd::Aborted);
            }
            Poll::Ready(None) => self.over = true,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for RelayedBody {
    fn drop(&mut self) {
        let is_download = matches!(self.direction, BodyDirection::Download);
        // A body of a known length is not polled for its end.
        if is_download && !self.over && self.inner.size_hint().exact() != Some(0) {
            self.record.set_outcome(RequestEnd::Left);
        }
    }
}
