//! TLS of the bench's own clients and servers: TLS 1.3 only, without tickets, with aws-lc-rs.
//!
//! Cipher suites have the order of Go's `crypto/tls`, AES-128 first. Each path thereby has the same cipher: a hub in Rust follows its
//! client's order, and one in Go its own.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use fairlead_testkit::tls::TestCa;
use rustls::{
    CipherSuite, ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::NoServerSessionStorage,
};

/// ALPN name of HTTP/1.1 (RFC 7301, section 6).
const HTTP1: &[u8] = b"http/1.1";
/// ALPN name of HTTP/2 (RFC 9113, section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// A server's TLS configuration, and the CA by which clients trust it as `localhost` or `127.0.0.1`.
pub(crate) struct BenchServerTls {
    pub(crate) config: ServerConfig,
    /// CA certificate, PEM.
    pub(crate) ca_pem: String,
}

impl BenchServerTls {
    /// Creates a CA called `name` and a certificate, for HTTP/2 and HTTP/1.1. Keys stay in memory.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let ca = TestCa::new(&format!("fairlead-bench {name}"))?;
        let leaf = ca.leaf(&["localhost", "127.0.0.1"])?;
        let mut config = server(leaf.pem().as_bytes(), leaf.key_pem().as_bytes())?;
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Self {
            config,
            ca_pem: ca.pem(),
        })
    }
}

/// Configuration of a server with this chain and key, PEM, without ALPN.
///
/// # Errors
/// The chain or the key cannot be read, or they do not belong together.
pub(crate) fn server(chain: &[u8], key: &[u8]) -> anyhow::Result<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>()?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// Client configuration that trusts only the CAs in `ca_file` and speaks HTTP/1.1.
///
/// # Errors
/// The file holds no certificate.
pub(crate) fn client(ca_file: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    client_of(ca_file, HTTP1)
}

/// As [`client`], for HTTP/2 only.
///
/// # Errors
/// As [`client`].
pub(crate) fn client_of_http2(ca_file: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    client_of(ca_file, HTTP2)
}

fn client_of(ca_file: &Path, protocol: &[u8]) -> anyhow::Result<Arc<ClientConfig>> {
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
    client.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(client))
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    // The sort is stable, so AES-256 stays before ChaCha20-Poly1305.
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    #[test]
    fn suites_of_tls_13_have_the_order_of_go() {
        let first: Vec<_> = provider()
            .cipher_suites
            .iter()
            .map(rustls::SupportedCipherSuite::suite)
            .take(3)
            .collect();
        assert_eq!(
            first,
            [
                CipherSuite::TLS13_AES_128_GCM_SHA256,
                CipherSuite::TLS13_AES_256_GCM_SHA384,
                CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
            ]
        );
    }

    #[tokio::test]
    async fn client_and_server_agree_on_aes_128() {
        let dir = tempfile::TempDir::new().unwrap();
        let tls = BenchServerTls::new("test").unwrap();
        let ca_file = dir.path().join("ca.pem");
        std::fs::write(&ca_file, &tls.ca_pem).unwrap();
        let connector = TlsConnector::from(client(&ca_file).unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(tls.config));
        let (near, far) = tokio::io::duplex(64 * 1024);
        let server = async {
            let mut stream = acceptor.accept(far).await.unwrap();
            stream.write_all(b"x").await.unwrap();
            stream.flush().await.unwrap();
            stream
        };
        let client = async {
            let name = "localhost".try_into().unwrap();
            let mut stream = connector.connect(name, near).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            stream
        };
        let (client, _server) = tokio::join!(client, server);
        let suite = client.get_ref().1.negotiated_cipher_suite();
        let suite = suite.map(|suite| suite.suite());
        assert_eq!(suite, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
    }
}
