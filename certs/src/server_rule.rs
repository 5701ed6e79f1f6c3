//! Our own rules for a server's certificate, as a verifier of rustls.
//!
//! A rule judges the certificate alone. That the server has its key is checked here, in the same way for each rule.

use std::{fmt, sync::Arc};

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::tls::algorithms;

/// Certificates that a server sent, and the name and the time to verify them for.
#[derive(Clone, Copy)]
pub(crate) struct SentChain<'a> {
    pub(crate) leaf: &'a CertificateDer<'a>,
    pub(crate) intermediates: &'a [CertificateDer<'a>],
    pub(crate) name: &'a ServerName<'a>,
    pub(crate) ocsp_response: &'a [u8],
    pub(crate) now: UnixTime,
}

/// Decision about the certificate of a server.
pub(crate) trait ServerRule: fmt::Debug + Send + Sync + 'static {
    /// # Errors
    /// The server is not trusted.
    fn check(&self, sent: SentChain<'_>) -> Result<(), Error>;
}

/// Verifier that trusts the servers of this rule.
pub(crate) fn trusting(rule: impl ServerRule) -> Arc<dyn ServerCertVerifier> {
    Arc::new(RuleVerifier(rule))
}

#[derive(Debug)]
struct RuleVerifier<R>(R);

impl<R: ServerRule> ServerCertVerifier for RuleVerifier<R> {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let sent = SentChain {
            leaf,
            intermediates,
            name,
            ocsp_response,
            now,
        };
        self.0.check(sent)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
