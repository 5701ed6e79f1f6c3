//! Documents of delivery: sources, bundles and groups in the view, and their changes.

use std::{collections::BTreeSet, sync::Arc};

use fairlead_api::{BundleId, ClusterId, GroupId, SourceId, TenantId};
use imbl::OrdMap;

use crate::{
    document::StoredDocument,
    draft::Draft,
    error::{Result, StoreError},
    model::{BundleRecord, BundleSource, ClusterGroup},
    record::{Kind, Record},
    view::View,
};

/// Documents of delivery at one revision.
#[derive(Debug, Clone, Default)]
pub(super) struct DeliveryDocuments {
    sources: OrdMap<SourceId, Arc<Record<BundleSource>>>,
    bundles: OrdMap<BundleId, Arc<Record<BundleRecord>>>,
    groups: OrdMap<GroupId, Arc<Record<ClusterGroup>>>,
}

/// Documents of delivery touched by a draft.
#[derive(Debug, Clone, Default)]
pub(super) struct TouchedDelivery {
    pub(super) sources: BTreeSet<SourceId>,
    pub(super) bundles: BTreeSet<BundleId>,
    pub(super) groups: BTreeSet<GroupId>,
}

macro_rules! delivery_document {
    ($document:ident, $id:ident, $kind:ident, $records:ident) => {
        impl StoredDocument for $document {
            type Id = $id;
            const KIND: Kind = Kind::$kind;

            fn id(&self) -> &$id {
                &self.id
            }

            fn tenant(&self) -> Option<&TenantId> {
                Some(&self.tenant)
            }

            fn records(view: &View) -> &OrdMap<$id, Arc<Record<Self>>> {
                &view.delivery.$records
            }

            fn records_mut(view: &mut View) -> &mut OrdMap<$id, Arc<Record<Self>>> {
                &mut view.delivery.$records
            }
        }
    };
}

delivery_document!(BundleSource, SourceId, Source, sources);
delivery_document!(BundleRecord, BundleId, Bundle, bundles);
delivery_document!(ClusterGroup, GroupId, Group, groups);

impl View {
    /// The source with this id.
    #[must_use]
    pub fn source(&self, id: &SourceId) -> Option<&Arc<Record<BundleSource>>> {
        self.delivery.sources.get(id)
    }

    /// All sources, in the order of their ids.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &Arc<Record<BundleSource>>> {
        self.delivery.sources.values()
    }

    /// The bundle with this id.
    #[must_use]
    pub fn bundle(&self, id: &BundleId) -> Option<&Arc<Record<BundleRecord>>> {
        self.delivery.bundles.get(id)
    }

    /// All bundles, in the order of their ids.
    pub fn bundles(&self) -> impl ExactSizeIterator<Item = &Arc<Record<BundleRecord>>> {
        self.delivery.bundles.values()
    }

    /// The group with this id.
    #[must_use]
    pub fn group(&self, id: &GroupId) -> Option<&Arc<Record<ClusterGroup>>> {
        self.delivery.groups.get(id)
    }

    /// All groups, in the order of their ids.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<Record<ClusterGroup>>> {
        self.delivery.groups.values()
    }

    /// Last generation of a deleted bundle with this id; 0 without one. A new bundle starts above it.
    #[must_use]
    pub fn deleted_generation(&self, id: &BundleId) -> u64 {
        self.authorities()
            .map_or(0, |hub| hub.value.deleted_generation(id))
    }

    /// True if bundles, sources or groups of this tenant exist.
    pub(super) fn delivers(&self, tenant: &TenantId) -> bool {
        self.sources().any(|it| it.value.tenant == *tenant)
            || self.bundles().any(|it| it.value.tenant == *tenant)
            || self.groups().any(|it| it.value.tenant == *tenant)
    }

    /// Deletes all documents of a kind that a tenant has; returns their ids.
    fn delete_of<T: StoredDocument>(&mut self, tenant: &TenantId) -> Vec<T::Id> {
        let documents = T::records(self).values().map(|it| &it.value);
        let documents = documents.filter(|it| it.tenant() == Some(tenant));
        let ids: Vec<T::Id> = documents.map(|it| it.id().clone()).collect();
        for id in &ids {
            self.set::<T>(id, None);
        }
        ids
    }

    /// True if both have the same documents of delivery. Compares addresses only. May be false for equal views.
    #[must_use]
    pub fn has_same_delivery(&self, other: &View) -> bool {
        let (own, other) = (&self.delivery, &other.delivery);
        own.sources.ptr_eq(&other.sources)
            && own.bundles.ptr_eq(&other.bundles)
            && own.groups.ptr_eq(&other.groups)
    }
}

impl Draft {
    /// Creates or replaces a source.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a tenant.
    pub fn put_source(&mut self, source: BundleSource) -> Result<()> {
        self.view
            .tenant(&source.tenant)
            .ok_or(StoreError::Missing)?;
        self.delivery.sources.insert(source.id.clone());
        self.put(source);
        Ok(())
    }

    /// Deletes a source. Its bundles stay.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_source(&mut self, id: &SourceId) -> Result<()> {
        self.view.source(id).ok_or(StoreError::Missing)?;
        self.delivery.sources.insert(id.clone());
        self.view.set::<BundleSource>(id, None);
        Ok(())
    }

    /// Creates or replaces a bundle. Generations of a new one are numbered after those of a deleted one with the same id.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a tenant.
    pub fn put_bundle(&mut self, mut bundle: BundleRecord) -> Result<()> {
        self.view
            .tenant(&bundle.tenant)
            .ok_or(StoreError::Missing)?;
        let floor = self.view.deleted_generation(&bundle.id);
        if bundle.newest().is_some_and(|it| it.number <= floor) {
            let generations = bundle.generations.iter_mut();
            generations.for_each(|it| it.number += floor);
        }
        self.delivery.bundles.insert(bundle.id.clone());
        self.put(bundle);
        Ok(())
    }

    /// Deletes a bundle. The number of its last generation is remembered.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_bundle(&mut self, id: &BundleId) -> Result<()> {
        let bundle = self.view.bundle(id).ok_or(StoreError::Missing)?;
        let number = bundle.value.newest().map_or(0, |it| it.number);
        self.amend_authorities(|hub| hub.remember_deleted(id, number));
        self.delivery.bundles.insert(id.clone());
        self.view.set::<BundleRecord>(id, None);
        Ok(())
    }

    /// Deletes tombstones and suspensions of a deleted cluster: a later one may have the same id.
    pub(super) fn forget_in_bundles(&mut self, cluster: &ClusterId) -> Result<()> {
        let names_it = |it: &BundleRecord| {
            it.removals.contains_key(cluster) || it.suspended_in.contains(cluster)
        };
        let bundles = self.view.bundles().map(|it| &it.value);
        let bundles: Vec<_> = bundles.filter(|it| names_it(it)).cloned().collect();
        for mut bundle in bundles {
            bundle.removals.remove(cluster);
            bundle.suspended_in.remove(cluster);
            self.put_bundle(bundle)?;
        }
        Ok(())
    }

    /// Deletes all sources, bundles and groups of a tenant.
    pub fn delete_delivery_of(&mut self, tenant: &TenantId) {
        let bundles = self.view.bundles().map(|it| &it.value);
        let numbers = bundles.filter(|it| it.tenant == *tenant).map(|it| {
            let number = it.newest().map_or(0, |it| it.number);
            (it.id.clone(), number)
        });
        let numbers: Vec<_> = numbers.collect();
        if !numbers.is_empty() {
            self.amend_authorities(|hub| {
                for (id, number) in &numbers {
                    hub.remember_deleted(id, *number);
                }
            });
        }
        self.delivery
            .sources
            .extend(self.view.delete_of::<BundleSource>(tenant));
        self.delivery
            .bundles
            .extend(self.view.delete_of::<BundleRecord>(tenant));
        self.delivery
            .groups
            .extend(self.view.delete_of::<ClusterGroup>(tenant));
    }

    /// Creates or replaces a group.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a tenant.
    pub fn put_group(&mut self, group: ClusterGroup) -> Result<()> {
        self.view.tenant(&group.tenant).ok_or(StoreError::Missing)?;
        self.delivery.groups.insert(group.id.clone());
        self.put(group);
        Ok(())
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_group(&mut self, id: &GroupId) -> Result<()> {
        self.view.group(id).ok_or(StoreError::Missing)?;
        self.delivery.groups.insert(id.clone());
        self.view.set::<ClusterGroup>(id, None);
        Ok(())
    }
}
