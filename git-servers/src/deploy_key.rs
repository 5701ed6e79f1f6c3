//! Ed25519 keys in the format of OpenSSH, for deploy keys that the hub makes.

use aws_lc_rs::{
    encoding::{AsBigEndian, Curve25519SeedBin},
    signature::{Ed25519KeyPair, KeyPair as _},
};
use fairlead_api::resources::GeneratedKey;
use secrecy::{ExposeSecret, SecretString};
use ssh_key::{
    HashAlg, LineEnding, PrivateKey, PublicKey,
    private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData},
    public::Ed25519PublicKey,
};

/// The cryptographic library failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no SSH key could be generated")]
pub(crate) struct KeyGenerationFailed;

/// A new key.
#[derive(Debug)]
pub(crate) struct NewDeployKey {
    /// PEM of OpenSSH.
    pub(crate) private: SecretString,
    pub(crate) public: GeneratedKey,
}

impl NewDeployKey {
    /// Makes a key.
    ///
    /// # Errors
    /// [`KeyGenerationFailed`]
    pub(crate) fn generate() -> Result<Self, KeyGenerationFailed> {
        let private = ed25519().ok_or(KeyGenerationFailed)?;
        let pem = private.to_openssh(LineEnding::LF);
        let pem = pem.map_err(|_| KeyGenerationFailed)?;
        let public = described(private.public_key()).ok_or(KeyGenerationFailed)?;
        Ok(NewDeployKey {
            private: SecretString::from(pem.as_str()),
            public,
        })
    }
}

/// Public half of a private key; `None` for any other text.
pub(crate) fn public_of(private: &SecretString) -> Option<GeneratedKey> {
    let key = PrivateKey::from_openssh(private.expose_secret()).ok()?;
    described(key.public_key())
}

fn described(key: &PublicKey) -> Option<GeneratedKey> {
    Some(GeneratedKey {
        key: key.to_openssh().ok()?,
        fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
    })
}

fn ed25519() -> Option<PrivateKey> {
    let pair = Ed25519KeyPair::generate().ok()?;
    let seed = pair.seed().ok()?;
    let seed: Curve25519SeedBin<'_> = seed.as_be_bytes().ok()?;
    let keys = Ed25519Keypair {
        public: Ed25519PublicKey::try_from(pair.public_key().as_ref()).ok()?,
        private: Ed25519PrivateKey::from_bytes(seed.as_ref().try_into().ok()?),
    };
    PrivateKey::new(KeypairData::Ed25519(keys), "").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_half_is_read_back_from_the_private_one() {
        let made = NewDeployKey::generate().unwrap();
        assert_eq!(public_of(&made.private), Some(made.public.clone()));
        // As a credential is read: without the line break at its end.
        let trimmed = made.private.expose_secret().trim().to_owned();
        assert_eq!(public_of(&trimmed.into()), Some(made.public.clone()));
        assert!(made.public.key.starts_with("ssh-ed25519 "));
        assert!(made.public.fingerprint.starts_with("SHA256:"));
        let other = NewDeployKey::generate().unwrap();
        assert_ne!(other.public, made.public);
        assert_eq!(public_of(&"glpat-1".to_owned().into()), None);
        assert!(!format!("{made:?}").contains("BEGIN"));
    }
}
