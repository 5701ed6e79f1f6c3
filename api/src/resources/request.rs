//! Running requests of callers, and locks of users, tokens, clusters and tenants.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::present::present;
use crate::{ClusterId, HubUrl, TenantId, tcp::split_tcp_path};

/// Kind of a running request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// `kubectl exec` or `kubectl cp`.
    Exec,
    /// `kubectl attach`.
    Attach,
    /// `kubectl port-forward`.
    PortForward,
    /// Log of a container.
    Log,
    /// Watch of a cluster's objects, or of the hub's changes.
    Watch,
    /// A TCP connection into a cluster.
    Tcp,
    /// Any other request.
    Other,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [RequestKind; 7] = [
        RequestKind::Exec,
        RequestKind::Attach,
        RequestKind::PortForward,
        RequestKind::Log,
        RequestKind::Watch,
        RequestKind::Tcp,
        RequestKind::Other,
    ];

    /// The kind of a request by path and query, below any prefix.
    #[must_use]
    pub fn of(path: &str, query: &str) -> Self {
        let is_pod = || path.contains("/pods/");
        // Of bytes, because a search for one character costs more than a short segment.
        match path.as_bytes().rsplit(|&it| it == b'/').next() {
            Some(b"exec") if is_pod() => RequestKind::Exec,
            Some(b"attach") if is_pod() => RequestKind::Attach,
            Some(b"portforward") if is_pod() => RequestKind::PortForward,
            Some(b"log") if is_pod() => RequestKind::Log,
            _ if split_tcp_path(path).is_some() => RequestKind::Tcp,
            _ if is_watch(path, query) => RequestKind::Watch,
            _ => RequestKind::Other,
        }
    }

    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RequestKind::Exec => "exec",
            RequestKind::Attach => "attach",
            RequestKind::PortForward => "port-forward",
            RequestKind::Log => "log",
            RequestKind::Watch => "watch",
            RequestKind::Tcp => "tcp",
            RequestKind::Other => "other",
        }
    }
}

/// The API server takes `watch`, `watch=1` and `watch=true`; the hub's own lists have no such parameter.
fn is_watch(path: &str, query: &str) -> bool {
    matches!(path, "/v1/changes" | "/v1/status")
        || path.contains("/api/v1/watch/")
        || !query.is_empty() && query.split('&').any(is_watch_parameter)
}

fn is_watch_parameter(pair: &str) -> bool {
    match pair.split_once('=') {
        Some(("watch", value)) => !matches!(value, "0" | "false"),
        None => pair == "watch",
        Some(_) => false,
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A running request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningRequest {
    /// Id of the request, as in the audit log.
    pub id: String,
    /// Hub of the request; missing if the store has one hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hub: Option<HubUrl>,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Name of the caller.
    pub caller: String,
    /// Id of the API token; missing for a caller that an issuer vouches for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// URL of the issuer that vouches for the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The caller as the issuer names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Tenant of the cluster; for the hub's own routes that of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Cluster of the request; missing for the hub's own routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Time when the head of the request was read.
    #[serde(with = "time::serde::rfc3339")]
    pub started: OffsetDateTime,
    /// HTTP method.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// Bytes from the client so far.
    pub bytes_in: u64,
    /// Bytes to the client so far.
    pub bytes_out: u64,
}

/// Response to `GET /v1/requests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningRequestList {
    /// Running requests.
    pub items: Vec<RunningRequest>,
    /// Live hubs of which requests are missing: they did not answer in time, or have too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub incomplete_hubs: Vec<HubUrl>,
}

/// Response to `DELETE /v1/requests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedRequests {
    /// Matching requests at this hub.
    pub ended: usize,
    /// Matching requests at the other hubs of the store. They end within seconds.
    #[serde(default)]
    pub elsewhere: usize,
    /// Live hubs of which requests are not counted: they did not answer in time, or have too many. Theirs end, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub incomplete_hubs: Vec<HubUrl>,
}

/// Kind of a locked thing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    /// A caller, by name.
    User,
    /// An API token, by id.
    Token,
    /// A cluster: no request reaches it; its agent stays connected.
    Cluster,
    /// A tenant with all below it: its callers and its clusters.
    Tenant,
}

impl LockKind {
    /// All kinds.
    pub const ALL: [LockKind; 4] = [
        LockKind::User,
        LockKind::Token,
        LockKind::Cluster,
        LockKind::Tenant,
    ];

    /// The name in JSON and in paths.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            LockKind::User => "user",
            LockKind::Token => "token",
            LockKind::Cluster => "cluster",
            LockKind::Tenant => "tenant",
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    /// Kind of the locked thing.
    pub kind: LockKind,
    /// Name or id of the locked thing.
    pub name: String,
    /// Reason, shown to everybody whom the lock refuses.
    pub reason: String,
    /// Caller that made the lock.
    pub created_by: String,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// End of the lock; missing: until it is removed.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<OffsetDateTime>,
}

/// Body of `PUT /v1/locks/{kind}/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateLock {
    /// Reason, shown to everybody whom the lock refuses.
    #[schema(min_length = 1, max_length = 256)]
    pub reason: String,
    /// Lifetime, 1 minute to 1 year; without end if missing.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 60, maximum = 31_622_400)]
    pub ttl_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_follows_from_path_and_query() {
        let pod = "/k8s/clusters/c-a/api/v1/namespaces/n/pods/p";
        for (path, query, kind) in [
            (format!("{pod}/exec"), "command=sh", RequestKind::Exec),
            (format!("{pod}/attach"), "", RequestKind::Attach),
            (format!("{pod}/portforward"), "", RequestKind::PortForward),
            (format!("{pod}/log"), "follow=true", RequestKind::Log),
            (pod.to_owned(), "a=b&watch=true", RequestKind::Watch),
            (pod.to_owned(), "watch", RequestKind::Watch),
            (pod.to_owned(), "watch=false", RequestKind::Other),
            (pod.to_owned(), "unwatch=1", RequestKind::Other),
            ("/v1/changes".to_owned(), "", RequestKind::Watch),
            (
                "/v1/clusters/c-a/tcp/db:5432".to_owned(),
                "",
                RequestKind::Tcp,
            ),
            ("/clusters/log".to_owned(), "", RequestKind::Other),
        ] {
            assert_eq!(RequestKind::of(&path, query), kind, "{path}?{query}");
        }
    }
}
