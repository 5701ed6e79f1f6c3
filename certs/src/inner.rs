//! Both ends of the inner TLS, which authenticates hub and agent to each other even if a proxy ends the outer one.
//!
//! TLS 1.3 only, without resumption: a resumed session would skip the verification of the agent's certificate.

use std::{iter, sync::Arc, time::Duration};

use fairlead_api::CaPins;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme,
    client::{Resumption, danger::HandshakeSignatureValid},
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{
        NoServerSessionStorage, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    version::TLS13,
};

use crate::{
    error::CertsError,
    leaf::{Leaf, validity},
    pin,
    server_rule::{SentChain, ServerRule, trusting},
    tls::{inner_provider, internal, provider},
};

/// Server name of every hub inside the tunnel. It is in no DNS and needs none.
pub const HUB_SERVER_NAME: &str = "hub.fairlead.internal";

/// The hub's end of the inner TLS 1.3.
///
/// It accepts client certificates of each authority in `authorities_pem`, and for the time `late` after their expiry too; the gateway then
/// limits their rights. A peer without a certificate is anonymous. Any other certificate ends the handshake with an
/// alert.
///
/// # Errors
/// `FL-4101` if there is no certificate in `authorities_pem`, or a damaged one.
pub fn session_server(
    leaf: &Leaf,
    authorities_pem: &str,
    late: Duration,
) -> Result<Arc<ServerConfig>, CertsError> {
    let mut roots = RootCertStore::empty();
    let damaged = || CertsError::Settings("the authority's PEM is damaged".to_owned());
    for authority in CertificateDer::pem_slice_iter(authorities_pem.as_bytes()) {
        let authority = authority.map_err(|_| damaged())?;
        roots.add(authority).map_err(|_| damaged())?;
    }
    if roots.is_empty() {
        return Err(damaged());
    }
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(internal)?;
    let mut config = ServerConfig::builder_with_provider(inner_provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(internal)?
        .with_client_cert_verifier(Arc::new(GracefulClientVerifier {
            strict: clients,
            late,
        }))
        .with_cert_resolver(leaf.resolver());
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The agent's end of the inner TLS 1.3: trusts only a hub of a pinned authority, by the name [`HUB_SERVER_NAME`].
///
/// A hub of another authority fails with [`TrustError::NotPinned`](crate::TrustError::NotPinned).
///
/// # Errors
/// `FL-5101` if the provider lacks TLS 1.3.
pub fn session_client(
    pins: impl Into<CaPins>,
    identity: Option<&Leaf>,
) -> Result<Arc<ClientConfig>, CertsError> {
    let builder = ClientConfig::builder_with_provider(inner_provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(internal)?
        .dangerous()
        .with_custom_certificate_verifier(trusting(PinnedHubVerifier {
            pins: Some(pins.into()),
        }));
    let mut config = match identity {
        Some(leaf) => builder.with_client_cert_resolver(leaf.resolver()),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The agent's end of the inner TLS 1.3 for an adoption: any authority that signed the hub's certificate counts.
///
/// The outer TLS vouches for the hub alone. The session must carry nothing but the announcement; then the pin of
/// [`sent_authority`](crate::sent_authority) is compared by a person.
///
/// # Errors
/// `FL-5101` if the provider lacks TLS 1.3.
pub fn adoption_client() -> Result<Arc<ClientConfig>, CertsError> {
    let mut config = ClientConfig::builder_with_provider(inner_provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(internal)?
        .dangerous()
        .with_custom_certificate_verifier(trusting(PinnedHubVerifier { pins: None }))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Verifies an expired certificate as of its end, if that was not too long ago.
#[derive(Debug)]
struct GracefulClientVerifier {
    strict: Arc<dyn ClientCertVerifier>,
    late: Duration,
}

impl ClientCertVerifier for GracefulClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.strict.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.strict.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.strict.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verify = |at| (self.strict).verify_client_cert(end_entity, intermediates, at);
        let expired = match verify(now) {
            Err(Error::InvalidCertificate(
                cause @ (CertificateError::Expired | CertificateError::ExpiredContext { .. }),
            )) => cause,
            verified => return verified,
        };
        let end =
            validity(end_entity).and_then(|(_, end)| u64::try_from(end.unix_timestamp()).ok());
        match end {
            Some(end) if now.as_secs().saturating_sub(end) <= self.late.as_secs() => {
                verify(UnixTime::since_unix_epoch(Duration::from_secs(end)))
            }
            _ => Err(Error::InvalidCertificate(expired)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

#[derive(Debug)]
struct PinnedHubVerifier {
    /// `None`: each authority counts that the hub sent along.
    pins: Option<CaPins>,
}

impl ServerRule for PinnedHubVerifier {
    fn check(&self, sent: SentChain<'_>) -> Result<(), Error> {
        match self.pins {
            Some(pins) => {
                pin::verify(pins, sent.leaf, sent.intermediates, sent.name, sent.now)?;
            }
            None => {
                let chain: Vec<_> = iter::once(sent.leaf)
                    .chain(sent.intermediates)
                    .cloned()
                    .collect();
                let other = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
                pin::sent_authority(&chain).ok_or_else(other)?;
            }
        }
        Ok(())
    }
}
