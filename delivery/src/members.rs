//! Members of groups.

use std::sync::Arc;

use fairlead_registry::has_labels;
use fairlead_store::{
    Record, View,
    model::{Cluster, ClusterGroup},
};

/// Clusters of a group's tenant and its sub-tenants that have the labels of the group, in the order of their ids.
pub(crate) fn members<'a>(
    view: &'a View,
    group: &'a ClusterGroup,
) -> impl Iterator<Item = &'a Arc<Record<Cluster>>> {
    view.clusters()
        .filter(|it| is_member(view, group, &it.value))
}

/// True if the cluster is of the group's tenant or a sub-tenant, and has the labels of the group.
pub(crate) fn is_member(view: &View, group: &ClusterGroup, cluster: &Cluster) -> bool {
    view.within(&cluster.tenant, &group.tenant) && has_labels(view, cluster, &group.selector)
}
