//! Deployments of one bundle: its generations in use, and the released one of each cluster.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use fairlead_api::{
    BundleId, ClusterId,
    delivery::{BundleKind, DesiredBundle, SpecId},
};
use fairlead_bundle::{Generation, Outcome, RenderedSpec, Renderer};
use fairlead_rollout::UnixMillis;
use fairlead_store::{
    Record, View,
    model::{BundleRecord, Cluster},
};

use super::{
    bundle_rollout::BundleRollout,
    cells::{DeploymentCell, DeploymentCells, Targeting},
    cluster_entry::ClusterEntry,
    purge::is_purged,
};
use crate::clusters::with_cluster;

/// Clusters and documents around a bundle.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) view: &'a View,
    pub(crate) clusters: &'a HashMap<ClusterId, ClusterEntry>,
    pub(crate) now: UnixMillis,
}

/// A bundle and its deployments.
#[derive(Debug)]
pub(crate) struct BundleState {
    pub(crate) id: BundleId,
    /// `None` once the bundle is deleted, while clusters still report it.
    pub(crate) record: Option<Arc<Record<BundleRecord>>>,
    pub(crate) kind: BundleKind,
    renderers: BTreeMap<u64, Renderer>,
    pub(crate) cells: DeploymentCells,
    pub(crate) rollout: Option<BundleRollout>,
    /// True once the stored rollout was read, if there is one.
    pub(crate) is_rollout_known: bool,
    /// Generations that clusters may need; more than those until the next cleaning.
    in_use: BTreeSet<u64>,
}

impl BundleState {
    pub(crate) fn new(id: BundleId, kind: BundleKind) -> Self {
        BundleState {
            id,
            record: None,
            kind,
            renderers: BTreeMap::new(),
            cells: DeploymentCells::default(),
            rollout: None,
            is_rollout_known: false,
            in_use: BTreeSet::new(),
        }
    }

    /// The document, unless the bundle was deleted.
    pub(crate) fn document(&self) -> Option<&BundleRecord> {
        self.record.as_ref().map(|it| &it.value)
    }

    /// Number of the newest generation; 0 without one.
    pub(crate) fn newest(&self) -> u64 {
        let newest = self.document().and_then(BundleRecord::newest);
        newest.map_or(0, |it| it.number)
    }

    /// True if all clusters count as untargeted: the bundle is deleted, or its folder is.
    pub(crate) fn targets_nothing(&self) -> bool {
        self.document().is_none_or(|it| it.orphaned || it.deleting)
    }

    pub(crate) fn is_suspended_in(&self, cluster: &ClusterId) -> bool {
        let document = self.document();
        document.is_some_and(|it| it.suspended || it.suspended_in.contains(cluster))
    }

    /// Numbers of generations that are needed and not loaded.
    pub(crate) fn missing_generations(&self, record: &BundleRecord) -> Vec<u64> {
        let newest = record.newest().map(|it| it.number);
        let released = self.rollout.as_ref().map(|it| it.machine.to());
        let is_needed = |number: &u64| {
            let number = Some(*number);
            number == newest
                || number == released
                || number.is_some_and(|it| self.in_use.contains(&it))
        };
        let kept = record.generations.iter().map(|it| it.number);
        kept.filter(|it| is_needed(it) && !self.renderers.contains_key(it))
            .collect()
    }

    fn generations_in_use(&self) -> BTreeSet<u64> {
        let mut used = BTreeSet::new();
        used.extend(self.rollout.as_ref().map(|it| it.machine.to()));
        // Runs of equal numbers are long.
        let mut last = 0;
        for cell in self.cells.iter() {
            if cell.released != last {
                last = cell.released;
                used.insert(last);
            }
        }
        used.remove(&0);
        used
    }

    /// Adds a loaded generation.
    pub(crate) fn load(&mut self, number: u64, generation: Generation) {
        self.renderers.insert(number, Renderer::new(generation));
    }

    pub(crate) fn is_loaded(&self, generation: u64) -> bool {
        self.renderers.contains_key(&generation)
    }

    /// Drops generations that no cluster needs.
    pub(crate) fn drop_unused_generations(&mut self) {
        self.in_use = self.generations_in_use();
        let newest = self.newest();
        let in_use = &self.in_use;
        self.renderers
            .retain(|number, _| *number == newest || in_use.contains(number));
    }

    /// Drops all generations: their tenant has changed.
    pub(crate) fn unload(&mut self) {
        self.renderers.clear();
    }

    /// Decides again about a cluster. True if anything about its deployment has changed.
    pub(crate) fn evaluate(&mut self, around: Surroundings<'_>, cluster: &Cluster) -> bool {
        let id = &cluster.id;
        if self.is_elsewhere(id) {
            return false;
        }
        let targeting = self.targeting(around.view, cluster);
        let known = self.cells.get(id).is_some();
        if !known && !targeting.is_targeted() && !self.has_tombstone(id) {
            return false;
        }
        let cell = self.cells.entry(id, around.now);
        let before = cell.targeting();
        cell.set_targeting(targeting);
        let spec = match targeting {
            Targeting::Untargeted => None,
            Targeting::Blocked | Targeting::Targeted => {
                render(&mut self.renderers, cell.released, around.view, cluster)
            }
        };
        let changed = !known || before != targeting || name_of(&spec) != name_of(&cell.spec);
        cell.spec = spec;
        if changed {
            cell.set_changed(around.now);
        }
        if before.is_targeted() != targeting.is_targeted() {
            self.note_targeting(around, id);
        } else if before != targeting {
            self.note_report(around, id);
        }
        self.remove_if_void(id);
        changed
    }

    /// True for the catalog of another cluster, so that many catalogs cost little.
    fn is_elsewhere(&self, cluster: &ClusterId) -> bool {
        let origin = self.document().and_then(|it| it.catalog.as_ref());
        origin.is_some_and(|it| it.cluster != *cluster)
    }

    fn targeting(&mut self, view: &View, cluster: &Cluster) -> Targeting {
        if self.targets_nothing() || is_purged(self, cluster) {
            return Targeting::Untargeted;
        }
        let newest = self.newest();
        let Some(renderer) = self.renderers.get_mut(&newest) else {
            // Not loaded: the last decision holds.
            let known = self.cells.get(&cluster.id);
            return known.map_or(Targeting::Untargeted, |it| it.targeting());
        };
        match with_cluster(view, cluster, |it| renderer.render(it)) {
            Outcome::Unmatched | Outcome::Skipped { .. } => Targeting::Untargeted,
            Outcome::Blocked { .. } => Targeting::Blocked,
            Outcome::Spec { .. } => Targeting::Targeted,
        }
    }

    /// Causes why the newest generation has no spec for a cluster.
    pub(crate) fn blocked_reasons(&self, view: &View, cluster: &Cluster) -> Vec<String> {
        let Some(known) = self.renderers.get(&self.newest()) else {
            return Vec::new();
        };
        // Rare, so it needs none of the shared specs.
        let mut renderer = Renderer::new(known.generation().clone());
        match with_cluster(view, cluster, |it| renderer.render(it)) {
            Outcome::Blocked { reasons, .. } => reasons,
            Outcome::Unmatched | Outcome::Skipped { .. } | Outcome::Spec { .. } => Vec::new(),
        }
    }

    /// Removes a deployment of which nothing is left.
    pub(crate) fn remove_if_void(&mut self, cluster: &ClusterId) {
        let is_void = self.cells.get(cluster).is_some_and(DeploymentCell::is_void);
        if is_void && !self.has_tombstone(cluster) {
            self.cells.remove(cluster);
        }
    }

    /// Sets the released generation of a cluster. True if it has changed.
    pub(crate) fn set_released(
        &mut self,
        around: Surroundings<'_>,
        cluster: &ClusterId,
        released: u64,
    ) -> bool {
        let Some(record) = around.view.cluster(cluster) else {
            return false;
        };
        let Some(cell) = self.cells.get_mut(cluster) else {
            return false;
        };
        let spec = match cell.targeting().is_targeted() {
            true => render(&mut self.renderers, released, around.view, &record.value),
            false => None,
        };
        let changed = cell.released != released || name_of(&spec) != name_of(&cell.spec);
        if changed {
            cell.set_changed(around.now);
        }
        (cell.released, cell.spec) = (released, spec);
        if released > 0 {
            self.in_use.insert(released);
        }
        changed
    }

    pub(crate) fn has_tombstone(&self, cluster: &ClusterId) -> bool {
        let document = self.document();
        document.is_some_and(|it| it.removals.contains_key(cluster))
    }

    /// Entry of the bundle in the desired state of a cluster. A targeted cluster has no tombstone.
    pub(crate) fn desired(&self, cluster: &ClusterId) -> Option<DesiredBundle> {
        let document = self.document()?;
        let cell = self.cells.get(cluster);
        let suspended = self.is_suspended_in(cluster);
        if let Some(cell) = cell.filter(|it| it.targeting().is_targeted()) {
            return Some(DesiredBundle {
                bundle: self.id.clone(),
                generation: cell.released,
                spec: Some(cell.spec.as_ref()?.id.clone()),
                remove: false,
                suspended,
            });
        }
        Some(DesiredBundle {
            bundle: self.id.clone(),
            generation: *document.removals.get(cluster)?,
            spec: None,
            remove: true,
            suspended,
        })
    }
}

fn name_of(spec: &Option<Arc<RenderedSpec>>) -> Option<&SpecId> {
    spec.as_ref().map(|it| &it.id)
}

/// Spec of a generation for a cluster; `None` if the generation is not kept, or has none for it.
fn render(
    renderers: &mut BTreeMap<u64, Renderer>,
    generation: u64,
    view: &View,
    cluster: &Cluster,
) -> Option<Arc<RenderedSpec>> {
    let renderer = renderers.get_mut(&generation)?;
    match with_cluster(view, cluster, |it| renderer.render(it)) {
        Outcome::Spec { spec, .. } => Some(spec),
        Outcome::Unmatched | Outcome::Skipped { .. } | Outcome::Blocked { .. } => None,
    }
}
