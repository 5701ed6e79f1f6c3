use std::io::{Read, Write};

use rustls::{CipherSuite, ClientConnection, crypto::aws_lc_rs, version::TLS13};

use super::*;
use crate::{
    rig::{OURS, agent_inner, hub_inner},
    tls::records::RECORD_OVERHEAD,
};

const ROOM_BYTES: usize = 16_375;

/// Moves all records of one end to the other; returns the number of messages.
fn carry(from: &mut Channel, to: &mut Channel) -> Result<usize, rustls::Error> {
    let mut messages = 0;
    while from.has_records() {
        let mut message = BytesMut::new();
        from.pull(&mut message, ROOM_BYTES);
        assert!((1..=ROOM_BYTES).contains(&message.len()));
        messages += 1;
        to.take_in(&mut message)?;
    }
    Ok(messages)
}

fn sealed(by: &mut Channel, plain: &[u8]) -> BytesMut {
    let mut record = BytesMut::new();
    by.seal(plain, &mut record).unwrap();
    assert!(!by.has_records());
    record
}

fn pair() -> (Channel, Channel) {
    let mut agent = Channel::client(agent_inner(&OURS, Some(&OURS))).unwrap();
    let mut hub = Channel::server(hub_inner(&OURS)).unwrap();
    while agent.is_handshaking() || hub.is_handshaking() {
        carry(&mut agent, &mut hub).unwrap();
        carry(&mut hub, &mut agent).unwrap();
    }
    (agent, hub)
}

#[test]
fn plaintext_sealed_at_once_is_one_message_and_one_piece() {
    let (mut agent, mut hub) = pair();
    assert_eq!(hub.certificates().len(), 1);
    for size in [1, 100, 4096, 4097, MAX_PLAIN_BYTES] {
        let plain = vec![7; size];
        let mut record = sealed(&mut agent, &plain);
        assert_eq!(record.len(), size + RECORD_OVERHEAD);
        hub.take_in(&mut record).unwrap();
        assert_eq!(hub.piece().unwrap(), plain);
        assert_eq!(hub.piece(), None);
    }
}

#[test]
fn records_may_be_cut_anywhere() {
    let (mut agent, mut hub) = pair();
    agent.seal_aside(&[1; 3000]).unwrap();
    agent.seal_aside(&[2; 3000]).unwrap();
    let mut both = BytesMut::new();
    agent.pull(&mut both, 3);
    agent.pull(&mut both, usize::MAX);
    assert_eq!(both.len(), 2 * (3000 + RECORD_OVERHEAD));
    for part in both.chunks_mut(997) {
        hub.take_in(part).unwrap();
    }
    hub.rest();
    let first = hub.piece().unwrap();
    assert_eq!(first, vec![1; 3000]);
    hub.put_back(first.slice(2900..));
    assert_eq!(hub.piece().unwrap().len(), 100);
    assert_eq!(hub.piece().unwrap(), vec![2; 3000]);
}

#[test]
fn forged_byte_ends_the_channel_with_an_alert() {
    let (mut agent, mut hub) = pair();
    let mut record = sealed(&mut agent, b"delete nothing");
    record[10] ^= 1;
    assert_eq!(hub.take_in(&mut record), Err(rustls::Error::DecryptError));
    assert_eq!(hub.piece(), None);
    assert!(carry(&mut hub, &mut agent).is_err());
}

#[test]
fn resting_between_records_loses_nothing() {
    let (mut agent, mut hub) = pair();
    for n in 0..20_u8 {
        let mut record = sealed(&mut agent, &[n; 5000]);
        let (first, rest) = record.split_at_mut(4500);
        hub.take_in(first).unwrap();
        hub.rest();
        hub.take_in(rest).unwrap();
        hub.rest();
        assert_eq!(hub.piece().unwrap(), vec![n; 5000]);
    }
}

#[test]
fn both_ends_export_the_same_secret_and_no_other_session_has_it() {
    let (agent, hub) = pair();
    let (other, _) = pair();
    let [a, h, o] = [&agent, &hub, &other].map(|end| end.secret(&[1; 16]).unwrap());
    let elsewhere = agent.secret(&[2; 16]).unwrap();
    assert!(a.same(&h));
    assert!(!a.same(&o) && !a.same(&elsewhere));
}

/// Moves all records between a channel and a buffered rustls connection, both ways.
fn talk(hub: &mut Channel, agent: &mut ClientConnection) {
    while agent.wants_write() || hub.has_records() {
        let mut said = Vec::new();
        while agent.wants_write() {
            agent.write_tls(&mut said).unwrap();
        }
        hub.take_in(&mut said).unwrap();
        let mut answer = BytesMut::new();
        hub.pull(&mut answer, usize::MAX);
        read(agent, &answer);
    }
}

fn read(agent: &mut ClientConnection, mut records: &[u8]) {
    while !records.is_empty() {
        agent.read_tls(&mut records).unwrap();
        agent.process_new_packets().unwrap();
    }
}

fn stock(suite: CipherSuite) -> (Channel, ClientConnection) {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|it| it.suite() == suite);
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(OURS.roots())
        .with_no_client_auth();
    let name = ServerName::try_from(HUB_SERVER_NAME).unwrap();
    let mut agent = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hub = Channel::server(hub_inner(&OURS)).unwrap();
    talk(&mut hub, &mut agent);
    assert!(!hub.is_handshaking() && !agent.is_handshaking());
    (hub, agent)
}

#[test]
fn the_secret_is_the_one_that_tls_exports() {
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let (hub, agent) = stock(suite);
        let theirs = agent
            .export_keying_material([0; 32], b"EXPORTER-fairlead-resumption", Some(&[7; 16]))
            .unwrap();
        assert!(
            hub.secret(&[7; 16])
                .unwrap()
                .same(&ResumeSecret::new(theirs))
        );
    }
}

#[test]
fn keys_that_the_peer_renews_are_renewed_on_both_sides() {
    let (mut hub, mut agent) = stock(CipherSuite::TLS13_AES_128_GCM_SHA256);
    for n in 0..3_u8 {
        agent.refresh_traffic_keys().unwrap();
        agent.writer().write_all(&[n; 100]).unwrap();
        talk(&mut hub, &mut agent);
        assert_eq!(hub.piece().unwrap(), vec![n; 100]);
        // The pending records precede it.
        let mut record = BytesMut::new();
        hub.seal(&[n; 200], &mut record).unwrap();
        read(&mut agent, &record);
        let mut got = [0; 200];
        agent.reader().read_exact(&mut got).unwrap();
        assert_eq!(got, [n; 200]);
    }
}

#[test]
fn end_of_the_channel_by_the_peer_is_an_error() {
    let (mut hub, mut agent) = stock(CipherSuite::TLS13_AES_128_GCM_SHA256);
    agent.writer().write_all(b"last").unwrap();
    agent.send_close_notify();
    let mut said = Vec::new();
    while agent.wants_write() {
        agent.write_tls(&mut said).unwrap();
    }
    assert!(hub.take_in(&mut said).is_err());
    assert_eq!(hub.piece().unwrap(), "last");
}

#[test]
fn fragmented_handshake_is_bounded() {
    let mut hub = Channel::server(hub_inner(&OURS)).unwrap();
    // A ClientHello of 60,000 bytes, each in its own record.
    let mut crumbs = BytesMut::from(&[22, 3, 1, 0, 4, 1, 0, 0xea, 0x60][..]);
    for _ in 0..60_000 {
        crumbs.put_slice(&[22, 3, 1, 0, 1, 0]);
    }
    let refused = crumbs
        .chunks_mut(16_000)
        .any(|part| hub.take_in(part).is_err());
    assert!(refused && hub.rest.len() <= MAX_PARTIAL_BYTES);
}
