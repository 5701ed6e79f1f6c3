//! Secrets of tenants in the store, encrypted with a key that the store does not have.
//!
//! The key is derived from that of the bootstrap tokens, which all hubs of a store share and backups
//! contain. The nonce is derived from the text (RFC 5297 explains the idea), so that the same
//! document gives the same record. An observer of the store learns which texts of one name are
//! equal, and nothing else.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use fairlead_registry::Sealer;
use secrecy::SecretString;

use crate::{bootstrap_key::BootstrapKey, keys_error::KeysError};

/// Domain separation of the derived keys.
const ENCRYPTION: &[u8] = b"fairlead secret in the store v1|encryption";
const NONCE: &[u8] = b"fairlead secret in the store v1|nonce";
/// Start of each sealed text.
const FORM: &str = "v1.";

/// Seals and opens secrets of the store.
pub(crate) struct StoreSecrets {
    encryption: LessSafeKey,
    nonce: hmac::Key,
}

impl StoreSecrets {
    /// Derives the keys.
    ///
    /// # Errors
    /// [`KeysError::Internal`]
    pub(crate) fn of(bootstrap: &BootstrapKey) -> Result<Self, KeysError> {
        let encryption = UnboundKey::new(&AES_256_GCM, bootstrap.derived(ENCRYPTION).as_ref());
        let encryption = encryption.map_err(|_| KeysError::Internal("a derived key is invalid"))?;
        Ok(StoreSecrets {
            encryption: LessSafeKey::new(encryption),
            nonce: hmac::Key::new(hmac::HMAC_SHA256, bootstrap.derived(NONCE).as_ref()),
        })
    }

    /// Text of this name; `None` if it was sealed under another name or with another key.
    pub(crate) fn open(&self, name: &str, sealed: &str) -> Option<SecretString> {
        let mut bytes = STANDARD_NO_PAD.decode(sealed.strip_prefix(FORM)?).ok()?;
        let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.encryption.open_in_place(nonce, Aad::from(name), text);
        let text = String::from_utf8(opened.ok()?.to_vec()).ok()?;
        Some(text.into())
    }

    fn nonce(&self, name: &str, text: &str) -> Option<[u8; NONCE_LEN]> {
        let mut tag = hmac::Context::with_key(&self.nonce);
        tag.update(&u64::try_from(name.len()).ok()?.to_be_bytes());
        tag.update(name.as_bytes());
        tag.update(text.as_bytes());
        tag.sign().as_ref().first_chunk().copied()
    }
}

impl Sealer for StoreSecrets {
    fn seal(&self, name: &str, text: &str) -> Option<String> {
        let nonce = self.nonce(name, text)?;
        let mut bytes = text.as_bytes().to_vec();
        let key = &self.encryption;
        let tag = key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(name),
            &mut bytes,
        );
        let sealed = [&nonce[..], &bytes, tag.ok()?.as_ref()].concat();
        Some(format!("{FORM}{}", STANDARD_NO_PAD.encode(sealed)))
    }
}

#[cfg(test)]
mod tests {
    use fairlead_store::DataDir;
    use secrecy::ExposeSecret;

    use super::*;

    fn secrets() -> StoreSecrets {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(home.path()).unwrap();
        StoreSecrets::of(&BootstrapKey::open_or_create(&dir).unwrap()).unwrap()
    }

    #[test]
    fn sealed_texts_open_under_their_name_and_key_alone() {
        let secrets = secrets();
        let sealed = secrets.seal("TOKEN", "s3cret").unwrap();
        assert!(!sealed.contains("s3cret"));
        assert_eq!(secrets.seal("TOKEN", "s3cret").unwrap(), sealed);
        assert_ne!(secrets.seal("OTHER", "s3cret").unwrap(), sealed);
        let opened = secrets.open("TOKEN", &sealed).unwrap();
        assert_eq!(opened.expose_secret(), "s3cret");
        assert!(secrets.open("OTHER", &sealed).is_none());
        assert!(self::secrets().open("TOKEN", &sealed).is_none());
        for wrong in ["", "v1.", "v1.AAAA", "v2.AAAA", &sealed[..sealed.len() - 2]] {
            assert!(secrets.open("TOKEN", wrong).is_none(), "{wrong}");
        }
    }
}
