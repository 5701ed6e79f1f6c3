//! Clusters of the registry, as targets and variables of bundles read them.

use std::borrow::Cow;

use fairlead_bundle::ClusterView;
use fairlead_registry::{EffectiveFact, label_of, template_of};
use fairlead_store::{View, model::Cluster};

use crate::members::is_member;

/// Calls `read` with the cluster: its own annotations and facts, over those of its tenant's template. Stale facts count,
/// as they do for selectors of clusters.
pub(crate) fn with_cluster<T>(
    view: &View,
    cluster: &Cluster,
    read: impl FnOnce(&ClusterView<'_>) -> T,
) -> T {
    let template = template_of(view, &cluster.tenant);
    read(&ClusterView {
        id: &cluster.id,
        name: cluster.shown_name(),
        tenant: &cluster.tenant,
        is_below: &|tenant| view.within(&cluster.tenant, tenant),
        label: &|key| label_of(cluster, template, key, |_| true),
        fact: &|name| {
            let (_, fact) = EffectiveFact::named(cluster, template, name, |_| true)?;
            Some(fact.value())
        },
        annotation: &|name| {
            let own = cluster.annotations.get(name);
            let value = own.or_else(|| template?.annotations.get(name))?;
            Some(Cow::Borrowed(value.as_str()))
        },
        in_group: &|id| {
            let group = view.group(id);
            group.is_some_and(|group| is_member(view, &group.value, cluster))
        },
    })
}
