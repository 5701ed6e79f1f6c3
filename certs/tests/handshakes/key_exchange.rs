//! Key exchange of both TLS layers, and the sizes of their first messages.

use rustls::{
    NamedGroup, RootCertStore,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs, aws_lc_rs::kx_group},
    pki_types::{CertificateDer, pem::PemObject},
};

use super::*;

/// Bytes of a TCP segment over the smallest path of IPv6.
const SEGMENT_BYTES: usize = 1_220;

/// A client of other software, which trusts this authority.
fn other_client(ca: &Authority, groups: &[&'static dyn SupportedKxGroup]) -> Arc<ClientConfig> {
    let provider = CryptoProvider {
        kx_groups: groups.to_vec(),
        ..aws_lc_rs::default_provider()
    };
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(ca.certificate_pem().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let client = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.into()
}

fn group_of(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: &'static str,
) -> NamedGroup {
    let (client, _) = shake(client, server, name).unwrap();
    client.negotiated_key_exchange_group().unwrap().name()
}

fn hello_bytes(client: Arc<ClientConfig>) -> usize {
    let mut client = ClientConnection::new(client, "hub.test".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap()
}

#[test]
fn inner_tls_is_hybrid_and_accepts_a_classic_peer() {
    let (ca, _dir) = authority();
    let own = session_client(ca.pin(), Some(&agent(&ca, now()))).unwrap();
    let hybrid = group_of(own.clone(), hub(&ca, now()), HUB_SERVER_NAME);
    assert_eq!(hybrid, NamedGroup::X25519MLKEM768);
    let classic = other_client(&ca, &[kx_group::X25519]);
    let classic = group_of(classic, hub(&ca, now()), HUB_SERVER_NAME);
    assert_eq!(classic, NamedGroup::X25519);
    // One record of the inner TLS, inside of one WebSocket message.
    assert!(hello_bytes(own) < 2_048);
}

/// Some proxies drop a ClientHello in two segments.
#[test]
fn outer_hello_of_agents_fits_one_segment() {
    let (ca, _dir) = authority();
    let outer = outer_client(Some(ca.certificate_pem()), None).unwrap();
    assert!(hello_bytes(outer) < SEGMENT_BYTES / 2);
}

/// kubectl since Go 1.24 sends a hybrid share first.
#[test]
fn front_follows_the_clients_choice() {
    let (ca, _dir) = authority();
    let leaf = ca.issue_front(&["hub.test".to_owned()], now()).unwrap();
    let front = front_server(&leaf).unwrap();
    let hybrid = other_client(&ca, &[kx_group::X25519MLKEM768, kx_group::X25519]);
    assert_eq!(
        group_of(hybrid, front.clone(), "hub.test"),
        NamedGroup::X25519MLKEM768
    );
    let outer = outer_client(Some(ca.certificate_pem()), None).unwrap();
    assert_eq!(group_of(outer, front, "hub.test"), NamedGroup::X25519);
}
