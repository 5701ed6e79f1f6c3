//! Reads certificate requests (PKCS#10, RFC 2986) of unauthenticated peers.
//!
//! Only the public key is used. Foreign names are rejected, all other attributes are ignored.

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData, SubjectPublicKeyInfo};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject};
use x509_parser::{
    certification_request::X509CertificationRequest,
    cri_attributes::ParsedCriAttribute,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::OID_X509_COMMON_NAME,
    prelude::FromDer,
};

use crate::{error::CertsError, pin::sha256};

/// Limit of a request in bytes of PEM.
const MAX_PEM_BYTES: usize = 8 * 1024;

/// A request with a valid signature of its own key.
pub(crate) struct CertificateRequest {
    pub(crate) key: SubjectPublicKeyInfo,
    common_names: Vec<String>,
    uris: Vec<String>,
    /// Kind of a name that no agent has.
    foreign_name_kind: Option<&'static str>,
}

fn bad(detail: &str) -> CertsError {
    CertsError::Request(detail.to_owned())
}

impl CertificateRequest {
    pub(crate) fn parse(pem: &str) -> Result<Self, CertsError> {
        if pem.len() > MAX_PEM_BYTES {
            return Err(bad(&format!("it is longer than {MAX_PEM_BYTES} bytes")));
        }
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| bad("it is not PKCS#10 in PEM"))?;
        let (rest, request) =
            X509CertificationRequest::from_der(&der).map_err(|_| bad("it is not PKCS#10"))?;
        if !rest.is_empty() {
            return Err(bad("something follows after its end"));
        }
        let key = usable_key(&request)?;
        request
            .verify_signature()
            .map_err(|_| bad("its signature is not by its own key"))?;
        let mut parsed = CertificateRequest {
            key,
            common_names: Vec::new(),
            uris: Vec::new(),
            foreign_name_kind: None,
        };
        parsed.read_subject(&request);
        parsed.read_attributes(&request)?;
        Ok(parsed)
    }

    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        sha256(&self.key.subject_public_key_info())
    }

    /// Rejects names other than those of the identity to sign.
    ///
    /// # Errors
    /// `FL-2105` with the name.
    pub(crate) fn names_only(&self, common_name: &str, uri: &str) -> Result<(), CertsError> {
        let foreign = |name: &str| Err(CertsError::ForeignName(format!("{name:?}")));
        if let Some(kind) = self.foreign_name_kind {
            return Err(CertsError::ForeignName(kind.to_owned()));
        }
        if let Some(name) = self.common_names.iter().find(|name| *name != common_name) {
            return foreign(name);
        }
        match self.uris.iter().find(|name| *name != uri) {
            Some(name) => foreign(name),
            None => Ok(()),
        }
    }

    fn read_subject(&mut self, request: &X509CertificationRequest<'_>) {
        for attribute in request.certification_request_info.subject.iter_attributes() {
            match attribute.as_str() {
                Ok(text) if *attribute.attr_type() == OID_X509_COMMON_NAME => {
                    self.common_names.push(text.to_owned());
                }
                _ => self.foreign_name_kind = Some("a part of its subject beside the common name"),
            }
        }
    }

    fn read_attributes(
        &mut self,
        request: &X509CertificationRequest<'_>,
    ) -> Result<(), CertsError> {
        for attribute in request.certification_request_info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(asked) = attribute.parsed_attribute() else {
                continue;
            };
            for extension in &asked.extensions {
                match extension.parsed_extension() {
                    ParsedExtension::SubjectAlternativeName(names) => {
                        for name in &names.general_names {
                            match name {
                                GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
                                _ => {
                                    self.foreign_name_kind = Some("a name that is not a SPIFFE ID")
                                }
                            }
                        }
                    }
                    ParsedExtension::BasicConstraints(limits) if limits.ca => {
                        return Err(bad("it asks for an authority of its own"));
                    }
                    ParsedExtension::ParseError { .. } => {
                        return Err(bad("one of its extensions is damaged"));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn usable_key(request: &X509CertificationRequest<'_>) -> Result<SubjectPublicKeyInfo, CertsError> {
    let other = || bad("its key is neither P-256 nor Ed25519");
    let raw = request.certification_request_info.subject_pki.raw;
    let key = SubjectPublicKeyInfo::from_der(raw).map_err(|_| other())?;
    let bytes = key.der_bytes();
    let whole = if key.algorithm() == &PKCS_ECDSA_P256_SHA256 {
        // The uncompressed form, the only one that RFC 5480 requires.
        bytes.len() == 65 && bytes.first() == Some(&4)
    } else {
        key.algorithm() == &PKCS_ED25519 && bytes.len() == 32
    };
    if whole { Ok(key) } else { Err(other()) }
}

/// SHA-256 of the request's SubjectPublicKeyInfo, to which a spent bootstrap token is bound.
///
/// # Errors
/// `FL-2104` if it is not a request, is not signed by its own key, or has a key of another kind.
pub fn csr_fingerprint(csr_pem: &str) -> Result<[u8; 32], CertsError> {
    CertificateRequest::parse(csr_pem).map(|request| request.fingerprint())
}
