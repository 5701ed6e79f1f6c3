//! The hub's keys in the store, for several hubs on one database: the first hub writes them, the
//! others copy them.
//!
//! They are sealed with a key that the platform operator gives to each hub (`--store-key-file`). A
//! copy of the database or of a backup does not reveal them.

use std::{collections::BTreeMap, io, path::Path};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use fairlead_certs::{Authority, keyfile};
use fairlead_store::{DataDir, Store};
use secrecy::{ExposeSecret, SecretString};
use tracing::info;

use crate::{files::KEYS, keys_error::KeysError, modules::enroll::BootstrapKey};

/// Domain separation of this use of the sealing key.
const PURPOSE: &[u8] = b"fairlead keys of the hub v1";
const NONCE_BYTES: usize = 12;

/// Key that encrypts the hub's keys in the store.
pub(crate) struct SealingKey(RandomizedNonceKey);

/// Contents by file name.
type Keys = BTreeMap<String, SecretString>;

impl SealingKey {
    /// Reads 32 bytes in base64, as written by `openssl rand -base64 32`.
    ///
    /// # Errors
    /// [`KeysError::SealingKey`]
    pub(crate) fn read(text: &SecretString) -> Result<Self, KeysError> {
        let text = text.expose_secret().trim();
        let bytes = STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text));
        let bytes = bytes.map_err(|_| KeysError::SealingKey)?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, &bytes);
        key.map(SealingKey).map_err(|_| KeysError::SealingKey)
    }

    fn seal(&self, keys: &Keys) -> Result<String, KeysError> {
        let internal = KeysError::Internal;
        let plain: BTreeMap<&str, &str> = keys
            .iter()
            .map(|(name, text)| (name.as_str(), text.expose_secret()))
            .collect();
        let mut text =
            serde_json::to_vec(&plain).map_err(|_| internal("serialising keys failed"))?;
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(PURPOSE), &mut text);
        let nonce = nonce.map_err(|_| internal("sealing keys failed"))?;
        let nonce: &[u8; NONCE_BYTES] = nonce.as_ref();
        let mut sealed = nonce.to_vec();
        sealed.append(&mut text);
        Ok(STANDARD.encode(sealed))
    }

    fn open(&self, sealed: &str) -> Result<Keys, KeysError> {
        let opened = || {
            let mut bytes = STANDARD.decode(sealed).ok()?;
            let (nonce, text) = bytes.split_at_mut_checked(NONCE_BYTES)?;
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let text = (self.0)
                .open_in_place(nonce, Aad::from(PURPOSE), text)
                .ok()?;
            let keys: BTreeMap<String, String> = serde_json::from_slice(text).ok()?;
            let keys: Keys = keys
                .into_iter()
                .map(|(name, it)| (name, it.into()))
                .collect();
            KEYS.iter()
                .all(|name| keys.contains_key(*name))
                .then_some(keys)
        };
        opened().ok_or(KeysError::OtherSealingKey)
    }
}

/// Brings data directory and store to the same keys; creates them if neither has any.
///
/// # Errors
/// [`KeysError`]
pub(crate) async fn share(
    store: &Store,
    dir: &DataDir,
    sealing: &SealingKey,
) -> Result<(), KeysError> {
    let found = read(dir)?;
    let sealed = match store.keys().await.map_err(KeysError::Store)? {
        Some(sealed) => sealed,
        None => {
            Authority::open_or_create(dir.path())?;
            BootstrapKey::open_or_create(dir)?;
            let sealed = sealing.seal(&read(dir)?)?;
            if store.keep_keys(&sealed).await.map_err(KeysError::Store)? {
                info!("hub keys sealed into the store");
                return Ok(());
            }
            // Another hub was faster. Nothing depends on the keys created here, so they are
            // discarded.
            if found.is_empty() {
                forget(dir)?;
            }
            let theirs = store.keys().await.map_err(KeysError::Store)?;
            theirs.ok_or(KeysError::Disappeared)?
        }
    };
    take(dir, &sealing.open(&sealed)?)
}

/// Writes missing files. Existing ones must be equal, or nothing is written.
fn take(dir: &DataDir, keys: &Keys) -> Result<(), KeysError> {
    let here = read(dir)?;
    let theirs = || {
        keys.iter()
            .filter(|(name, _)| KEYS.contains(&name.as_str()))
    };
    for (name, theirs) in theirs() {
        let ours = here.get(name).map(|it| it.expose_secret().trim());
        if ours.is_some_and(|ours| ours != theirs.expose_secret().trim()) {
            return Err(KeysError::OtherHubs(dir.join(name)));
        }
    }
    for (name, theirs) in theirs().filter(|(name, _)| !here.contains_key(*name)) {
        let path = dir.join(name);
        keyfile::create(&path, theirs.expose_secret())?;
        info!(file = %path.display(), "hub key copied from the store");
    }
    Ok(())
}

fn read(dir: &DataDir) -> Result<Keys, KeysError> {
    let mut keys = Keys::new();
    for name in KEYS {
        let path = dir.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => drop(keys.insert(name.to_owned(), text.into())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(&path, error)),
        }
    }
    Ok(keys)
}

fn forget(dir: &DataDir) -> Result<(), KeysError> {
    for name in KEYS {
        let path = dir.join(name);
        std::fs::remove_file(&path).map_err(|error| unusable(&path, error))?;
    }
    Ok(())
}

fn unusable(path: &Path, source: io::Error) -> KeysError {
    KeysError::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use fairlead_api::Code;

    use super::*;

    fn sealing(byte: u8) -> SealingKey {
        SealingKey::read(&STANDARD.encode([byte; 32]).into()).unwrap()
    }

    #[test]
    fn sealed_keys_are_opened_by_the_same_key_alone() {
        let keys: Keys = KEYS
            .into_iter()
            .map(|name| (name.to_owned(), format!("text of {name}").into()))
            .collect();
        let sealed = sealing(1).seal(&keys).unwrap();
        assert!(!sealed.contains("text"));
        assert_ne!(sealed, sealing(1).seal(&keys).unwrap());
        let opened = sealing(1).open(&sealed).unwrap();
        assert_eq!(opened["ca.key"].expose_secret(), "text of ca.key");
        for bad in [sealed.as_str(), "", "AAAA", "?"] {
            assert_eq!(sealing(2).open(bad).unwrap_err().code(), Code::DataDir);
        }
    }

    #[test]
    fn a_sealing_key_is_32_bytes() {
        for bad in ["", "short", "????", &STANDARD.encode([1; 31])] {
            let failure = SealingKey::read(&bad.to_owned().into()).err().unwrap();
            assert_eq!(failure.code(), Code::BadConfig);
        }
        SealingKey::read(&format!("{}\n", URL_SAFE.encode([255; 32])).into()).unwrap();
    }
}
