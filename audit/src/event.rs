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
    /// A request that another hub has received and forwarded to this one, which has the session.
    Forwarded,
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

/// Head of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// Id of the request.
    pub id: &'a str,
    /// HTTP method.
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// Query; only harmless parameters of it are written.
    pub query: Option<&'a str>,
    /// Address of the client. Port 0: the port is not known.
    pub from: SocketAddr,
}

/// Names of a caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerNames<'a> {
    /// Name of the caller; `agent:<cluster>` for an agent.
    pub name: &'a str,
    /// Id of the API token.
    pub token: Option<&'a str>,
    /// Issuer of the caller's token.
    pub issuer: Option<&'a str>,
    /// Subject (`sub`) at that issuer.
    pub subject: Option<&'a str>,
}

impl From<CallerNames<'_>> for EventCaller {
    fn from(names: CallerNames<'_>) -> Self {
        EventCaller {
            name: names.name.to_owned(),
            token: names.token.map(str::to_owned),
            issuer: names.issuer.map(str::to_owned),
            subject: names.subject.map(str::to_owned),
        }
    }
}

/// Facts about a request that are known once it is authorized.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestParty<'a> {
    /// Sender of the request.
    pub caller: Option<CallerNames<'a>>,
    /// User of `kubectl --as`.
    pub as_user: Option<&'a str>,
    /// Cluster of the request.
    pub cluster: Option<&'a str>,
    /// Tenant of the cluster, or of the caller.
    pub tenant: Option<&'a str>,
    /// Ids of access requests from which the caller's roles come.
    pub access: &'a [Arc<str>],
    /// Kind of the request's event.
    pub kind: EventKind,
    /// Path on the API server, if it differs from the path of the request.
    pub api_path: Option<&'a str>,
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

/// Text of an address; port 0 stands for one that is not known.
fn address_text(address: SocketAddr) -> String {
    match address.port() {
        0 => address.ip().to_string(),
        _ => address.to_string(),
    }
}

/// Event of a request, without its time and hub.
pub(crate) fn request_event(
    head: &RequestHead<'_>,
    party: &RequestParty<'_>,
    result: Option<&RequestResult>,
) -> AuditEvent {
    let path = party.api_path.unwrap_or(head.path);
    let info = match party.cluster.is_some() && party.api_path.is_some() {
        true => RequestInfo::parse(head.method, path, head.query),
        false => RequestInfo::of_method(head.method),
    };
    let mut path = path.to_owned();
    cut(&mut path, MAX_PATH_BYTES);
    let mut event = AuditEvent {
        kind: party.kind,
        stage: Some(Stage::Start),
        id: Some(head.id.to_owned()),
        caller: party.caller.map(EventCaller::from),
        as_user: party.as_user.map(str::to_owned),
        from: Some(address_text(head.from)),
        cluster: party.cluster.map(str::to_owned),
        tenant: party.tenant.map(str::to_owned),
        access: party.access.iter().map(ToString::to_string).collect(),
        method: Some(head.method.to_owned()),
        path: Some(path),
        verb: Some(info.verb.to_owned()),
        resource: info.resource,
        query: head.query.map(harmless_query).unwrap_or_default(),
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
pub(crate) const fn decision(code: Option<u16>) -> Decision {
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
