//! The part of a record that concerns running requests: access of the caller, and the end by the hub.

use std::{
    future::poll_fn,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use fairlead_api::{
    ClusterId, Failure,
    resources::{RequestKind, RunningRequest},
};
use futures_util::task::AtomicWaker;
use secrecy::SecretString;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{RecordInner, RequestRecord};
use crate::{
    metrics::RequestEnd,
    requests::{RequestAccess, RunningRequests},
    seam::{Caller, Grant},
};

/// State of a request while it runs.
pub(super) struct RunningState {
    table: Arc<RunningRequests>,
    kind: RequestKind,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    known: Mutex<KnownFields>,
    ending: OnceLock<Ending>,
    /// The answer is the reason of the end.
    is_end_reported: AtomicBool,
    /// The task that answers the request, or copies its answer.
    waker: AtomicWaker,
}

#[derive(Default)]
struct KnownFields {
    access: Option<RequestAccess>,
    cluster: Option<ClusterId>,
    /// Token that only its reviewer understands, with the address of its sender.
    opaque_token: Option<(SecretString, IpAddr)>,
    /// Address of the entry of the agent's session.
    session: Option<usize>,
}

/// End of a running request by the hub.
pub(crate) struct Ending {
    pub(crate) failure: Failure,
    pub(crate) since: Instant,
}

impl RunningState {
    pub(super) fn new(table: &Arc<RunningRequests>, kind: RequestKind) -> Self {
        RunningState {
            table: Arc::clone(table),
            kind,
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            known: Mutex::default(),
            ending: OnceLock::new(),
            is_end_reported: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    /// Takes the record at this address out of the table.
    pub(super) fn leave(&mut self, address: usize) {
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        if known.access.is_some() {
            self.table.remove(address);
        }
    }
}

impl RequestRecord {
    fn running(&self) -> &RunningState {
        &self.0.running
    }

    fn known(&self) -> MutexGuard<'_, KnownFields> {
        let known = self.running().known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kind(&self) -> RequestKind {
        self.running().kind
    }

    /// Enters the request into the table of running ones.
    pub(super) fn enter(&self, caller: &Caller) {
        let mut known = self.known();
        let access = RequestAccess {
            caller: Arc::new(caller.clone()),
            grant: None,
            cluster: known.cluster.clone(),
        };
        if known.access.replace(access).is_none() {
            drop(known);
            let weak = Arc::downgrade(&self.0);
            self.running()
                .table
                .insert(Arc::as_ptr(&self.0).addr(), weak);
        }
    }

    pub(super) fn set_running_cluster(&self, cluster: &ClusterId) {
        self.known().cluster = Some(cluster.clone());
    }

    /// Notes a token that only its reviewer understands: it is sent there again while the request runs.
    pub(crate) fn set_opaque_token(&self, token: SecretString, from: IpAddr) {
        self.known().opaque_token = Some((token, from));
    }

    pub(crate) fn opaque_token(&self) -> Option<(SecretString, IpAddr)> {
        self.known().opaque_token.clone()
    }

    /// Notes the permission in the cluster.
    pub(crate) fn set_grant(&self, grant: &Grant) {
        if let Some(access) = &mut self.known().access {
            access.grant = Some(grant.clone());
        }
    }

    /// Notes the agent's session, by the address of its entry.
    pub(crate) fn set_session(&self, session: usize) {
        self.known().session = Some(session);
    }

    pub(crate) fn session(&self) -> Option<usize> {
        self.known().session
    }

    pub(crate) fn access(&self) -> Option<RequestAccess> {
        self.known().access.clone()
    }

    /// The request as the API shows it; `None` before its caller is known.
    pub(crate) fn snapshot(&self) -> Option<RunningRequest> {
        let access = self.access()?;
        let (inner, running) = (&self.0, self.running());
        let caller = &access.caller;
        let subject = caller.subject.as_ref();
        let tenant = match (&access.cluster, &access.grant) {
            (Some(_), grant) => grant.as_ref().map(|it| it.tenant.clone()),
            (None, _) => caller.tenant.clone(),
        };
        Some(RunningRequest {
            id: inner.head.id.clone(),
            kind: running.kind,
            caller: caller.name.clone(),
            token: caller.token.clone(),
            issuer: subject.map(|it| it.issuer.to_string()),
            subject: subject.map(|it| it.sub.clone()),
            tenant,
            cluster: access.cluster,
            started: OffsetDateTime::now_utc() - inner.started.elapsed(),
            method: inner.head.method.clone(),
            path: inner.head.path.clone(),
            bytes_in: running.bytes_in.load(Ordering::Relaxed),
            bytes_out: running.bytes_out.load(Ordering::Relaxed),
        })
    }

    /// Ends the request with this reason; false if it ends already.
    pub(crate) fn end(&self, failure: &Failure) -> bool {
        let ending = Ending {
            failure: failure.clone(),
            since: Instant::now(),
        };
        let is_first = self.running().ending.set(ending).is_ok();
        if is_first {
            let mut fields = self.fields();
            fields.code = Some(failure.code);
            fields.outcome = Some(RequestEnd::Ended);
        }
        self.wake();
        is_first
    }

    pub(crate) fn wake(&self) {
        self.running().waker.wake();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.running().ending.get().is_some()
    }

    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.running().ending.get()
    }

    /// Like [`RequestRecord::ending`]; wakes the task at the end, and repeatedly until the record is dropped.
    pub(crate) fn poll_ending(&self, cx: &mut Context<'_>) -> Option<&Ending> {
        self.running().waker.register(cx.waker());
        self.running().ending.get()
    }

    /// Completes with the reason when the hub ends the request before its answer, which is that reason then.
    pub(crate) async fn ended_before_answer(&self) -> Failure {
        let failure = self.ended().await;
        self.running()
            .is_end_reported
            .store(true, Ordering::Release);
        failure
    }

    /// True if the answer is the reason of the end.
    pub(crate) fn is_end_reported(&self) -> bool {
        self.running().is_end_reported.load(Ordering::Acquire)
    }

    /// Completes with the reason when the hub ends the request. One task at a time may wait for it.
    pub(crate) async fn ended(&self) -> Failure {
        poll_fn(|cx| match self.poll_ending(cx) {
            Some(ending) => Poll::Ready(ending.failure.clone()),
            None => Poll::Pending,
        })
        .await
    }
}

impl From<Arc<RecordInner>> for RequestRecord {
    fn from(inner: Arc<RecordInner>) -> Self {
        RequestRecord(inner)
    }
}
