//! Entries of the change log.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::TenantId;

/// One entry of the change log, without values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeEntry {
    /// Revision of the registry after the change.
    pub revision: u64,
    /// Kind of the changed resource.
    pub kind: ResourceKind,
    /// Id of the changed resource.
    pub id: String,
    /// Tenant of the changed resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Operation on the resource.
    pub operation: Operation,
    /// Time of the change.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Author: the name of a caller, `agent:<cluster>` or `system:hub`.
    pub actor: String,
}

/// Response to `GET /v1/changes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changes {
    /// Revision to continue from.
    pub revision: u64,
    /// Changes in the order of their revisions.
    pub items: Vec<ChangeEntry>,
}

/// Kind of a resource in the change log.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// Tenant.
    Tenant,
    /// Cluster.
    Cluster,
    /// API token.
    Token,
    /// Catalog of a cluster.
    Catalog,
    /// Certificate authorities of the hub.
    Authority,
    /// Lock, or order to end running requests.
    Lock,
    /// Rights of a person who signs in.
    Person,
    /// Request for a role for a time.
    Access,
    /// Source of bundles.
    Source,
    /// Bundle of manifests, or a chart.
    Bundle,
    /// Group of clusters.
    Group,
    /// Git repository of a deleted tenant or cluster, until it is archived or deleted.
    Repository,
    /// Confirmed host keys of a Git server.
    HostKeys,
    /// Agent without a join string that waits for a person.
    Adoption,
    /// Access to Vault of a deleted cluster, until it is removed.
    Vault,
    /// Token for the API of a Git server.
    Credential,
    /// Upgrade of the agents of many clusters.
    Upgrade,
    /// Named service of a cluster.
    Service,
}

impl ResourceKind {
    /// All kinds.
    pub const ALL: [ResourceKind; 18] = [
        ResourceKind::Tenant,
        ResourceKind::Cluster,
        ResourceKind::Token,
        ResourceKind::Catalog,
        ResourceKind::Authority,
        ResourceKind::Lock,
        ResourceKind::Person,
        ResourceKind::Access,
        ResourceKind::Source,
        ResourceKind::Bundle,
        ResourceKind::Group,
        ResourceKind::Repository,
        ResourceKind::HostKeys,
        ResourceKind::Adoption,
        ResourceKind::Vault,
        ResourceKind::Credential,
        ResourceKind::Upgrade,
        ResourceKind::Service,
    ];

    /// The name in JSON and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ResourceKind::Tenant => "tenant",
            ResourceKind::Cluster => "cluster",
            ResourceKind::Token => "token",
            ResourceKind::Catalog => "catalog",
            ResourceKind::Authority => "authority",
            ResourceKind::Lock => "lock",
            ResourceKind::Person => "person",
            ResourceKind::Access => "access",
            ResourceKind::Source => "source",
            ResourceKind::Bundle => "bundle",
            ResourceKind::Group => "group",
            ResourceKind::Repository => "repository",
            ResourceKind::HostKeys => "hostkeys",
            ResourceKind::Adoption => "adoption",
            ResourceKind::Vault => "vault",
            ResourceKind::Credential => "credential",
            ResourceKind::Upgrade => "upgrade",
            ResourceKind::Service => "service",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error of parsing a [`ResourceKind`] or an [`Operation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no kind or operation of the change log")]
pub struct UnknownName;

impl FromStr for ResourceKind {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let kind = ResourceKind::ALL.into_iter();
        let mut kind = kind.filter(|kind| kind.as_str() == text);
        kind.next().ok_or(UnknownName)
    }
}

/// Operation on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// The resource was created.
    Created,
    /// Fields of the resource were changed.
    Updated,
    /// The resource was deleted.
    Deleted,
}

impl Operation {
    /// The name in JSON and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Operation::Created => "created",
            Operation::Updated => "updated",
            Operation::Deleted => "deleted",
        }
    }
}

impl FromStr for Operation {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        [Operation::Created, Operation::Updated, Operation::Deleted]
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or(UnknownName)
    }
}
