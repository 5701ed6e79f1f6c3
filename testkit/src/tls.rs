//! TLS of test servers: a throw-away CA per server, TLS 1.3 only, no tickets, aws-lc-rs, like the hub.
//!
//! Private keys stay in memory. Only certificates are written.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::NoServerSessionStorage,
};

/// A server's TLS configuration, and the CA by which clients trust it as `localhost` or `127.0.0.1`.
pub struct ServerTls {
    /// Configuration of the server.
    pub server: Arc<ServerConfig>,
    /// CA certificate, PEM.
    pub ca_pem: String,
}

impl ServerTls {
    /// Creates a CA called `name` and a certificate.
    ///
    /// # Errors
    /// The machine has no randomness.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let Made { ca, leaf, key } = Made::new(name)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            server: Arc::new(server),
            ca_pem: ca,
        })
    }
}

/// A CA, a certificate and a key in files, for programs of either side that read only files.
pub struct PemFiles {
    /// CA certificate.
    pub ca: PathBuf,
    /// Certificate of either side.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl PemFiles {
    /// Creates the files. `dir` must be private to this user.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(dir: &Path, name: &str) -> anyhow::Result<Self> {
        let Made { ca, leaf, key } = Made::new(name)?;
        let file = |what: &str, text: String| {
            let path = dir.join(format!("{name}.{what}.pem"));
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            anyhow::Ok(path)
        };
        Ok(Self {
            ca: file("ca", ca)?,
            cert: file("cert", leaf.pem())?,
            key: file("key", key.serialize_pem())?,
        })
    }
}

struct Made {
    ca: String,
    leaf: Certificate,
    key: KeyPair,
}

impl Made {
    fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params
            .distinguished_name
            .push(DnType::CommonName, format!("fairlead-test {name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate()?;
        let leaf = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        Ok(Self {
            ca: authority.pem(),
            leaf,
            key,
        })
    }
}

/// Client configuration that trusts only the CAs in `ca_file` and speaks HTTP/1.1.
///
/// # Errors
/// The file holds no certificate.
pub fn client(ca_file: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let trusted = || format!("reading the trusted authorities in {}", ca_file.display());
    for certificate in CertificateDer::pem_file_iter(ca_file).with_context(trusted)? {
        roots
            .add(certificate.with_context(trusted)?)
            .with_context(trusted)?;
    }
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.resumption = Resumption::disabled();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(client))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
