//! Certificate authorities of proxies and load balancers that terminate TLS.

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// A CA. Its certificate is the value of an agent's `--ca-file`.
#[derive(Debug)]
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    /// Certificate, PEM.
    pub pem: String,
    /// Private key, PEM.
    pub key_pem: String,
}

/// A certificate and its key, PEM.
#[derive(Debug)]
pub struct Leaf {
    /// Certificate first, then its CA.
    pub chain: String,
    /// Private key.
    pub key: String,
}

impl Ca {
    /// Creates a CA.
    ///
    /// # Errors
    /// The machine has no randomness.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Issues a certificate.
    ///
    /// # Errors
    /// `name` is no DNS name.
    pub fn leaf(&self, name: &str) -> anyhow::Result<Leaf> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([name.to_owned()]).context("not a name")?;
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(Leaf {
            chain: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}
