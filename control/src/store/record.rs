//! What every kept thing has in common: a version of its own, and the revision of the change that wrote it.

use std::{fmt, str::FromStr, sync::Arc};

use fairlead_api::{ClusterId, TenantId};
use imbl::OrdMap;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{StoreError, View};
use crate::model::{Cluster, Tenant, Token};

/// Counts the changes of the whole store, from 1.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    pub(super) const fn next(self) -> Self {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Revision {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Revision)
    }
}

/// A value as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<T> {
    pub value: T,
    /// 1 when it was made; rises with each change of this very record.
    pub version: u64,
    /// Of the change that wrote it.
    pub revision: Revision,
}

/// What kinds of things change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Tenant,
    Cluster,
    Token,
    Catalog,
}

impl Kind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Tenant => "tenant",
            Kind::Cluster => "cluster",
            Kind::Token => "token",
            Kind::Catalog => "catalog",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self, StoreError> {
        [Kind::Tenant, Kind::Cluster, Kind::Token, Kind::Catalog]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| StoreError::Damaged(text.to_owned()))
    }
}

/// A kind of value that is kept as a document and held in the view.
pub(super) trait Document:
    Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync + 'static
{
    type Id: Ord + Clone + fmt::Display + FromStr;
    const KIND: Kind;
    /// Top-level fields that the change log must not show.
    const HIDDEN: &'static [&'static str] = &[];

    fn id(&self) -> &Self::Id;
    /// Whose it is.
    fn tenant(&self) -> Option<&TenantId>;
    /// Whose people may see it: its tenant, and all above that.
    fn seen_by(&self, view: &View) -> Vec<TenantId> {
        self.tenant().map_or_else(Vec::new, |it| above(view, it))
    }
    fn records(view: &View) -> &OrdMap<Self::Id, Arc<Record<Self>>>;
    fn records_mut(view: &mut View) -> &mut OrdMap<Self::Id, Arc<Record<Self>>>;
    /// Keeps the indices as the records are.
    fn index(_view: &mut View, _before: Option<&Self>, _after: Option<&Self>) {}
}

pub(super) fn above(view: &View, tenant: &TenantId) -> Vec<TenantId> {
    view.lineage(tenant).cloned().collect()
}

impl Document for Tenant {
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

impl Document for Cluster {
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

impl Document for Token {
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
}
