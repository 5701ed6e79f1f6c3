//! Deployments of one bundle, ordered by cluster.

use std::sync::Arc;

use fairlead_api::ClusterId;
use fairlead_bundle::RenderedSpec;
use fairlead_rollout::UnixMillis;

use super::report::StoredReport;

/// Decision of the newest generation about a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Targeting {
    /// No target matches, or the bundle targets nothing any more.
    Untargeted,
    /// Targeted, and the spec cannot be made.
    Blocked,
    /// Targeted.
    Targeted,
}

impl Targeting {
    /// True if the cluster takes part in rollouts.
    pub(crate) const fn is_targeted(self) -> bool {
        !matches!(self, Targeting::Untargeted)
    }
}

/// A bundle in a cluster, in 120 bytes while it is healthy.
#[derive(Debug, Clone)]
pub(crate) struct DeploymentCell {
    pub(crate) cluster: ClusterId,
    /// Generation released to the cluster; 0 for none.
    pub(crate) released: u64,
    /// Spec of that generation, if the cluster is targeted.
    pub(crate) spec: Option<Arc<RenderedSpec>>,
    /// Time of the last change of the fields above.
    pub(crate) changed: UnixMillis,
    pub(crate) report: Option<StoredReport>,
    pub(crate) targeting: Targeting,
}

impl DeploymentCell {
    pub(crate) fn new(cluster: ClusterId, now: UnixMillis) -> Self {
        DeploymentCell {
            cluster,
            released: 0,
            spec: None,
            changed: now,
            report: None,
            targeting: Targeting::Untargeted,
        }
    }

    /// True if nothing of the bundle can be in the cluster, and nothing is to come.
    pub(crate) const fn is_void(&self) -> bool {
        !self.targeting.is_targeted() && self.released == 0 && self.report.is_none()
    }
}

/// Deployments ordered by cluster, without gaps in memory.
#[derive(Debug, Default)]
pub(crate) struct DeploymentCells(Vec<DeploymentCell>);

impl DeploymentCells {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, DeploymentCell> {
        self.0.iter()
    }

    pub(crate) fn get(&self, cluster: &ClusterId) -> Option<&DeploymentCell> {
        self.0.get(self.find(cluster).ok()?)
    }

    pub(crate) fn get_mut(&mut self, cluster: &ClusterId) -> Option<&mut DeploymentCell> {
        let place = self.find(cluster).ok()?;
        self.0.get_mut(place)
    }

    /// The deployment in a cluster, made if it is missing. The last place is tried first, because many come in order.
    pub(crate) fn entry(&mut self, cluster: &ClusterId, now: UnixMillis) -> &mut DeploymentCell {
        let place = match self.0.last() {
            Some(last) if last.cluster < *cluster => Err(self.0.len()),
            _ => self.find(cluster),
        };
        let place = match place {
            Ok(place) => place,
            Err(place) => {
                self.0
                    .insert(place, DeploymentCell::new(cluster.clone(), now));
                place
            }
        };
        // The place was found or made above.
        #[allow(clippy::indexing_slicing, reason = "the place exists")]
        &mut self.0[place]
    }

    pub(crate) fn remove(&mut self, cluster: &ClusterId) -> Option<DeploymentCell> {
        let place = self.find(cluster).ok()?;
        Some(self.0.remove(place))
    }

    /// Returns unused memory.
    pub(crate) fn shrink(&mut self) {
        if self.0.capacity() > self.0.len() + self.0.len() / 8 + 8 {
            self.0.shrink_to_fit();
        }
    }

    fn find(&self, cluster: &ClusterId) -> Result<usize, usize> {
        self.0.binary_search_by(|it| it.cluster.cmp(cluster))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ClusterId {
        name.parse().unwrap()
    }

    #[test]
    fn cells_keep_the_order_of_clusters() {
        let mut cells = DeploymentCells::default();
        for name in ["c-m", "c-z", "c-a", "c-m", "c-zz"] {
            assert_eq!(cells.entry(&id(name), UnixMillis(1)).cluster, id(name));
        }
        let names = |cells: std::slice::Iter<'_, DeploymentCell>| {
            cells.map(|it| it.cluster.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(cells.iter()), ["c-a", "c-m", "c-z", "c-zz"]);
        assert!(cells.remove(&id("c-m")).is_some());
        assert!(cells.get(&id("c-m")).is_none());
        assert!(cells.get_mut(&id("c-z")).is_some());
        assert_eq!(cells.len(), 3);
    }

    #[test]
    fn a_healthy_cell_is_small() {
        assert!(
            size_of::<DeploymentCell>() <= 120,
            "{}",
            size_of::<DeploymentCell>()
        );
    }
}
