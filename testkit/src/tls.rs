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
        let (ca, leaf) = loopback(name)?;
        let key = PrivateKeyDer::try_from(leaf.key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.certificate.der().clone()], key)?;
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            server: Arc::new(server),
            ca_pem: ca.pem(),
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
        let (ca, leaf) = loopback(name)?;
        let file = |what: &str, text: String| {
            let path = dir.join(format!("{name}.{what}.pem"));
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            anyhow::Ok(path)
        };
        Ok(Self {
            ca: file("ca", ca.pem())?,
            cert: file("cert", leaf.pem())?,
            key: file("key", leaf.key_pem())?,
        })
    }
}

/// A throw-away CA.
#[derive(Debug)]
pub struct TestCa(CertifiedIssuer<'static, KeyPair>);

/// A certificate of a [`TestCa`] with its private key.
pub struct TestLeaf {
    certificate: Certificate,
    key: KeyPair,
}

impl TestCa {
    /// Creates a CA with this common name.
    ///
    /// # Errors
    /// The machine has no randomness.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self(issuer))
    }

    /// Its certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its private key, PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// Issues a certificate for these DNS names and addresses.
    ///
    /// # Errors
    /// A name is no DNS name.
    pub fn leaf(&self, names: &[&str]) -> anyhow::Result<TestLeaf> {
        self.sign(params(names)?)
    }

    /// As [`TestCa::leaf`], expired for years.
    ///
    /// # Errors
    /// As [`TestCa::leaf`].
    pub fn expired_leaf(&self, names: &[&str]) -> anyhow::Result<TestLeaf> {
        let mut params = params(names)?;
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    /// As [`TestCa::leaf`], valid until this time.
    ///
    /// # Errors
    /// As [`TestCa::leaf`].
    pub fn leaf_until(
        &self,
        names: &[&str],
        not_after: time::OffsetDateTime,
    ) -> anyhow::Result<TestLeaf> {
        let mut params = params(names)?;
        params.not_after = not_after;
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> anyhow::Result<TestLeaf> {
        let key = KeyPair::generate()?;
        Ok(TestLeaf {
            certificate: params.signed_by(&key, &self.0)?,
            key,
        })
    }
}

impl TestLeaf {
    /// The certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Its private key, PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Configuration of a server with this certificate, for HTTP/1.1.
    ///
    /// # Errors
    /// Key and certificate do not belong together.
    pub fn server(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.der().clone()], key)?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(server))
    }
}

fn params(names: &[&str]) -> anyhow::Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names.clone()).context("not a name")?;
    if let Some(name) = names.first() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    Ok(params)
}

/// A CA of this name, and a certificate of a server on loopback.
fn loopback(name: &str) -> anyhow::Result<(TestCa, TestLeaf)> {
    let ca = TestCa::new(&format!("fairlead-test {name}"))?;
    let leaf = ca.leaf(&["localhost", "127.0.0.1"])?;
    Ok((ca, leaf))
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
