//! Endpoint of the API server, built from address and trust. The trust is the CA of the credentials, or the
//! machine's roots if a kubeconfig names no CA. The server is never left unchecked.

use std::sync::Arc;

use http::{HeaderValue, Uri, uri::Scheme};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};

use super::error::CredentialsError;

/// Parameters of a connection. The value is replaced only by a change, so it identifies its connections.
pub(crate) struct Endpoint {
    /// Scheme, host and port only.
    pub(crate) uri: Uri,
    /// Value of the Host header.
    pub(crate) host: HeaderValue,
    /// Prefix of every path; empty, or `/...` without a trailing slash.
    pub(crate) base_path: String,
    pub(crate) server_name: ServerName<'static>,
    /// None: plain HTTP, if the kubeconfig says so.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// Address of the API server.
#[derive(PartialEq, Eq)]
pub(super) struct ApiServerAddress {
    /// `https://host:port/base`, as in a kubeconfig.
    pub(super) server: Uri,
    /// Name in the server's certificate, if it is not the host.
    pub(super) server_name: Option<String>,
}

/// Trusted CA, and the client certificate of the agent.
pub(super) struct Trust {
    /// None: the machine's own roots.
    pub(super) ca: Option<Vec<CertificateDer<'static>>>,
    pub(super) client: Option<ClientCertificate>,
}

/// Chain and its key, in PEM.
#[derive(Clone)]
pub(super) struct ClientCertificate {
    pub(super) chain: String,
    pub(super) key: SecretString,
}

impl Trust {
    pub(super) fn same(&self, other: &Trust) -> bool {
        let client = match (&self.client, &other.client) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                a.chain == b.chain && a.key.expose_secret() == b.key.expose_secret()
            }
            _ => false,
        };
        client && self.ca == other.ca
    }

    fn client_config(&self) -> Result<ClientConfig, CredentialsError> {
        let wrong = |error: rustls::Error| CredentialsError::Tls(error.to_string());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let builder = match &self.ca {
            None => builder.with_platform_verifier().map_err(wrong)?,
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(ca.iter().cloned());
                if roots.is_empty() {
                    return Err(CredentialsError::Tls(
                        "the CA holds no certificate".to_owned(),
                    ));
                }
                builder.with_root_certificates(roots)
            }
        };
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let chain = certificates(&client.chain).ok_or_else(|| {
                    CredentialsError::Tls("the client certificate is not PEM".to_owned())
                })?;
                let key = PrivateKeyDer::from_pem_slice(client.key.expose_secret().as_bytes())
                    .map_err(|_| CredentialsError::Tls("the client key is not PEM".to_owned()))?;
                builder.with_client_auth_cert(chain, key).map_err(wrong)?
            }
        };
        // HTTP/1.1 only: exec, attach and port-forward upgrade it.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ApiServerAddress {
    pub(super) fn endpoint(&self, trust: &Trust) -> Result<Endpoint, CredentialsError> {
        let wrong = |what: &str| CredentialsError::Tls(format!("{} {what}", self.server));
        let authority = self
            .server
            .authority()
            .ok_or_else(|| wrong("has no host"))?;
        if authority.as_str().contains('@') {
            // Not quoted: it contains a password.
            return Err(CredentialsError::Tls(
                "the server's URL holds credentials".to_owned(),
            ));
        }
        let tls = match self.server.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Some(Arc::new(trust.client_config()?)),
            Some(scheme) if *scheme == Scheme::HTTP => None,
            _ => return Err(wrong("is neither https nor http")),
        };
        let default = if tls.is_some() { 443 } else { 80 };
        let port = self.server.port_u16().unwrap_or(default);
        let bare = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let name = self.server_name.as_deref().unwrap_or(bare).to_owned();
        let server_name = ServerName::try_from(name)
            .map_err(|_| wrong("has a host that no certificate can name"))?;
        // The connector does its own TLS; a URI needs some scheme.
        let uri = format!("http://{}:{port}", authority.host())
            .parse()
            .map_err(|_| wrong("is not a URL"))?;
        Ok(Endpoint {
            uri,
            host: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("has no host"))?,
            base_path: self.server.path().trim_end_matches('/').to_owned(),
            server_name,
            tls,
        })
    }
}

/// Certificates of a PEM text; None if one is damaged or there is none.
pub(super) fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .ok()?;
    (!all.is_empty()).then_some(all)
}
