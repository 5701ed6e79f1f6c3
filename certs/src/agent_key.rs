//! An agent's key pair, also before it has a certificate. The key is generated where it is used and never leaves the
//! machine.

use std::fmt;

use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use secrecy::SecretString;

use crate::{error::CertsError, leaf::Leaf, tls::internal};

/// An agent's key pair. `Debug` hides it.
pub struct AgentKey(KeyPair);

impl AgentKey {
    /// Generates a P-256 key.
    ///
    /// # Errors
    /// `FL-5101` if the machine has no random numbers.
    pub fn generate() -> Result<Self, CertsError> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .map(AgentKey)
            .map_err(internal)
    }

    /// Reads a P-256 or Ed25519 key, PKCS#8 in PEM.
    ///
    /// # Errors
    /// `FL-4101` if it is not such a key.
    pub fn from_pem(pem: &str) -> Result<Self, CertsError> {
        KeyPair::from_pem(pem)
            .ok()
            .filter(|key| [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519].contains(&key.algorithm()))
            .map(AgentKey)
            .ok_or_else(|| {
                let detail = "the agent's key is not a P-256 or Ed25519 key in PEM";
                CertsError::Settings(detail.to_owned())
            })
    }

    /// The key as PKCS#8 in PEM, for storage that only the agent can read.
    #[must_use]
    pub fn to_pem(&self) -> SecretString {
        self.0.serialize_pem().into()
    }

    /// A certificate request, PKCS#10 in PEM, without names: the hub adds those of the token.
    ///
    /// # Errors
    /// `FL-5101` if it cannot be signed.
    pub fn csr(&self) -> Result<String, CertsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .serialize_request(&self.0)
            .and_then(|request| request.pem())
            .map_err(internal)
    }

    /// Combines the key with the certificate issued for it, leaf first.
    ///
    /// # Errors
    /// `FL-3107` if that is not a certificate, or one for another key.
    pub fn with_certificate(&self, chain_pem: &str) -> Result<Leaf, CertsError> {
        let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| "the issued certificate is not PEM".to_owned())
            .map_err(CertsError::IssuedCertificate)?;
        let key = PrivatePkcs8KeyDer::from(self.0.serialize_der());
        Leaf::new(chain, PrivateKeyDer::Pkcs8(key)).map_err(CertsError::IssuedCertificate)
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey(..)")
    }
}
