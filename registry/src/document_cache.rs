//! Cache of serialised cluster documents, valid until the cluster or its tenant changes.
//! Serialisation was half of the cost of a list, and lists rarely change. Uses about 1 KiB per
//! requested cluster.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use fairlead_api::ClusterId;
use fairlead_store::{Record, Revision, View, model::Cluster};

use crate::{document::shown::CachedDocument, services::RepoStatus, template::template_of};

/// Number of entries for deleted clusters that may accumulate.
const MAX_DELETED_ENTRIES: usize = 1024;

#[derive(Default)]
pub(crate) struct DocumentCache(RwLock<HashMap<ClusterId, CachedEntry>>);

struct CachedEntry {
    /// Revisions of the changes that wrote the cluster's and the tenant's record. Record versions
    /// would not do: they restart when a record is deleted and created again.
    of: (Revision, Revision),
    cached: CachedDocument,
}

impl DocumentCache {
    /// The document of a cluster in `view`.
    ///
    /// # Errors
    /// `FL-5101`
    pub(super) fn of(
        &self,
        view: &View,
        record: &Record<Cluster>,
        repositories: &dyn RepoStatus,
    ) -> Result<CachedDocument, serde_json::Error> {
        let cluster = &record.value;
        let tenant = view.tenant(&cluster.tenant);
        let of = (
            record.revision,
            tenant.map_or(Revision(0), |it| it.revision),
        );
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&cluster.id)
            && known.of == of
        {
            return Ok(known.cached.clone());
        }
        drop(known);
        let cached = CachedDocument::of(record, template_of(view, &cluster.tenant), repositories)?;
        let new = CachedEntry {
            of,
            cached: cached.clone(),
        };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(cluster.id.clone(), new);
        if known.len() > view.clusters().len() + MAX_DELETED_ENTRIES {
            known.retain(|id, _| view.cluster(id).is_some());
        }
        Ok(cached)
    }
}
