//! Audit event: its form in memory, and its documented form as one line of JSON.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::request_info::{MAX_PATH_BYTES, RequestInfo, ResourceInfo, cut, harmless_query};

/// Version of the documented form. Fields may be added; a changed meaning raises it.
pub const EVENT_VERSION: u8 = 1;

/// Kind of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// A request of a person, a program or an agent.
    #[default]
    Request,
    /// First line of a segment.
    Segment,
    /// Segments are removed because of their age.
    Retention,
    /// Events are missing because they could not be written.
    Dropped,
    /// Requests without a credential were too many to log each.
    Suppressed,
    /// The last line was incomplete after a crash, and was removed.
    Recovered,
    /// A recording of a terminal session has begun or ended, or was removed.
    Recording,
    /// A person took a role in an emergency.
    #[serde(rename = "break-glass")]
    BreakGlass,
}

/// Stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The request is authorized, and starts.
    Start,
    /// The request has ended.
    End,
    /// The recording was removed because of its age or the total size (`recording`).
    Removed,
}

/// Decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The hub permitted it. The API server may have refused it all the same: `status` tells.
    Allowed,
    /// The hub refused it.
    Denied,
    /// The hub permitted it, and could not complete it.
    Failed,
}

/// Sender of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventCaller {
    /// Name of the caller; `agent:<cluster>` for an agent.
    pub name: String,
    /// Id of the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Issuer of the caller's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Subject (`sub`) at that issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// One line of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditEvent {
    /// Version of this form.
    pub v: u8,
    /// Number of the event in the chain of its hub.
    pub seq: u64,
    /// Time in UTC, with microseconds.
    pub at: String,
    /// Kind of the event.
    pub kind: EventKind,
    /// Hub that wrote the event; with `seq` it names the event among all hubs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<String>,
    /// Stage of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Id of the request; the API server's own event has it as `auditID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Sender of the request; missing if it was not authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<EventCaller>,
    /// User of `kubectl --as`.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_user: Option<String>,
    /// Address and port of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Cluster of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Tenant of the cluster, or of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Ids of access requests from which the caller's roles come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<String>,
    /// HTTP method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path without the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Kubernetes verb, or the method in lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// Resource of the Kubernetes API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceInfo>,
    /// Harmless parameters of the query.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Vec<String>>,
    /// Decision of the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// HTTP status of the answer; missing if the client left before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Code of the hub's own failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// End of the request: `ok`, `left`, `aborted` and others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Bytes of the request's body, or from the client after an upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    /// Bytes of the answer's body, or to the client after an upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Duration of the request in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
    /// Number of events (`dropped`, `suppressed`), bytes (`recovered`), or last removed segment (`retention`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Number of this segment (`segment`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<u64>,
    /// Hash of the last line of the segment before (`segment`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prev: Option<String>,
    /// Name of the hub (`segment`), or file of the recording (`recording`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Hash of this line and the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Head of a request, shared by its start and its end.
#[derive(Debug)]
pub struct RequestHead {
    /// Id of the request.
    pub id: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query; only harmless parameters of it are written.
    pub query: Option<String>,
    /// Address of the client. Port 0: the port is not known.
    pub from: SocketAddr,
}

/// Facts about a request that are known once it is authorized.
#[derive(Debug, Clone, Default)]
pub struct RequestParty {
    /// Sender of the request.
    pub caller: Option<EventCaller>,
    /// User of `kubectl --as`.
    pub as_user: Option<String>,
    /// Cluster of the request.
    pub cluster: Option<String>,
    /// Tenant of the cluster, or of the caller.
    pub tenant: Option<String>,
    /// Ids of access requests from which the caller's roles come.
    pub access: Vec<String>,
    /// Kind of the request's event.
    pub kind: EventKind,
    /// Path on the API server, if it differs from the path of the request.
    pub api_path: Option<String>,
}

/// Result of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestResult {
    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// Number of the hub's own failure code.
    pub code: Option<u16>,
    /// End of the request.
    pub outcome: &'static str,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// Duration of the request.
    pub took: Duration,
}

/// An event on its way to the writer.
#[derive(Debug)]
pub(crate) struct PendingEvent {
    pub(crate) at: OffsetDateTime,
    pub(crate) body: PendingBody,
}

#[derive(Debug)]
pub(crate) enum PendingBody {
    Request {
        head: Arc<RequestHead>,
        party: RequestParty,
        result: Option<RequestResult>,
    },
    Note {
        kind: EventKind,
        count: u64,
    },
    Recording {
        stage: Stage,
        head: Arc<RequestHead>,
        party: RequestParty,
        file: String,
        bytes: u64,
    },
    RecordingRemoved {
        file: String,
        bytes: u64,
    },
}

impl PendingEvent {
    /// Makes the documented form.
    pub(crate) fn event(&self) -> AuditEvent {
        let at = timestamp(self.at);
        let event = match &self.body {
            PendingBody::Request {
                head,
                party,
                result,
            } => request(head, party, result.as_ref()),
            PendingBody::Note { kind, count } => AuditEvent {
                kind: *kind,
                count: Some(*count),
                ..AuditEvent::default()
            },
            PendingBody::Recording {
                stage,
                head,
                party,
                file,
                bytes,
            } => AuditEvent {
                kind: EventKind::Recording,
                stage: Some(*stage),
                name: Some(file.clone()),
                bytes_out: (*stage == Stage::End).then_some(*bytes),
                ..request(head, party, None)
            },
            PendingBody::RecordingRemoved { file, bytes } => AuditEvent {
                kind: EventKind::Recording,
                stage: Some(Stage::Removed),
                name: Some(file.clone()),
                bytes_out: Some(*bytes),
                ..AuditEvent::default()
            },
        };
        AuditEvent {
            v: EVENT_VERSION,
            at,
            ..event
        }
    }
}

/// Text of an address; port 0 stands for one that is not known.
fn address_text(address: SocketAddr) -> String {
    match address.port() {
        0 => address.ip().to_string(),
        _ => address.to_string(),
    }
}

fn request(head: &RequestHead, party: &RequestParty, result: Option<&RequestResult>) -> AuditEvent {
    let path = party.api_path.as_deref().unwrap_or(&head.path);
    let info = match party.cluster.is_some() && party.api_path.is_some() {
        true => RequestInfo::parse(&head.method, path, head.query.as_deref()),
        false => RequestInfo::of_method(&head.method),
    };
    let mut path = path.to_owned();
    cut(&mut path, MAX_PATH_BYTES);
    let mut event = AuditEvent {
        kind: party.kind,
        stage: Some(Stage::Start),
        id: Some(head.id.clone()),
        caller: party.caller.clone(),
        as_user: party.as_user.clone(),
        from: Some(address_text(head.from)),
        cluster: party.cluster.clone(),
        tenant: party.tenant.clone(),
        access: party.access.clone(),
        method: Some(head.method.clone()),
        path: Some(path),
        verb: Some(info.verb.to_owned()),
        resource: info.resource,
        query: head
            .query
            .as_deref()
            .map(harmless_query)
            .unwrap_or_default(),
        decision: Some(Decision::Allowed),
        ..AuditEvent::default()
    };
    if let Some(result) = result {
        event.stage = Some(Stage::End);
        event.decision = Some(decision(result.code));
        event.status = result.status;
        event.code = result.code.map(|code| format!("FL-{code:04}"));
        event.outcome = Some(result.outcome.to_owned());
        event.bytes_in = Some(result.bytes_in);
        event.bytes_out = Some(result.bytes_out);
        event.millis = Some(u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX));
    }
    event
}

/// Codes 11xx to 13xx and 21xx are refusals of the hub; all others are failures.
const fn decision(code: Option<u16>) -> Decision {
    match code {
        None => Decision::Allowed,
        Some(1100..1400 | 2100..2200) => Decision::Denied,
        Some(_) => Decision::Failed,
    }
}

/// Time as RFC 3339 in UTC with microseconds, always of the same length: times compare as text.
#[must_use]
pub fn timestamp(at: OffsetDateTime) -> String {
    let at = at.to_offset(time::UtcOffset::UTC);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.microsecond()
    )
}
