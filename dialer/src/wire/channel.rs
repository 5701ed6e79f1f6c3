//! TLS 1.3 of our own inside of the link, on buffers: rustls driven directly, a message in and plaintext out, plaintext
//! in and records out. It believes nothing itself: the configuration it is given does.

use std::{
    collections::VecDeque,
    io::{self, BufRead, IoSlice, Read, Write},
    sync::Arc,
};

use bytes::{BufMut, Bytes, BytesMut};
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection,
    pki_types::{CertificateDer, ServerName},
};

use super::resume::Secret;
use crate::{link::frame::SessionId, secure::HUB_SERVER_NAME};

/// The most plaintext that is sealed at once, in bytes: its record, in its message, in its WebSocket frame, is one
/// record of the outer TLS.
pub(crate) const MAX_PLAIN: usize = 16_320;
/// What a resumption is proved with is exported under this label (RFC 8446, 7.5).
const EXPORTER: &[u8] = b"EXPORTER-fairlead-resumption";

pub(crate) struct Channel {
    tls: Connection,
    pieces: VecDeque<Bytes>,
    /// rustls' own read buffer has grown since it was last cut back.
    grown: bool,
}

impl Channel {
    pub(crate) fn client(config: Arc<ClientConfig>) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(HUB_SERVER_NAME)
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self::new(ClientConnection::new(config, name)?.into()))
    }

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::new(ServerConnection::new(config)?.into()))
    }

    fn new(mut tls: Connection) -> Self {
        // Whoever seals looks first whether there is room for it.
        tls.set_buffer_limit(None);
        Channel {
            tls,
            pieces: VecDeque::new(),
            grown: false,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The peer's chain, as the handshake has verified it.
    pub(crate) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        let chain = self.tls.peer_certificates().unwrap_or_default();
        chain.iter().map(|der| der.clone().into_owned()).collect()
    }

    /// What both ends have agreed on to run inside (ALPN, RFC 7301).
    pub(crate) fn protocol(&self) -> Option<Vec<u8>> {
        self.tls.alpn_protocol().map(<[u8]>::to_vec)
    }

    /// What both ends know and nobody else, for the session of this name.
    pub(crate) fn secret(&self, session: &SessionId) -> Result<Secret, rustls::Error> {
        self.tls
            .export_keying_material([0; 32], EXPORTER, Some(session))
            .map(Secret::new)
    }

    /// Takes in what a message brought. Whatever it returns, there may be something to pull: an answer, or the alert
    /// that tells the peer why.
    pub(crate) fn take_in(&mut self, mut sealed: &[u8]) -> Result<(), rustls::Error> {
        self.grown |= sealed.len() > 4096;
        while !sealed.is_empty() {
            // rustls takes some KiB at a time.
            match self.tls.read_tls(&mut sealed) {
                Ok(0) => return Err(ended()),
                Ok(_) => {}
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
            self.tls.process_new_packets()?;
            self.unwrap_records()?;
        }
        Ok(())
    }

    /// Each record's plaintext is a piece of its own, so that whoever keeps a part of it keeps no more than that record.
    fn unwrap_records(&mut self) -> Result<(), rustls::Error> {
        loop {
            let mut reader = self.tls.reader();
            match reader.fill_buf() {
                Ok([]) => return Err(ended()),
                Ok(plain) => {
                    let size = plain.len();
                    self.pieces.push_back(Bytes::copy_from_slice(plain));
                    reader.consume(size);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
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

    /// Seals; the records are there to be pulled.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Result<(), rustls::Error> {
        let sealed = self.tls.writer().write_all(plain);
        sealed.map_err(|error| rustls::Error::General(error.to_string()))
    }

    /// Whether there is anything to pull.
    pub(crate) fn has_records(&self) -> bool {
        self.tls.wants_write()
    }

    /// Moves what is to be sent into a message, up to `room` bytes.
    pub(crate) fn pull(&mut self, into: &mut BytesMut, room: usize) {
        let mut sink = Sink { into, room };
        while sink.room > 0 && self.tls.wants_write() {
            if self.tls.write_tls(&mut sink).is_err() {
                // The sink refuses nothing.
                return;
            }
        }
    }

    /// Gives back what rustls has grown by while much came in. Called when nothing is left to be taken in.
    pub(crate) fn rest(&mut self) {
        if self.grown {
            self.grown = false;
            let _ = self.tls.read_tls(&mut Nothing);
            self.pieces.shrink_to(4);
        }
    }
}

fn ended() -> rustls::Error {
    rustls::Error::General("the peer ended the secure channel".to_owned())
}

/// A reader that has nothing just now: rustls makes its buffer small before it asks.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

struct Sink<'a> {
    into: &'a mut BytesMut,
    room: usize,
}

impl Write for Sink<'_> {
    fn write(&mut self, records: &[u8]) -> io::Result<usize> {
        let taken = records.get(..self.room).unwrap_or(records);
        self.into.put_slice(taken);
        self.room -= taken.len();
        Ok(taken.len())
    }

    fn write_vectored(&mut self, all: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for records in all {
            taken += self.write(records)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
            to.take_in(&message)?;
        }
        Ok(messages)
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
            agent.seal(&plain).unwrap();
            assert_eq!(carry(&mut agent, &mut hub).unwrap(), 1);
            assert_eq!(hub.piece().unwrap(), plain);
            assert_eq!(hub.piece(), None);
        }
    }

    #[test]
    fn records_may_be_cut_anywhere() {
        let (mut agent, mut hub) = pair();
        agent.seal(&[1; 3000]).unwrap();
        agent.seal(&[2; 3000]).unwrap();
        let mut both = BytesMut::new();
        agent.pull(&mut both, usize::MAX);
        for part in both.chunks(997) {
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
        agent.seal(b"delete nothing").unwrap();
        let mut record = BytesMut::new();
        agent.pull(&mut record, ROOM);
        record[10] ^= 1;
        assert_eq!(hub.take_in(&record), Err(rustls::Error::DecryptError));
        assert_eq!(hub.piece(), None);
        assert!(carry(&mut hub, &mut agent).is_err());
    }

    #[test]
    fn resting_between_records_loses_nothing() {
        let (mut agent, mut hub) = pair();
        for n in 0..20_u8 {
            agent.seal(&[n; 5000]).unwrap();
            let mut record = BytesMut::new();
            agent.pull(&mut record, ROOM);
            let (first, rest) = record.split_at(4500);
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
}
