//! Trust in a pinned authority.
//!
//! The peer sends its CA along. If the hash of the CA's key is the pin, ordinary verification runs against this one
//! anchor.

use aws_lc_rs::digest;
use fairlead_api::{CaPin, CaPins};
use rustls::{
    Error, RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{
    error::CertsError,
    inner::HUB_SERVER_NAME,
    tls::{TrustError, algorithms},
};

/// Limit of certificates that are examined beside the leaf.
const MAX_CHAIN_LENGTH: usize = 8;

/// SHA-256 of these bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}

/// The pin of a certificate; `None` if it is not one.
pub(crate) fn pin_of(certificate: &[u8]) -> Option<CaPin> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(CaPin(sha256(parsed.public_key().raw)))
}

/// The pin of the first certificate in `ca_pem`: SHA-256 of its SubjectPublicKeyInfo (RFC 7469, section 2.4).
///
/// # Errors
/// `FL-4101` if it contains no certificate.
pub fn ca_pin(ca_pem: &str) -> Result<CaPin, CertsError> {
    CertificateDer::from_pem_slice(ca_pem.as_bytes())
        .ok()
        .and_then(|der| pin_of(&der))
        .ok_or_else(|| CertsError::Settings("there is no CA certificate in this PEM".to_owned()))
}

/// The pins of the first two certificates in `ca_pem`.
///
/// # Errors
/// `FL-4101` if it contains no certificate.
pub fn ca_pins(ca_pem: &str) -> Result<CaPins, CertsError> {
    let first = ca_pin(ca_pem)?;
    let all = CertificateDer::pem_slice_iter(ca_pem.as_bytes()).flatten();
    let second = all.skip(1).find_map(|der| pin_of(&der));
    Ok(CaPins::new(first, second))
}

/// The certificates of pinned authorities among those that a peer sent.
pub(crate) fn pinned<'a>(
    pins: CaPins,
    intermediates: &'a [CertificateDer<'a>],
) -> impl Iterator<Item = &'a CertificateDer<'a>> {
    let sent = intermediates.iter().take(MAX_CHAIN_LENGTH);
    sent.filter(move |der| pin_of(der).is_some_and(|pin| pins.contains(pin)))
}

/// The pin of the authority that signed a hub's certificate, among those that the hub sent; `None` for another chain.
///
/// `chain` has the leaf first. Nothing vouches for that authority: a person has to compare the pin.
#[must_use]
pub fn sent_authority(chain: &[CertificateDer<'_>]) -> Option<CaPin> {
    let (leaf, intermediates) = chain.split_first()?;
    let name = ServerName::try_from(HUB_SERVER_NAME).ok()?;
    let sent = intermediates.iter().take(MAX_CHAIN_LENGTH);
    let mut pins = sent.filter_map(|der| pin_of(der));
    pins.find(|pin| verify((*pin).into(), leaf, intermediates, &name, UnixTime::now()).is_ok())
}

/// Verifies that a pinned authority itself, without intermediates, signed `leaf` for a server of this name, valid
/// now.
pub(crate) fn verify(
    pins: CaPins,
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), Error> {
    let mut roots = RootCertStore::empty();
    for anchor in pinned(pins, intermediates) {
        roots.add(anchor.clone().into_owned())?;
    }
    if roots.is_empty() {
        return Err(TrustError::NotPinned(pins).into());
    }
    let leaf = ParsedCertificate::try_from(leaf)?;
    verify_server_cert_signed_by_trust_anchor(&leaf, &roots, &[], now, algorithms().all)?;
    verify_server_name(&leaf, name)
}
