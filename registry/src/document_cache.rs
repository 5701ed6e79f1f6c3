//! Cache of serialised cluster documents, valid until the cluster or its tenant changes.
//! Serialisation was half of the cost of a list, and lists rarely change. Uses about 1 KiB per
//! requested cluster.

use fairlead_store::{DerivedCache, Record, View, model::Cluster};

use crate::{document::shown::CachedDocument, services::Services, template::template_of};

#[derive(Default)]
pub(crate) struct DocumentCache(DerivedCache<CachedDocument>);

impl DocumentCache {
    /// The document of a cluster in `view`.
    ///
    /// # Errors
    /// It cannot be serialised.
    pub(super) fn of(
        &self,
        view: &View,
        record: &Record<Cluster>,
        services: &Services,
    ) -> Result<CachedDocument, serde_json::Error> {
        if let Some(cached) = self.0.find(view, record) {
            return Ok(cached);
        }
        let template = template_of(view, &record.value.tenant);
        let cached = CachedDocument::of(record, template, services)?;
        self.0.store(view, record, cached.clone());
        Ok(cached)
    }
}
