//! Locks of users, tokens, clusters and tenants, and orders to end running requests.

use fairlead_api::{
    ClusterId, TenantId,
    resources::{LockKind, RequestKind},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A lock, or an order to end running requests, which all hubs of a store follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLock {
    /// Kind and name of the locked thing, or a random id.
    pub id: String,
    /// The locked thing, or the requests to end.
    pub target: LockTarget,
    /// Reason, for everybody whom it concerns.
    pub reason: String,
    /// Name of the author.
    pub created_by: String,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// End; `None`: until it is removed.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<OffsetDateTime>,
}

/// Target of an [`AccessLock`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LockTarget {
    /// A user, token, cluster or tenant.
    Named {
        /// Kind of the locked thing.
        kind: LockKind,
        /// Name or id of the locked thing.
        name: String,
    },
    /// Running requests that began before the order.
    Requests(SelectedRequests),
}

/// Selects running requests; a missing field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectedRequests {
    /// Id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Id of the author's own request, which gets its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except: Option<String>,
    /// Name of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Id of the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Tenant of the request, or one above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Tenant of the author: the order reaches no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<TenantId>,
    /// Cluster of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Kind of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RequestKind>,
}

impl AccessLock {
    /// Id of the lock of a named thing.
    #[must_use]
    pub fn id_of(kind: LockKind, name: &str) -> String {
        format!("{kind}/{name}")
    }

    /// True until the lock ends.
    #[must_use]
    pub fn is_active(&self, now: OffsetDateTime) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}
