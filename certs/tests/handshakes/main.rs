//! Handshakes of both TLS layers, in memory: trust, and the reported errors.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

mod front;
mod inner;
mod key_exchange;
mod rotation;

use std::sync::Arc;

use fairlead_api::{CaPin, Code};
use fairlead_certs::{
    AgentKey, Authority, HUB_SERVER_NAME, Leaf, TrustError, agent_identity, ca_pin, ca_pins,
    explain, front_server, outer_client, outer_client_at_any_time, session_client, session_server,
};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Error, HandshakeKind, ServerConfig,
    ServerConnection,
};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

fn authority() -> (Authority, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Authority::open_or_create(dir.path()).unwrap(), dir)
}

fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

fn agent(authority: &Authority, at: OffsetDateTime) -> Leaf {
    let key = AgentKey::generate().unwrap();
    let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-demo".parse().unwrap());
    let signed = authority
        .sign_agent(&key.csr().unwrap(), &tenant, &cluster, at)
        .unwrap();
    key.with_certificate(&signed.certificate_pem).unwrap()
}

fn hub(authority: &Authority, at: OffsetDateTime) -> Arc<ServerConfig> {
    late_hub(authority, at, std::time::Duration::ZERO)
}

/// A hub that accepts agents' certificates for this time after their expiry.
fn late_hub(
    authority: &Authority,
    at: OffsetDateTime,
    late: std::time::Duration,
) -> Arc<ServerConfig> {
    let leaf = authority.issue_hub(at).unwrap();
    session_server(&leaf, authority.certificate_pem(), late).unwrap()
}

/// The side that ended a handshake, and the client's error.
#[derive(Debug)]
enum Refused {
    ByClient(Box<Error>),
    ByServer(Box<Error>),
}

/// Both ends after a handshake and a few more rounds, in which tickets would arrive.
fn shake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: &'static str,
) -> Result<(ClientConnection, ServerConnection), Refused> {
    let mut client = ClientConnection::new(client, name.try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        server.read_tls(&mut wire.as_slice()).unwrap();
        let of_server = server.process_new_packets();
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        client.read_tls(&mut wire.as_slice()).unwrap();
        let of_client = client.process_new_packets();
        match (of_client, of_server) {
            (Err(why @ Error::AlertReceived(_)), Err(_)) => {
                return Err(Refused::ByServer(why.into()));
            }
            (Err(why), _) => return Err(Refused::ByClient(why.into())),
            (Ok(_), Err(why)) => panic!("the server ends it without an alert: {why}"),
            (Ok(_), Ok(_)) => {}
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((client, server))
}

fn by_certificate<T>(result: Result<T, Refused>) -> bool {
    matches!(result, Err(Refused::ByClient(why)) if matches!(*why, Error::InvalidCertificate(_)))
}
