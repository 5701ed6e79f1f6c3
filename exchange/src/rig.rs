//! Shared fixtures of this crate's tests: a hub and an agent with a session over a pipe.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use fairlead_dialer::{HUB_SERVER_NAME, Limits, Session, accept, dial::start_session};
use rcgen::CertifiedKey;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
    version::TLS13,
};
use tokio::{
    io::duplex,
    time::{sleep, timeout},
};

/// Inner TLS of a hub and of an agent. One self-signed certificate serves both, because a hub limits the
/// streams of an agent without one.
static INNER: LazyLock<(Arc<ServerConfig>, Arc<ClientConfig>)> = LazyLock::new(|| {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed([HUB_SERVER_NAME.to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let roots = Arc::new(roots);
    let chain = vec![cert.der().clone()];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let agents = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
    let mut hub = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(agents.build().unwrap())
        .with_single_cert(chain.clone(), key.clone_key())
        .unwrap();
    hub.send_tls13_tickets = 0;
    let agent = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    (Arc::new(hub), Arc::new(agent))
});

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Agent and hub with up to `max_streams` streams, joined by a pipe of `pipe` bytes each way.
pub(crate) async fn pair(max_streams: usize, pipe: usize) -> (Session, Session) {
    let (agent, hub) = duplex(pipe);
    let limits = Limits {
        max_streams,
        ..Limits::default()
    };
    let at_agent = start_session(agent, INNER.1.clone(), &limits);
    let at_hub = accept(hub, INNER.0.clone(), limits.clone());
    let (agent, hub) = tokio::join!(at_agent, at_hub);
    (agent.unwrap(), hub.unwrap().session)
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
