//! Facts of a certificate that a server has sent, as evidence for people. No decision depends on them.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use fairlead_api::moment::timestamp;

/// Limit of a shown name, in characters.
const MAX_NAME_CHARS: usize = 200;
/// Limit of shown names.
const MAX_NAMES: usize = 8;

/// Certificate of the last server of a TLS configuration. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SentCertificate(Arc<Mutex<Option<CertificateDer<'static>>>>);

impl SentCertificate {
    pub(crate) fn set(&self, leaf: &CertificateDer<'_>) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *sent = Some(leaf.clone().into_owned());
    }

    /// Facts of the certificate; `None` if no server has sent one, or it is damaged.
    #[must_use]
    pub fn facts(&self) -> Option<CertificateFacts> {
        let sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        CertificateFacts::of(sent.as_ref()?)
    }
}

/// Facts of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Name of the issuer.
    pub issuer: String,
    /// Names of the server, at most eight.
    pub names: Vec<String>,
    /// Begin of the validity.
    pub not_before: OffsetDateTime,
    /// End of the validity.
    pub not_after: OffsetDateTime,
}

impl CertificateFacts {
    /// Facts of this certificate, DER; `None` if it is damaged.
    #[must_use]
    pub fn of(der: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.map(|it| it.value.general_names.iter().filter_map(name));
        Some(CertificateFacts {
            issuer: shown(&parsed.issuer().to_string()),
            names: names.into_iter().flatten().take(MAX_NAMES).collect(),
            not_before: parsed.validity().not_before.to_datetime(),
            not_after: parsed.validity().not_after.to_datetime(),
        })
    }
}

impl fmt::Display for CertificateFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (timestamp(self.not_before), timestamp(self.not_after));
        write!(f, "issuer {}; names ", self.issuer)?;
        match self.names.is_empty() {
            true => f.write_str("none")?,
            false => f.write_str(&self.names.join(", "))?,
        }
        write!(f, "; valid from {from} to {to}")
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(shown(name)),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(|it| Ipv4Addr::from(it).to_string());
            let v6 = <[u8; 16]>::try_from(*bytes).map(|it| Ipv6Addr::from(it).to_string());
            v4.or(v6).ok()
        }
        _ => None,
    }
}

fn shown(text: &str) -> String {
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_those_of_the_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["hub.example", "10.1.2.3", "2001:db8::1"].map(str::to_owned);
        let mut params = rcgen::CertificateParams::new(names.to_vec()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let common_name = rcgen::DnType::CommonName;
        params.distinguished_name.push(common_name, "Corp Proxy");
        let certificate = params.self_signed(&key).unwrap();
        let sent = SentCertificate::default();
        assert_eq!(sent.facts(), None);
        sent.clone().set(certificate.der());
        let facts = sent.facts().unwrap();
        assert_eq!(facts.issuer, "CN=Corp Proxy");
        assert_eq!(facts.names, names);
        assert!(facts.not_before < facts.not_after);
        assert!(
            facts
                .to_string()
                .starts_with("issuer CN=Corp Proxy; names hub.example, 10.1.2.3")
        );
        assert_eq!(CertificateFacts::of(b"nonsense"), None);
    }
}
