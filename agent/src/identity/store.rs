//! The store of the identity: a folder, or a Secret of the cluster.

use fairlead_certs::AgentKey;
use secrecy::{ExposeSecret, SecretString};

use super::{
    Identity,
    dir::DirStore,
    error::StoreError,
    secret::{self, SecretContent, SecretStore},
};

/// What a store holds.
#[derive(Default)]
pub(crate) struct StoredIdentity {
    pub(crate) identity: Option<Identity>,
    /// Made for an enrolment whose answer has not been seen: it must be asked for with the same key again.
    pub(crate) pending: Option<AgentKey>,
    /// What a change is a change of.
    pub(crate) version: StoreVersion,
}

/// The version of a store's content that was read; of a folder there is none.
#[derive(Default)]
pub(crate) struct StoreVersion(Option<SecretContent>);

/// How an identity that is to be kept was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveKind {
    Enrolled,
    /// With the key it had before.
    Renewed,
}

/// How often a change is tried again that another agent was faster than.
const MAX_SAVE_ATTEMPTS: usize = 3;

/// Where the identity is kept.
pub(crate) enum IdentityStore {
    Dir(DirStore),
    Secret(SecretStore),
}

impl IdentityStore {
    /// # Errors
    /// [`StoreError`]; nothing stored is no error.
    pub(crate) async fn load(&self) -> Result<StoredIdentity, StoreError> {
        let (identity, pending, version) = match self {
            IdentityStore::Dir(store) => {
                let (identity, pending) = store.load().await?;
                (identity, pending, None)
            }
            IdentityStore::Secret(store) => store.load().await?,
        };
        let identity = identity.as_ref().map(Identity::from_json).transpose();
        Ok(StoredIdentity {
            identity: identity.map_err(|error| self.locate(error))?,
            pending: pending
                .map(|pem| AgentKey::from_pem(pem.expose_secret()))
                .transpose()
                .map_err(|_| self.locate(StoreError::Damaged("key".to_owned())))?,
            version: StoreVersion(version),
        })
    }

    /// The place of a damaged document, so that it can be found.
    fn locate(&self, error: StoreError) -> StoreError {
        match (self, error) {
            (IdentityStore::Dir(store), StoreError::Damaged(document)) => {
                StoreError::Damaged(format!("{document} in {}", store.dir().display()))
            }
            (IdentityStore::Secret(_), StoreError::Damaged(document)) => {
                StoreError::Damaged(format!("{document} in the Secret {}", secret::SECRET_NAME))
            }
            (_, error) => error,
        }
    }

    /// Whether several agents keep one identity here.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, IdentityStore::Secret(_))
    }

    /// Keeps the key that enrolment will be asked for with. Done before it is asked for.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the content is another one than was `seen`.
    pub(crate) async fn save_pending(
        &self,
        key: &AgentKey,
        version: StoreVersion,
    ) -> Result<(), StoreError> {
        match self {
            IdentityStore::Dir(store) => store.save_pending(key.to_pem()).await,
            IdentityStore::Secret(store) => store.save_pending(key.to_pem(), version.0).await,
        }
    }

    /// Keeps the identity, whole or not at all, unless another agent has kept one that is good for longer, or has enrolled
    /// since with another key; a pending key is forgotten.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn save(&self, identity: &Identity, kind: SaveKind) -> Result<(), StoreError> {
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
                    Ok((kept, _)) if is_newer(kept.as_ref()) => Ok(()),
                    _ => store.save(text).await,
                };
            }
        };
        let mut attempts = MAX_SAVE_ATTEMPTS;
        loop {
            let (kept, _, found) = store.load().await?;
            if is_newer(kept.as_ref()) {
                return Ok(());
            }
            attempts -= 1;
            match store.save(text.clone(), found).await {
                Err(StoreError::Conflict(_)) if attempts > 0 => {}
                done => return done,
            }
        }
    }
}
