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
use fairlead_api::CaPin;
use fairlead_certs::{Authority, AuthorityFiles, ca_pin, keyfile};
use fairlead_store::{DataDir, Store};
use secrecy::{ExposeSecret, SecretString};
use tracing::info;

use crate::{
    bootstrap_key::BootstrapKey,
    files::{ALL_KEYS, KEYS},
    keys_error::KeysError,
};

/// Domain separation of this use of the sealing key.
const PURPOSE: &[u8] = b"fairlead keys of the hub v1";
const NONCE_BYTES: usize = 12;

/// Key that encrypts the hub's keys in the store.
pub(crate) struct SealingKey(RandomizedNonceKey);

const BOOTSTRAP: &str = "bootstrap.key";

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
    let found = read(dir.path())?;
    let sealed = match store.keys().await.map_err(KeysError::Store)? {
        Some(sealed) => sealed,
        None => {
            Authority::open_or_create(dir.path())?;
            BootstrapKey::open_or_create(dir)?;
            let sealed = sealing.seal(&read(dir.path())?)?;
            if store.keep_keys(&sealed).await.map_err(KeysError::Store)? {
                info!("hub keys sealed into the store");
                return Ok(());
            }
            // Another hub was faster. Nothing depends on the keys created here, so they are
            // discarded.
            if found.is_empty() {
                forget(dir.path())?;
            }
            let theirs = store.keys().await.map_err(KeysError::Store)?;
            theirs.ok_or(KeysError::Disappeared)?
        }
    };
    take(dir.path(), &sealing.open(&sealed)?)
}

/// Writes missing files. Existing ones must be equal, or nothing is written: except for the CA of a hub with the same
/// bootstrap key, which missed a rotation.
fn take(dir: &Path, keys: &Keys) -> Result<(), KeysError> {
    let here = read(dir)?;
    let differs = |name: &str| match (here.get(name), keys.get(name)) {
        (Some(ours), Some(theirs)) => !is_same(ours, theirs),
        _ => false,
    };
    let is_one_of_them = here.contains_key(BOOTSTRAP) && !differs(BOOTSTRAP);
    for name in KEYS {
        if differs(name) && !is_one_of_them {
            return Err(KeysError::OtherHubs(dir.join(name)));
        }
    }
    let theirs = keys
        .iter()
        .filter(|(name, _)| ALL_KEYS.contains(&name.as_str()));
    for (name, theirs) in theirs {
        if !here.contains_key(name) || differs(name) {
            let path = dir.join(name);
            keyfile::replace(&path, theirs.expose_secret())?;
            info!(file = %path.display(), "hub key copied from the store");
        }
    }
    Ok(())
}

/// Copies the authority with this pin from the store to these files; false if the store has none.
///
/// # Errors
/// [`KeysError`]
pub(crate) async fn take_ca(
    store: &Store,
    dir: &Path,
    sealing: &SealingKey,
    to: AuthorityFiles,
    pin: CaPin,
) -> Result<bool, KeysError> {
    let Some(sealed) = store.keys().await.map_err(KeysError::Store)? else {
        return Ok(false);
    };
    let keys = sealing.open(&sealed)?;
    for from in [AuthorityFiles::CURRENT, AuthorityFiles::NEXT] {
        let pair = (keys.get(from.certificate), keys.get(from.key));
        let (Some(certificate), Some(key)) = pair else {
            continue;
        };
        if ca_pin(certificate.expose_secret()).ok() == Some(pin) {
            keyfile::replace(&dir.join(to.key), key.expose_secret())?;
            keyfile::replace(&dir.join(to.certificate), certificate.expose_secret())?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Seals the keys of the folder into the store if they differ from those there. `with_next`: with the next authority.
///
/// # Errors
/// [`KeysError`]
pub(crate) async fn reseal(
    store: &Store,
    dir: &Path,
    sealing: &SealingKey,
    with_next: bool,
) -> Result<(), KeysError> {
    let mut ours = read(dir)?;
    if !with_next {
        ours.retain(|name, _| KEYS.contains(&name.as_str()));
    }
    let Some(sealed) = store.keys().await.map_err(KeysError::Store)? else {
        return Err(KeysError::Disappeared);
    };
    let theirs = sealing.open(&sealed)?;
    let is_equal = ours.len() == theirs.len()
        && ours.iter().all(|(name, ours)| {
            let theirs = theirs.get(name);
            theirs.is_some_and(|theirs| is_same(ours, theirs))
        });
    if is_equal {
        return Ok(());
    }
    let replaced = store.replace_keys(&sealed, &sealing.seal(&ours)?).await;
    match replaced.map_err(KeysError::Store)? {
        true => info!("hub keys sealed into the store"),
        // Another hub takes the same step; each hub checks its keys again after a change of the authorities.
        false => info!("hub keys were sealed by another hub"),
    }
    Ok(())
}

fn is_same(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret().trim() == other.expose_secret().trim()
}

fn read(dir: &Path) -> Result<Keys, KeysError> {
    let mut keys = Keys::new();
    for name in ALL_KEYS {
        let path = dir.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => drop(keys.insert(name.to_owned(), text.into())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(&path, error)),
        }
    }
    Ok(keys)
}

fn forget(dir: &Path) -> Result<(), KeysError> {
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
