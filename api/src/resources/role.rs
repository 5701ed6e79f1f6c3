//! Roles.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What a caller may do, on one tenant and those below it, or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Registers and deletes, hands out tokens.
    Admin,
    /// Works in clusters, and reads.
    Operator,
    /// Reads, in clusters as well.
    Viewer,
    /// Looks after the clusters of a tenant: registers, changes and deletes them, and works in them.
    Tenant,
    /// A cluster's own agent, like Steward: its facts, its deploy key, and nothing else.
    Cluster,
    /// Compiles catalogs, like Commodore: reads, and writes down what was compiled.
    Compile,
}

impl Role {
    pub const ALL: [Role; 6] = [
        Role::Admin,
        Role::Operator,
        Role::Viewer,
        Role::Tenant,
        Role::Cluster,
        Role::Compile,
    ];

    /// Those that are groups in clusters.
    pub const IN_CLUSTERS: [Role; 3] = [Role::Admin, Role::Operator, Role::Viewer];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Viewer => "viewer",
            Role::Tenant => "tenant",
            Role::Cluster => "cluster",
            Role::Compile => "compile",
        }
    }

    /// As what a caller of this role works in clusters; programs with a role of their own never do.
    #[must_use]
    pub const fn in_clusters(self) -> Option<Role> {
        match self {
            Role::Admin | Role::Operator | Role::Viewer => Some(self),
            Role::Tenant => Some(Role::Operator),
            Role::Cluster | Role::Compile => None,
        }
    }

    /// The ClusterRole that a site binds the group `fairlead:<role>` to when it joins; its operator may change that.
    #[must_use]
    pub const fn default_cluster_role(self) -> &'static str {
        match self {
            Role::Admin => "cluster-admin",
            Role::Operator | Role::Tenant => "edit",
            Role::Viewer | Role::Cluster | Role::Compile => "view",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is none of the roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role is admin, operator, viewer, tenant, cluster or compile")]
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
