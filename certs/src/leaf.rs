//! A certificate chain together with its key, ready for a TLS configuration.

use std::{fmt, sync::Arc};

use rustls::{
    client::verify_server_name,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
    sign::{CertifiedKey, SingleCertAndKey},
};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{error::CertsError, tls::provider};

/// A certificate chain with its key. `Debug` hides the key; clones share it.
#[derive(Clone)]
pub struct Leaf {
    key: Arc<CertifiedKey>,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
}

impl Leaf {
    /// Reads PEM files (`--tls-cert`, `--tls-key`): the chain leaf first, the key as PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// `FL-4101` if one of them cannot be read or they do not belong together.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, CertsError> {
        let bad = |detail: &str| CertsError::Settings(detail.to_owned());
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| bad("the certificate chain is not PEM"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| bad("there is no private key in the key's PEM"))?;
        Leaf::new(chain, key).map_err(CertsError::Settings)
    }

    pub(crate) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, String> {
        let (not_before, not_after) = match chain.first() {
            Some(leaf) => validity(leaf).ok_or("the certificate is damaged")?,
            None => return Err("there is no certificate in the chain's PEM".to_owned()),
        };
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => "the key is not the certificate's".to_owned(),
            other => other.to_string(),
        })?;
        Ok(Leaf {
            key: Arc::new(key),
            not_before,
            not_after,
        })
    }

    /// Start of the leaf's validity.
    #[must_use]
    pub fn not_before(&self) -> OffsetDateTime {
        self.not_before
    }

    /// End of the leaf's validity.
    #[must_use]
    pub fn not_after(&self) -> OffsetDateTime {
        self.not_after
    }

    /// The certificates, leaf first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Whether the leaf is valid for this DNS name or address (RFC 6125; `*` is one label).
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        let Some(leaf) = self.chain().first() else {
            return false;
        };
        let (Ok(leaf), Ok(name)) = (
            ParsedCertificate::try_from(leaf),
            ServerName::try_from(name),
        ) else {
            return false;
        };
        verify_server_name(&leaf, &name).is_ok()
    }

    pub(crate) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(Arc::clone(&self.key)))
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf")
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// Start and end of a certificate's validity.
pub(crate) fn validity(der: &[u8]) -> Option<(OffsetDateTime, OffsetDateTime)> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let validity = parsed.validity();
    Some((
        validity.not_before.to_datetime(),
        validity.not_after.to_datetime(),
    ))
}
