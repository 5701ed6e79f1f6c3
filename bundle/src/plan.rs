//! Plans: effect of a change on clusters, and the hash that confirms removals.

use std::collections::BTreeSet;

use fairlead_api::{
    BundleId, ClusterId,
    delivery::{BlockedCluster, Plan, PlanHash, PlannedTarget, Target, UntargetPolicy},
};

use crate::{canonical::sha256, renderer::Outcome};

/// A cluster that loses a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removal {
    /// The bundle.
    pub bundle: BundleId,
    /// The cluster.
    pub cluster: ClusterId,
    /// True: its objects are deleted.
    pub deletes: bool,
}

/// Names a set of removals, for `confirm`; `None` without any.
///
/// Equal sets have equal names, whatever change leads to them.
#[must_use]
pub fn plan_hash(removals: &BTreeSet<Removal>) -> Option<PlanHash> {
    if removals.is_empty() {
        return None;
    }
    let mut text = String::with_capacity(64 * removals.len());
    for removal in removals {
        // Ids have neither spaces nor line ends.
        let action = if removal.deletes { "remove" } else { "keep" };
        for word in [action, removal.bundle.as_str(), removal.cluster.as_str()] {
            text.push_str(word);
            text.push(' ');
        }
        text.push('\n');
    }
    Some(PlanHash::of_sha256(&sha256(text.as_bytes())))
}

/// Gathers the outcomes of clusters before and after a change of one bundle.
#[derive(Debug)]
pub struct PlanBuilder {
    bundle: BundleId,
    deletes: bool,
    plan: Plan,
    removals: BTreeSet<Removal>,
}

impl PlanBuilder {
    /// Starts a plan with the targets after the change; none for a deletion of the bundle.
    #[must_use]
    pub fn new(bundle: BundleId, targets: &[Target], policy: UntargetPolicy) -> Self {
        let targets = targets.iter().map(|target| PlannedTarget {
            name: target.name.clone(),
            skip: target.skip,
            clusters: 0,
        });
        let plan = Plan {
            targets: targets.collect(),
            ..Plan::default()
        };
        PlanBuilder {
            bundle,
            deletes: policy == UntargetPolicy::Remove,
            plan,
            removals: BTreeSet::new(),
        }
    }

    /// Adds a cluster. `Outcome::Unmatched` stands for a bundle that does not exist.
    pub fn add(&mut self, cluster: &ClusterId, before: &Outcome, after: &Outcome) {
        let target = match after {
            Outcome::Unmatched => None,
            Outcome::Skipped { target }
            | Outcome::Blocked { target, .. }
            | Outcome::Spec { target, .. } => Some(*target),
        };
        if let Some(target) = target.and_then(|target| self.plan.targets.get_mut(target)) {
            target.clusters += 1;
        }
        let plan = &mut self.plan;
        match after {
            Outcome::Blocked { reasons, .. } => {
                plan.blocked.push(BlockedCluster {
                    cluster: cluster.clone(),
                    reasons: reasons.clone(),
                });
            }
            Outcome::Spec { .. } if !before.is_targeted() => plan.added.push(cluster.clone()),
            Outcome::Spec { spec, .. } if before.spec_id() == Some(&spec.id) => {
                plan.unchanged += 1;
            }
            Outcome::Spec { .. } => plan.changed.push(cluster.clone()),
            Outcome::Unmatched | Outcome::Skipped { .. } if before.is_targeted() => {
                plan.removed.push(cluster.clone());
                self.removals.insert(Removal {
                    bundle: self.bundle.clone(),
                    cluster: cluster.clone(),
                    deletes: self.deletes,
                });
            }
            Outcome::Unmatched | Outcome::Skipped { .. } => {}
        }
    }

    /// Removals so far. A change of a cluster or a group joins those of all bundles.
    #[must_use]
    pub const fn removals(&self) -> &BTreeSet<Removal> {
        &self.removals
    }

    /// The plan.
    #[must_use]
    pub fn finish(self) -> Plan {
        let mut plan = self.plan;
        plan.added.sort();
        plan.changed.sort();
        plan.removed.sort();
        plan.blocked.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        plan.confirm = plan_hash(&self.removals);
        plan
    }
}

#[cfg(test)]
mod tests;
