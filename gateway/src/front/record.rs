//! Record of one request from its first byte to its last: the fields of its audit log line, and guards to keep until it
//! ends.
//!
//! Clones share the record. The request ends when the last clone is dropped.

mod running;

use std::{
    any::Any,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlead_api::{ClusterId, Code, TenantId, resources::RequestKind};
use fairlead_audit::{
    AuditLog, EventCaller, Piece, Recording, RequestHead, RequestParty, RequestResult, Unrecordable,
};
use fairlead_exchange::Body;
use fairlead_runtime::gauges::GaugeGuard;
use http::{HeaderValue, Request, StatusCode};
use tokio::{sync::mpsc, time::Instant};
use tracing::info;

pub(crate) use self::running::Ending;
use self::running::RunningState;
use crate::{
    front::{connection::ConnectionState, socket::ClientConnection},
    hub::Hub,
    metrics::{Metrics, PhaseTimes, RequestEnd},
    seam::Caller,
};

/// A request on its way in.
///
/// Steps pass it in a box: each future that it moves through would be larger by twice its size.
pub(crate) struct Inbound {
    pub(crate) request: Request<Body>,
    pub(crate) connection: ClientConnection,
    pub(crate) record: RequestRecord,
}

#[derive(Clone)]
pub(crate) struct RequestRecord(Arc<RecordInner>);

pub(crate) struct RecordInner {
    head: Arc<RequestHead>,
    audit: Option<AuditLog>,
    started: Instant,
    metrics: Arc<Metrics>,
    connection: Arc<ConnectionState>,
    flow: RequestFlow,
    fields: Mutex<AuditFields>,
    running: RunningState,
    _open: GaugeGuard,
}

/// Progress of a request, for limits and deadlines.
#[derive(Default)]
pub(crate) struct RequestFlow {
    known: AtomicBool,
    /// Number of turns between the answer's body and its client; odd while the client has the turn.
    turns: AtomicU32,
}

impl RequestFlow {
    /// True once the caller is authenticated.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// The client has to take bytes of the answer next.
    pub(crate) fn block(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        let next = turns.wrapping_add(1 + (turns & 1));
        self.turns.store(next, Ordering::Relaxed);
    }

    /// The answer's body has to yield bytes next.
    pub(crate) fn unblock(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        self.turns
            .store(turns.wrapping_add(turns & 1), Ordering::Relaxed);
    }

    /// Number of the turn if the client has it.
    pub(crate) fn blocked(&self) -> Option<u32> {
        let turns = self.turns.load(Ordering::Relaxed);
        (turns & 1 == 1).then_some(turns)
    }
}

#[derive(Default)]
struct AuditFields {
    party: RequestParty,
    is_start_reported: bool,
    status: Option<StatusCode>,
    code: Option<Code>,
    outcome: Option<RequestEnd>,
    omitted: bool,
    head_after: Option<Duration>,
    tunnel: Option<Duration>,
    api: Option<Duration>,
    guards: Vec<Box<dyn Any + Send>>,
}

impl RequestRecord {
    pub(crate) fn begin<B>(request: &Request<B>, connection: &ClientConnection, hub: &Hub) -> Self {
        connection.state.request_begun();
        let head = head_of(request, connection.peer);
        let kind = RequestKind::of(&head.path, head.query.as_deref().unwrap_or_default());
        RequestRecord(Arc::new(RecordInner {
            running: RunningState::new(&hub.requests, kind),
            head: Arc::new(head),
            audit: hub.audit.get().cloned(),
            started: Instant::now(),
            metrics: Arc::clone(&hub.metrics),
            connection: Arc::clone(&connection.state),
            flow: RequestFlow::default(),
            fields: Mutex::default(),
            _open: GaugeGuard::of(&hub.metrics.requests_open),
        }))
    }

    pub(crate) fn id(&self) -> &str {
        &self.0.head.id
    }

    /// State of the connection that the request came on.
    pub(crate) fn connection(&self) -> &Arc<ConnectionState> {
        &self.0.connection
    }

    pub(crate) fn flow(&self) -> &RequestFlow {
        &self.0.flow
    }

    fn fields(&self) -> MutexGuard<'_, AuditFields> {
        self.0.fields.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Drop for RecordInner {
    fn drop(&mut self) {
        let address = std::ptr::from_ref(self).addr();
        self.running.leave(address);
        let bytes_in = self.running.bytes_in.load(Ordering::Relaxed);
        let bytes_out = self.running.bytes_out.load(Ordering::Relaxed);
        let fields = self
            .fields
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let outcome = fields.outcome.unwrap_or(RequestEnd::Left);
        let tunnel = fields.tunnel.unwrap_or_default() + fields.api.unwrap_or_default();
        let phases = PhaseTimes {
            gateway: fields
                .head_after
                .unwrap_or_else(|| self.started.elapsed())
                .saturating_sub(tunnel),
            tunnel: fields.tunnel,
            api: fields.api,
        };
        self.metrics.request(outcome, phases);
        if !fields.omitted {
            info!(
                target: "audit",
                request = self.head.id.as_str(),
                caller = fields.party.caller.as_ref().map(|caller| caller.name.as_str()),
                token = fields.party.caller.as_ref().and_then(|caller| caller.token.as_deref()),
                "as" = fields.party.as_user.as_deref(),
                cluster = fields.party.cluster.as_deref(),
                method = self.head.method.as_str(),
                path = self.head.path.as_str(),
                status = fields.status.map(|status| status.as_u16()),
                code = fields.code.map(tracing::field::display),
                outcome = outcome.as_str(),
                millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
                bytes_in,
                bytes_out,
                peer = %self.head.from,
                "request"
            );
        }
        if !fields.omitted
            && let Some(audit) = &self.audit
        {
            let result = RequestResult {
                status: fields.status.map(|status| status.as_u16()),
                code: fields.code.map(Code::number),
                outcome: outcome.as_str(),
                bytes_in,
                bytes_out,
                took: self.started.elapsed(),
            };
            audit.end_of(&self.head, std::mem::take(&mut fields.party), result);
        }
        self.connection.request_ended();
        // Guards give back slots to waiting requests: last, after all is reported.
        fields.guards.clear();
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
