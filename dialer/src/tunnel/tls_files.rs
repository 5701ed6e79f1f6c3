//! TLS configurations of both ends from PEM files, for programs without rules of their own about certificates.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, NamedGroup, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};

/// Only protocol of a WebSocket's connection.
const HTTP_1_1: &[u8] = b"http/1.1";

/// TLS of a hub, outside and inside of the WebSocket.
#[derive(Debug, Clone)]
pub struct HubTls {
    /// Outer TLS. `None` on a port behind a load balancer that ends it.
    pub outer: Option<Arc<ServerConfig>>,
    /// Inner TLS: TLS 1.3 without resumption, so that each session verifies the agent's certificate.
    pub inner: Arc<ServerConfig>,
}

/// TLS of an agent, outside and inside of the WebSocket.
#[derive(Debug, Clone)]
pub struct AgentTls {
    /// Outer TLS.
    pub outer: Arc<ClientConfig>,
    /// Inner TLS, which proves the hub and the agent to each other.
    pub inner: Arc<ClientConfig>,
}

/// Failure to make a TLS configuration from files.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// The file cannot be read, or is no PEM.
    #[error("{} cannot be read as PEM", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("{} has no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// A certificate is damaged, or the key does not belong to the first one.
    #[error("key and certificates are not usable")]
    Unusable(#[from] rustls::Error),
    /// The authorities of the agents are not usable.
    #[error("the agents' authorities are not usable")]
    Authorities(#[from] VerifierBuilderError),
}

impl HubTls {
    /// TLS of a hub with one certificate for both layers.
    ///
    /// The certificate in `chain` names [`HUB_SERVER_NAME`](crate::tls::HUB_SERVER_NAME), for the inner TLS, and the host of
    /// the hub's URL. Agents need a certificate in `agents`, or of an authority there.
    ///
    /// # Errors
    ///
    /// [`TlsFilesError`], with the file.
    pub fn from_files(
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
        agents: impl AsRef<Path>,
    ) -> Result<Self, TlsFilesError> {
        let (chain, key) = (certificates(chain.as_ref())?, private_key(key.as_ref())?);
        let agents = Arc::new(roots(agents.as_ref())?);
        let verifier = WebPkiClientVerifier::builder_with_provider(agents, provider()).build()?;
        let mut inner = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())?;
        let mut outer = ServerConfig::builder_with_provider(outer_provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        outer.alpn_protocols = vec![HTTP_1_1.to_vec()];
        for config in [&mut inner, &mut outer] {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(HubTls {
            outer: Some(Arc::new(outer)),
            inner: Arc::new(inner),
        })
    }
}

impl AgentTls {
    /// TLS of an agent that presents `chain`, and trusts the certificate in `hub`, or its authority, in both layers.
    ///
    /// For a hub behind a load balancer with a certificate of the web, replace [`AgentTls::outer`]; its ALPN is
    /// `http/1.1`.
    ///
    /// # Errors
    ///
    /// [`TlsFilesError`], with the file.
    pub fn from_files(
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
        hub: impl AsRef<Path>,
    ) -> Result<Self, TlsFilesError> {
        let (chain, key) = (certificates(chain.as_ref())?, private_key(key.as_ref())?);
        let hub = roots(hub.as_ref())?;
        let mut inner = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(hub.clone())
            .with_client_auth_cert(chain, key)?;
        inner.resumption = Resumption::disabled();
        let mut outer = ClientConfig::builder_with_provider(outer_provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(hub)
            .with_no_client_auth();
        outer.alpn_protocols = vec![HTTP_1_1.to_vec()];
        Ok(AgentTls {
            outer: Arc::new(outer),
            inner: Arc::new(inner),
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFilesError> {
    let unreadable = |source| TlsFilesError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let found = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    match found.is_empty() {
        true => Err(TlsFilesError::NoCertificate(path.to_owned())),
        false => Ok(found),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFilesError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsFilesError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn roots(path: &Path) -> Result<RootCertStore, TlsFilesError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// Inner TLS: a hybrid key exchange first, so that recorded traffic stays secret from a later quantum computer.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider
        .kx_groups
        .sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
    Arc::new(provider)
}

/// Outer TLS: a classic key exchange first, because some proxies drop a ClientHello of two TCP segments.
fn outer_provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider
        .kx_groups
        .sort_by_key(|group| group.name() == NamedGroup::X25519MLKEM768);
    Arc::new(provider)
}
