//! Permissions of roles for operations.

use fairlead_api::resources::Role;
use fairlead_seam::{Caller, ClusterScope};

/// A denied permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// One clause: role of the caller, and the needed one.
    pub detail: String,
    /// Next step for the caller.
    pub next: String,
}

/// Permission for an operation on visible resources. A module declares its own rights as constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// Subject of "... needs the role admin".
    operation: &'static str,
    roles: &'static [Role],
    /// The caller must not be limited to a tenant.
    on_all_tenants: bool,
}

impl Right {
    /// Read tenants, clusters and their details.
    pub const READ: Right = Right::new("reading", &Role::ALL);
    /// Change a tenant.
    pub const WRITE_TENANT: Right = Right::new("changing a tenant", &[Role::Admin, Role::Tenant]);
    /// Create and delete tenants, change a tenant's parent, move a cluster between tenants.
    pub const MANAGE_TENANTS: Right = Right {
        operation: "creating or deleting a tenant, or moving something between tenants,",
        roles: &[Role::Admin],
        on_all_tenants: true,
    };
    /// Register, change, delete clusters.
    pub const WRITE_CLUSTER: Right = Right::new(
        "registering, changing or deleting a cluster",
        &[Role::Admin, Role::Tenant],
    );
    /// Report facts and the deploy key of a cluster, as its own agent.
    pub const REPORT: Right = Right::new("reporting for a cluster", &[Role::Cluster]);
    /// Read and create bootstrap tokens.
    pub const INVITE: Right = Right::new("a bootstrap token", &[Role::Admin, Role::Tenant]);
    /// Manage API tokens.
    pub const TOKENS: Right = Right::new("work on API tokens", &[Role::Admin]);

    /// A right of these roles. `operation` is the subject of the sentence "... needs the role admin".
    #[must_use]
    pub const fn new(operation: &'static str, roles: &'static [Role]) -> Self {
        Right {
            operation,
            roles,
            on_all_tenants: false,
        }
    }

    /// The same right, for callers that are not limited to a tenant.
    #[must_use]
    pub const fn on_all_tenants(self) -> Self {
        Right {
            on_all_tenants: true,
            ..self
        }
    }

    /// True if the caller has the right on all resources visible to it.
    #[must_use]
    pub fn allows(&self, caller: &Caller) -> bool {
        let own = self.roles.contains(&caller.hub_role());
        if self.on_all_tenants && caller.tenant.is_some() {
            return false;
        }
        // Without limits the own role covers all others.
        own && (caller.is_unlimited()
            || caller
                .each_role()
                .skip(1)
                .all(|it| self.roles.contains(&it.hub_role())))
    }

    /// Checks the right of a caller.
    ///
    /// # Errors
    /// [`Denied`]
    pub fn check(&self, caller: &Caller) -> Result<(), Denied> {
        if self.allows(caller) {
            return Ok(());
        }
        let (operation, needed) = (self.operation, self.needed());
        let on = match (&caller.clusters, &caller.tenant) {
            (ClusterScope::One(cluster), _) => cluster.to_string(),
            (ClusterScope::Selected(selector), _) => format!("clusters with {selector}"),
            (ClusterScope::All, Some(tenant)) => tenant.to_string(),
            (ClusterScope::All, None) => "all tenants".to_owned(),
        };
        let detail = format!(
            "{:?} has the role {} on {on}; {operation} needs {needed}",
            caller.name,
            caller.hub_role()
        );
        let next = format!("Use a token with {needed}; `fairlead whoami` shows yours.");
        Err(Denied { detail, next })
    }

    /// The roles with this right, in words.
    fn needed(&self) -> String {
        let names: Vec<_> = self.roles.iter().map(|role| role.as_str()).collect();
        let scope = if self.on_all_tenants {
            " on all tenants"
        } else {
            ""
        };
        match names.as_slice() {
            all if all.len() == Role::ALL.len() => "any role".to_owned(),
            [] => "a rule of your issuer".to_owned(),
            ["cluster"] => "the role cluster, on that cluster".to_owned(),
            [first @ .., last] if !first.is_empty() => {
                format!("the role {} or {last}{scope}", first.join(", "))
            }
            one => format!("the role {}{scope}", one.concat()),
        }
    }
}
