//! Contract of impersonation between hub and agent: header names, the prefix of all names, and the groups of each role.
//!
//! The gateway writes these names, the agent checks them against its own list, and the install manifest grants exactly
//! this list. Kubernetes RBAC has no prefixes for users, so the agent enforces the prefix itself.

use crate::{TenantId, resources::Role, site::OperatorNamespace};

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

/// Roles that can be limited to namespaces.
pub const NAMESPACE_ROLES: [Role; 2] = [Role::Operator, Role::Viewer];

const NAMESPACE_GROUP_PREFIX: &str = "fairlead:namespace:";

/// Group of the callers with a role in one namespace only: `fairlead:namespace:<namespace>:<role>`.
#[must_use]
pub fn namespace_group(namespace: &OperatorNamespace, role: Role) -> String {
    format!("{NAMESPACE_GROUP_PREFIX}{}:{role}", namespace.as_str())
}

/// True for a well-formed [`namespace_group`] of one of the [`NAMESPACE_ROLES`].
#[must_use]
pub fn is_namespace_group(group: &str) -> bool {
    let parts = group.strip_prefix(NAMESPACE_GROUP_PREFIX);
    let parts = parts.and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(namespace, role)| {
        let role = NAMESPACE_ROLES.iter().any(|it| it.as_str() == role);
        role && namespace.parse::<OperatorNamespace>().is_ok()
    })
}

/// All groups of the roles in these namespaces.
#[must_use]
pub fn namespace_groups(namespaces: &[OperatorNamespace]) -> Vec<String> {
    let each = namespaces.iter();
    each.flat_map(|namespace| NAMESPACE_ROLES.map(|role| namespace_group(namespace, role)))
        .collect()
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
    fn only_well_formed_groups_of_namespaces_are_known() {
        let shop: OperatorNamespace = "shop".parse().unwrap();
        let groups = namespace_groups(std::slice::from_ref(&shop));
        assert_eq!(
            groups,
            [
                "fairlead:namespace:shop:operator",
                "fairlead:namespace:shop:viewer"
            ]
        );
        assert!(groups.iter().all(|group| is_namespace_group(group)));
        for group in [
            "fairlead:namespace:shop:admin",
            "fairlead:namespace:shop:tenant",
            "fairlead:namespace:kube-system:operator",
            "fairlead:namespace:fairlead:operator",
            "fairlead:namespace::operator",
            "fairlead:namespace:shop",
            "fairlead:namespace:shop:operator:x",
            "fairlead:namespace:Shop:operator",
            "fairlead:tenant:shop:operator",
            "Fairlead:namespace:shop:operator",
        ] {
            assert!(!is_namespace_group(group), "{group}");
        }
    }

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
