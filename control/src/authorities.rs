//! Authorities of this hub at run time: the present one, and the next one while the CA is rotated.
//!
//! The store's document decides about the phase. Keys are in the data directory and, sealed, in the
//! store. Each step of a rotation may be cut short: [`TrustedAuthorities::follow`] completes it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use fairlead_api::{CaPin, CaPins};
use fairlead_certs::{Authority, AuthorityFiles};
use fairlead_runtime::atomic_file;
use fairlead_store::{Actor, Draft, Store, model::CaRecord};
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::{
    ca_error::CaError,
    keys::{self, SealingKey},
    keys_error::KeysError,
};

/// Authorities of one moment.
pub(crate) struct CaSet {
    /// Signs the hub's own certificates.
    pub(crate) current: Arc<Authority>,
    /// Announced, and trusted already.
    pub(crate) next: Option<NextCa>,
}

/// The next authority.
pub(crate) struct NextCa {
    pub(crate) pin: CaPin,
    pub(crate) certificate: String,
    /// `None` while its key has not arrived at this hub.
    pub(crate) authority: Option<Arc<Authority>>,
}

impl CaSet {
    /// The authority that signs identities.
    pub(crate) fn issuer(&self) -> &Arc<Authority> {
        let next = self.next.as_ref();
        next.and_then(|next| next.authority.as_ref())
            .unwrap_or(&self.current)
    }

    /// Pins for agents.
    pub(crate) fn pins(&self) -> CaPins {
        let next = self.next.as_ref().map(|next| next.pin);
        CaPins::new(self.current.pin(), next)
    }

    /// Certificates of all trusted authorities in PEM, oldest first.
    pub(crate) fn bundle_pem(&self) -> String {
        let mut bundle = self.current.certificate_pem().to_owned();
        if let Some(next) = &self.next {
            bundle.push_str(&next.certificate);
        }
        bundle
    }
}

/// Authorities of this hub, with their files.
pub(crate) struct TrustedAuthorities {
    set: RwLock<Arc<CaSet>>,
    dir: PathBuf,
    sealing: Option<SealingKey>,
    /// Locked during changes of files.
    changing: Mutex<()>,
}

impl TrustedAuthorities {
    /// Opens the authorities of the folder, or creates the first one, and completes an interrupted
    /// rotation.
    ///
    /// # Errors
    /// [`KeysError`]
    pub(crate) async fn open(
        dir: PathBuf,
        sealing: Option<SealingKey>,
        store: &Store,
    ) -> Result<Self, KeysError> {
        finish_promotion(&dir)?;
        let current = Arc::new(Authority::open_or_create(&dir)?);
        let set = CaSet {
            current,
            next: None,
        };
        let authorities = TrustedAuthorities {
            set: RwLock::new(Arc::new(set)),
            dir,
            sealing,
            changing: Mutex::default(),
        };
        authorities.follow(store).await?;
        Ok(authorities)
    }

    /// The authorities of this moment.
    pub(crate) fn set(&self) -> Arc<CaSet> {
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings keys and trust in line with the store's document. False if the key of the next authority is missing
    /// here, so that a later call may find it.
    ///
    /// # Errors
    /// [`KeysError`]; the previous authorities remain in use.
    pub(crate) async fn follow(&self, store: &Store) -> Result<bool, KeysError> {
        let _changing = self.changing.lock().await;
        let document = store.view().authorities().cloned();
        let Some(document) = document else {
            return Ok(true);
        };
        let (hub, mut current) = (&document.value, Arc::clone(&self.set().current));
        if let Some(record) = &hub.current
            && record.pin != current.pin()
        {
            self.switch(store, record.pin).await?;
            current = Arc::new(Authority::open_or_create(&self.dir)?);
            info!(pin = %current.pin(), "CA replaced by its successor");
        }
        let next = match &hub.next {
            None => None,
            Some(record) => Some(NextCa {
                pin: record.pin,
                certificate: record.certificate.clone(),
                authority: self.next_authority(store, record.pin).await?,
            }),
        };
        let is_complete = next.as_ref().is_none_or(|next| next.authority.is_some());
        let set = Arc::new(CaSet { current, next });
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = set;
        if is_complete && let Some(sealing) = &self.sealing {
            keys::reseal(store, &self.dir, sealing, hub.next.is_some()).await?;
        }
        Ok(is_complete)
    }

    /// Creates the next authority, and announces it in the store.
    ///
    /// # Errors
    /// [`CaError::Rotating`] while a rotation runs, errors of files and store
    pub(crate) async fn rotate(&self, store: &Store, actor: Actor) -> Result<(), CaError> {
        let changing = self.changing.lock().await;
        let current = Arc::clone(&self.set().current);
        if store
            .view()
            .authorities()
            .is_some_and(|it| it.value.next.is_some())
        {
            return Err(CaError::Rotating);
        }
        // An interrupted rotation may have left the key of one that nobody knows.
        let next = Authority::open_or_create_next(&self.dir, current.trust_domain())
            .map_err(KeysError::from)?;
        if let Some(sealing) = &self.sealing {
            keys::reseal(store, &self.dir, sealing, true).await?;
        }
        let record = |it: &Authority| CaRecord {
            pin: it.pin(),
            certificate: it.certificate_pem().to_owned(),
        };
        let (current, next) = (record(&current), record(&next));
        let pin = next.pin;
        let decide = move |draft: &mut Draft| {
            let (current, next) = (current.clone(), next.clone());
            draft.amend_authorities(|hub| match hub.next {
                Some(_) => Err(CaError::Rotating),
                None => {
                    hub.current = Some(current);
                    hub.next = Some(next);
                    Ok(())
                }
            })
        };
        store.change(actor, decide).await?;
        drop(changing);
        info!(%pin, "rotation of the CA begun");
        self.follow(store).await?;
        Ok(())
    }

    /// Makes the authority with this pin the present one in the folder.
    async fn switch(&self, store: &Store, pin: CaPin) -> Result<(), KeysError> {
        if self.local_next()?.is_some_and(|next| next.pin() == pin) {
            return promote(&self.dir);
        }
        if let Some(sealing) = &self.sealing
            && keys::take_ca(store, &self.dir, sealing, AuthorityFiles::CURRENT, pin).await?
        {
            return Ok(());
        }
        Err(KeysError::LostCa(pin))
    }

    async fn next_authority(
        &self,
        store: &Store,
        pin: CaPin,
    ) -> Result<Option<Arc<Authority>>, KeysError> {
        let wanted = |found: Option<Authority>| found.filter(|it| it.pin() == pin).map(Arc::new);
        if let Some(found) = wanted(self.local_next()?) {
            return Ok(Some(found));
        }
        if let Some(sealing) = &self.sealing
            && keys::take_ca(store, &self.dir, sealing, AuthorityFiles::NEXT, pin).await?
        {
            return Ok(wanted(self.local_next()?));
        }
        warn!(%pin, "key of the next CA is not here yet; identities are signed by the present CA");
        Ok(None)
    }

    fn local_next(&self) -> Result<Option<Authority>, KeysError> {
        if !self.dir.join(AuthorityFiles::NEXT.key).exists() {
            return Ok(None);
        }
        let trust_domain = self.set().current.trust_domain().to_owned();
        let next = Authority::open_or_create_next(&self.dir, &trust_domain)?;
        Ok(Some(next))
    }
}

/// Moves the next authority to the place of the present one, the key first. The old key is gone then.
fn promote(dir: &Path) -> Result<(), KeysError> {
    let (next, current) = (AuthorityFiles::NEXT, AuthorityFiles::CURRENT);
    rename(dir, next.key, current.key)?;
    rename(dir, next.certificate, current.certificate)
}

/// Completes [`promote`] after a crash between its steps: a certificate without a key exists only there.
fn finish_promotion(dir: &Path) -> Result<(), KeysError> {
    let (next, current) = (AuthorityFiles::NEXT, AuthorityFiles::CURRENT);
    let (certificate, key) = (dir.join(next.certificate), dir.join(next.key));
    match certificate.exists() && !key.exists() {
        true => rename(dir, next.certificate, current.certificate),
        false => Ok(()),
    }
}

fn rename(dir: &Path, from: &str, to: &str) -> Result<(), KeysError> {
    let (from, to) = (dir.join(from), dir.join(to));
    atomic_file::rename(&from, &to)
        .map_err(|source: io::Error| KeysError::File { path: from, source })
}
