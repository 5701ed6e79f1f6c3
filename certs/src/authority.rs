//! The hub's certificate authority: one P-256 key, generated on first start.
//!
//! It signs agents, the hub's end of the inner TLS, and the hub's front if no certificate of a public CA is configured.
//! The key never leaves this type.

use std::{fmt, path::Path};

use fairlead_api::{CaPin, ClusterId, TenantId, hex};
use rcgen::{
    CertificateParams, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
    SigningKey,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

use crate::{
    csr::CertificateRequest,
    error::CertsError,
    keyfile,
    leaf::Leaf,
    pin::{pin_of, sha256},
    profiles,
    registration::{Registration, SerialPrefix},
    tls::internal,
};

/// Key of an authority. It signs certificates, and its private part may be elsewhere, as in a KMS.
///
/// The file of the data directory is the one implementation here ([`Authority::open_or_create`]).
pub trait CaSigner: SigningKey + Send + Sync {}

impl<S: SigningKey + Send + Sync> CaSigner for S {}

struct Signer(Box<dyn CaSigner>);

impl PublicKeyData for Signer {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl SigningKey for Signer {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}

/// Names of the two files of an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Name of the certificate.
    pub certificate: &'static str,
    /// Name of the key.
    pub key: &'static str,
}

impl AuthorityFiles {
    /// The authority of the hub.
    pub const CURRENT: AuthorityFiles = AuthorityFiles {
        certificate: "ca.pem",
        key: "ca.key",
    };
    /// The next authority, while the CA is rotated.
    pub const NEXT: AuthorityFiles = AuthorityFiles {
        certificate: "ca-next.pem",
        key: "ca-next.key",
    };
}

/// The hub's certificate authority: key and certificate.
pub struct Authority {
    issuer: Issuer<'static, Signer>,
    der: CertificateDer<'static>,
    pem: String,
    pin: CaPin,
    trust_domain: String,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
}

/// A certificate for the key of a request.
#[derive(Debug, Clone)]
pub struct Signed {
    /// The certificate in PEM.
    pub certificate_pem: String,
    /// Start of its validity.
    pub not_before: OffsetDateTime,
    /// End of its validity.
    pub not_after: OffsetDateTime,
    /// Serial number in lower-case hexadecimal.
    pub serial: String,
    /// Hash of the public key, as by [`csr_fingerprint`](crate::csr_fingerprint).
    pub key_fingerprint: [u8; 32],
}

impl Authority {
    /// Opens `ca.pem` and `ca.key` (0600) in `dir`, or creates them on first start.
    ///
    /// Neither file is ever overwritten. One process at a time may call this for a directory. The trust domain is in
    /// the CA's URI SAN.
    ///
    /// # Errors
    /// `FL-4103` if they are damaged, do not belong together, or others may read the key.
    pub fn open_or_create(dir: &Path) -> Result<Self, CertsError> {
        Authority::open(dir, AuthorityFiles::CURRENT, None)
    }

    /// As [`Authority::open_or_create`], for the successor of an authority: another key, the same trust domain.
    ///
    /// # Errors
    /// As [`Authority::open_or_create`].
    pub fn open_or_create_next(dir: &Path, trust_domain: &str) -> Result<Self, CertsError> {
        Authority::open(dir, AuthorityFiles::NEXT, Some(trust_domain))
    }

    /// `trust_domain`: that of the predecessor, if there is one.
    fn open(
        dir: &Path,
        files: AuthorityFiles,
        trust_domain: Option<&str>,
    ) -> Result<Self, CertsError> {
        let (key_path, pem_path) = (dir.join(files.key), dir.join(files.certificate));
        let key = keyfile::read(&key_path)?;
        let pem = match std::fs::read_to_string(&pem_path) {
            Ok(pem) => Some(pem),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(CertsError::io(&pem_path, error)),
        };
        let key = match (key, &pem) {
            (Some(key), _) => KeyPair::from_pem(key.expose_secret())
                .ok()
                .filter(|key| key.algorithm() == &PKCS_ECDSA_P256_SHA256)
                .ok_or_else(|| CertsError::file(&key_path, "it is not a P-256 key in PEM"))?,
            (None, Some(_)) => {
                let name = files.key;
                let detail = format!("{name} is missing beside it; restore it from a backup");
                return Err(CertsError::file(&pem_path, detail));
            }
            (None, None) => {
                let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(internal)?;
                keyfile::create(&key_path, &key.serialize_pem())?;
                key
            }
        };
        let pem = match pem {
            Some(pem) => pem,
            // First start, or a start that was interrupted between the two files. Pin and trust domain come from the
            // key alone.
            None => {
                let pem = self_signed(&key, trust_domain, OffsetDateTime::now_utc())?;
                keyfile::create_public(&pem_path, &pem)?;
                pem
            }
        };
        Authority::new(key, pem).map_err(|detail| CertsError::file(&pem_path, detail))
    }

    /// An authority with a key in another place, and its certificate in PEM.
    ///
    /// The certificate may be signed by another CA. It has to name the trust domain as its only URI
    /// (`spiffe://<trust domain>`), and to permit the signing of certificates.
    ///
    /// # Errors
    /// `FL-4101` if the certificate is not one of this key, or not one of an authority.
    pub fn with_signer(signer: impl CaSigner + 'static, pem: String) -> Result<Self, CertsError> {
        Authority::new(signer, pem).map_err(CertsError::Settings)
    }

    fn new(key: impl CaSigner + 'static, pem: String) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| "it is not a certificate in PEM")?;
        let (_, parsed) =
            X509Certificate::from_der(&der).map_err(|_| "the certificate is damaged")?;
        if !parsed.is_ca() {
            return Err("it is not the certificate of an authority".to_owned());
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err("the key is not the one of this certificate".to_owned());
        }
        let not_before = parsed.validity().not_before.to_datetime();
        let not_after = parsed.validity().not_after.to_datetime();
        let trust_domain = trust_domain_of(&parsed).ok_or("it names no trust domain")?;
        let pin = pin_of(&der).ok_or("the certificate is damaged")?;
        Ok(Authority {
            issuer: Issuer::from_ca_cert_der(&der, Signer(Box::new(key)))
                .map_err(|error| error.to_string())?,
            pem,
            pin,
            trust_domain,
            not_before,
            not_after,
            der,
        })
    }

    /// The authority's certificate in PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    /// Pin of the authority's key.
    #[must_use]
    pub fn pin(&self) -> CaPin {
        self.pin
    }

    /// The trust domain: `fl-` and 16 hexadecimal digits of a key's hash. Successors keep that of the first authority.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// Start of the authority's own validity.
    #[must_use]
    pub fn not_before(&self) -> OffsetDateTime {
        self.not_before
    }

    /// End of the authority's own validity.
    #[must_use]
    pub fn not_after(&self) -> OffsetDateTime {
        self.not_after
    }

    /// Signs a client certificate (24 h) for the agent's key in `csr_pem`. Only the key of the request is used.
    ///
    /// # Errors
    /// `FL-2104` if it is not a request signed by its own P-256 or Ed25519 key, `FL-2105` if it names anything but this
    /// cluster.
    pub fn sign_agent(
        &self,
        csr_pem: &str,
        tenant: &TenantId,
        cluster: &ClusterId,
        now: OffsetDateTime,
    ) -> Result<Signed, CertsError> {
        self.sign_agent_of(Registration::random()?, csr_pem, tenant, cluster, now)
    }

    /// As [`Authority::sign_agent`], for one registration of the cluster, and one epoch of the store: both become part of
    /// the serial number.
    ///
    /// # Errors
    /// As [`Authority::sign_agent`].
    pub fn sign_agent_of(
        &self,
        serial: impl Into<SerialPrefix>,
        csr_pem: &str,
        tenant: &TenantId,
        cluster: &ClusterId,
        now: OffsetDateTime,
    ) -> Result<Signed, CertsError> {
        let request = CertificateRequest::parse(csr_pem)?;
        let uri = profiles::agent_uri(&self.trust_domain, tenant, cluster);
        request.names_only(cluster.as_str(), &uri)?;
        let params = profiles::agent(&self.trust_domain, tenant, cluster, serial.into(), now)?;
        let certificate = params
            .signed_by(&request.key, &self.issuer)
            .map_err(internal)?;
        let serial = params.serial_number.as_ref();
        Ok(Signed {
            certificate_pem: certificate.pem(),
            not_before: params.not_before,
            not_after: params.not_after,
            serial: hex::encode(&serial.map(|s| s.to_bytes()).unwrap_or_default()),
            key_fingerprint: request.fingerprint(),
        })
    }

    /// Issues the hub's certificate (24 h) for the inner TLS, valid for [`HUB_SERVER_NAME`](crate::HUB_SERVER_NAME),
    /// with a new key.
    ///
    /// # Errors
    /// `FL-5101` if it cannot be signed.
    pub fn issue_hub(&self, now: OffsetDateTime) -> Result<Leaf, CertsError> {
        self.issue(&profiles::hub(&self.trust_domain, now)?)
    }

    /// Issues a certificate (24 h) by which the hub proves itself to another hub, with a new key.
    ///
    /// # Errors
    /// `FL-5101` if it cannot be signed.
    pub fn issue_hub_client(&self, now: OffsetDateTime) -> Result<Leaf, CertsError> {
        self.issue(&profiles::hub_client(&self.trust_domain, now)?)
    }

    /// Issues the front's certificate (24 h) for these DNS names (also `*.domain`) and addresses.
    ///
    /// Used if no certificate of a public CA is configured. The chain contains the authority, so that a client can
    /// verify it by the pin alone.
    ///
    /// # Errors
    /// `FL-4101` if one of them is neither name nor address.
    pub fn issue_front(&self, names: &[String], now: OffsetDateTime) -> Result<Leaf, CertsError> {
        self.issue(&profiles::front(names, now)?)
    }

    fn issue(&self, params: &CertificateParams) -> Result<Leaf, CertsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(internal)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(internal)?;
        let chain = vec![certificate.der().clone(), self.der.clone()];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Leaf::new(chain, PrivateKeyDer::Pkcs8(key)).map_err(internal)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("trust_domain", &self.trust_domain)
            .field("pin", &self.pin)
            .finish_non_exhaustive()
    }
}

/// The trust domain is derived from the key, so the certificate can be made again from the key alone.
///
/// A successor takes over the trust domain, and has its own key in its name.
fn self_signed(
    key: &KeyPair,
    trust_domain: Option<&str>,
    now: OffsetDateTime,
) -> Result<String, CertsError> {
    let hash = sha256(&key.subject_public_key_info());
    let own = format!("fl-{}", hex::encode(hash.get(..8).unwrap_or_default()));
    let params = match trust_domain {
        None => profiles::ca(&own, None, now)?,
        Some(trust_domain) => profiles::ca(trust_domain, Some(&own), now)?,
    };
    let certificate = params.self_signed(key).map_err(internal)?;
    Ok(certificate.pem())
}

fn trust_domain_of(certificate: &X509Certificate<'_>) -> Option<String> {
    let names = certificate.subject_alternative_name().ok()??;
    let [GeneralName::URI(uri)] = names.value.general_names.as_slice() else {
        return None;
    };
    let domain = uri.strip_prefix("spiffe://")?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    (!domain.is_empty() && domain.chars().all(plain)).then(|| domain.to_owned())
}
