//! The registry as an immutable value at one revision, with indices for requests. Clones share
//! their content; reads take no lock and never wait.

use std::sync::Arc;

use fairlead_api::{ClusterId, TenantId, resources::ServiceName};
use imbl::{OrdMap, OrdSet};

use crate::{
    delivery::DeliveryDocuments,
    model::{
        AccessGrant, AccessLock, Authorities, Cluster, ConfirmedHostKeys, FleetUpgrade,
        GitCredential, PendingAdoption, Person, RetiredRepository, RetiredVaultAccess,
        ServiceRecord, Tenant, Token,
    },
    quota_terms::ChangeCount,
    record::Record,
    revision::Revision,
};

/// Limit of ancestor traversal, even in a manipulated store.
const MAX_DEPTH: usize = 1024;

/// The registry at one revision.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub(super) revision: Revision,
    pub(super) tenants: OrdMap<TenantId, Arc<Record<Tenant>>>,
    pub(super) clusters: OrdMap<ClusterId, Arc<Record<Cluster>>>,
    pub(super) tokens: OrdMap<String, Arc<Record<Token>>>,
    pub(super) locks: OrdMap<String, Arc<Record<AccessLock>>>,
    pub(super) people: OrdMap<String, Arc<Record<Person>>>,
    pub(super) host_keys: OrdMap<String, Arc<Record<ConfirmedHostKeys>>>,
    pub(super) credentials: OrdMap<String, Arc<Record<GitCredential>>>,
    pub(super) retired: OrdMap<String, Arc<Record<RetiredRepository>>>,
    pub(super) retired_vault: OrdMap<String, Arc<Record<RetiredVaultAccess>>>,
    pub(super) services: OrdMap<ServiceName, Arc<Record<ServiceRecord>>>,
    pub(super) access: OrdMap<String, Arc<Record<AccessGrant>>>,
    pub(super) adoptions: OrdMap<String, Arc<Record<PendingAdoption>>>,
    pub(super) upgrades: OrdMap<String, Arc<Record<FleetUpgrade>>>,
    pub(super) catalogs: OrdMap<ClusterId, CatalogHead>,
    pub(super) authorities: OrdMap<String, Arc<Record<Authorities>>>,
    pub(super) delivery: DeliveryDocuments,
    pub(super) by_tenant: Groups<TenantId, ClusterId>,
    pub(super) children: Groups<TenantId, TenantId>,
    /// Approved access requests by the key of their holder.
    pub(super) by_holder: Groups<String, String>,
    /// Tokens by issuer and subject of the person who owns them.
    pub(super) by_person: Groups<(String, String), String>,
    /// Changes of this minute that this hub has made.
    pub(super) change_counts: OrdMap<TenantId, ChangeCount>,
}

/// Version and revision of a cluster's catalog. The objects are not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogHead {
    /// Version of the catalog.
    pub version: u64,
    /// Revision of its last change.
    pub revision: Revision,
}

impl View {
    /// Revision of this state.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The tenant with this id.
    #[must_use]
    pub fn tenant(&self, id: &TenantId) -> Option<&Arc<Record<Tenant>>> {
        self.tenants.get(id)
    }

    /// All tenants, in the order of their ids.
    pub fn tenants(&self) -> impl Iterator<Item = &Arc<Record<Tenant>>> {
        self.tenants.values()
    }

    /// The cluster with this id.
    #[must_use]
    pub fn cluster(&self, id: &ClusterId) -> Option<&Arc<Record<Cluster>>> {
        self.clusters.get(id)
    }

    /// All clusters, in the order of their ids.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = &Arc<Record<Cluster>>> {
        self.clusters.values()
    }

    /// The tenant's own clusters, in the order of their ids.
    pub fn clusters_of(&self, tenant: &TenantId) -> impl Iterator<Item = &Arc<Record<Cluster>>> {
        let ids = self.by_tenant.of(tenant);
        ids.filter_map(|id| self.clusters.get(id))
    }

    /// The tenant's direct children, in the order of their ids.
    pub fn children_of(&self, tenant: &TenantId) -> impl Iterator<Item = &Arc<Record<Tenant>>> {
        let ids = self.children.of(tenant);
        ids.filter_map(|id| self.tenants.get(id))
    }

    /// The tenant and its ancestors, bottom up.
    pub fn lineage<'a>(&'a self, tenant: &'a TenantId) -> impl Iterator<Item = &'a TenantId> {
        let above = |id: &&'a TenantId| self.tenants.get(*id)?.value.parent.as_ref();
        std::iter::successors(Some(tenant), above).take(MAX_DEPTH)
    }

    /// True if `tenant` is `above` or one of its descendants.
    #[must_use]
    pub fn within(&self, tenant: &TenantId, above: &TenantId) -> bool {
        self.lineage(tenant).any(|id| id == above)
    }

    /// The API token with this id.
    #[must_use]
    pub fn token(&self, id: &str) -> Option<&Arc<Record<Token>>> {
        self.tokens.get(id)
    }

    /// All API tokens, in the order of their ids.
    pub fn tokens(&self) -> impl Iterator<Item = &Arc<Record<Token>>> {
        self.tokens.values()
    }

    /// API tokens of a person, in the order of their ids.
    pub fn tokens_of_person(
        &self,
        issuer: &str,
        sub: &str,
    ) -> impl Iterator<Item = &Arc<Record<Token>>> {
        let key = (issuer.to_owned(), sub.to_owned());
        let ids: Vec<&String> = match self.by_person.is_empty() {
            true => Vec::new(),
            false => self.by_person.of(&key).collect(),
        };
        ids.into_iter().filter_map(|id| self.tokens.get(id))
    }

    /// Authorities of the hub; `None` before the first rotation or restore.
    #[must_use]
    pub fn authorities(&self) -> Option<&Arc<Record<Authorities>>> {
        self.authorities.get(Authorities::ID)
    }

    /// Epoch of the store: identities that are issued now belong to it.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.authorities().map_or(0, |hub| hub.value.epoch)
    }

    /// The lock with this id, active or not.
    #[must_use]
    pub fn lock(&self, id: &str) -> Option<&Arc<Record<AccessLock>>> {
        self.locks.get(id)
    }

    /// All locks and orders to end requests, in the order of their ids.
    pub fn locks(&self) -> impl ExactSizeIterator<Item = &Arc<Record<AccessLock>>> {
        self.locks.values()
    }

    /// True if both give the same access to the same callers: facts and other properties of clusters do not matter.
    ///
    /// Compares addresses only. May be false for equal views.
    #[must_use]
    pub fn has_same_access(&self, other: &View) -> bool {
        self.tokens.ptr_eq(&other.tokens)
            && self.locks.ptr_eq(&other.locks)
            && self.people.ptr_eq(&other.people)
            && self.access.ptr_eq(&other.access)
            && self.tenants.ptr_eq(&other.tenants)
            && self.authorities.ptr_eq(&other.authorities)
            && self.services.ptr_eq(&other.services)
            && self.by_tenant.0.ptr_eq(&other.by_tenant.0)
    }

    /// True if each tenant has the same clusters in both.
    ///
    /// Compares addresses only. May be false for equal views.
    #[must_use]
    pub fn has_same_clusters(&self, other: &View) -> bool {
        self.by_tenant.0.ptr_eq(&other.by_tenant.0)
    }

    /// Confirmed host keys of the Git server with this name.
    #[must_use]
    pub fn host_keys(&self, server: &str) -> Option<&Arc<Record<ConfirmedHostKeys>>> {
        self.host_keys.get(server)
    }

    /// Credentials of Git servers, in the order of their ids.
    pub fn git_credentials(&self) -> impl Iterator<Item = &Arc<Record<GitCredential>>> {
        self.credentials.values()
    }

    /// The credential of a Git server with this id.
    #[must_use]
    pub fn git_credential(&self, id: &str) -> Option<&Arc<Record<GitCredential>>> {
        self.credentials.get(id)
    }

    /// Repositories of deleted tenants and clusters that their servers still have.
    pub fn retired_repositories(&self) -> impl Iterator<Item = &Arc<Record<RetiredRepository>>> {
        self.retired.values()
    }

    /// The repository of a deleted tenant or cluster with this id.
    #[must_use]
    pub fn retired_repository(&self, id: &str) -> Option<&Arc<Record<RetiredRepository>>> {
        self.retired.get(id)
    }

    /// Access of earlier clusters that Vault still has.
    pub fn retired_vault_accesses(&self) -> impl Iterator<Item = &Arc<Record<RetiredVaultAccess>>> {
        self.retired_vault.values()
    }

    /// The access of an earlier cluster with this id.
    #[must_use]
    pub fn retired_vault_access(&self, id: &str) -> Option<&Arc<Record<RetiredVaultAccess>>> {
        self.retired_vault.get(id)
    }

    /// Named services, in the order of their names.
    pub fn services(&self) -> impl ExactSizeIterator<Item = &Arc<Record<ServiceRecord>>> {
        self.services.values()
    }

    /// The service with this name.
    #[must_use]
    pub fn service(&self, name: &ServiceName) -> Option<&Arc<Record<ServiceRecord>>> {
        self.services.get(name)
    }

    /// True if both admit the same services, in clusters of the same tenants.
    ///
    /// Compares addresses only. May be false for equal views.
    #[must_use]
    pub fn has_same_services(&self, other: &View) -> bool {
        self.services.ptr_eq(&other.services)
            && self.authorities.ptr_eq(&other.authorities)
            && self.has_same_clusters(other)
    }

    /// Rights of the person with this id.
    #[must_use]
    pub fn person(&self, id: &str) -> Option<&Arc<Record<Person>>> {
        self.people.get(id)
    }

    /// All people who have signed in, in the order of their ids.
    pub fn people(&self) -> impl Iterator<Item = &Arc<Record<Person>>> {
        self.people.values()
    }

    /// The access request with this id, in any state.
    #[must_use]
    pub fn access_request(&self, id: &str) -> Option<&Arc<Record<AccessGrant>>> {
        self.access.get(id)
    }

    /// The adoption with this id, in any state.
    #[must_use]
    pub fn adoption(&self, id: &str) -> Option<&Arc<Record<PendingAdoption>>> {
        self.adoptions.get(id)
    }

    /// The upgrade of agents with this id, in any state.
    #[must_use]
    pub fn fleet_upgrade(&self, id: &str) -> Option<&Arc<Record<FleetUpgrade>>> {
        self.upgrades.get(id)
    }

    /// All upgrades of agents, in the order of their ids. The module that writes them limits their number.
    pub fn fleet_upgrades(&self) -> impl ExactSizeIterator<Item = &Arc<Record<FleetUpgrade>>> {
        self.upgrades.values()
    }

    /// All adoptions, in the order of their ids. The module that writes them limits their number.
    pub fn adoptions(&self) -> impl ExactSizeIterator<Item = &Arc<Record<PendingAdoption>>> {
        self.adoptions.values()
    }

    /// All access requests, in the order of their ids.
    pub fn access_requests(&self) -> impl ExactSizeIterator<Item = &Arc<Record<AccessGrant>>> {
        self.access.values()
    }

    /// Approved access requests of a holder that nobody revoked; they may have expired.
    pub fn access_of(&self, holder: &str) -> impl Iterator<Item = &Arc<Record<AccessGrant>>> {
        let ids = self.by_holder.0.get(holder).into_iter().flatten();
        ids.filter_map(|id| self.access.get(id))
    }

    /// `None` if no catalog was written.
    #[must_use]
    pub fn catalog(&self, cluster: &ClusterId) -> Option<CatalogHead> {
        self.catalogs.get(cluster).copied()
    }
}

/// Multimap without empty sets.
#[derive(Debug, Clone)]
pub(super) struct Groups<K: Ord, V: Ord>(OrdMap<K, OrdSet<V>>);

impl<K: Ord, V: Ord> Default for Groups<K, V> {
    fn default() -> Self {
        Groups(OrdMap::new())
    }
}

impl<K: Ord + Clone, V: Ord + Clone> Groups<K, V> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

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
