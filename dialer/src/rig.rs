//! Shared fixtures of this crate's tests: certificate authorities with leaves, TLS configurations
//! of both ends, and a hub and an agent joined by a pipe.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
    server::WebPkiClientVerifier,
    version::TLS13,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, duplex},
    time::{sleep, timeout},
};

use crate::{
    HUB_SERVER_NAME, Limits, Session, accept,
    dial::start_session,
    secure,
    websocket::SocketRole,
    wire::{self, Socket, Wire},
};

pub(crate) struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

type SignedLeaf = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(crate) static OURS: LazyLock<TestAuthority> = LazyLock::new(TestAuthority::new);
pub(crate) static FOREIGN: LazyLock<TestAuthority> = LazyLock::new(TestAuthority::new);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

impl TestAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        TestAuthority {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
        }
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        Arc::new(roots)
    }

    pub(crate) fn leaf(&self, name: &str) -> SignedLeaf {
        self.sign(CertificateParams::new([name.to_owned()]).unwrap())
    }

    fn sign(&self, params: CertificateParams) -> SignedLeaf {
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (vec![leaf.der().clone()], key.into())
    }
}

/// Inner TLS of a hub: trusts agents of `authority`, accepts agents without a certificate.
pub(crate) fn hub_inner(authority: &TestAuthority) -> Arc<ServerConfig> {
    let clients = WebPkiClientVerifier::builder_with_provider(authority.roots(), provider())
        .allow_unauthenticated()
        .build()
        .unwrap();
    let (chain, key) = authority.leaf(HUB_SERVER_NAME);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .unwrap();
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// Inner TLS of an agent: trusts hubs of `authority`, presents a leaf of `identity`.
pub(crate) fn agent_inner(
    authority: &TestAuthority,
    identity: Option<&TestAuthority>,
) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(authority.roots());
    Arc::new(match identity {
        Some(identity) => {
            let (chain, key) = identity.leaf("agent");
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    })
}

/// Outer TLS of a hub at `localhost`, and at `hub.test` through a proxy.
pub(crate) fn hub_outer() -> Arc<ServerConfig> {
    outer_of(outer_params())
}

/// As [`hub_outer`], with a certificate that expired in 2001.
pub(crate) fn stale_hub_outer() -> Arc<ServerConfig> {
    let mut params = outer_params();
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    outer_of(params)
}

fn outer_params() -> CertificateParams {
    CertificateParams::new([
        "localhost".to_owned(),
        "hub.test".to_owned(),
        "::1".to_owned(),
    ])
    .unwrap()
}

fn outer_of(params: CertificateParams) -> Arc<ServerConfig> {
    let (chain, key) = OURS.sign(params);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

pub(crate) fn agent_outer(authority: &TestAuthority) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authority.roots())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// As [`agent_outer`], but ignores validity periods.
pub(crate) fn agent_outer_at_any_time() -> Arc<ClientConfig> {
    let verifier = WebPkiServerVerifier::builder_with_provider(OURS.roots(), provider())
        .build()
        .unwrap();
    let mut config = ClientConfig::clone(&agent_outer(&OURS));
    config
        .dangerous()
        .set_certificate_verifier(Arc::new(AtAnyTime(verifier)));
    Arc::new(config)
}

/// Verifies each certificate as of summer 2000.
#[derive(Debug)]
struct AtAnyTime(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AtAnyTime {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let then = UnixTime::since_unix_epoch(Duration::from_secs(962_000_000));
        self.0.verify_server_cert(leaf, chain, name, ocsp, then)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

pub(crate) fn limits(max_streams: usize) -> Limits {
    Limits {
        max_streams,
        ..Limits::default()
    }
}

/// The agent's wire over a pipe to the hub.
pub(crate) async fn agent_wire<IO>(io: IO, limits: &Limits) -> Wire
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut socket = Socket::new(io, &[], SocketRole::Agent);
    let agreed = wire::offer(&mut socket, wire::VERSIONS, limits, None).await;
    let inner = agent_inner(&OURS, Some(&OURS));
    secure::client(socket, agreed.unwrap(), inner, limits)
        .await
        .unwrap()
}

/// Agent and hub joined by a pipe of `pipe` bytes each way.
pub(crate) async fn pair(limits: &Limits, pipe: usize) -> (Session, Session) {
    let (agent, hub) = duplex(pipe);
    sessions(agent, hub, limits, limits).await
}

pub(crate) async fn sessions(
    agent: DuplexStream,
    hub: DuplexStream,
    agent_limits: &Limits,
    hub_limits: &Limits,
) -> (Session, Session) {
    let at_agent = start_session(agent, agent_inner(&OURS, Some(&OURS)), agent_limits);
    let at_hub = accept(hub, hub_inner(&OURS), hub_limits.clone());
    let (agent, hub) = tokio::join!(at_agent, at_hub);
    let hub = hub.unwrap();
    assert_eq!(hub.certificates.len(), 1);
    (agent.unwrap(), hub.session)
}

/// Polls until `done` returns true. A paused clock advances only while all tasks are idle.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    timeout(Duration::from_secs(10), async {
        while !done() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("it never came true");
}
