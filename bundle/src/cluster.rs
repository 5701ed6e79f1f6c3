//! A cluster, as targets and variables read it.

use std::{borrow::Cow, fmt};

use fairlead_api::{ClusterId, GroupId, TenantId};
use serde_json::Value;

/// Fields of a cluster, its labels, facts and groups. The caller resolves defaults of tenants and stale facts.
#[derive(Clone, Copy)]
pub struct ClusterView<'a> {
    /// Id of the cluster.
    pub id: &'a ClusterId,
    /// Name that people see.
    pub name: &'a str,
    /// Tenant of the cluster.
    pub tenant: &'a TenantId,
    /// True if the tenant is the cluster's or one above it: its bundles reach the cluster.
    pub is_below: &'a dyn Fn(&TenantId) -> bool,
    /// Value of an annotation or else of a fact, as selectors of clusters read it.
    pub label: &'a dyn Fn(&str) -> Option<Cow<'a, str>>,
    /// Value of a fact.
    pub fact: &'a dyn Fn(&str) -> Option<Cow<'a, Value>>,
    /// Value of an annotation.
    pub annotation: &'a dyn Fn(&str) -> Option<Cow<'a, str>>,
    /// True if the cluster is a member of the group.
    pub in_group: &'a dyn Fn(&GroupId) -> bool,
}

impl fmt::Debug for ClusterView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterView({})", self.id)
    }
}
