//! The view of stored rows.

use std::sync::Arc;

use fairlead_api::ClusterId;

use super::StoredDocument;
use crate::{
    backend::{Backend, DocumentRow, LoadedRows},
    error::{Result, StoreError},
    model::{
        AccessGrant, AccessLock, Authorities, BundleRecord, BundleSource, Cluster, ClusterGroup,
        ConfirmedHostKeys, FleetUpgrade, GitCredential, PendingAdoption, Person, RetiredRepository,
        RetiredVaultAccess, ServiceRecord, Tenant, Token,
    },
    record::{Kind, Record},
    revision::Revision,
    view::{CatalogHead, View},
};

impl View {
    /// Applies a stored row.
    fn take<T: StoredDocument>(&mut self, row: &DocumentRow) -> Result<()> {
        let damaged = || StoreError::Damaged(format!("{} {}", T::KIND, row.id));
        let id = row.id.parse().map_err(|_| damaged())?;
        let record = match &row.body {
            None => None,
            Some(body) => Some(Arc::new(Record {
                value: serde_json::from_str(body).map_err(|_| damaged())?,
                version: row.version,
                revision: row.revision,
            })),
        };
        self.set::<T>(&id, record);
        Ok(())
    }
}

/// The view of all rows.
pub(crate) async fn whole(backend: &dyn Backend) -> Result<View> {
    let loaded = backend.load(Revision(0)).await?;
    with(View::default(), &loaded.unwrap_or_default())
}

/// Applies loaded rows to a view.
pub(crate) fn with(mut view: View, loaded: &LoadedRows) -> Result<View> {
    view.revision = loaded.revision;
    for row in loaded.deleted.iter().chain(&loaded.documents) {
        match row.kind {
            Kind::Tenant => view.take::<Tenant>(row)?,
            Kind::Cluster => view.take::<Cluster>(row)?,
            Kind::Token => view.take::<Token>(row)?,
            Kind::Authority => view.take::<Authorities>(row)?,
            Kind::Lock => view.take::<AccessLock>(row)?,
            Kind::Person => view.take::<Person>(row)?,
            Kind::Access => view.take::<AccessGrant>(row)?,
            Kind::Source => view.take::<BundleSource>(row)?,
            Kind::Bundle => view.take::<BundleRecord>(row)?,
            Kind::Group => view.take::<ClusterGroup>(row)?,
            Kind::HostKeys => view.take::<ConfirmedHostKeys>(row)?,
            Kind::Credential => view.take::<GitCredential>(row)?,
            Kind::Repository => view.take::<RetiredRepository>(row)?,
            Kind::Adoption => view.take::<PendingAdoption>(row)?,
            Kind::Vault => view.take::<RetiredVaultAccess>(row)?,
            Kind::Upgrade => view.take::<FleetUpgrade>(row)?,
            Kind::Service => view.take::<ServiceRecord>(row)?,
            Kind::Catalog => {}
        }
    }
    let gone = loaded
        .deleted
        .iter()
        .filter(|row| row.kind == Kind::Cluster);
    for id in gone.filter_map(|row| row.id.parse::<ClusterId>().ok()) {
        view.catalogs.remove(&id);
    }
    for row in &loaded.catalogs {
        let id = row
            .id
            .parse()
            .map_err(|_| StoreError::Damaged(row.id.clone()))?;
        let head = CatalogHead {
            version: row.version,
            revision: row.revision,
        };
        view.catalogs.insert(id, head);
    }
    Ok(view)
}
