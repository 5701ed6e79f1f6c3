//! Roles of a caller in parts of the hub, in addition to its own role.

use std::sync::Arc;

use fairlead_api::{ClusterId, Selector, TenantId, resources::Role, site::OperatorNamespace};

/// A role of a caller in a part of the hub. Roles add up: the strongest one of a cluster counts there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScopedGrant {
    /// Role in the scope.
    pub role: Role,
    /// Clusters and namespaces of the role.
    pub scope: GrantScope,
    /// Source and validity.
    pub kind: GrantKind,
}

/// Part of the hub in which a role counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct GrantScope {
    /// The tenant with all below it; `None`: all tenants.
    pub tenant: Option<TenantId>,
    /// Clusters of the tenant.
    pub clusters: ClusterScope,
    /// Namespaces of the role in clusters; empty: whole clusters.
    pub namespaces: Vec<OperatorNamespace>,
}

/// Clusters of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum ClusterScope {
    /// All clusters of the tenant.
    #[default]
    All,
    /// One cluster.
    One(ClusterId),
    /// Clusters that match a selector at the time of the request.
    Selected(Arc<Selector>),
}

impl ClusterScope {
    /// The one cluster of the scope.
    #[must_use]
    pub fn id(&self) -> Option<&ClusterId> {
        match self {
            ClusterScope::One(id) => Some(id),
            ClusterScope::All | ClusterScope::Selected(_) => None,
        }
    }

    /// The selector of the scope.
    #[must_use]
    pub fn selector(&self) -> Option<&Selector> {
        match self {
            ClusterScope::Selected(selector) => Some(selector),
            ClusterScope::All | ClusterScope::One(_) => None,
        }
    }

    /// True if clusters are not limited.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == ClusterScope::All
    }
}

impl From<Option<ClusterId>> for ClusterScope {
    fn from(only: Option<ClusterId>) -> Self {
        only.map_or(ClusterScope::All, ClusterScope::One)
    }
}

/// Kind of a [`ScopedGrant`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrantKind {
    /// Lasts as long as the credential.
    Standing,
    /// Lasts for a time, and counts in clusters only. Holds the id of its access request.
    Temporary(Arc<str>),
    /// Not in effect: the caller may take this role in an emergency.
    BreakGlass,
}

/// A role in one namespace of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceGrant {
    /// The namespace.
    pub namespace: OperatorNamespace,
    /// Role in it.
    pub role: Role,
}
