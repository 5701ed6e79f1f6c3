//! TLS 1.3 of our own inside of the link, on buffers: rustls driven directly, a message in and plaintext out, plaintext
//! in and records out. It believes nothing itself: the configuration it is given does.
//!
//! It is rustls without buffers: records are opened where they lie and sealed where they are to go, and between two
//! messages nothing is held but the beginning of a record, if there is one.

use std::{collections::VecDeque, mem, sync::Arc};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustls::{
    ClientConfig, CommonState, ServerConfig,
    client::UnbufferedClientConnection,
    pki_types::{CertificateDer, ServerName},
    server::UnbufferedServerConnection,
    unbuffered::{
        ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
        UnbufferedStatus,
    },
};

use super::{exporter::Exporter, resume::Secret};
use crate::{link::frame::SessionId, secure::HUB_SERVER_NAME};

/// The most plaintext that is sealed at once, in bytes: its record, in its message, in its WebSocket frame, is one
/// record of the outer TLS.
pub(crate) const MAX_PLAIN: usize = 16_320;
/// What a record has beside its plaintext.
pub(crate) const RECORD: usize = 22;
/// How much may wait for the rest of a record, or of the records of one message of the handshake.
const MOST: usize = 64 * 1024;

pub(crate) struct Channel {
    end: End,
    /// Of a record that has not come whole.
    rest: BytesMut,
    pieces: VecDeque<Bytes>,
    /// To be pulled.
    records: BytesMut,
    exporter: Arc<Exporter>,
}

enum End {
    Agent(Box<UnbufferedClientConnection>),
    Hub(Box<UnbufferedServerConnection>),
}

/// What a step of rustls has come to.
enum Step {
    More,
    /// It wants more of the peer, or has something to do again when there is something to seal.
    Done,
}

impl Channel {
    pub(crate) fn client(config: Arc<ClientConfig>) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(HUB_SERVER_NAME).map_err(general)?;
        let exporter = Arc::<Exporter>::default();
        let mut config = Arc::unwrap_or_clone(config);
        config.key_log = exporter.clone();
        let tls = UnbufferedClientConnection::new(config.into(), name)?;
        Self::new(End::Agent(Box::new(tls)), exporter)
    }

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let exporter = Arc::<Exporter>::default();
        let mut config = Arc::unwrap_or_clone(config);
        config.key_log = exporter.clone();
        let tls = UnbufferedServerConnection::new(config.into())?;
        Self::new(End::Hub(Box::new(tls)), exporter)
    }

    fn new(end: End, exporter: Arc<Exporter>) -> Result<Self, rustls::Error> {
        let mut channel = Channel {
            end,
            rest: BytesMut::new(),
            pieces: VecDeque::new(),
            records: BytesMut::new(),
            exporter,
        };
        // The agent speaks first.
        channel.run(&mut []).1?;
        Ok(channel)
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.end.state().is_handshaking()
    }

    /// The peer's chain, as the handshake has verified it.
    pub(crate) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        let chain = self.end.state().peer_certificates().unwrap_or_default();
        chain.iter().map(|der| der.clone().into_owned()).collect()
    }

    /// What both ends have agreed on to run inside (ALPN, RFC 7301).
    pub(crate) fn protocol(&self) -> Option<Vec<u8>> {
        self.end.state().alpn_protocol().map(<[u8]>::to_vec)
    }

    /// What both ends know and nobody else, for the session of this name.
    pub(crate) fn secret(&self, session: &SessionId) -> Result<Secret, rustls::Error> {
        self.exporter.export(session)
    }

    /// Takes in what a message brought, which is no more to be looked at afterwards. Whatever it returns, there may be
    /// something to pull: an answer, or the alert that tells the peer why.
    pub(crate) fn take_in(&mut self, sealed: &mut [u8]) -> Result<(), rustls::Error> {
        let mut rest = mem::take(&mut self.rest);
        if rest.is_empty() {
            let (done, outcome) = self.run(sealed);
            outcome?;
            rest.extend_from_slice(sealed.get(done..).unwrap_or_default());
        } else {
            rest.extend_from_slice(sealed);
            let (done, outcome) = self.run(&mut rest);
            outcome?;
            rest.advance(done.min(rest.len()));
        }
        if rest.len() > MOST {
            return Err(general("a message of the handshake that has no end"));
        }
        if !rest.is_empty() {
            self.rest = rest;
        }
        Ok(())
    }

    /// Lets rustls see what has come, until it wants more. How much of it is done with.
    fn run(&mut self, sealed: &mut [u8]) -> (usize, Result<(), rustls::Error>) {
        let mut done = 0;
        loop {
            let rest = sealed.get_mut(done..).unwrap_or_default();
            let (seen, step) = self.step(rest);
            done += seen;
            match step {
                Ok(Step::More) => {}
                Ok(Step::Done) => return (done, Ok(())),
                Err(error) => {
                    // The alert, and nothing of what comes behind it.
                    let rest = sealed.get_mut(done..).unwrap_or_default();
                    while self.end.state().wants_write() && self.step(rest).1.is_ok() {}
                    return (done, Err(error));
                }
            }
        }
    }

    fn step(&mut self, sealed: &mut [u8]) -> (usize, Result<Step, rustls::Error>) {
        let (pieces, records) = (&mut self.pieces, &mut self.records);
        match &mut self.end {
            End::Agent(tls) => handle(tls.process_tls_records(sealed), pieces, records),
            End::Hub(tls) => handle(tls.process_tls_records(sealed), pieces, records),
        }
    }

    pub(crate) fn has_piece(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// The next piece of plaintext.
    pub(crate) fn piece(&mut self) -> Option<Bytes> {
        self.pieces.pop_front()
    }

    /// Puts back what was taken too much of.
    pub(crate) fn put_back(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.pieces.push_front(piece);
        }
    }

    /// Seals: the records go into a message, behind what was to be pulled before.
    pub(crate) fn seal(&mut self, plain: &[u8], into: &mut BytesMut) -> Result<(), rustls::Error> {
        into.put(mem::take(&mut self.records));
        // It is the same bytes each time, as rustls remembers how much of them it has seen.
        match &mut self.end {
            End::Agent(tls) => encrypt(tls.process_tls_records(&mut self.rest), plain, into),
            End::Hub(tls) => encrypt(tls.process_tls_records(&mut self.rest), plain, into),
        }
    }

    /// Seals; the records are there to be pulled.
    pub(crate) fn seal_aside(&mut self, plain: &[u8]) -> Result<(), rustls::Error> {
        let mut records = mem::take(&mut self.records);
        let sealed = self.seal(plain, &mut records);
        self.records = records;
        sealed
    }

    /// Whether there is anything to pull.
    pub(crate) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Moves what is to be sent into a message, up to `room` bytes.
    pub(crate) fn pull(&mut self, into: &mut BytesMut, room: usize) {
        let part = room.min(self.records.len());
        into.put(self.records.split_to(part));
        if self.records.is_empty() {
            self.records = BytesMut::new();
        }
    }

    /// Gives back what has grown while much came in. Called when nothing is left to be taken in.
    pub(crate) fn rest(&mut self) {
        if self.pieces.capacity() > 4 {
            self.pieces.shrink_to(4);
        }
    }
}

impl End {
    fn state(&self) -> &CommonState {
        match self {
            End::Agent(tls) => tls,
            End::Hub(tls) => tls,
        }
    }
}

/// Does what rustls asks for next. How many bytes it is done with.
fn handle<D>(
    status: UnbufferedStatus<'_, '_, D>,
    pieces: &mut VecDeque<Bytes>,
    records: &mut BytesMut,
) -> (usize, Result<Step, rustls::Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                // A piece of its own, so that whoever keeps a part of it keeps no more than that record.
                Some(Ok(record)) => {
                    discard += record.discard;
                    pieces.push_back(Bytes::copy_from_slice(record.payload));
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(Step::More),
            }
        },
        Ok(ConnectionState::EncodeTlsData(data)) => encode(data, records),
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            sent.done();
            Ok(Step::More)
        }
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Ok(Step::Done),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
            Err(general("the peer ended the secure channel"))
        }
        Ok(_) => Err(general(
            "something in the secure channel that nobody asked for",
        )),
        Err(error) => Err(error),
    };
    (discard, step)
}

/// What TLS itself has to say.
fn encode<D>(
    mut data: EncodeTlsData<'_, D>,
    records: &mut BytesMut,
) -> Result<Step, rustls::Error> {
    let before = records.len();
    loop {
        match data.encode(records.get_mut(before..).unwrap_or_default()) {
            Ok(written) => {
                records.truncate(before + written);
                return Ok(Step::More);
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                records.resize(before + required_size, 0);
            }
            Err(error) => return Err(general(error)),
        }
    }
}

fn encrypt<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &[u8],
    into: &mut BytesMut,
) -> Result<(), rustls::Error> {
    let ConnectionState::WriteTraffic(mut traffic) = status.state? else {
        return Err(rustls::Error::HandshakeNotComplete);
    };
    let before = into.len();
    into.resize(before + plain.len() + RECORD, 0);
    loop {
        match traffic.encrypt(plain, into.get_mut(before..).unwrap_or_default()) {
            Ok(written) => {
                into.truncate(before + written);
                return Ok(());
            }
            // Several records, or something that must go before them.
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                into.resize(before + required_size, 0);
            }
            Err(error) => return Err(general(error)),
        }
    }
}

fn general(what: impl ToString) -> rustls::Error {
    rustls::Error::General(what.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustls::{CipherSuite, ClientConnection, crypto::aws_lc_rs, version::TLS13};

    use super::*;
    use crate::rig::{OURS, agent_inner, hub_inner};

    const ROOM: usize = 16_375;

    /// Moves all that one end has to say to the other; says how many messages that took.
    fn carry(from: &mut Channel, to: &mut Channel) -> Result<usize, rustls::Error> {
        let mut messages = 0;
        while from.has_records() {
            let mut message = BytesMut::new();
            from.pull(&mut message, ROOM);
            assert!((1..=ROOM).contains(&message.len()));
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
    fn what_is_sealed_at_once_is_one_message_and_one_piece() {
        let (mut agent, mut hub) = pair();
        assert_eq!(hub.certificates().len(), 1);
        for size in [1, 100, 4096, 4097, MAX_PLAIN] {
            let plain = vec![7; size];
            let mut record = sealed(&mut agent, &plain);
            assert_eq!(record.len(), size + RECORD);
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
        assert_eq!(both.len(), 2 * (3000 + RECORD));
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
    fn a_forged_byte_ends_the_channel_and_the_peer_is_told() {
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

    /// All that one end has to say to a rustls with buffers, and the other way round.
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
            assert!(hub.secret(&[7; 16]).unwrap().same(&Secret::new(theirs)));
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
            // What is to go before it goes with it.
            let mut record = BytesMut::new();
            hub.seal(&[n; 200], &mut record).unwrap();
            read(&mut agent, &record);
            let mut got = [0; 200];
            agent.reader().read_exact(&mut got).unwrap();
            assert_eq!(got, [n; 200]);
        }
    }

    #[test]
    fn a_peer_that_ends_the_channel_is_told_of_as_an_error() {
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
    fn a_handshake_that_comes_in_crumbs_is_not_kept_for_ever() {
        let mut hub = Channel::server(hub_inner(&OURS)).unwrap();
        // A ClientHello of 60,000 bytes, each in a record of its own.
        let mut crumbs = BytesMut::from(&[22, 3, 1, 0, 4, 1, 0, 0xea, 0x60][..]);
        for _ in 0..60_000 {
            crumbs.put_slice(&[22, 3, 1, 0, 1, 0]);
        }
        let refused = crumbs
            .chunks_mut(16_000)
            .any(|part| hub.take_in(part).is_err());
        assert!(refused && hub.rest.len() <= MOST);
    }
}
