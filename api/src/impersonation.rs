//! Contract of impersonation between hub and agent: header names, the prefix of all names, and the groups of each role.
//!
//! The gateway writes these names, the agent checks them against its own list, and the install manifest grants exactly
//! this list. Kubernetes RBAC has no prefixes for users, so the agent enforces the prefix itself.

use crate::{TenantId, resources::Role};

/// Prefix of every user and of every group of Fairlead's own in a cluster.
pub const NAME_PREFIX: &str = "fairlead:";

/// Gateway to agent: the user to impersonate, always below [`NAME_PREFIX`].
pub const USER_HEADER: &str = "fairlead-user";
/// Gateway to agent: one group to impersonate; repeated.
pub const GROUP_HEADER: &str = "fairlead-group";
/// Gateway to agent: the user of `kubectl --as`, in place of [`USER_HEADER`] and [`GROUP_HEADER`].
///
/// An agent that does not know this header finds no user, and rejects the request.
pub const AS_HEADER: &str = "fairlead-as";

/// Name of a caller in clusters: `fairlead:<name>`.
#[must_use]
pub fn user(caller: &str) -> String {
    format!("{NAME_PREFIX}{caller}")
}

/// Group of all callers with a role: `fairlead:<role>`.
#[must_use]
pub fn group(role: Role) -> String {
    format!("{NAME_PREFIX}{role}")
}

/// Group of the callers with a role in one tenant: `fairlead:tenant:<tenant>:<role>`.
#[must_use]
pub fn tenant_group(tenant: &TenantId, role: Role) -> String {
    format!("{NAME_PREFIX}tenant:{tenant}:{role}")
}

/// All groups that the hub may name in a cluster of this tenant.
#[must_use]
pub fn groups(tenant: &TenantId) -> Vec<String> {
    let of_all = Role::IN_CLUSTERS.map(group);
    let of_tenant = Role::IN_CLUSTERS.map(|role| tenant_group(tenant, role));
    [of_all, of_tenant].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_sites_have_bound() {
        assert_eq!(user("system:masters"), "fairlead:system:masters");
        assert_eq!(
            groups(&"t-acme".parse().unwrap()),
            [
                "fairlead:admin",
                "fairlead:operator",
                "fairlead:viewer",
                "fairlead:tenant:t-acme:admin",
                "fairlead:tenant:t-acme:operator",
                "fairlead:tenant:t-acme:viewer",
            ]
        );
    }
}
