//! Bootstrap tokens: `<cluster>.<registration>.<generation>.<expiry>.<HMAC>`.
//!
//! The HMAC key is not in the store, so a copy of the store yields no token. The hub reproduces a
//! valid token on demand without storing it.

use std::fmt::Write as _;

use aws_lc_rs::hmac;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::{ClusterId, adoption::AdoptionCode};
use fairlead_certs::{Registration, keyfile};
use fairlead_store::{
    DataDir,
    model::{Binding, hex},
    random,
};
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;

use crate::keys_error::KeysError;

const KEY_FILE: &str = "bootstrap.key";
/// Upper bound for the length of our tokens, in bytes; longer texts are rejected unread.
pub(crate) const MAX_TOKEN_BYTES: usize = 255;
/// Domain separation of this use of the key.
const PURPOSE: &str = "fairlead bootstrap token v1|";
/// Domain separation of the codes of adoptions.
const ADOPTION_PURPOSE: &str = "fairlead adoption code v1|";

/// Key of the bootstrap tokens' HMAC.
pub(crate) struct BootstrapKey(hmac::Key);

/// Claims of an authentic token, which may be expired or spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) cluster: ClusterId,
    /// A token dies with its cluster: one with the same id has another registration.
    pub(crate) registration: Registration,
    pub(crate) generation: i64,
    pub(crate) expires: OffsetDateTime,
}

impl BootstrapKey {
    /// Opens the key file in the data directory; creates it on first start.
    ///
    /// # Errors
    /// [`KeysError`] if it is damaged or readable by others.
    pub(crate) fn open_or_create(dir: &DataDir) -> Result<Self, KeysError> {
        let path = dir.join(KEY_FILE);
        let text = match keyfile::read(&path)? {
            Some(text) => text,
            None => {
                let text = SecretString::from(URL_SAFE_NO_PAD.encode(random::bytes::<32>()?));
                keyfile::create(&path, text.expose_secret())?;
                text
            }
        };
        let key = URL_SAFE_NO_PAD.decode(text.expose_secret().trim());
        let key = key.ok().filter(|key| key.len() == 32);
        let key = key.ok_or(KeysError::BootstrapKey(path))?;
        Ok(BootstrapKey(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// A key for another purpose (NIST SP 800-108, with HMAC as the function).
    pub(crate) fn derived(&self, purpose: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, purpose)
    }

    /// The current token of a cluster.
    pub(crate) fn token(&self, cluster: &ClusterId, binding: &Binding) -> SecretString {
        let mut token = String::with_capacity(MAX_TOKEN_BYTES);
        self.write(cluster, binding, &mut token);
        token.into()
    }

    /// Appends the current token to `to`, which is a secret from then on. Lists contain one per
    /// cluster that awaits its agent, so this avoids an allocation each.
    pub(crate) fn write(&self, cluster: &ClusterId, binding: &Binding, to: &mut String) {
        let registration = hex::encode(binding.registration.as_bytes());
        let generation = binding.bootstrap.generation;
        let (start, expires) = (to.len(), binding.bootstrap.expires.unix_timestamp());
        // Writing to a `String` cannot fail.
        let _ = write!(to, "{cluster}.{registration}.{generation}.{expires}");
        let mut tag = hmac::Context::with_key(&self.0);
        tag.update(PURPOSE.as_bytes());
        tag.update(to.get(start..).unwrap_or_default().as_bytes());
        to.push('.');
        URL_SAFE_NO_PAD.encode_string(tag.sign(), to);
    }

    /// Code of an adoption, by its random id and the announced key. The store holds none.
    pub(crate) fn adoption_code(&self, id: &str, key: &str) -> AdoptionCode {
        let mut tag = hmac::Context::with_key(&self.0);
        for part in [ADOPTION_PURPOSE, id, "|", key] {
            tag.update(part.as_bytes());
        }
        let tag = tag.sign();
        let mut bytes = [0; 5];
        bytes
            .iter_mut()
            .zip(tag.as_ref())
            .for_each(|(to, from)| *to = *from);
        AdoptionCode::from_bytes(bytes)
    }

    /// Claims of a token made by this hub; the HMAC is compared in constant time.
    pub(crate) fn read(&self, token: &SecretString) -> Option<Claims> {
        let text = token.expose_secret();
        if text.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (claims_text, tag) = text.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.0, format!("{PURPOSE}{claims_text}").as_bytes(), &tag).ok()?;
        let mut parts = claims_text.split('.');
        let claims = Claims {
            cluster: parts.next()?.parse().ok()?,
            registration: Registration::from_bytes(hex::decode(parts.next()?)?),
            generation: parts.next()?.parse().ok()?,
            expires: OffsetDateTime::from_unix_timestamp(parts.next()?.parse().ok()?).ok()?,
        };
        parts.next().is_none().then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use fairlead_store::model::Bootstrap;
    use time::macros::datetime;

    use super::*;

    const EXPIRES: OffsetDateTime = datetime!(2026-11-21 12:30 UTC);

    fn current() -> Binding {
        let registration = Registration::from_bytes([0x41, 2, 3, 4, 5, 6, 7, 8]);
        Binding::open(registration, Bootstrap::new(3, EXPIRES, None))
    }

    #[test]
    fn a_token_parses_back_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let dir = DataDir::open(dir.path()).unwrap();
        let cluster: ClusterId = "c-demo".parse().unwrap();
        let key = BootstrapKey::open_or_create(&dir).unwrap();
        let token = key.token(&cluster, &current());
        let again = BootstrapKey::open_or_create(&dir).unwrap();
        let claims = again.read(&token).unwrap();
        assert_eq!(claims.cluster, cluster);
        assert_eq!((claims.generation, claims.expires), (3, EXPIRES));
        assert_eq!(claims.registration, current().registration);
        let start = "c-demo.4102030405060708.3.";
        assert!(token.expose_secret().starts_with(start));
        assert!(token.expose_secret().len() < 255);
    }

    #[test]
    fn other_texts_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        let key = BootstrapKey::open_or_create(&DataDir::open(&one).unwrap()).unwrap();
        let other = BootstrapKey::open_or_create(&DataDir::open(&two).unwrap()).unwrap();
        let cluster = "c-demo".parse().unwrap();
        let good = key.token(&cluster, &current());
        let good = good.expose_secret();
        let mut bad = vec![
            other.token(&cluster, &current()).expose_secret().to_owned(),
            good.replace("c-demo", "c-other"),
            good.replace(".3.", ".4."),
            good.replace(".3.", ".03."),
            format!("{good}="),
            format!(" {good}"),
            format!("{good}."),
            "...".to_owned(),
            String::new(),
            "x".repeat(300),
        ];
        for at in 0..good.len() {
            bad.push(good[..at].to_owned());
            let mut slip = good.to_owned().into_bytes();
            slip[at] = if slip[at] == b'0' { b'1' } else { b'0' };
            bad.push(String::from_utf8(slip).unwrap());
        }
        for text in bad {
            assert!(key.read(&text.clone().into()).is_none(), "{text}");
        }
    }
}
