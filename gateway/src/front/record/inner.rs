//! State of a record, and the reports at its end.

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, SystemTime},
};

use fairlead_api::{ClusterId, Code, Failure, TenantId, resources::RunningRequest};
use fairlead_audit::{
    AuditLog, CallerNames, EventKind, RequestHead, RequestParty, RequestResult, StartedEvent,
};
use fairlead_runtime::{gauges::GaugeGuard, log};
use fairlead_seam::{Caller, EmergencyNote, Grant, NamedService};
use fairlead_traces::{RequestSpan, RequestTrace};
use http::StatusCode;
use time::OffsetDateTime;
use tokio::time::Instant;
use tracing::info;

use super::{
    flow::RequestFlow,
    head::{ApiPath, OwnedHead},
    running::{Ending, RunningState},
};
use crate::{
    agents::entry::Running as RunningOnSession,
    front::{
        caller_limit::CallerSlot, connection::ConnectionState, stranger_pools::StrangerShares,
    },
    metrics::{Metrics, PhaseTimes, RequestEnd},
    requests::{RequestAccess, RequestTable, Running, reviews::ReviewedToken},
};

/// Record of one request. Clones share it.
#[derive(Clone)]
pub(crate) struct RequestRecord(pub(super) Arc<RecordInner>);

pub(crate) struct RecordInner {
    pub(super) head: OwnedHead,
    pub(super) audit: Option<AuditLog>,
    /// Trace of the request; `None` while tracing is off.
    pub(super) trace: Option<Box<RequestTrace>>,
    pub(super) started: Instant,
    /// The same by the clock of the day. Times of later events follow from it, so no event reads that clock again.
    pub(super) started_at: SystemTime,
    pub(super) metrics: Arc<Metrics>,
    pub(super) connection: Arc<ConnectionState>,
    /// Shares of the client's address, if the connection is a proxy's.
    pub(super) strangers: Option<StrangerShares>,
    pub(super) flow: RequestFlow,
    pub(super) fields: Mutex<RecordFields>,
    pub(super) table: Arc<RequestTable<RecordInner>>,
    pub(super) running: RunningState,
    pub(super) _open: GaugeGuard,
}

#[derive(Default)]
pub(super) struct RecordFields {
    /// Set while the request is in the table.
    pub(super) caller: Option<Arc<Caller>>,
    /// Permission in the cluster.
    pub(super) grant: Option<Arc<Grant>>,
    /// Named service: the request ends with it.
    pub(super) service: Option<Arc<NamedService>>,
    pub(super) as_user: Option<String>,
    pub(super) cluster: Option<ClusterId>,
    pub(super) emergency: Option<Box<EmergencyNote>>,
    /// Token that only its reviewer understands.
    pub(super) reviewed: Option<Arc<ReviewedToken>>,
    /// Address of the entry of the agent's session.
    pub(super) session: Option<usize>,
    pub(super) api_path: Option<ApiPath>,
    pub(super) is_start_reported: bool,
    /// Event of the start, unless the request may run for long.
    pub(super) started: Option<StartedEvent>,
    pub(super) status: Option<StatusCode>,
    pub(super) code: Option<Code>,
    pub(super) outcome: Option<RequestEnd>,
    pub(super) omitted: bool,
    pub(super) head_after: Option<Duration>,
    /// Time without a session.
    pub(super) wait: Option<Duration>,
    pub(super) tunnel: Option<Duration>,
    pub(super) api: Option<Duration>,
    pub(super) slot: Option<CallerSlot>,
    pub(super) running: Option<RunningOnSession>,
    pub(super) guards: Vec<Box<dyn Any + Send>>,
}

impl RecordFields {
    pub(super) fn party<'a>(&'a self, head: &'a OwnedHead) -> RequestParty<'a> {
        let party = RequestParty {
            caller: self.caller.as_deref().map(names_of),
            as_user: self.as_user.as_deref(),
            cluster: self.cluster.as_ref().map(ClusterId::as_str),
            tenant: self.tenant().map(TenantId::as_str),
            access: self.grant.as_ref().map_or(&[], |it| &it.access),
            kind: EventKind::Request,
            api_path: self.api_path.as_ref().map(|path| path.get(head)),
        };
        match &self.emergency {
            Some(note) => RequestParty {
                kind: EventKind::BreakGlass,
                cluster: Some(note.cluster.as_str()),
                tenant: Some(note.tenant.as_str()),
                access: std::slice::from_ref(&note.access),
                ..party
            },
            None => party,
        }
    }

    /// Tenant of the cluster, or of the caller.
    fn tenant(&self) -> Option<&TenantId> {
        match (&self.grant, &self.caller) {
            (Some(grant), _) => Some(&grant.tenant),
            (None, Some(caller)) => caller.tenant.as_ref(),
            (None, None) => None,
        }
    }

    fn access(&self) -> Option<RequestAccess> {
        Some(RequestAccess {
            caller: Arc::clone(self.caller.as_ref()?),
            grant: self.grant.clone(),
            cluster: self.cluster.clone(),
            service: self.service.clone(),
        })
    }
}

fn names_of(caller: &Caller) -> CallerNames<'_> {
    let subject = caller.subject.as_ref();
    CallerNames {
        name: &caller.name,
        token: caller.token.as_deref(),
        issuer: subject.map(|it| &*it.issuer),
        subject: subject.map(|it| it.sub.as_str()),
    }
}

impl RecordInner {
    pub(super) fn fields(&self) -> MutexGuard<'_, RecordFields> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RecordInner {
    fn drop(&mut self) {
        let address = std::ptr::from_ref(self).addr();
        let bytes_in = self.running.bytes_in.load(Ordering::Relaxed);
        let bytes_out = self.running.bytes_out.load(Ordering::Relaxed);
        let fields = self
            .fields
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if fields.caller.is_some() {
            self.table.remove(address);
        }
        let took = self.started.elapsed();
        let ended_at = self.started_at + took;
        let outcome = fields.outcome.unwrap_or(RequestEnd::Left);
        let times = [fields.wait, fields.tunnel, fields.api];
        let elsewhere = times.into_iter().flatten().sum();
        let phases = PhaseTimes {
            gateway: fields.head_after.unwrap_or(took).saturating_sub(elsewhere),
            wait: fields.wait,
            tunnel: fields.tunnel,
            api: fields.api,
        };
        let span = self.trace.as_ref().and_then(|it| it.span());
        let trace = span.and_then(RequestSpan::sampled_trace);
        self.metrics.request(outcome, phases, trace.as_deref());
        if let Some(span) = span {
            describe(span, &self.head, fields, outcome);
        }
        if let Some(code) = fields.code {
            self.metrics.failure(code);
        }
        if !fields.omitted {
            let (head, party) = (self.head.view(), fields.party(&self.head));
            let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let ending = (outcome.as_str(), millis, bytes_in, bytes_out);
            log_request(ended_at, &head, &party, fields, ending);
            if let Some(audit) = &self.audit {
                let result = RequestResult {
                    status: fields.status.map(|status| status.as_u16()),
                    code: fields.code.map(Code::number),
                    outcome: outcome.as_str(),
                    bytes_in,
                    bytes_out,
                    took,
                };
                match &fields.started {
                    Some(started) if fields.emergency.is_none() => {
                        audit.end_of_started(started, ended_at, &result);
                    }
                    _ => audit.end_of(&head, &party, &result),
                }
            }
        }
        self.connection.request_ended();
        // Guards give back slots to waiting requests: last, after all is reported.
        fields.guards.clear();
        drop((fields.running.take(), fields.slot.take()));
    }
}

/// Sets the attributes of the span: names and numbers, no query and no name of a person.
fn describe(span: &RequestSpan, head: &OwnedHead, fields: &RecordFields, outcome: RequestEnd) {
    span.text("http.request.method", head.method());
    span.text("url.path", head.path());
    span.text("fairlead.request.id", head.id());
    span.text("fairlead.outcome", outcome.as_str());
    if let Some(status) = fields.status {
        span.answered(status);
    }
    if let Some(cluster) = &fields.cluster {
        span.text("fairlead.cluster", cluster.as_str());
    }
    if let Some(tenant) = fields.tenant() {
        span.text("fairlead.tenant", tenant.as_str());
    }
    if let Some(wait) = fields.wait {
        span.seconds("fairlead.wait", wait);
    }
    if let Some(code) = fields.code {
        span.text("fairlead.code", &code.to_string());
    }
    match (fields.code, fields.status) {
        (Some(code), _) => span.fail(&code.to_string()),
        (None, Some(status)) if status.is_server_error() => span.fail("answer of the API server"),
        _ => {}
    }
}

/// Writes the line of a request to the log of the process.
fn log_request(
    at: SystemTime,
    head: &RequestHead<'_>,
    party: &RequestParty<'_>,
    fields: &RecordFields,
    (outcome, millis, bytes_in, bytes_out): (&str, u64, u64, u64),
) {
    const TARGET: &str = "audit";
    if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return;
    }
    let (caller, token) = match &party.caller {
        Some(caller) => (Some(caller.name), caller.token),
        None => (None, None),
    };
    let status = fields.status.map(|status| u64::from(status.as_u16()));
    let is_written = log::info_line(at, TARGET, "request", |line| {
        line.text("request", head.id);
        line.optional("caller", caller);
        line.optional("token", token);
        line.optional("as", party.as_user);
        line.optional("cluster", party.cluster);
        line.text("method", head.method);
        line.text("path", head.path);
        if let Some(status) = status {
            line.number("status", status);
        }
        if let Some(code) = fields.code {
            line.shown("code", code);
        }
        line.text("outcome", outcome);
        line.number("millis", millis);
        line.number("bytes_in", bytes_in);
        line.number("bytes_out", bytes_out);
        line.address("peer", head.from);
    });
    if is_written {
        return;
    }
    info!(
        target: "audit",
        request = head.id,
        caller,
        token,
        "as" = party.as_user,
        cluster = party.cluster,
        method = head.method,
        path = head.path,
        status,
        code = fields.code.map(tracing::field::display),
        outcome,
        millis,
        bytes_in,
        bytes_out,
        peer = %head.from,
        "request"
    );
}

impl Running for RecordInner {
    fn snapshot(&self) -> Option<RunningRequest> {
        let running = &self.running;
        let access = self.fields().access()?;
        let caller = &access.caller;
        let subject = caller.subject.as_ref();
        let tenant = match (&access.cluster, &access.grant) {
            (Some(_), grant) => grant.as_ref().map(|it| it.tenant.clone()),
            (None, _) => caller.tenant.clone(),
        };
        Some(RunningRequest {
            id: self.head.id().to_owned(),
            hub: None,
            kind: running.kind,
            caller: caller.name.clone(),
            token: caller.token.clone(),
            issuer: subject.map(|it| it.issuer.to_string()),
            subject: subject.map(|it| it.sub.clone()),
            tenant,
            cluster: access.cluster,
            started: OffsetDateTime::now_utc() - self.started.elapsed(),
            method: self.head.method().to_owned(),
            path: self.head.path().to_owned(),
            bytes_in: running.bytes_in.load(Ordering::Relaxed),
            bytes_out: running.bytes_out.load(Ordering::Relaxed),
        })
    }

    fn end(&self, failure: &Failure) -> bool {
        let ending = Ending {
            failure: failure.clone(),
            since: Instant::now(),
        };
        let is_first = self.running.ending.set(ending).is_ok();
        if is_first {
            let mut fields = self.fields();
            fields.code = Some(failure.code);
            fields.outcome = Some(RequestEnd::Ended);
        }
        self.running.waker.wake();
        is_first
    }

    fn session(&self) -> Option<usize> {
        self.fields().session
    }

    fn access(&self) -> Option<RequestAccess> {
        self.fields().access()
    }

    fn reviewed_token(&self) -> Option<Arc<ReviewedToken>> {
        self.fields().reviewed.clone()
    }

    fn is_ending(&self) -> bool {
        self.running.ending.get().is_some()
    }

    fn wake(&self) {
        self.running.waker.wake();
    }
}
