//! Kinds of values that the view holds and the database keeps as documents.

mod load;

use std::{fmt, str::FromStr, sync::Arc};

use fairlead_api::{
    ClusterId, TenantId,
    resources::{LockKind, ServiceName},
};
use imbl::OrdMap;
use serde::{Serialize, de::DeserializeOwned};

pub(super) use self::load::{whole, with};
use crate::{
    model::{
        AccessGrant, AccessLock, Authorities, Cluster, ConfirmedHostKeys, FleetUpgrade,
        GitCredential, LockTarget, PendingAdoption, Person, RetiredRepository, RetiredVaultAccess,
        ServiceRecord, Tenant, Token,
    },
    record::{Kind, Record},
    view::View,
};

/// A type stored as a document and held in the view.
pub(super) trait StoredDocument:
    Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync + 'static
{
    type Id: Ord + Clone + fmt::Display + FromStr;
    const KIND: Kind;
    /// Top-level fields hidden from the change log.
    const HIDDEN: &'static [&'static str] = &[];

    fn id(&self) -> &Self::Id;
    /// Owning tenant.
    fn tenant(&self) -> Option<&TenantId>;
    /// Tenants whose members may see it: the owner and its ancestors.
    fn seen_by(&self, view: &View) -> Vec<TenantId> {
        self.tenant().map_or_else(Vec::new, |it| above(view, it))
    }
    fn records(view: &View) -> &OrdMap<Self::Id, Arc<Record<Self>>>;
    fn records_mut(view: &mut View) -> &mut OrdMap<Self::Id, Arc<Record<Self>>>;
    /// Updates the indices.
    fn index(_view: &mut View, _before: Option<&Self>, _after: Option<&Self>) {}
}

pub(super) fn above(view: &View, tenant: &TenantId) -> Vec<TenantId> {
    view.lineage(tenant).cloned().collect()
}

impl StoredDocument for Tenant {
    type Id = TenantId;
    const KIND: Kind = Kind::Tenant;

    fn id(&self) -> &TenantId {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.id)
    }

    fn records(view: &View) -> &OrdMap<TenantId, Arc<Record<Self>>> {
        &view.tenants
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<TenantId, Arc<Record<Self>>> {
        &mut view.tenants
    }

    fn index(view: &mut View, before: Option<&Self>, after: Option<&Self>) {
        let parent = |tenant: &Tenant| tenant.parent.clone();
        let before = before.and_then(|it| Some((parent(it)?, it.id.clone())));
        let after = after.and_then(|it| Some((parent(it)?, it.id.clone())));
        view.children.moved(before, after);
    }
}

impl StoredDocument for Cluster {
    type Id = ClusterId;
    const KIND: Kind = Kind::Cluster;

    fn id(&self) -> &ClusterId {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    fn records(view: &View) -> &OrdMap<ClusterId, Arc<Record<Self>>> {
        &view.clusters
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<ClusterId, Arc<Record<Self>>> {
        &mut view.clusters
    }

    fn index(view: &mut View, before: Option<&Self>, after: Option<&Self>) {
        let key = |cluster: &Cluster| (cluster.tenant.clone(), cluster.id.clone());
        view.by_tenant.moved(before.map(key), after.map(key));
    }
}

impl StoredDocument for Token {
    type Id = String;
    const KIND: Kind = Kind::Token;
    const HIDDEN: &'static [&'static str] = &["hash"];

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    fn seen_by(&self, view: &View) -> Vec<TenantId> {
        let cluster = self.cluster.as_ref().and_then(|id| view.cluster(id));
        let tenant = cluster.map(|it| &it.value.tenant).or(self.tenant.as_ref());
        tenant.map_or_else(Vec::new, |it| above(view, it))
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.tokens
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.tokens
    }

    fn index(view: &mut View, before: Option<&Self>, after: Option<&Self>) {
        let key = |token: &Token| {
            let person = token.person()?;
            let subject = (person.issuer.clone(), person.sub.clone());
            Some((subject, token.id.clone()))
        };
        view.by_person
            .moved(before.and_then(key), after.and_then(key));
    }
}

impl StoredDocument for Authorities {
    type Id = String;
    const KIND: Kind = Kind::Authority;

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.authorities
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.authorities
    }
}

impl StoredDocument for AccessLock {
    type Id = String;
    const KIND: Kind = Kind::Lock;

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        match &self.target {
            LockTarget::Named { .. } => None,
            LockTarget::Requests(selected) => selected.tenant.as_ref().or(selected.within.as_ref()),
        }
    }

    /// A user is nobody's: tenants see only locks of their own things.
    fn seen_by(&self, view: &View) -> Vec<TenantId> {
        let tenant = match &self.target {
            LockTarget::Named { kind, name } => locked_tenant(view, *kind, name),
            LockTarget::Requests(_) => self.tenant().cloned(),
        };
        tenant.map_or_else(Vec::new, |it| above(view, &it))
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.locks
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.locks
    }
}

/// People belong to an issuer, and to no tenant.
impl StoredDocument for Person {
    type Id = String;
    const KIND: Kind = Kind::Person;

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.people
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.people
    }
}

/// Repositories outlive their tenants, so they belong to none.
impl StoredDocument for RetiredRepository {
    type Id = String;
    const KIND: Kind = Kind::Repository;
    const HIDDEN: &'static [&'static str] = &["sealedToken"];

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.retired
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.retired
    }
}

/// Accesses outlive their clusters, so they belong to no tenant.
impl StoredDocument for RetiredVaultAccess {
    type Id = String;
    const KIND: Kind = Kind::Vault;

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.retired_vault
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.retired_vault
    }
}

/// Services belong to the tenant of their cluster, and are deleted with it.
impl StoredDocument for ServiceRecord {
    type Id = ServiceName;
    const KIND: Kind = Kind::Service;

    fn id(&self) -> &ServiceName {
        &self.name
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn seen_by(&self, view: &View) -> Vec<TenantId> {
        let cluster = view.cluster(&self.cluster);
        cluster.map_or_else(Vec::new, |it| above(view, &it.value.tenant))
    }

    fn records(view: &View) -> &OrdMap<ServiceName, Arc<Record<Self>>> {
        &view.services
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<ServiceName, Arc<Record<Self>>> {
        &mut view.services
    }
}

impl StoredDocument for ConfirmedHostKeys {
    type Id = String;
    const KIND: Kind = Kind::HostKeys;

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.host_keys
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.host_keys
    }
}

impl StoredDocument for GitCredential {
    type Id = String;
    const KIND: Kind = Kind::Credential;
    const HIDDEN: &'static [&'static str] = &["sealed"];

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.credentials
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.credentials
    }
}

impl StoredDocument for AccessGrant {
    type Id = String;
    const KIND: Kind = Kind::Access;

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.access
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.access
    }

    fn index(view: &mut View, before: Option<&Self>, after: Option<&Self>) {
        let key = |it: &AccessGrant| {
            let is_kept = it.approved.is_some() && it.revoked.is_none();
            is_kept.then(|| (it.holder.key(), it.id.clone()))
        };
        let (before, after) = (before.and_then(key), after.and_then(key));
        view.by_holder.moved(before, after);
    }
}

impl StoredDocument for PendingAdoption {
    type Id = String;
    const KIND: Kind = Kind::Adoption;

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.adoptions
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.adoptions
    }
}

/// Its clusters may belong to several tenants. Their own lines show what happens to them.
impl StoredDocument for FleetUpgrade {
    type Id = String;
    const KIND: Kind = Kind::Upgrade;
    const HIDDEN: &'static [&'static str] = &["waves", "clusters"];

    fn id(&self) -> &String {
        &self.id
    }

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    fn records(view: &View) -> &OrdMap<String, Arc<Record<Self>>> {
        &view.upgrades
    }

    fn records_mut(view: &mut View) -> &mut OrdMap<String, Arc<Record<Self>>> {
        &mut view.upgrades
    }
}

fn locked_tenant(view: &View, kind: LockKind, name: &str) -> Option<TenantId> {
    let of_cluster = |id: &ClusterId| view.cluster(id).map(|it| it.value.tenant.clone());
    match kind {
        LockKind::User => None,
        LockKind::Tenant => name.parse().ok(),
        LockKind::Cluster => of_cluster(&name.parse().ok()?),
        LockKind::Token => {
            let token = &view.token(name)?.value;
            match &token.cluster {
                Some(cluster) => of_cluster(cluster),
                None => token.tenant.clone(),
            }
        }
    }
}

impl View {
    /// Inserts or removes a record and updates the indices.
    pub(super) fn set<T: StoredDocument>(&mut self, id: &T::Id, record: Option<Arc<Record<T>>>) {
        let after = record.clone();
        let records = T::records_mut(self);
        let before = match record {
            Some(record) => records.insert(id.clone(), record),
            None => records.remove(id),
        };
        let before = before.as_deref().map(|it| &it.value);
        T::index(self, before, after.as_deref().map(|it| &it.value));
    }
}
