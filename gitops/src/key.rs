//! SSH keys: generation, OpenSSH's formats, fingerprints.

use aws_lc_rs::{
    encoding::{AsBigEndian, AsDer, Curve25519SeedBin, Pkcs8V1Der},
    rsa::{self, KeySize},
    signature::{Ed25519KeyPair, KeyPair as _},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::gitops::SshKeyType;
use secrecy::SecretString;
use ssh_key::{
    HashAlg, LineEnding, Mpint, PrivateKey, PublicKey,
    private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData},
    public::{Ed25519PublicKey, KeyData, RsaPublicKey},
};

use crate::der;

/// Characters per line of PEM (RFC 7468).
const PEM_LINE_CHARS: usize = 64;

/// A key could not be made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The cryptographic library failed.
    #[error("no key could be generated")]
    Generate,
    /// The key cannot be written in the format of OpenSSH.
    #[error("the key cannot be encoded")]
    Encode(#[source] ssh_key::Error),
}

impl From<aws_lc_rs::error::Unspecified> for KeyError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        KeyError::Generate
    }
}

impl From<ssh_key::Error> for KeyError {
    fn from(error: ssh_key::Error) -> Self {
        KeyError::Encode(error)
    }
}

/// A new SSH key.
#[derive(Debug)]
pub struct KeyPair {
    /// PEM: of OpenSSH for Ed25519, PKCS#8 for RSA. Git, Flux and Argo CD read both.
    pub private: SecretString,
    /// `<type> <base64>`, without a comment.
    pub public: String,
}

impl KeyPair {
    /// Makes a key. RSA takes a second or more of processor time.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn generate(kind: SshKeyType) -> Result<Self, KeyError> {
        match kind {
            SshKeyType::Ed25519 => ed25519(),
            SshKeyType::Rsa => rsa_4096(),
        }
    }
}

fn ed25519() -> Result<KeyPair, KeyError> {
    let pair = Ed25519KeyPair::generate()?;
    let seed: Curve25519SeedBin<'_> = pair.seed()?.as_be_bytes()?;
    let seed = seed.as_ref().try_into().map_err(|_| KeyError::Generate)?;
    let public = Ed25519PublicKey::try_from(pair.public_key().as_ref())?;
    let keys = Ed25519Keypair {
        public,
        private: Ed25519PrivateKey::from_bytes(seed),
    };
    let private = PrivateKey::new(KeypairData::Ed25519(keys), "")?;
    let pem = private.to_openssh(LineEnding::LF)?;
    Ok(KeyPair {
        private: SecretString::from(pem.as_str()),
        public: private.public_key().to_openssh()?,
    })
}

fn rsa_4096() -> Result<KeyPair, KeyError> {
    let pair = rsa::KeyPair::generate(KeySize::Rsa4096)?;
    let (n, e) = der::rsa_public_key(pair.public_key().as_ref()).ok_or(KeyError::Generate)?;
    let public = RsaPublicKey {
        e: Mpint::from_positive_bytes(e)?,
        n: Mpint::from_positive_bytes(n)?,
    };
    let private: Pkcs8V1Der<'_> = pair.as_der()?;
    Ok(KeyPair {
        private: pkcs8_pem(private.as_ref()),
        public: PublicKey::from(KeyData::Rsa(public)).to_openssh()?,
    })
}

fn pkcs8_pem(der: &[u8]) -> SecretString {
    let text = STANDARD.encode(der);
    let mut pem = String::with_capacity(text.len() + text.len() / PEM_LINE_CHARS + 64);
    pem.push_str("-----BEGIN PRIVATE KEY-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_LINE_CHARS));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem.into()
}

/// Fingerprint of a public key as `ssh-keygen -l` prints it; `None` if it is no key.
#[must_use]
pub fn fingerprint(public: &str) -> Option<String> {
    let key = PublicKey::from_openssh(public).ok()?;
    Some(key.fingerprint(HashAlg::Sha256).to_string())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn private_half_of_ed25519_belongs_to_the_public_one() {
        let pair = KeyPair::generate(SshKeyType::Ed25519).unwrap();
        let read = PrivateKey::from_openssh(pair.private.expose_secret()).unwrap();
        assert_eq!(read.public_key().to_openssh().unwrap(), pair.public);
        assert!(pair.public.starts_with("ssh-ed25519 "), "{}", pair.public);
        let other = KeyPair::generate(SshKeyType::Ed25519).unwrap();
        assert_ne!(other.public, pair.public);
    }

    #[test]
    fn rsa_key_has_4096_bits_and_its_public_half() {
        let pair = KeyPair::generate(SshKeyType::Rsa).unwrap();
        let public = PublicKey::from_openssh(&pair.public).unwrap();
        let KeyData::Rsa(public) = public.key_data() else {
            panic!("{}", pair.public);
        };
        assert_eq!(public.n.as_positive_bytes().unwrap().len(), 512);
        let pem = pair.private.expose_secret();
        assert!(pem.lines().all(|line| line.len() <= PEM_LINE_CHARS));
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(base64).unwrap();
        let read = rsa::KeyPair::from_pkcs8(&der).unwrap();
        let (n, _) = der::rsa_public_key(read.public_key().as_ref()).unwrap();
        assert_eq!(Mpint::from_positive_bytes(n).unwrap(), public.n);
    }

    #[test]
    fn fingerprint_is_that_of_openssh() {
        // `ssh-keygen -lf` printed it for this key.
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
        let expected = "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA";
        assert_eq!(fingerprint(key).as_deref(), Some(expected));
        assert_eq!(fingerprint("ssh-ed25519 AAAA"), None);
    }

    #[test]
    fn debug_hides_the_private_key() {
        let pair = KeyPair::generate(SshKeyType::Ed25519).unwrap();
        let shown = format!("{pair:?}");
        assert!(!shown.contains("BEGIN"), "{shown}");
    }
}
