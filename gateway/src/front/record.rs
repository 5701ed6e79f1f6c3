//! Record of one request from its first byte to its last: the fields of its audit log line, and guards to keep until it
//! ends.
//!
//! Clones share the record. The request ends when the last clone is dropped.

use std::{
    any::Any,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlead_api::{ClusterId, Code};
use fairlead_exchange::Body;
use fairlead_runtime::gauges::GaugeGuard;
use http::{HeaderValue, Method, Request, StatusCode};
use tokio::time::Instant;
use tracing::info;

use crate::{
    front::socket::ClientConnection,
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

struct RecordInner {
    id: String,
    method: Method,
    path: String,
    peer: SocketAddr,
    started: Instant,
    metrics: Arc<Metrics>,
    fields: Mutex<AuditFields>,
    _open: GaugeGuard,
}

#[derive(Default)]
struct AuditFields {
    caller: Option<String>,
    token: Option<String>,
    as_user: Option<String>,
    cluster: Option<ClusterId>,
    status: Option<StatusCode>,
    code: Option<Code>,
    outcome: Option<RequestEnd>,
    omitted: bool,
    head_after: Option<Duration>,
    tunnel: Option<Duration>,
    api: Option<Duration>,
    bytes_in: u64,
    bytes_out: u64,
    guards: Vec<Box<dyn Any + Send>>,
}

impl RequestRecord {
    pub(crate) fn begin<B>(request: &Request<B>, peer: SocketAddr, metrics: &Arc<Metrics>) -> Self {
        RequestRecord(Arc::new(RecordInner {
            id: new_id(),
            method: request.method().clone(),
            // Without the query, which may contain a secret.
            path: request.uri().path().to_owned(),
            peer,
            started: Instant::now(),
            metrics: Arc::clone(metrics),
            fields: Mutex::default(),
            _open: GaugeGuard::of(&metrics.requests_open),
        }))
    }

    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    fn fields(&self) -> MutexGuard<'_, AuditFields> {
        self.0.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_caller(&self, caller: &Caller) {
        let mut fields = self.fields();
        fields.caller = Some(caller.name.clone());
        fields.token.clone_from(&caller.token);
    }

    /// Notes the user of `kubectl --as`, allowed or not.
    pub(crate) fn set_as_user(&self, user: &HeaderValue) {
        self.fields().as_user = Some(String::from_utf8_lossy(user.as_bytes()).into_owned());
    }

    pub(crate) fn set_cluster(&self, cluster: &ClusterId) {
        self.fields().cluster = Some(cluster.clone());
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

    /// Notes that the body did not end well.
    pub(crate) fn set_outcome(&self, outcome: RequestEnd) {
        self.fields().outcome = Some(outcome);
    }

    pub(crate) fn add_bytes(&self, bytes_in: u64, bytes_out: u64) {
        let mut fields = self.fields();
        fields.bytes_in += bytes_in;
        fields.bytes_out += bytes_out;
    }
}

impl Drop for RecordInner {
    fn drop(&mut self) {
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
                request = %self.id,
                caller = fields.caller.as_deref(),
                token = fields.token.as_deref(),
                "as" = fields.as_user.as_deref(),
                cluster = fields.cluster.as_ref().map(ClusterId::as_str),
                method = %self.method,
                path = self.path.as_str(),
                status = fields.status.map(|status| status.as_u16()),
                code = fields.code.map(tracing::field::display),
                outcome = outcome.as_str(),
                millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
                bytes_in = fields.bytes_in,
                bytes_out = fields.bytes_out,
                peer = %self.peer,
                "request"
            );
        }
        // Guards give back slots to waiting requests: last, after all is reported.
        fields.guards.clear();
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
