//! A change in progress: the prospective view and the touched resources. Reads return earlier
//! writes of the same draft. References stay valid at every step: no cluster without its tenant, no
//! tenant deleted with clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::Arc,
};

use fairlead_api::{ClusterId, TenantId, resources::ServiceName};
use serde_json::Value;

use crate::{
    delivery::TouchedDelivery,
    document::StoredDocument,
    error::{Result, StoreError},
    model::{
        AccessGrant, AccessLock, Authorities, Cluster, ConfirmedHostKeys, FleetUpgrade,
        GitCredential, PendingAdoption, Person, RetiredRepository, RetiredVaultAccess,
        ServiceRecord, Tenant, Token,
    },
    record::Record,
    revision::Revision,
    view::{CatalogHead, View},
};

/// An editable view; reads go through `Deref`.
pub struct Draft {
    pub(super) base: View,
    pub(super) view: View,
    pub(super) tenants: BTreeSet<TenantId>,
    pub(super) clusters: BTreeSet<ClusterId>,
    pub(super) tokens: BTreeSet<String>,
    pub(super) authorities: BTreeSet<String>,
    pub(super) locks: BTreeSet<String>,
    pub(super) people: BTreeSet<String>,
    pub(super) host_keys: BTreeSet<String>,
    pub(super) credentials: BTreeSet<String>,
    pub(super) retired: BTreeSet<String>,
    pub(super) retired_vault: BTreeSet<String>,
    pub(super) services: BTreeSet<ServiceName>,
    pub(super) access: BTreeSet<String>,
    pub(super) adoptions: BTreeSet<String>,
    pub(super) upgrades: BTreeSet<String>,
    pub(super) delivery: TouchedDelivery,
    /// New catalogs, as JSON.
    pub(super) catalogs: BTreeMap<ClusterId, String>,
}

impl Deref for Draft {
    type Target = View;
    fn deref(&self) -> &View {
        &self.view
    }
}

impl Draft {
    pub(super) fn new(base: View) -> Self {
        let mut view = base.clone();
        view.revision = base.revision.next();
        Draft {
            base,
            view,
            tenants: BTreeSet::new(),
            clusters: BTreeSet::new(),
            tokens: BTreeSet::new(),
            authorities: BTreeSet::new(),
            locks: BTreeSet::new(),
            people: BTreeSet::new(),
            host_keys: BTreeSet::new(),
            credentials: BTreeSet::new(),
            retired: BTreeSet::new(),
            retired_vault: BTreeSet::new(),
            services: BTreeSet::new(),
            access: BTreeSet::new(),
            adoptions: BTreeSet::new(),
            upgrades: BTreeSet::new(),
            delivery: TouchedDelivery::default(),
            catalogs: BTreeMap::new(),
        }
    }

    /// Revision of this change, if it changes anything.
    #[must_use]
    pub fn next_revision(&self) -> Revision {
        self.view.revision
    }

    /// Creates or replaces a tenant.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a parent, [`StoreError::Nesting`] if it would become
    /// its own ancestor.
    pub fn put_tenant(&mut self, tenant: Tenant) -> Result<()> {
        if let Some(parent) = &tenant.parent {
            self.view.tenant(parent).ok_or(StoreError::Missing)?;
            if self.view.within(parent, &tenant.id) {
                return Err(StoreError::Nesting);
            }
        }
        self.tenants.insert(tenant.id.clone());
        self.put(tenant);
        Ok(())
    }

    /// Deletes a tenant, its API tokens and its credentials of Git servers.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; [`StoreError::InUse`] while it has clusters, child tenants, sources,
    /// bundles or groups.
    pub fn delete_tenant(&mut self, id: &TenantId) -> Result<()> {
        self.view.tenant(id).ok_or(StoreError::Missing)?;
        if self.view.clusters_of(id).next().is_some()
            || self.view.children_of(id).next().is_some()
            || self.view.delivers(id)
        {
            return Err(StoreError::InUse);
        }
        self.delete_tokens(|token| token.tenant.as_ref() == Some(id));
        self.delete_git_credentials(id);
        self.tenants.insert(id.clone());
        self.view.set::<Tenant>(id, None);
        Ok(())
    }

    /// Creates or replaces a cluster. A move to another tenant deletes the API tokens limited to
    /// the cluster and its services: the previous tenant's people hold and made them.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a tenant.
    pub fn put_cluster(&mut self, cluster: Cluster) -> Result<()> {
        self.view
            .tenant(&cluster.tenant)
            .ok_or(StoreError::Missing)?;
        let before = self.view.cluster(&cluster.id);
        let before = before.map(|it| it.value.tenant.clone());
        if let Some(before) = before.filter(|it| *it != cluster.tenant) {
            self.delete_tokens(|token| token.cluster.as_ref() == Some(&cluster.id));
            self.delete_services(&cluster.id);
            self.leave_tenant(&before, &cluster.id)?;
        }
        self.clusters.insert(cluster.id.clone());
        self.put(cluster);
        Ok(())
    }

    /// Edits a cluster in place; its id must not change.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a cluster or tenant.
    pub fn amend_cluster<T>(
        &mut self,
        id: &ClusterId,
        change: impl FnOnce(&mut Cluster) -> T,
    ) -> Result<T> {
        let mut cluster = self
            .view
            .cluster(id)
            .ok_or(StoreError::Missing)?
            .value
            .clone();
        let done = change(&mut cluster);
        self.put_cluster(cluster)?;
        Ok(done)
    }

    /// Deletes a cluster with its bootstrap token, catalog, status, services and the API tokens
    /// limited to it.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_cluster(&mut self, id: &ClusterId) -> Result<()> {
        let cluster = self.view.cluster(id).ok_or(StoreError::Missing)?;
        let tenant = cluster.value.tenant.clone();
        self.leave_tenant(&tenant, id)?;
        self.delete_tokens(|token| token.cluster.as_ref() == Some(id));
        self.delete_services(id);
        self.clusters.insert(id.clone());
        self.catalogs.remove(id);
        self.view.catalogs.remove(id);
        self.view.set::<Cluster>(id, None);
        self.forget_in_bundles(id)
    }

    /// Records that the file of a cluster is to be removed from its former tenant's repository, if
    /// the hub has provided that.
    fn leave_tenant(&mut self, tenant: &TenantId, cluster: &ClusterId) -> Result<()> {
        let tenant = self.view.tenant(tenant).ok_or(StoreError::Missing)?;
        let state = tenant.value.repo_state.as_ref();
        if state.is_none_or(|it| it.url.is_none()) {
            return Ok(());
        }
        let mut tenant = tenant.value.clone();
        tenant.former_clusters.insert(cluster.clone());
        self.put_tenant(tenant)
    }

    /// Creates or replaces an API token.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if its tenant or cluster does not exist.
    pub fn put_token(&mut self, token: Token) -> Result<()> {
        if let Some(tenant) = &token.tenant {
            self.view.tenant(tenant).ok_or(StoreError::Missing)?;
        }
        if let Some(cluster) = &token.cluster {
            self.view.cluster(cluster).ok_or(StoreError::Missing)?;
        }
        self.tokens.insert(token.id.clone());
        self.put(token);
        Ok(())
    }

    /// Edits the authorities of the hub; makes the document if there is none.
    pub fn amend_authorities<T>(&mut self, change: impl FnOnce(&mut Authorities) -> T) -> T {
        let before = self.view.authorities();
        let mut hub = before.map_or_else(Authorities::default, |it| it.value.clone());
        let done = change(&mut hub);
        self.authorities.insert(hub.id.clone());
        self.put(hub);
        done
    }

    /// Deletes an API token.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_token(&mut self, id: &str) -> Result<()> {
        self.view.token(id).ok_or(StoreError::Missing)?;
        self.tokens.insert(id.to_owned());
        self.view.set::<Token>(&id.to_owned(), None);
        Ok(())
    }

    /// Creates or replaces a lock.
    pub fn put_lock(&mut self, lock: AccessLock) {
        self.locks.insert(lock.id.clone());
        self.put(lock);
    }

    /// Removes a lock.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_lock(&mut self, id: &str) -> Result<()> {
        self.view.lock(id).ok_or(StoreError::Missing)?;
        self.locks.insert(id.to_owned());
        self.view.set::<AccessLock>(&id.to_owned(), None);
        Ok(())
    }

    /// Creates or replaces the rights of a person.
    pub fn put_person(&mut self, person: Person) {
        self.people.insert(person.id.clone());
        self.put(person);
    }

    /// Forgets a person.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_person(&mut self, id: &str) -> Result<()> {
        self.view.person(id).ok_or(StoreError::Missing)?;
        self.people.insert(id.to_owned());
        self.view.set::<Person>(&id.to_owned(), None);
        Ok(())
    }

    /// Creates or replaces the confirmed host keys of a Git server.
    pub fn put_host_keys(&mut self, keys: ConfirmedHostKeys) {
        self.host_keys.insert(keys.id.clone());
        self.put(keys);
    }

    /// Creates or replaces a credential of a Git server.
    pub fn put_git_credential(&mut self, credential: GitCredential) {
        self.credentials.insert(credential.id.clone());
        self.put(credential);
    }

    /// Removes a credential of a Git server.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_git_credential(&mut self, id: &str) -> Result<()> {
        self.view.git_credential(id).ok_or(StoreError::Missing)?;
        self.credentials.insert(id.to_owned());
        self.view.set::<GitCredential>(&id.to_owned(), None);
        Ok(())
    }

    fn delete_git_credentials(&mut self, tenant: &TenantId) {
        let own = self.view.git_credentials();
        let own = own.filter(|it| it.value.tenant.as_ref() == Some(tenant));
        let own: Vec<_> = own.map(|it| it.value.id.clone()).collect();
        for id in own {
            self.view.set::<GitCredential>(&id, None);
            self.credentials.insert(id);
        }
    }

    /// Creates or replaces the repository of a deleted tenant or cluster.
    pub fn put_retired_repository(&mut self, retired: RetiredRepository) {
        self.retired.insert(retired.id.clone());
        self.put(retired);
    }

    /// Removes the repository of a deleted tenant or cluster.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_retired_repository(&mut self, id: &str) -> Result<()> {
        self.view
            .retired_repository(id)
            .ok_or(StoreError::Missing)?;
        self.retired.insert(id.to_owned());
        self.view.set::<RetiredRepository>(&id.to_owned(), None);
        Ok(())
    }

    /// Creates or replaces the access to Vault of an earlier cluster.
    pub fn put_retired_vault_access(&mut self, retired: RetiredVaultAccess) {
        self.retired_vault.insert(retired.id.clone());
        self.put(retired);
    }

    /// Removes the access to Vault of an earlier cluster.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_retired_vault_access(&mut self, id: &str) -> Result<()> {
        let known = self.view.retired_vault_access(id);
        known.ok_or(StoreError::Missing)?;
        self.retired_vault.insert(id.to_owned());
        self.view.set::<RetiredVaultAccess>(&id.to_owned(), None);
        Ok(())
    }

    /// Creates or replaces a named service.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a cluster.
    pub fn put_service(&mut self, service: ServiceRecord) -> Result<()> {
        self.view
            .cluster(&service.cluster)
            .ok_or(StoreError::Missing)?;
        self.services.insert(service.name.clone());
        self.put(service);
        Ok(())
    }

    /// Removes a named service.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_service(&mut self, name: &ServiceName) -> Result<()> {
        self.view.service(name).ok_or(StoreError::Missing)?;
        self.services.insert(name.clone());
        self.view.set::<ServiceRecord>(name, None);
        Ok(())
    }

    fn delete_services(&mut self, cluster: &ClusterId) {
        let own = self.view.services();
        let own = own.filter(|it| it.value.cluster == *cluster);
        let own: Vec<_> = own.map(|it| it.value.name.clone()).collect();
        for name in own {
            self.view.set::<ServiceRecord>(&name, None);
            self.services.insert(name);
        }
    }

    /// Creates or replaces an access request.
    pub fn put_access(&mut self, access: AccessGrant) {
        self.access.insert(access.id.clone());
        self.put(access);
    }

    /// Removes an access request.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_access(&mut self, id: &str) -> Result<()> {
        self.view.access_request(id).ok_or(StoreError::Missing)?;
        self.access.insert(id.to_owned());
        self.view.set::<AccessGrant>(&id.to_owned(), None);
        Ok(())
    }

    /// Creates or replaces an adoption.
    pub fn put_adoption(&mut self, adoption: PendingAdoption) {
        self.adoptions.insert(adoption.id.clone());
        self.put(adoption);
    }

    /// Removes an adoption.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_adoption(&mut self, id: &str) -> Result<()> {
        self.view.adoption(id).ok_or(StoreError::Missing)?;
        self.adoptions.insert(id.to_owned());
        self.view.set::<PendingAdoption>(&id.to_owned(), None);
        Ok(())
    }

    /// Creates or replaces an upgrade of agents.
    pub fn put_fleet_upgrade(&mut self, upgrade: FleetUpgrade) {
        self.upgrades.insert(upgrade.id.clone());
        self.put(upgrade);
    }

    /// Removes an upgrade of agents.
    ///
    /// # Errors
    /// [`StoreError::Missing`]
    pub fn delete_fleet_upgrade(&mut self, id: &str) -> Result<()> {
        self.view.fleet_upgrade(id).ok_or(StoreError::Missing)?;
        self.upgrades.insert(id.to_owned());
        self.view.set::<FleetUpgrade>(&id.to_owned(), None);
        Ok(())
    }

    /// Replaces the objects of the cluster's catalog; returns its new version.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such a cluster.
    pub fn put_catalog(&mut self, cluster: &ClusterId, objects: Vec<Value>) -> Result<u64> {
        self.view.cluster(cluster).ok_or(StoreError::Missing)?;
        let before = self.base.catalog(cluster).map_or(0, |head| head.version);
        let head = CatalogHead {
            version: before + 1,
            revision: self.view.revision,
        };
        self.view.catalogs.insert(cluster.clone(), head);
        let body = Value::from(objects).to_string();
        self.catalogs.insert(cluster.clone(), body);
        Ok(head.version)
    }

    fn delete_tokens(&mut self, which: impl Fn(&Token) -> bool) {
        let doomed = self.view.tokens().filter(|it| which(&it.value));
        let doomed: Vec<_> = doomed.map(|it| it.value.id.clone()).collect();
        for id in doomed {
            self.view.set::<Token>(&id, None);
            self.tokens.insert(id);
        }
    }

    /// Repeated puts raise the version once; a put of the original value restores the original
    /// record.
    pub(super) fn put<T: StoredDocument>(&mut self, value: T) {
        let id = value.id().clone();
        let before = T::records(&self.base).get(&id);
        let record = match before {
            Some(before) if before.value == value => Arc::clone(before),
            _ => Arc::new(Record {
                value,
                version: before.map_or(1, |before| before.version + 1),
                revision: self.view.revision,
            }),
        };
        self.view.set::<T>(&id, Some(record));
    }
}
