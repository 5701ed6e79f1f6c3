//! Record of one request from its first byte to its last: the fields of its audit log line, and guards to keep until it
//! ends.
//!
//! Clones share the record. The request ends when the last clone is dropped.

mod access;
mod flow;
mod inner;
mod running;

use std::{
    any::Any,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlead_api::{ClusterId, Code, TenantId, resources::RequestKind};
use fairlead_audit::{
    AuditLog, EventCaller, EventKind, Piece, Recording, RequestHead, Unrecordable,
};
use fairlead_exchange::Body;
use fairlead_runtime::gauges::GaugeGuard;
use fairlead_seam::{Caller, EmergencyNote};
use http::{HeaderValue, Request, StatusCode};
use tokio::{sync::mpsc, time::Instant};

pub(crate) use self::{
    flow::RequestFlow,
    inner::{RecordInner, RequestRecord},
    running::Ending,
};
use self::{inner::AuditFields, running::RunningState};
use crate::{
    front::{
        connection::ConnectionState, socket::ClientConnection, stranger_pools::StrangerShares,
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
        metrics: &Arc<Metrics>,
    ) -> Self {
        connection.state.request_begun();
        let head = head_of(request, connection.peer);
        let kind = RequestKind::of(&head.path, head.query.as_deref().unwrap_or_default());
        RequestRecord(Arc::new(RecordInner {
            running: RunningState::new(kind),
            table: Arc::clone(table),
            head: Arc::new(head),
            audit: audit.cloned(),
            started: Instant::now(),
            metrics: Arc::clone(metrics),
            strangers: connection.strangers.clone(),
            connection: Arc::clone(&connection.state),
            flow: RequestFlow::default(),
            fields: Mutex::default(),
            _open: GaugeGuard::of(&metrics.requests_open),
        }))
    }

    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    pub(crate) fn id(&self) -> &str {
        &self.0.head.id
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

    fn fields(&self) -> MutexGuard<'_, AuditFields> {
        self.0.fields()
    }

    pub(crate) fn set_caller(&self, caller: &Caller) {
        let mut fields = self.fields();
        fields.party.caller = Some(event_caller(caller));
        fields.party.tenant = caller.tenant.as_ref().map(ToString::to_string);
        drop(fields);
        self.enter(caller);
        self.0.flow.known.store(true, Ordering::Relaxed);
        self.0.connection.set_known(caller);
    }

    /// Notes the tenant of the cluster.
    pub(crate) fn set_tenant(&self, tenant: &TenantId) {
        self.fields().party.tenant = Some(tenant.to_string());
    }

    /// Notes the access requests from which the caller's roles come.
    pub(crate) fn set_access(&self, access: &[Arc<str>]) {
        let mut fields = self.fields();
        fields.party.access = access.iter().map(ToString::to_string).collect();
    }

    /// Notes that the caller took a role in an emergency.
    pub(crate) fn set_emergency(&self, note: &EmergencyNote) {
        let mut fields = self.fields();
        let party = &mut fields.party;
        party.kind = EventKind::BreakGlass;
        party.access = vec![note.access.to_string()];
        party.cluster = Some(note.cluster.to_string());
        party.tenant = Some(note.tenant.to_string());
    }

    /// Reports the start to the audit log, once the caller is authorized; repeated calls do nothing.
    pub(crate) fn report_start(&self) {
        let Some(audit) = &self.0.audit else { return };
        let mut fields = self.fields();
        if !std::mem::replace(&mut fields.is_start_reported, true) {
            let party = fields.party.clone();
            drop(fields);
            audit.start_of(&self.0.head, party);
        }
    }

    /// Notes the user of `kubectl --as`, allowed or not.
    pub(crate) fn set_as_user(&self, user: &HeaderValue) {
        self.fields().party.as_user = Some(String::from_utf8_lossy(user.as_bytes()).into_owned());
    }

    /// Notes the cluster, and the path on its API server.
    pub(crate) fn set_cluster(&self, cluster: &ClusterId, api_path: &str) {
        let mut fields = self.fields();
        fields.party.cluster = Some(cluster.to_string());
        fields.party.api_path = Some(api_path.to_owned());
        drop(fields);
        self.set_running_cluster(cluster);
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

    /// Begins the file of a recording.
    pub(crate) fn begin_recording(
        &self,
        recording: Recording,
    ) -> Result<Option<mpsc::Sender<Piece>>, Unrecordable> {
        let Some(audit) = &self.0.audit else {
            return Ok(None);
        };
        let party = self.fields().party.clone();
        recording.begin(audit, &self.0.head, &party).map(Some)
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

/// Head of a request for the audit log, which keeps only harmless parts of the query.
pub(crate) fn head_of<B>(request: &Request<B>, from: SocketAddr) -> RequestHead {
    RequestHead {
        id: new_id(),
        method: request.method().as_str().to_owned(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(str::to_owned),
        from,
    }
}

fn event_caller(caller: &Caller) -> EventCaller {
    EventCaller {
        name: caller.name.clone(),
        token: caller.token.clone(),
        issuer: caller.subject.as_ref().map(|it| it.issuer.to_string()),
        subject: caller.subject.as_ref().map(|it| it.sub.clone()),
    }
}

/// Sixteen hexadecimal digits, unpredictable and unique in this process.
fn new_id() -> String {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let hash = KEYS.hash_one(next);
    let digits = (0..16).rev().map(|at| hash >> (4 * at) & 0xf);
    let digits = digits.filter_map(|digit| char::from_digit(u32::try_from(digit).ok()?, 16));
    digits.collect()
}
