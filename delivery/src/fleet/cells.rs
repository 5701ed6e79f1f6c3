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

/// A bundle in a cluster, in 72 bytes while it is healthy.
#[derive(Debug, Clone)]
pub(crate) struct DeploymentCell {
    pub(crate) cluster: ClusterId,
    /// Generation released to the cluster; 0 for none.
    pub(crate) released: u64,
    /// Spec of that generation, if the cluster is targeted.
    pub(crate) spec: Option<Arc<RenderedSpec>>,
    since: TargetingSince,
    pub(crate) report: Option<StoredReport>,
}

/// Targeting, and the time of the last change of the deployment's generation, spec or targeting, in one word.
#[derive(Debug, Clone, Copy)]
struct TargetingSince(u64);

impl TargetingSince {
    const TARGETING_BITS: u32 = 2;
    /// Largest time in milliseconds: 146 million years.
    const MAX_MILLIS: u64 = u64::MAX >> Self::TARGETING_BITS;

    fn new(targeting: Targeting, changed: UnixMillis) -> Self {
        let targeting = match targeting {
            Targeting::Untargeted => 0,
            Targeting::Blocked => 1,
            Targeting::Targeted => 2,
        };
        TargetingSince(changed.0.min(Self::MAX_MILLIS) << Self::TARGETING_BITS | targeting)
    }

    const fn targeting(self) -> Targeting {
        match self.0 & 3 {
            0 => Targeting::Untargeted,
            1 => Targeting::Blocked,
            _ => Targeting::Targeted,
        }
    }

    const fn changed(self) -> UnixMillis {
        UnixMillis(self.0 >> Self::TARGETING_BITS)
    }
}

impl DeploymentCell {
    pub(crate) fn new(cluster: ClusterId, now: UnixMillis) -> Self {
        DeploymentCell {
            cluster,
            released: 0,
            spec: None,
            since: TargetingSince::new(Targeting::Untargeted, now),
            report: None,
        }
    }

    pub(crate) const fn targeting(&self) -> Targeting {
        self.since.targeting()
    }

    pub(crate) fn set_targeting(&mut self, targeting: Targeting) {
        self.since = TargetingSince::new(targeting, self.changed());
    }

    /// Time of the last change of generation, spec or targeting.
    pub(crate) const fn changed(&self) -> UnixMillis {
        self.since.changed()
    }

    pub(crate) fn set_changed(&mut self, now: UnixMillis) {
        self.since = TargetingSince::new(self.targeting(), now);
    }

    /// True if nothing of the bundle can be in the cluster, and nothing is to come.
    pub(crate) const fn is_void(&self) -> bool {
        !self.targeting().is_targeted() && self.released == 0 && self.report.is_none()
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
    fn targeting_and_time_change_apart() {
        let mut cell = DeploymentCell::new(id("c-a"), UnixMillis(5));
        let all = [
            Targeting::Blocked,
            Targeting::Targeted,
            Targeting::Untargeted,
        ];
        for (time, targeting) in [5, 0, 1_795_255_200_123].into_iter().zip(all) {
            cell.set_changed(UnixMillis(time));
            cell.set_targeting(targeting);
            assert_eq!(cell.changed(), UnixMillis(time));
            assert_eq!(cell.targeting(), targeting);
        }
        cell.set_changed(UnixMillis(u64::MAX));
        assert_eq!(cell.targeting(), Targeting::Untargeted);
    }

    /// A hub may have 500,000 cells: each byte is half a megabyte.
    #[test]
    fn a_healthy_cell_is_small() {
        let size = size_of::<DeploymentCell>();
        assert!(size <= 72, "{size}");
    }
}
