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
mod tests;
