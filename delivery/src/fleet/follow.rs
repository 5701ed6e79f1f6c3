//! Follows the documents of the store and the connection status of clusters.

use std::{collections::BTreeSet, sync::Arc};

use fairlead_api::{BundleId, ClusterId};
use fairlead_bundle::Generation;
use fairlead_rollout::UnixMillis;
use fairlead_store::{Observed, Record, View, model::BundleRecord};

use super::{Fleet, bundle_state::BundleState, cluster_entry::ClusterEntry};

/// A generation that was loaded for the state.
#[derive(Debug)]
pub(crate) struct LoadedGeneration {
    pub(crate) bundle: BundleId,
    pub(crate) number: u64,
    pub(crate) generation: Generation,
}

/// Source of the connection status of clusters.
pub(crate) type Statuses<'a> = &'a dyn Fn(&ClusterId) -> Option<Arc<Observed>>;

impl Fleet {
    /// Generations that must be loaded before these documents are followed.
    pub(crate) fn missing_generations(&self, view: &View) -> Vec<(Arc<Record<BundleRecord>>, u64)> {
        let mut missing = Vec::new();
        for record in view.bundles() {
            let known = self.bundles.get(&record.value.id);
            let fresh = BundleState::new(record.value.id.clone(), record.value.fields.kind);
            let known = known.filter(|it| same_tenant(it, record));
            let numbers = known.unwrap_or(&fresh).missing_generations(&record.value);
            missing.extend(numbers.into_iter().map(|it| (Arc::clone(record), it)));
        }
        missing
    }

    /// Takes documents, and decides again about everything that changed.
    pub(crate) fn follow(
        &mut self,
        view: &Arc<View>,
        loaded: Vec<LoadedGeneration>,
        statuses: Statuses<'_>,
        now: UnixMillis,
    ) {
        let before = std::mem::replace(&mut self.view, Arc::clone(view));
        let confirmed = before.authorities().map(|it| it.value.confirmed_epoch)
            != view.authorities().map(|it| it.value.confirmed_epoch);
        if confirmed {
            self.dirty.extend(self.clusters.keys().cloned());
        }
        let changed_clusters = self.take_clusters(statuses, now);
        let mut changed_bundles = self.take_bundles(loaded, now);
        if !self.ready || !same_memberships(&before, view) {
            changed_bundles = self.bundles.keys().cloned().collect();
        }
        for id in &changed_bundles {
            self.evaluate_bundle(id, now);
        }
        for cluster in &changed_clusters {
            self.evaluate_cluster(cluster, &changed_bundles, now);
        }
        self.ready = true;
    }

    /// Takes new, changed and deleted clusters; returns the first two.
    fn take_clusters(&mut self, statuses: Statuses<'_>, now: UnixMillis) -> Vec<ClusterId> {
        let view = Arc::clone(&self.view);
        let mut changed = Vec::new();
        for record in view.clusters() {
            let id = &record.value.id;
            match self.clusters.get_mut(id) {
                Some(known) if Arc::ptr_eq(&known.record, record) => continue,
                Some(known) => {
                    if known.record.value.purge != record.value.purge {
                        self.dirty.insert(id.clone());
                    }
                    known.record = Arc::clone(record);
                }
                None => {
                    let observed = statuses(id);
                    let entry = ClusterEntry::new(Arc::clone(record), observed.as_deref());
                    self.clusters.insert(id.clone(), entry);
                    self.dirty.insert(id.clone());
                }
            }
            changed.push(id.clone());
        }
        if self.clusters.len() > view.clusters().len() {
            let gone = self.clusters.keys().filter(|id| view.cluster(id).is_none());
            let gone: Vec<ClusterId> = gone.cloned().collect();
            for cluster in &gone {
                self.forget_cluster(cluster, now);
            }
        }
        changed
    }

    fn forget_cluster(&mut self, cluster: &ClusterId, now: UnixMillis) {
        self.clusters.remove(cluster);
        let (around, bundles) = self.parts(now);
        let mut forgotten = Vec::new();
        for bundle in bundles.values_mut() {
            if bundle.cells.remove(cluster).is_some() {
                bundle.note_targeting(around, cluster);
                forgotten.push(bundle.id.clone());
            }
        }
        for bundle in &forgotten {
            self.note_change(cluster, bundle);
        }
        // Deleted bundles that only this cluster still reported.
        self.bundles
            .retain(|_, it| it.record.is_some() || it.cells.len() > 0);
        self.rows.retain(|(of, _), _| of != cluster);
        self.removed.retain(|(_, of)| of != cluster);
        self.retries.retain(|(of, _)| of != cluster);
        self.commands.remove(cluster);
        self.dirty.insert(cluster.clone());
    }

    /// Takes new, changed and deleted bundles; returns all that must be evaluated.
    fn take_bundles(
        &mut self,
        loaded: Vec<LoadedGeneration>,
        now: UnixMillis,
    ) -> BTreeSet<BundleId> {
        let view = Arc::clone(&self.view);
        let mut changed = BTreeSet::new();
        for record in view.bundles() {
            let id = &record.value.id;
            let kind = record.value.fields.kind;
            let bundle = self.bundles.entry(id.clone());
            let bundle = bundle.or_insert_with(|| BundleState::new(id.clone(), kind));
            let known = bundle.record.as_ref();
            if known.is_some_and(|it| Arc::ptr_eq(it, record)) {
                continue;
            }
            if !same_tenant(bundle, record) {
                bundle.unload();
            }
            let newest = bundle.newest();
            let before = bundle.record.replace(Arc::clone(record));
            bundle.kind = kind;
            changed.insert(id.clone());
            let before = before.as_ref().map(|it| &it.value);
            self.note_document(before, &record.value, newest, now);
        }
        for it in loaded {
            if let Some(bundle) = self.bundles.get_mut(&it.bundle) {
                bundle.load(it.number, it.generation);
                changed.insert(it.bundle);
            }
        }
        let gone = self
            .bundles
            .values()
            .filter(|it| it.record.is_some() && view.bundle(&it.id).is_none());
        let gone: Vec<BundleId> = gone.map(|it| it.id.clone()).collect();
        for id in gone {
            if let Some(bundle) = self.bundles.get_mut(&id) {
                bundle.record = None;
                bundle.rollout = None;
                bundle.unload();
            }
            self.has_deleted_bundles = true;
            changed.insert(id);
        }
        changed
    }

    /// Notes which desired states a changed document alters, and lets the rollout know of suspended deployments.
    fn note_document(
        &mut self,
        before: Option<&BundleRecord>,
        after: &BundleRecord,
        newest: u64,
        now: UnixMillis,
    ) {
        let (around, bundles) = self.parts(now);
        let Some(bundle) = bundles.get_mut(&after.id) else {
            return;
        };
        let none = BTreeSet::new();
        let suspended = before.map_or(&none, |it| &it.suspended_in);
        for cluster in suspended.symmetric_difference(&after.suspended_in) {
            bundle.note_connection(around, cluster);
        }
        if before.is_some_and(|it| it.suspended != after.suspended) {
            bundle.note_suspension(around);
        }
        let all: Vec<ClusterId> = bundle.cells.iter().map(|it| it.cluster.clone()).collect();
        let has_newer = newest != bundle.newest();
        let is_same = before.is_some_and(|it| {
            it.suspended == after.suspended
                && it.suspended_in == after.suspended_in
                && it.removals == after.removals
        });
        if has_newer || !is_same {
            for cluster in &all {
                self.note_change(cluster, &after.id);
            }
        }
        if !is_same {
            let removals = before.into_iter().flat_map(|it| it.removals.keys());
            let removals = removals.chain(after.removals.keys());
            self.dirty.extend(all.into_iter().chain(removals.cloned()));
        }
    }

    /// Decides again about all clusters of a bundle.
    fn evaluate_bundle(&mut self, id: &BundleId, now: UnixMillis) {
        let view = Arc::clone(&self.view);
        let (around, bundles) = self.parts(now);
        let Some(bundle) = bundles.get_mut(id) else {
            return;
        };
        let mut changed = Vec::new();
        for record in view.clusters() {
            if bundle.evaluate(around, &record.value) {
                changed.push(record.value.id.clone());
            }
        }
        bundle.cells.shrink();
        bundle.drop_unused_generations();
        let is_forgotten = bundle.record.is_none() && bundle.cells.len() == 0;
        for cluster in changed {
            self.note_change(&cluster, id);
            self.dirty.insert(cluster);
        }
        if is_forgotten {
            self.bundles.remove(id);
        }
    }

    /// Decides again about all bundles of a cluster except `done`.
    fn evaluate_cluster(
        &mut self,
        cluster: &ClusterId,
        done: &BTreeSet<BundleId>,
        now: UnixMillis,
    ) {
        let view = Arc::clone(&self.view);
        let Some(record) = view.cluster(cluster) else {
            return;
        };
        let (around, bundles) = self.parts(now);
        let mut changed = Vec::new();
        for bundle in bundles.values_mut() {
            if !done.contains(&bundle.id) && bundle.evaluate(around, &record.value) {
                changed.push(bundle.id.clone());
            }
        }
        for bundle in changed {
            self.note_change(cluster, &bundle);
            self.dirty.insert(cluster.clone());
        }
    }

    /// Takes the connection status of clusters.
    pub(crate) fn observe(
        &mut self,
        clusters: impl IntoIterator<Item = (ClusterId, Arc<Observed>)>,
        now: UnixMillis,
    ) {
        let mut changed = Vec::new();
        for (id, observed) in clusters {
            let entry = self.clusters.get_mut(&id);
            if entry.is_some_and(|it| it.observe(&observed)) {
                changed.push(id);
            }
        }
        let (around, bundles) = self.parts(now);
        let mut noted = Vec::new();
        for bundle in bundles.values_mut() {
            for cluster in &changed {
                if bundle.cells.get(cluster).is_some() {
                    bundle.note_connection(around, cluster);
                    noted.push((cluster.clone(), bundle.id.clone()));
                }
            }
        }
        for (cluster, bundle) in noted {
            self.note_change(&cluster, &bundle);
        }
    }
}

fn same_tenant(bundle: &BundleState, record: &Record<BundleRecord>) -> bool {
    bundle
        .document()
        .is_none_or(|it| it.tenant == record.value.tenant)
}

/// True if groups and tenants are the same records: both decide which clusters a target has.
fn same_memberships(one: &View, other: &View) -> bool {
    let groups = one.groups().len() == other.groups().len()
        && one
            .groups()
            .zip(other.groups())
            .all(|(one, other)| Arc::ptr_eq(one, other));
    let (mut of_one, mut of_other) = (one.tenants(), other.tenants());
    groups
        && loop {
            match (of_one.next(), of_other.next()) {
                (None, None) => break true,
                (Some(one), Some(other)) if Arc::ptr_eq(one, other) => {}
                _ => break false,
            }
        }
}
