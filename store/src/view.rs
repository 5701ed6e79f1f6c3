//! The registry as a value: all of it at one revision, with the indices that requests need. Cloning one shares all that
//! it holds, reading one takes no lock and waits for nothing.

use std::sync::Arc;

use fairlead_api::{ClusterId, TenantId};
use imbl::{OrdMap, OrdSet};

use crate::{
    model::{Cluster, Tenant, Token},
    record::Record,
    revision::Revision,
};

/// Where looking for a tenant's ancestors ends, whatever somebody has done to the store.
const MAX_DEPTH: usize = 1024;

/// The registry at one revision.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub(super) revision: Revision,
    pub(super) tenants: OrdMap<TenantId, Arc<Record<Tenant>>>,
    pub(super) clusters: OrdMap<ClusterId, Arc<Record<Cluster>>>,
    pub(super) tokens: OrdMap<String, Arc<Record<Token>>>,
    pub(super) catalogs: OrdMap<ClusterId, CatalogHead>,
    pub(super) by_tenant: Groups<TenantId, ClusterId>,
    pub(super) children: Groups<TenantId, TenantId>,
}

/// Which catalog a cluster has. The catalog itself is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogHead {
    pub version: u64,
    pub revision: Revision,
}

impl View {
    /// The change that has led to this.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    #[must_use]
    pub fn tenant(&self, id: &TenantId) -> Option<&Arc<Record<Tenant>>> {
        self.tenants.get(id)
    }

    /// In the order of their ids.
    pub fn tenants(&self) -> impl Iterator<Item = &Arc<Record<Tenant>>> {
        self.tenants.values()
    }

    #[must_use]
    pub fn cluster(&self, id: &ClusterId) -> Option<&Arc<Record<Cluster>>> {
        self.clusters.get(id)
    }

    /// In the order of their ids.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = &Arc<Record<Cluster>>> {
        self.clusters.values()
    }

    /// The clusters of this very tenant, in the order of their ids.
    pub fn clusters_of(&self, tenant: &TenantId) -> impl Iterator<Item = &Arc<Record<Cluster>>> {
        let ids = self.by_tenant.of(tenant);
        ids.filter_map(|id| self.clusters.get(id))
    }

    /// The tenants right below this one, in the order of their ids.
    pub fn children_of(&self, tenant: &TenantId) -> impl Iterator<Item = &Arc<Record<Tenant>>> {
        let ids = self.children.of(tenant);
        ids.filter_map(|id| self.tenants.get(id))
    }

    /// This tenant and all above it, from below.
    pub fn lineage<'a>(&'a self, tenant: &'a TenantId) -> impl Iterator<Item = &'a TenantId> {
        let above = |id: &&'a TenantId| self.tenants.get(*id)?.value.parent.as_ref();
        std::iter::successors(Some(tenant), above).take(MAX_DEPTH)
    }

    /// Whether a tenant is `above`, or somewhere below it.
    #[must_use]
    pub fn within(&self, tenant: &TenantId, above: &TenantId) -> bool {
        self.lineage(tenant).any(|id| id == above)
    }

    #[must_use]
    pub fn token(&self, id: &str) -> Option<&Arc<Record<Token>>> {
        self.tokens.get(id)
    }

    /// In the order of their ids.
    pub fn tokens(&self) -> impl Iterator<Item = &Arc<Record<Token>>> {
        self.tokens.values()
    }

    /// None where no catalog was ever given.
    #[must_use]
    pub fn catalog(&self, cluster: &ClusterId) -> Option<CatalogHead> {
        self.catalogs.get(cluster).copied()
    }
}

/// Sets by a key, without empty ones.
#[derive(Debug, Clone)]
pub(super) struct Groups<K: Ord, V: Ord>(OrdMap<K, OrdSet<V>>);

impl<K: Ord, V: Ord> Default for Groups<K, V> {
    fn default() -> Self {
        Groups(OrdMap::new())
    }
}

impl<K: Ord + Clone, V: Ord + Clone> Groups<K, V> {
    pub(super) fn of(&self, key: &K) -> impl Iterator<Item = &V> {
        self.0.get(key).into_iter().flatten()
    }

    pub(super) fn moved(&mut self, from: Option<(K, V)>, to: Option<(K, V)>) {
        if from == to {
            return;
        }
        if let Some((key, value)) = from
            && let Some(group) = self.0.get_mut(&key)
        {
            group.remove(&value);
            if group.is_empty() {
                self.0.remove(&key);
            }
        }
        if let Some((key, value)) = to {
            self.0.entry(key).or_default().insert(value);
        }
    }
}
