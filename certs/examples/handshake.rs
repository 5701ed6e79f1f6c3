//! Time of both ends and bytes of a mutual TLS 1.3 handshake with a classic and with a hybrid key exchange, in turns.
//!
//! Both ends run in one thread without I/O, so the median of the times is processor time.
//!
//! `cargo run --release -p fairlead-certs --example handshake -- 3000`

#![allow(
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "it measures real time and prints the result; no test pauses its clock"
)]

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use fairlead_certs::{AgentKey, Authority, HUB_SERVER_NAME, session_client, session_server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    client::Resumption,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs, aws_lc_rs::kx_group},
    pki_types::{PrivateKeyDer, ServerName},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::TLS13,
};
use time::OffsetDateTime;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Both ends of a handshake.
struct Ends {
    name: &'static str,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// One handshake.
#[derive(Clone, Copy)]
struct Sample {
    took: Duration,
    to_server: usize,
    to_client: usize,
    /// Bytes of the first flight: the ClientHello in its record.
    hello: usize,
}

fn provider(groups: Vec<&'static dyn SupportedKxGroup>) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups: groups,
        ..aws_lc_rs::default_provider()
    })
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Ends that differ in their key exchange only: P-256 certificates of one CA, both verified.
fn ends(
    name: &'static str,
    groups: Vec<&'static dyn SupportedKxGroup>,
    issuer: &Issuer,
) -> Outcome<Ends> {
    let provider = provider(groups);
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone())?;
    let roots = Arc::new(roots);
    let leaf = || -> Outcome<_> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec![HUB_SERVER_NAME.to_owned()])?;
        let chain = vec![params.signed_by(&key, issuer)?.der().clone()];
        Ok((chain, PrivateKeyDer::try_from(key.serialize_der())?))
    };
    let (agent, hub) = (leaf()?, leaf()?);
    let mut client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(agent.0, agent.1)?;
    client.resumption = Resumption::disabled();
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(hub.0, hub.1)?;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok(Ends {
        name,
        client: client.into(),
        server: server.into(),
    })
}

fn handshake(ends: &Ends) -> Outcome<Sample> {
    let began = Instant::now();
    let name = ServerName::try_from(HUB_SERVER_NAME)?;
    let mut client = ClientConnection::new(ends.client.clone(), name)?;
    let mut server = ServerConnection::new(ends.server.clone())?;
    let (mut to_server, mut to_client, mut hello) = (0, 0, 0);
    while client.is_handshaking() || server.is_handshaking() {
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight)?;
        }
        to_server += flight.len();
        hello = if hello == 0 { flight.len() } else { hello };
        let mut flight = io::Cursor::new(flight);
        while server.read_tls(&mut flight)? > 0 {
            server.process_new_packets()?;
        }
        let mut flight = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut flight)?;
        }
        to_client += flight.len();
        let mut flight = io::Cursor::new(flight);
        while client.read_tls(&mut flight)? > 0 {
            client.process_new_packets()?;
        }
    }
    Ok(Sample {
        took: began.elapsed(),
        to_server,
        to_client,
        hello,
    })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn micros(sample: &Sample) -> f64 {
    sample.took.as_secs_f64() * 1e6
}

fn main() -> Outcome<()> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(3000), |it| it.parse())?;
    let dir = tempfile::tempdir()?;
    let authority = Authority::open_or_create(dir.path())?;
    let now = OffsetDateTime::now_utc();
    let hub = authority.issue_hub(now)?;
    let key = AgentKey::generate()?;
    let signed = authority.sign_agent(&key.csr()?, &"t-a".parse()?, &"c-a".parse()?, now)?;
    let agent = key.with_certificate(&signed.certificate_pem)?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let classic = vec![kx_group::X25519];
    let hybrid = vec![kx_group::X25519MLKEM768, kx_group::X25519];
    let own = Ends {
        name: "own ",
        client: session_client(authority.pin(), Some(&agent))?,
        server: session_server(&hub, authority.certificate_pem(), Duration::ZERO)?,
    };
    let kinds = [
        ends("classic", classic, &issuer)?,
        ends("hybrid", hybrid, &issuer)?,
        own,
    ];
    let mut samples = kinds.each_ref().map(|_| Vec::new());
    for round in 0..rounds + 100 {
        for (ends, samples) in kinds.iter().zip(&mut samples) {
            let sample = handshake(ends)?;
            // The first rounds fill caches.
            if round >= 100 {
                samples.push(sample);
            }
        }
    }
    let [classic, hybrid, _] = &samples;
    for (ends, samples) in kinds.iter().zip(&samples) {
        let all: Vec<f64> = samples.iter().map(micros).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        if let Some(last) = samples.last() {
            println!(
                "{:8} median {:6.1} us, mean {mean:6.1} us, bytes to the hub {}, to the agent {}, ClientHello {}",
                ends.name,
                median(all),
                last.to_server,
                last.to_client,
                last.hello
            );
        }
    }
    let pairs = classic.iter().zip(hybrid);
    let more = pairs.map(|(classic, hybrid)| micros(hybrid) - micros(classic));
    println!(
        "hybrid - classic, median of {rounds} pairs: {:.1} us",
        median(more.collect())
    );
    Ok(())
}
