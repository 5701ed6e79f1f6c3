//! The store of the identity: a folder, or a Secret of the cluster.

use fairlead_certs::AgentKey;
use secrecy::{ExposeSecret, SecretString};

use super::{
    Identity,
    dir::DirStore,
    error::StoreError,
    secret::{self, Found, SecretStore},
};

/// What a store holds.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) identity: Option<Identity>,
    /// Made for an enrolment whose answer has not been seen: it must be asked for with the same key again.
    pub(crate) pending: Option<AgentKey>,
    /// What a change is a change of.
    pub(crate) seen: Seen,
}

/// The version of a store's content that was read; of a folder there is none.
#[derive(Default)]
pub(crate) struct Seen(Option<Found>);

/// How an identity that is to be kept was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Enrolled,
    /// With the key it had before.
    Renewed,
}

/// How often a change is tried again that another agent was faster than.
const TRIES: usize = 3;

/// Where the identity is kept.
pub(crate) enum Store {
    Dir(DirStore),
    Secret(SecretStore),
}

impl Store {
    /// # Errors
    /// [`StoreError`]; nothing stored is no error.
    pub(crate) async fn load(&self) -> Result<Stored, StoreError> {
        let (identity, pending, seen) = match self {
            Store::Dir(store) => {
                let (identity, pending) = store.load().await?;
                (identity, pending, None)
            }
            Store::Secret(store) => store.load().await?,
        };
        let identity = identity.as_ref().map(Identity::read).transpose();
        Ok(Stored {
            identity: identity.map_err(|error| self.name(error))?,
            pending: pending
                .map(|pem| AgentKey::from_pem(pem.expose_secret()))
                .transpose()
                .map_err(|_| self.name(StoreError::Damaged("key".to_owned())))?,
            seen: Seen(seen),
        })
    }

    /// The place of a damaged document, so that it can be found.
    fn name(&self, error: StoreError) -> StoreError {
        match (self, error) {
            (Store::Dir(store), StoreError::Damaged(what)) => {
                StoreError::Damaged(format!("{what} in {}", store.dir().display()))
            }
            (Store::Secret(_), StoreError::Damaged(what)) => {
                StoreError::Damaged(format!("{what} in the Secret {}", secret::NAME))
            }
            (_, error) => error,
        }
    }

    /// Whether several agents keep one identity here.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Store::Secret(_))
    }

    /// Keeps the key that enrolment will be asked for with. Done before it is asked for.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the content is another one than was `seen`.
    pub(crate) async fn save_pending(&self, key: &AgentKey, seen: Seen) -> Result<(), StoreError> {
        match self {
            Store::Dir(store) => store.save_pending(key.to_pem()).await,
            Store::Secret(store) => store.save_pending(key.to_pem(), seen.0).await,
        }
    }

    /// Keeps the identity, whole or not at all, unless another agent has kept one that is good for longer, or has enrolled
    /// since with another key; a pending key is forgotten.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn save(&self, identity: &Identity, news: News) -> Result<(), StoreError> {
        let text = identity.write()?;
        let better = |kept: Option<&SecretString>| {
            let kept = kept.and_then(|kept| Identity::read(kept).ok());
            kept.is_some_and(|kept| match news {
                News::Enrolled => kept.outlives(identity),
                News::Renewed => kept.outlives(identity) || !kept.has_key_of(identity),
            })
        };
        let store = match self {
            Store::Secret(store) => store,
            Store::Dir(store) => {
                return match store.load().await {
                    Ok((kept, _)) if better(kept.as_ref()) => Ok(()),
                    _ => store.save(text).await,
                };
            }
        };
        let mut tries = TRIES;
        loop {
            let (kept, _, found) = store.load().await?;
            if better(kept.as_ref()) {
                return Ok(());
            }
            tries -= 1;
            match store.save(text.clone(), found).await {
                Err(StoreError::Conflict(_)) if tries > 0 => {}
                done => return done,
            }
        }
    }
}
