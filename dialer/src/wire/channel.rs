//! The inner TLS 1.3 on buffers: rustls driven directly, without buffers of its own. Trust is
//! decided by the TLS configuration.
//!
//! Records are opened and sealed in place. Between two messages it holds at most the beginning of a
//! record.

use std::{collections::VecDeque, mem, sync::Arc};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustls::{
    ClientConfig, CommonState, ServerConfig,
    client::UnbufferedClientConnection,
    pki_types::{CertificateDer, ServerName},
    server::UnbufferedServerConnection,
};

use super::{exporter::Exporter, resume::ResumeSecret};
use crate::{
    link::frame::SessionId,
    tls::{
        HUB_SERVER_NAME,
        records::{MAX_PARTIAL_BYTES, TlsStep, encrypt, general, take_step},
    },
};

/// Largest plaintext sealed at once, in bytes. Its WebSocket frame is one record of the outer TLS.
pub(crate) const MAX_PLAIN_BYTES: usize = 16_320;

pub(crate) struct Channel {
    end: InnerTls,
    /// Incomplete record.
    rest: BytesMut,
    pieces: VecDeque<Bytes>,
    /// Records to be sent.
    records: BytesMut,
    exporter: Arc<Exporter>,
}

enum InnerTls {
    Agent(Box<UnbufferedClientConnection>),
    Hub(Box<UnbufferedServerConnection>),
}

impl Channel {
    pub(crate) fn client(config: Arc<ClientConfig>) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(HUB_SERVER_NAME).map_err(general)?;
        let exporter = Arc::<Exporter>::default();
        let mut config = Arc::unwrap_or_clone(config);
        config.key_log = exporter.clone();
        let tls = UnbufferedClientConnection::new(config.into(), name)?;
        Self::new(InnerTls::Agent(Box::new(tls)), exporter)
    }

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let exporter = Arc::<Exporter>::default();
        let mut config = Arc::unwrap_or_clone(config);
        config.key_log = exporter.clone();
        let tls = UnbufferedServerConnection::new(config.into())?;
        Self::new(InnerTls::Hub(Box::new(tls)), exporter)
    }

    fn new(end: InnerTls, exporter: Arc<Exporter>) -> Result<Self, rustls::Error> {
        let mut channel = Channel {
            end,
            rest: BytesMut::new(),
            pieces: VecDeque::new(),
            records: BytesMut::new(),
            exporter,
        };
        // The agent sends first.
        channel.run(&mut []).1?;
        Ok(channel)
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.end.state().is_handshaking()
    }

    /// The peer's certificate chain, verified by the handshake.
    pub(crate) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        let chain = self.end.state().peer_certificates().unwrap_or_default();
        chain.iter().map(|der| der.clone().into_owned()).collect()
    }

    /// Secret of this session, known to both ends only.
    pub(crate) fn secret(&self, session: &SessionId) -> Result<ResumeSecret, rustls::Error> {
        self.exporter.export(session)
    }

    /// Processes the body of a message and overwrites it. There may be records to send afterwards,
    /// even after an error: a response, or an alert.
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
        if rest.len() > MAX_PARTIAL_BYTES {
            return Err(general("an endless handshake message"));
        }
        if !rest.is_empty() {
            self.rest = rest;
        }
        Ok(())
    }

    /// Runs rustls until it needs more input. Returns the number of consumed bytes.
    fn run(&mut self, sealed: &mut [u8]) -> (usize, Result<(), rustls::Error>) {
        let mut done = 0;
        loop {
            let rest = sealed.get_mut(done..).unwrap_or_default();
            let (seen, step) = self.step(rest);
            done += seen;
            match step {
                Ok(TlsStep::Done) => return (done, Ok(())),
                Ok(_) => {}
                Err(error) => {
                    // Sends the alert; input after it is ignored.
                    let rest = sealed.get_mut(done..).unwrap_or_default();
                    while self.end.state().wants_write() && self.step(rest).1.is_ok() {}
                    return (done, Err(error));
                }
            }
        }
    }

    fn step(&mut self, sealed: &mut [u8]) -> (usize, Result<TlsStep, rustls::Error>) {
        let records = &mut self.records;
        // One buffer per record, so that a slice pins no more than its record.
        let take = |plain: &[u8]| self.pieces.push_back(Bytes::copy_from_slice(plain));
        let (seen, step) = match &mut self.end {
            InnerTls::Agent(tls) => take_step(tls.process_tls_records(sealed), records, take),
            InnerTls::Hub(tls) => take_step(tls.process_tls_records(sealed), records, take),
        };
        let step = match step {
            Ok(TlsStep::PeerClosed) => Err(general("the peer ended the secure channel")),
            other => other,
        };
        (seen, step)
    }

    pub(crate) fn has_piece(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Next piece of plaintext.
    pub(crate) fn piece(&mut self) -> Option<Bytes> {
        self.pieces.pop_front()
    }

    /// Puts back an unused piece.
    pub(crate) fn put_back(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.pieces.push_front(piece);
        }
    }

    /// Appends pending records and the sealed plaintext to a message.
    pub(crate) fn seal(&mut self, plain: &[u8], into: &mut BytesMut) -> Result<(), rustls::Error> {
        into.put(mem::take(&mut self.records));
        // Always the same bytes: rustls remembers how many of them it has seen.
        match &mut self.end {
            InnerTls::Agent(tls) => encrypt(tls.process_tls_records(&mut self.rest), plain, into),
            InnerTls::Hub(tls) => encrypt(tls.process_tls_records(&mut self.rest), plain, into),
        }
    }

    /// Seals plaintext into the pending records.
    pub(crate) fn seal_aside(&mut self, plain: &[u8]) -> Result<(), rustls::Error> {
        let mut records = mem::take(&mut self.records);
        let sealed = self.seal(plain, &mut records);
        self.records = records;
        sealed
    }

    /// True if there are pending records.
    pub(crate) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Moves pending records into a message, up to `room` bytes.
    pub(crate) fn pull(&mut self, into: &mut BytesMut, room: usize) {
        let part = room.min(self.records.len());
        into.put(self.records.split_to(part));
        if self.records.is_empty() {
            self.records = BytesMut::new();
        }
    }

    /// Frees capacity that grew under load. Called when all input is processed.
    pub(crate) fn rest(&mut self) {
        if self.pieces.capacity() > 4 {
            self.pieces.shrink_to(4);
        }
    }
}

impl InnerTls {
    fn state(&self) -> &CommonState {
        match self {
            InnerTls::Agent(tls) => tls,
            InnerTls::Hub(tls) => tls,
        }
    }
}

#[cfg(test)]
mod tests;
