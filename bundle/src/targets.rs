//! Targets: which clusters get a bundle, and with which changes.

use fairlead_api::delivery::Target;

use crate::cluster::ClusterView;

/// Decision of the targets of a bundle about a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// No target matches.
    Unmatched,
    /// The target with this index excludes the cluster.
    Skipped(usize),
    /// The target with this index applies.
    Target(usize),
}

/// Chooses the first matching target of a cluster.
#[must_use]
pub fn choose(targets: &[Target], cluster: &ClusterView<'_>) -> Choice {
    let found = targets
        .iter()
        .enumerate()
        .find(|(_, target)| matches(target, cluster));
    match found {
        None => Choice::Unmatched,
        Some((index, target)) if target.skip => Choice::Skipped(index),
        Some((index, _)) => Choice::Target(index),
    }
}

/// True if the target names the cluster, one of its groups, or its labels. A target without any of them matches nothing.
#[must_use]
pub fn matches(target: &Target, cluster: &ClusterView<'_>) -> bool {
    let selected = |selector: &fairlead_api::Selector| selector.matches(|key| (cluster.label)(key));
    target.clusters.contains(cluster.id)
        || target.groups.iter().any(|group| (cluster.in_group)(group))
        || target.selector.as_ref().is_some_and(selected)
}
