//! Store of the identity: a directory, or a Secret of the cluster.

use fairlead_certs::AgentKey;
use secrecy::{ExposeSecret, SecretString};

use super::{
    Identity,
    dir::DirStore,
    error::IdentityStoreError,
    hubs::StoredHubs,
    secret::{self, SecretContent, SecretStore},
};

/// Content of a store.
#[derive(Default)]
pub(crate) struct StoredIdentity {
    pub(crate) identity: Option<Identity>,
    /// Key of an enrolment without an answer: the next attempt must use the same key.
    pub(crate) pending: Option<AgentKey>,
    /// Hubs that the agent has learned.
    pub(crate) hubs: Option<StoredHubs>,
    /// Version of the content, for conflict detection.
    pub(crate) version: StoreVersion,
}

/// Documents of a store.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    pub(crate) identity: Option<SecretString>,
    pub(crate) pending: Option<SecretString>,
    pub(crate) hubs: Option<SecretString>,
}

/// Version of the content that was read; a directory has none.
#[derive(Default)]
pub(crate) struct StoreVersion(Option<SecretContent>);

/// Origin of an identity to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveKind {
    Enrolled,
    /// Renewed with the same key.
    Renewed,
}

/// Maximum number of attempts after conflicts with another agent.
const MAX_SAVE_ATTEMPTS: usize = 3;

/// Store of the identity.
pub(crate) enum IdentityStore {
    Dir(DirStore),
    Secret(SecretStore),
}

impl IdentityStore {
    /// Reads identity and pending key.
    ///
    /// # Errors
    ///
    /// [`IdentityStoreError`]; an empty store is no error.
    pub(crate) async fn load(&self) -> Result<StoredIdentity, IdentityStoreError> {
        let (documents, version) = self.documents().await?;
        let Documents {
            identity,
            pending,
            hubs,
        } = documents;
        let identity = identity.as_ref().map(Identity::from_json).transpose();
        Ok(StoredIdentity {
            identity: identity.map_err(|error| self.locate(error))?,
            pending: pending
                .map(|pem| AgentKey::from_pem(pem.expose_secret()))
                .transpose()
                .map_err(|_| self.locate(IdentityStoreError::Damaged("key".to_owned())))?,
            hubs: hubs.as_ref().and_then(StoredHubs::from_json),
            version: StoreVersion(version),
        })
    }

    async fn documents(&self) -> Result<(Documents, Option<SecretContent>), IdentityStoreError> {
        Ok(match self {
            IdentityStore::Dir(store) => (store.load().await?, None),
            IdentityStore::Secret(store) => store.load().await?,
        })
    }

    /// Stores the learned hubs, unless another agent of this cluster has stored the same ones.
    ///
    /// # Errors
    ///
    /// [`IdentityStoreError`].
    pub(crate) async fn save_hubs(&self, hubs: &StoredHubs) -> Result<(), IdentityStoreError> {
        let text = hubs.to_json()?;
        let mut attempts = MAX_SAVE_ATTEMPTS;
        loop {
            let (documents, found) = self.documents().await?;
            let kept = documents.hubs.as_ref().and_then(StoredHubs::from_json);
            if kept.as_ref() == Some(hubs) {
                return Ok(());
            }
            attempts -= 1;
            let saved = match self {
                IdentityStore::Dir(store) => store.save_hubs(text.clone()).await,
                IdentityStore::Secret(store) => store.save_hubs(text.clone(), found).await,
            };
            match saved {
                Err(IdentityStoreError::Conflict(_)) if attempts > 0 => {}
                done => return done,
            }
        }
    }

    /// Adds the location to the error for a damaged document.
    fn locate(&self, error: IdentityStoreError) -> IdentityStoreError {
        match (self, error) {
            (IdentityStore::Dir(store), IdentityStoreError::Damaged(document)) => {
                IdentityStoreError::Damaged(format!("{document} in {}", store.dir().display()))
            }
            (IdentityStore::Secret(_), IdentityStoreError::Damaged(document)) => {
                IdentityStoreError::Damaged(format!(
                    "{document} in the Secret {}",
                    secret::SECRET_NAME
                ))
            }
            (_, error) => error,
        }
    }

    /// Whether several agents can share this store.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, IdentityStore::Secret(_))
    }

    /// Stores the pending key, before the enrolment request.
    ///
    /// # Errors
    ///
    /// [`IdentityStoreError::Conflict`] if the content is newer than `seen`.
    pub(crate) async fn save_pending(
        &self,
        key: &AgentKey,
        version: StoreVersion,
    ) -> Result<(), IdentityStoreError> {
        match self {
            IdentityStore::Dir(store) => store.save_pending(key.to_pem()).await,
            IdentityStore::Secret(store) => store.save_pending(key.to_pem(), version.0).await,
        }
    }

    /// Stores the identity atomically and removes the pending key. The stored identity stays if it expires
    /// later, or comes from a newer enrolment with another key.
    ///
    /// # Errors
    ///
    /// [`IdentityStoreError`].
    pub(crate) async fn save(
        &self,
        identity: &Identity,
        kind: SaveKind,
    ) -> Result<(), IdentityStoreError> {
        let text = identity.to_json()?;
        let is_newer = |kept: Option<&SecretString>| {
            let kept = kept.and_then(|kept| Identity::from_json(kept).ok());
            kept.is_some_and(|kept| match kind {
                SaveKind::Enrolled => kept.outlives(identity),
                SaveKind::Renewed => kept.outlives(identity) || !kept.has_key_of(identity),
            })
        };
        let store = match self {
            IdentityStore::Secret(store) => store,
            IdentityStore::Dir(store) => {
                return match store.load().await {
                    Ok(kept) if is_newer(kept.identity.as_ref()) => Ok(()),
                    _ => store.save(text).await,
                };
            }
        };
        let mut attempts = MAX_SAVE_ATTEMPTS;
        loop {
            let (kept, found) = store.load().await?;
            if is_newer(kept.identity.as_ref()) {
                return Ok(());
            }
            attempts -= 1;
            match store.save(text.clone(), found).await {
                Err(IdentityStoreError::Conflict(_)) if attempts > 0 => {}
                done => return done,
            }
        }
    }
}
