//! Clusters of a wave by selector and groups.

use fairlead_api::{ClusterId, GroupId, Selector, delivery::Wave};

/// Membership of clusters, from the hub's records.
pub trait Membership {
    /// True if the labels of the cluster match the selector.
    fn selects(&self, selector: &Selector, cluster: &ClusterId) -> bool;

    /// True if the cluster is a member of the group.
    fn in_group(&self, group: &GroupId, cluster: &ClusterId) -> bool;
}

/// True if the cluster matches selector or groups; without both, always.
pub(super) fn matches(wave: &Wave, cluster: &ClusterId, membership: &impl Membership) -> bool {
    if wave.selector.is_none() && wave.groups.is_empty() {
        return true;
    }
    let selector = wave.selector.as_ref();
    selector.is_some_and(|it| membership.selects(it, cluster))
        || wave
            .groups
            .iter()
            .any(|group| membership.in_group(group, cluster))
}
