//! Outer TLS of agents and of the command line: system roots, a configured CA, or the pin.
//!
//! It protects against passive listeners only. No identity depends on it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use fairlead_api::CaPins;
use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    client::danger::ServerCertVerifier,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
};
use rustls_platform_verifier::Verifier;
use tracing::warn;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{
    error::CertsError,
    evidence::SentCertificate,
    pin,
    server_rule::{SentChain, ServerRule, trusting},
    tls::{TrustError, internal, provider},
};

/// Outer TLS of agents and of the command line; http/1.1 only by ALPN.
///
/// It trusts the system roots, the certificates in `ca_pem`, and a chain to the pinned authority. The system roots are
/// read once per call, and only if they are needed: parsing a hundred certificates is slow.
///
/// # Errors
/// `FL-4101` if `ca_pem` contains no certificate, `FL-3105` if there is nothing at all to trust.
pub fn outer_client(
    ca_pem: Option<&str>,
    pin: Option<CaPins>,
) -> Result<Arc<ClientConfig>, CertsError> {
    client(ca_pem, pin, false, SentCertificate::default())
}

/// As [`outer_client`], and keeps the certificate of the last server, trusted or not.
///
/// # Errors
/// As for [`outer_client`].
pub fn outer_client_with_evidence(
    ca_pem: Option<&str>,
    pin: Option<CaPins>,
) -> Result<(Arc<ClientConfig>, SentCertificate), CertsError> {
    let sent = SentCertificate::default();
    let config = client(ca_pem, pin, false, sent.clone())?;
    Ok((config, sent))
}

/// As [`outer_client`], but certificates count before and after their validity too.
///
/// For nothing but reading a hub's clock: a stolen key of long ago is accepted as well.
///
/// # Errors
/// As for [`outer_client`].
pub fn outer_client_at_any_time(
    ca_pem: Option<&str>,
    pin: Option<CaPins>,
) -> Result<Arc<ClientConfig>, CertsError> {
    client(ca_pem, pin, true, SentCertificate::default())
}

fn client(
    ca_pem: Option<&str>,
    pin: Option<CaPins>,
    any_time: bool,
    sent: SentCertificate,
) -> Result<Arc<ClientConfig>, CertsError> {
    let extra = ca_pem.map(certificates).transpose()?.unwrap_or_default();
    let system_roots = SystemRoots {
        extra,
        read: OnceLock::new(),
    };
    if pin.is_none() {
        let read = system_roots.verifier();
        read.map_err(|error| CertsError::NothingTrusted(error.clone()))?;
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(internal)?
        .dangerous()
        .with_custom_certificate_verifier(trusting(OuterVerifier {
            system_roots,
            pin,
            any_time,
            sent,
        }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Outer TLS between hubs: it verifies nothing, because addresses of hubs are in no certificate of a public CA.
///
/// Both hubs prove themselves in the inner TLS, which carries each byte.
///
/// # Errors
/// `FL-5101` if the provider lacks the protocol versions.
pub fn outer_client_between_hubs() -> Result<Arc<ClientConfig>, CertsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(internal)?
        .dangerous()
        .with_custom_certificate_verifier(trusting(UnverifiedTransport))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Accepts each certificate: the inner TLS verifies both ends.
#[derive(Debug)]
struct UnverifiedTransport;

impl ServerRule for UnverifiedTransport {
    fn check(&self, _sent: SentChain<'_>) -> Result<(), Error> {
        Ok(())
    }
}

/// Checks certificate authorities before they are stored: certificates in PEM that can be anchors, and no key.
///
/// # Errors
/// [`CertsError::Settings`]
pub fn check_authorities(pem: &str) -> Result<(), CertsError> {
    if pem.contains("PRIVATE KEY") {
        let detail = "it holds a private key; keep the certificates only";
        return Err(CertsError::Settings(detail.to_owned()));
    }
    certificates(pem).map(drop)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, CertsError> {
    let bad = |detail: &str| CertsError::Settings(detail.to_owned());
    let all = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| bad("the CA file is not PEM"))?;
    if all.is_empty() {
        return Err(bad("there is no certificate in the CA file"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in &all {
        roots
            .add(certificate.clone())
            .map_err(|_| bad("a certificate in the CA file is damaged"))?;
    }
    Ok(all)
}

#[derive(Debug)]
struct OuterVerifier {
    system_roots: SystemRoots,
    pin: Option<CaPins>,
    /// Verifies the leaf as of a moment within its own validity.
    any_time: bool,
    sent: SentCertificate,
}

/// System roots and additional ones.
#[derive(Debug)]
struct SystemRoots {
    extra: Vec<CertificateDer<'static>>,
    read: OnceLock<Result<Verifier, Error>>,
}

impl SystemRoots {
    fn verifier(&self) -> Result<&Verifier, &Error> {
        let read = || Verifier::new_with_extra_roots(self.extra.clone(), provider());
        self.read.get_or_init(read).as_ref()
    }
}

impl ServerRule for OuterVerifier {
    fn check(&self, sent: SentChain<'_>) -> Result<(), Error> {
        let SentChain {
            leaf,
            intermediates,
            name,
            ocsp_response,
            now,
        } = sent;
        self.sent.set(leaf);
        let now = match self.any_time {
            true => within_validity(leaf, now),
            false => now,
        };
        let by_pin = match self.pin {
            Some(pin) => match pin::verify(pin, leaf, intermediates, name, now) {
                Ok(()) => return Ok(()),
                Err(error) => Some(error),
            },
            None => None,
        };
        let system_roots = match self.system_roots.verifier() {
            Ok(system_roots) => system_roots,
            Err(error) => {
                warn!(%error, "system roots cannot be read; trusting the pin alone");
                return Err(by_pin.unwrap_or_else(|| unknown_issuer(leaf)));
            }
        };
        let by_system_roots =
            system_roots.verify_server_cert(leaf, intermediates, name, ocsp_response, now);
        match (by_pin, by_system_roots) {
            (_, Ok(_)) => Ok(()),
            // The chain is our hub's, so its own error is the one to report.
            (Some(ours), Err(_)) if TrustError::find(&ours).is_none() => Err(ours),
            (_, Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))) => {
                Err(unknown_issuer(leaf))
            }
            (_, Err(error)) => Err(error),
        }
    }
}

/// `now`, or the nearest edge of the certificate's validity.
fn within_validity(leaf: &CertificateDer<'_>, now: UnixTime) -> UnixTime {
    let Ok((_, parsed)) = X509Certificate::from_der(leaf) else {
        return now;
    };
    let validity = parsed.validity();
    let seconds = |at: i64| u64::try_from(at).unwrap_or_default();
    let from = seconds(validity.not_before.timestamp());
    let to = seconds(validity.not_after.timestamp());
    let at = now.as_secs().min(to).max(from);
    UnixTime::since_unix_epoch(Duration::from_secs(at))
}

/// Reports the issuer: behind a proxy that opens TLS, its name leads to the right CA.
fn unknown_issuer(leaf: &CertificateDer<'_>) -> Error {
    let issuer = X509Certificate::from_der(leaf)
        .map(|(_, parsed)| parsed.issuer().to_string())
        .unwrap_or_default();
    TrustError::UnknownIssuer(issuer.chars().take(200).collect()).into()
}
