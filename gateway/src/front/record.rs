//! Record of one request from its first byte to its last: the fields of its audit log line, and guards to keep until it
//! ends.
//!
//! Clones share the record. The request ends when the last clone is dropped.

mod access;
mod flow;
mod head;
mod inner;
mod running;

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, atomic::Ordering},
    time::{Duration, SystemTime},
};

use fairlead_api::{ClusterId, Code, resources::RequestKind};
use fairlead_audit::{AuditLog, Piece, Recording, Unrecordable};
use fairlead_exchange::Body;
use fairlead_runtime::gauges::GaugeGuard;
use fairlead_seam::{Caller, EmergencyNote, Grant};
use fairlead_traces::{RequestSpan, SpanRole, Traces};
use http::{HeaderValue, Request, StatusCode};
use tokio::{sync::mpsc, time::Instant};

pub(crate) use self::{
    flow::RequestFlow,
    head::OwnedHead,
    inner::{RecordInner, RequestRecord},
    running::Ending,
};
use self::{head::ApiPath, inner::RecordFields, running::RunningState};
use crate::{
    agents::entry::Running,
    front::{
        caller_limit::CallerSlot, connection::ConnectionState, socket::ClientConnection,
        stranger_pools::StrangerShares,
    },
    metrics::{Metrics, RequestEnd},
    requests::RequestTable,
};

/// A request on its way in.
///
/// Steps pass it in a box: each future that it moves through would be larger by twice its size.
pub(crate) struct Inbound {
    pub(crate) request: Request<Body>,
    pub(crate) connection: ClientConnection,
    pub(crate) record: RequestRecord,
}

impl RequestRecord {
    pub(crate) fn begin<B>(
        request: &Request<B>,
        connection: &ClientConnection,
        table: &Arc<RequestTable<RecordInner>>,
        audit: Option<&AuditLog>,
        traces: Option<&Traces>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        connection.state.request_begun();
        let head = OwnedHead::of(request, connection.peer);
        let service = connection.service.clone();
        let kind = match &service {
            // Its paths mean nothing to the hub.
            Some(_) => RequestKind::Tcp,
            None => RequestKind::of(head.path(), head.query().unwrap_or_default()),
        };
        let fields = RecordFields {
            service,
            ..RecordFields::default()
        };
        RequestRecord(Arc::new(RecordInner {
            running: RunningState::new(kind),
            table: Arc::clone(table),
            head,
            audit: audit.cloned(),
            trace: traces.and_then(|it| it.request(request.headers())),
            started: Instant::now(),
            started_at: SystemTime::now(),
            metrics: Arc::clone(metrics),
            strangers: connection.strangers.clone(),
            connection: Arc::clone(&connection.state),
            flow: RequestFlow::default(),
            fields: Mutex::new(fields),
            _open: GaugeGuard::of(&metrics.requests_open),
        }))
    }

    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    pub(crate) fn id(&self) -> &str {
        self.0.head.id()
    }

    /// Path of the request.
    pub(crate) fn path(&self) -> &str {
        self.0.head.path()
    }

    /// State of the connection that the request came on.
    pub(crate) fn connection(&self) -> &Arc<ConnectionState> {
        &self.0.connection
    }

    /// Shares of strangers of the client's address.
    pub(crate) fn strangers(&self) -> &StrangerShares {
        let own = self.0.strangers.as_ref();
        own.unwrap_or(&self.0.connection.strangers)
    }

    pub(crate) fn flow(&self) -> &RequestFlow {
        &self.0.flow
    }

    fn fields(&self) -> MutexGuard<'_, RecordFields> {
        self.0.fields()
    }

    /// Span of the request, once its caller is known; `None` while tracing is off.
    pub(crate) fn span(&self) -> Option<&RequestSpan> {
        self.0.trace.as_ref()?.span()
    }

    /// Notes the caller, and enters the request into the table of running ones.
    pub(crate) fn set_caller(&self, caller: &Arc<Caller>) {
        self.note_caller(caller);
        self.0.connection.set_known(caller);
    }

    /// As [`RequestRecord::set_caller`], for a named service as the caller: its client stays unknown.
    pub(crate) fn set_service_caller(&self, caller: &Arc<Caller>) {
        self.note_caller(caller);
        self.0.connection.set_service_client(caller);
    }

    fn note_caller(&self, caller: &Arc<Caller>) {
        let before = self.fields().caller.replace(Arc::clone(caller));
        if before.is_none() {
            self.enter();
            if let Some(trace) = &self.0.trace {
                trace.begin(SpanRole::Front);
            }
        }
        self.0.flow.known.store(true, Ordering::Relaxed);
    }

    /// Notes the permission in the cluster, with the access requests from which the caller's roles come.
    pub(crate) fn set_grant(&self, grant: &Arc<Grant>) {
        self.fields().grant = Some(Arc::clone(grant));
    }

    /// Notes that the caller took a role in an emergency.
    pub(crate) fn set_emergency(&self, note: &EmergencyNote) {
        self.fields().emergency = Some(Box::new(note.clone()));
    }

    /// Reports the start to the audit log, once the caller is authorized; repeated calls do nothing.
    pub(crate) fn report_start(&self) {
        let Some(audit) = &self.0.audit else { return };
        let mut fields = self.fields();
        if std::mem::replace(&mut fields.is_start_reported, true) {
            return;
        }
        let head = &self.0.head;
        match self.kind() {
            RequestKind::Other => {
                let started =
                    audit.short_start_of(self.0.started_at, &head.view(), &fields.party(head));
                fields.started = Some(started);
            }
            // There may be very many of these at a time.
            _ => audit.start_of(&head.view(), &fields.party(head)),
        }
    }

    /// Notes the user of `kubectl --as`, allowed or not.
    pub(crate) fn set_as_user(&self, user: &HeaderValue) {
        self.fields().as_user = Some(String::from_utf8_lossy(user.as_bytes()).into_owned());
    }

    /// Notes the cluster, and the path on its API server.
    pub(crate) fn set_cluster(&self, cluster: &ClusterId, api_path: &str) {
        let mut fields = self.fields();
        fields.cluster = Some(cluster.clone());
        fields.api_path = Some(ApiPath::new(api_path, &self.0.head));
    }

    /// Notes the cluster of a TCP connection.
    pub(crate) fn set_tcp_cluster(&self, cluster: &ClusterId) {
        self.fields().cluster = Some(cluster.clone());
    }

    /// Keeps the caller's slot until the request has ended.
    pub(crate) fn keep_slot(&self, slot: CallerSlot) {
        self.fields().slot = Some(slot);
    }

    /// Keeps the request's place on a session until it has ended.
    pub(crate) fn keep_running(&self, running: Running) {
        self.fields().running = Some(running);
    }

    /// Keeps a guard until the request has ended.
    pub(crate) fn keep(&self, guard: impl Any + Send) {
        self.fields().guards.push(Box::new(guard));
    }

    /// Omits the request from the audit log: it is one of very many unauthenticated ones.
    pub(crate) fn omit_from_audit(&self) {
        self.fields().omitted = true;
    }

    /// Notes the code of the gateway's own failure.
    pub(crate) fn set_code(&self, code: Code) {
        self.fields().code = Some(code);
    }

    /// Notes the time in the tunnel until the head of the answer, and the API server's part of it.
    pub(crate) fn set_timing(&self, tunnel: Duration, api: Option<Duration>) {
        let mut fields = self.fields();
        fields.tunnel = Some(tunnel.saturating_sub(api.unwrap_or_default()));
        fields.api = api;
    }

    /// Notes the time for which the request waited for a session.
    pub(crate) fn set_wait(&self, wait: Duration) {
        self.fields().wait = Some(wait);
    }

    /// Begins the file of a recording.
    pub(crate) fn begin_recording(
        &self,
        recording: Recording,
    ) -> Result<Option<mpsc::Sender<Piece>>, Unrecordable> {
        let Some(audit) = &self.0.audit else {
            return Ok(None);
        };
        let (fields, head) = (self.fields(), &self.0.head);
        let begun = recording.begin(audit, &head.view(), &fields.party(head));
        begun.map(Some)
    }

    /// Notes the status of the answer when its head is sent.
    pub(crate) fn set_status(&self, status: StatusCode) {
        let mut fields = self.fields();
        fields.status = Some(status);
        fields.head_after = Some(self.0.started.elapsed());
        let own = fields.code.is_some();
        fields.outcome = Some(match (status.as_u16(), own) {
            (..400, _) => RequestEnd::Ok,
            (400..500, false) => RequestEnd::Declined,
            (400..500, true) => RequestEnd::Refused,
            (_, false) => RequestEnd::Erred,
            (_, true) => RequestEnd::Failed,
        });
    }

    /// Notes that the body did not end well; an end by the hub comes first.
    pub(crate) fn set_outcome(&self, outcome: RequestEnd) {
        if !self.is_ending() {
            self.fields().outcome = Some(outcome);
        }
    }

    pub(crate) fn add_bytes(&self, bytes_in: u64, bytes_out: u64) {
        let running = &self.0.running;
        running.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        running.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    }
}
