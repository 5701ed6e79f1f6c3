//! Facts of artifacts that a generation needs, without unpacking the content again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_api::delivery::ArtifactId;
use fairlead_bundle::{
    folder::{Folder, FolderError},
    variables::UsedVariables,
};

use super::MAX_VARIABLES;

/// Limit of artifacts with cached facts.
const MAX_CACHED: usize = 1024;

/// Facts of the content of a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ArtifactFacts {
    /// Variables in the manifests.
    pub(crate) used: UsedVariables,
    /// True: the folder has `Chart.yaml`.
    pub(crate) has_chart: bool,
}

impl ArtifactFacts {
    /// Facts of a folder.
    ///
    /// # Errors
    /// [`FolderError::Archive`] for more variables than the limit.
    pub(crate) fn of(folder: &Folder) -> Result<Self, FolderError> {
        let has_chart = folder.has_chart_file();
        let used = match has_chart {
            // The texts of a chart are Helm's.
            true => UsedVariables::default(),
            false => folder.used_variables(),
        };
        if used.iter().count() > MAX_VARIABLES {
            let cause = format!("its files use more than {MAX_VARIABLES} variables");
            return Err(FolderError::Archive(cause));
        }
        Ok(ArtifactFacts { used, has_chart })
    }
}

/// Facts by artifact. A full cache starts again, because unpacking is rare and cheap.
#[derive(Default)]
pub(super) struct FactsCache(Mutex<HashMap<ArtifactId, Arc<ArtifactFacts>>>);

impl FactsCache {
    pub(super) fn get(&self, id: &ArtifactId) -> Option<Arc<ArtifactFacts>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).cloned()
    }

    pub(super) fn insert(&self, id: &ArtifactId, facts: Arc<ArtifactFacts>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(id.clone(), facts);
    }
}
