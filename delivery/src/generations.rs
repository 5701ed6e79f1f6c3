//! Options of generations: stored by the digest of their JSON, and loaded into generations of the bundle crate.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_api::delivery::{ArtifactId, BundleFields};
use fairlead_bundle::{Generation, canonical_json, variables::UsedVariables};
use fairlead_delivery_store::ContentStore;
use fairlead_store::{
    StoreError,
    model::{BundleRecord, Generation as GenerationRecord},
};
use serde::{Deserialize, Serialize};

/// Limit of cached options, in bytes of their JSON.
const MAX_CACHED_BYTES: usize = 16 << 20;

/// Options of a generation, and all else that specs need and that reading the content would cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GenerationOptions {
    /// Options of the bundle.
    pub(crate) fields: BundleFields,
    /// Variables in the manifests.
    #[serde(default, skip_serializing_if = "UsedVariables::is_empty")]
    pub(crate) used: UsedVariables,
    /// True: the folder has `Chart.yaml`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_chart: bool,
}

impl GenerationOptions {
    /// Name and JSON of the options.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] never, because the options have text keys only.
    pub(crate) fn named(&self) -> Result<(ArtifactId, Vec<u8>), StoreError> {
        let value = serde_json::to_value(self);
        let value = value.map_err(|error| StoreError::Damaged(error.to_string()))?;
        let json = canonical_json(&value);
        Ok((fairlead_bundle::content_id(&json), json))
    }
}

/// Generations of all bundles, with a cache of their options.
#[derive(Clone)]
pub(crate) struct Generations {
    contents: ContentStore,
    cache: Arc<Mutex<OptionsCache>>,
}

impl Generations {
    /// Generations over stored contents.
    pub(crate) fn new(contents: ContentStore) -> Self {
        let cache = Arc::default();
        Generations { contents, cache }
    }

    /// Stores options, or records their use; `now` in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn store_options(
        &self,
        options: &GenerationOptions,
        now: i64,
    ) -> Result<ArtifactId, StoreError> {
        let (id, json) = options.named()?;
        self.contents.put(&id, &json, now).await?;
        Ok(id)
    }

    /// The generation of a bundle, ready for specs.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if its options are missing or no JSON.
    pub(crate) async fn load(
        &self,
        bundle: &BundleRecord,
        generation: &GenerationRecord,
    ) -> Result<Generation, StoreError> {
        let options = self.options(&generation.options).await?;
        Ok(Generation {
            bundle: bundle.id.clone(),
            tenant: bundle.tenant.clone(),
            artifact: generation.artifact.clone(),
            used: options.used.clone(),
            fields: options.fields.clone(),
        })
    }

    /// Options by their name.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if they are missing or no JSON.
    pub(crate) async fn options(
        &self,
        id: &ArtifactId,
    ) -> Result<Arc<GenerationOptions>, StoreError> {
        if let Some(known) = self.cache().get(id) {
            return Ok(known);
        }
        let damaged = || StoreError::Damaged(format!("options {id} of a bundle"));
        let json = self.contents.get(id).await?.ok_or_else(damaged)?;
        let options = serde_json::from_slice(&json).map_err(|_| damaged())?;
        let options: Arc<GenerationOptions> = Arc::new(options);
        self.cache().insert(id, &options, json.len());
        Ok(options)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, OptionsCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Options by name. Beyond the limit, the one with the oldest use goes.
#[derive(Default)]
struct OptionsCache {
    entries: HashMap<ArtifactId, CachedOptions>,
    bytes: usize,
    uses: u64,
}

struct CachedOptions {
    options: Arc<GenerationOptions>,
    bytes: usize,
    last_use: u64,
}

impl OptionsCache {
    fn get(&mut self, id: &ArtifactId) -> Option<Arc<GenerationOptions>> {
        self.uses += 1;
        let entry = self.entries.get_mut(id)?;
        entry.last_use = self.uses;
        Some(Arc::clone(&entry.options))
    }

    fn insert(&mut self, id: &ArtifactId, options: &Arc<GenerationOptions>, bytes: usize) {
        self.uses += 1;
        let entry = CachedOptions {
            options: Arc::clone(options),
            bytes,
            last_use: self.uses,
        };
        self.bytes += bytes;
        if let Some(replaced) = self.entries.insert(id.clone(), entry) {
            self.bytes -= replaced.bytes;
        }
        while self.bytes > MAX_CACHED_BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, it)| it.last_use);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                return;
            };
            if let Some(gone) = self.entries.remove(&oldest) {
                self.bytes -= gone.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(replicas: u32) -> Arc<GenerationOptions> {
        Arc::new(GenerationOptions {
            fields: BundleFields {
                vars: [("replicas".to_owned(), replicas.into())].into(),
                ..BundleFields::default()
            },
            used: UsedVariables::of_text("a: ${vars.replicas}"),
            has_chart: false,
        })
    }

    #[test]
    fn equal_options_have_equal_names() {
        let (id, json) = options(1).named().unwrap();
        assert_eq!(options(1).named().unwrap().0, id);
        assert_ne!(options(2).named().unwrap().0, id);
        let read: GenerationOptions = serde_json::from_slice(&json).unwrap();
        assert_eq!(read, *options(1));
    }

    #[test]
    fn the_options_with_the_oldest_use_leave_a_full_cache() {
        let id = |byte| ArtifactId::of_sha256(&[byte; 32]);
        let mut cache = OptionsCache::default();
        let third = MAX_CACHED_BYTES / 3;
        for byte in 1..=3 {
            cache.insert(&id(byte), &options(byte.into()), third);
        }
        assert!(cache.get(&id(1)).is_some());
        cache.insert(&id(4), &options(4), third);
        assert!(cache.get(&id(2)).is_none(), "its use is the oldest");
        for byte in [1, 3, 4] {
            assert_eq!(cache.get(&id(byte)).unwrap(), options(byte.into()));
        }
        assert!(cache.bytes <= MAX_CACHED_BYTES);
        cache.insert(&id(5), &options(5), MAX_CACHED_BYTES + 1);
        assert_eq!((cache.entries.len(), cache.bytes), (0, 0));
    }
}
