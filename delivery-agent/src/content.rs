//! Specs and artifacts of the hub: fetched by digest, verified, and kept in a bounded cache.

mod cache;
mod fetch;

use std::{path::PathBuf, sync::Arc};

use fairlead_api::delivery::{ArtifactId, Spec, SpecId};
use fairlead_bundle::folder::Folder;

use self::cache::Cache;
use crate::hub::HubConnection;

/// Content that the agent cannot get now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The hub is away.
    #[error("waits for the hub: {0}")]
    Unreachable(String),
    /// The hub refuses.
    #[error("the hub refuses {name} with status {status}")]
    Refused {
        /// Digest of the content.
        name: String,
        /// Status of HTTP.
        status: u16,
    },
    /// The hub sends other content.
    #[error("the hub sends other content for {0}")]
    Digest(String),
    /// The content has the right digest, and this agent cannot read it.
    #[error("{name} cannot be read: {cause}")]
    Unreadable {
        /// Digest of the content.
        name: String,
        /// Cause.
        cause: String,
    },
}

/// Cache of specs and artifacts. Clones share it.
#[derive(Clone)]
pub struct ContentCache {
    hub: Arc<dyn HubConnection>,
    cache: Arc<Cache>,
}

impl ContentCache {
    /// Cache in memory, and in a folder if there is one.
    #[must_use]
    pub fn new(hub: Arc<dyn HubConnection>, folder: Option<PathBuf>) -> Self {
        Self {
            hub,
            cache: Arc::new(Cache::new(folder)),
        }
    }

    /// Spec by its digest.
    ///
    /// # Errors
    /// [`ContentError`].
    pub async fn spec(&self, id: &SpecId) -> Result<Arc<Spec>, ContentError> {
        let known = self.cache.get(id.as_str()).await;
        let is_known = known.is_some();
        let bytes = match known.filter(|bytes| fetch::is_spec(bytes, id)) {
            Some(bytes) => bytes,
            None => fetch::spec(&*self.hub, id).await?,
        };
        let spec =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(id.as_str(), error))?;
        if !is_known {
            self.cache.put(id.as_str(), bytes).await;
        }
        Ok(Arc::new(spec))
    }

    /// Folder of an artifact by its digest.
    ///
    /// # Errors
    /// [`ContentError`].
    pub async fn artifact(&self, id: &ArtifactId) -> Result<Arc<Folder>, ContentError> {
        if let Some(bytes) = self.cache.get(id.as_str()).await
            && let Ok(folder) = fetch::unpack(id, bytes).await
        {
            return Ok(Arc::new(folder));
        }
        let mut partial = self.cache.partial(id.as_str());
        let bytes = fetch::artifact(&*self.hub, id, &mut partial).await?;
        let folder = fetch::unpack(id, bytes.clone()).await?;
        self.cache.put(id.as_str(), bytes).await;
        Ok(Arc::new(folder))
    }
}

fn unreadable(name: &str, cause: impl ToString) -> ContentError {
    ContentError::Unreadable {
        name: name.to_owned(),
        cause: cause.to_string(),
    }
}

#[cfg(test)]
mod tests;
