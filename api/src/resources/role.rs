//! Roles of callers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Permissions of a caller, for one tenant with its descendants, or for all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// All permissions.
    Admin,
    /// Reads the registry and works in clusters.
    Operator,
    /// Reads the registry and clusters.
    Viewer,
    /// Manages the clusters of its tenant and works in them.
    Tenant,
    /// For an agent like Steward: reads its own cluster, and writes its facts and deploy key.
    Cluster,
    /// For a compiler like Commodore: reads the registry and writes compilation results.
    Compile,
    /// Reads the registry and opens TCP connections into clusters, to addresses that their sites allow.
    Tcp,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 7] = [
        Role::Admin,
        Role::Operator,
        Role::Viewer,
        Role::Tenant,
        Role::Cluster,
        Role::Compile,
        Role::Tcp,
    ];

    /// Roles with a group in clusters.
    pub const IN_CLUSTERS: [Role; 3] = [Role::Admin, Role::Operator, Role::Viewer];

    /// Name of the role.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Viewer => "viewer",
            Role::Tenant => "tenant",
            Role::Cluster => "cluster",
            Role::Compile => "compile",
            Role::Tcp => "tcp",
        }
    }

    /// Role of the caller at API servers; `None` for roles without access to them.
    #[must_use]
    pub const fn in_clusters(self) -> Option<Role> {
        match self {
            Role::Admin | Role::Operator | Role::Viewer => Some(self),
            Role::Tenant => Some(Role::Operator),
            Role::Cluster | Role::Compile | Role::Tcp => None,
        }
    }

    /// True if the role opens TCP connections into clusters. Rights at API servers alone do not include that.
    #[must_use]
    pub const fn opens_tcp(self) -> bool {
        matches!(self, Role::Admin | Role::Tcp)
    }

    /// True for a role that a caller may have for a time: one at API servers, or the one for TCP connections.
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        matches!(
            self,
            Role::Admin | Role::Operator | Role::Viewer | Role::Tcp
        )
    }

    /// True if this role allows everything in clusters that `other` allows.
    #[must_use]
    pub const fn includes(self, other: Role) -> bool {
        matches!(
            (self, other),
            (Role::Admin, _)
                | (Role::Operator, Role::Operator | Role::Viewer)
                | (Role::Viewer, Role::Viewer)
        )
    }

    /// ClusterRole that the install manifest binds to the group `fairlead:<role>` in the whole cluster; the site
    /// operator may change it. Operators write only in namespaces that the site operator chose.
    #[must_use]
    pub const fn default_cluster_role(self) -> &'static str {
        match self {
            Role::Admin => "cluster-admin",
            _ => "view",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error of parsing a [`Role`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role is admin, operator, viewer, tenant, cluster, compile or tcp")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(UnknownRole)
    }
}
