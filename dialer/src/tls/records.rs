//! Records of rustls without buffers of its own: opened in place, and appended to any buffer.

use bytes::BytesMut;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};

/// Overhead of a TLS 1.3 record, in bytes.
pub(crate) const RECORD_OVERHEAD: usize = 22;
/// Limit for an incomplete record, or for the records of one handshake message, in bytes.
pub(crate) const MAX_PARTIAL_BYTES: usize = 64 * 1024;

/// Buffer that records are appended to.
pub(crate) trait RecordBuffer {
    /// Lets `seal` write at the end, into `bytes` bytes or more. It returns the number of written ones.
    fn append<E>(
        &mut self,
        bytes: usize,
        seal: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E>;
}

impl RecordBuffer for BytesMut {
    fn append<E>(
        &mut self,
        bytes: usize,
        seal: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let before = self.len();
        self.resize(before + bytes, 0);
        let sealed = seal(self.get_mut(before..).unwrap_or_default());
        self.truncate(before + sealed.as_ref().map_or(0, |written| *written));
        sealed.map(drop)
    }
}

/// Result of one step of rustls.
pub(crate) enum TlsStep {
    More,
    PeerClosed,
    /// rustls needs more input, or has nothing to do until something is sealed.
    Done,
}

/// Performs the next step of rustls: passes plaintext to `take`, and appends handshake messages and alerts to `records`. Returns
/// the number of consumed bytes.
pub(crate) fn take_step<D>(
    status: UnbufferedStatus<'_, '_, D>,
    records: &mut impl RecordBuffer,
    mut take: impl FnMut(&[u8]),
) -> (usize, Result<TlsStep, rustls::Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    take(record.payload);
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(TlsStep::More),
            }
        },
        Ok(ConnectionState::EncodeTlsData(data)) => encode(data, records).map(|()| TlsStep::More),
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            sent.done();
            Ok(TlsStep::More)
        }
        Ok(ConnectionState::PeerClosed) => Ok(TlsStep::PeerClosed),
        Ok(
            ConnectionState::BlockedHandshake
            | ConnectionState::WriteTraffic(_)
            | ConnectionState::Closed,
        ) => Ok(TlsStep::Done),
        Ok(_) => Err(general("unexpected state of the TLS connection")),
        Err(error) => Err(error),
    };
    (discard, step)
}

/// Appends a handshake message or an alert.
pub(super) fn encode<D>(
    mut data: EncodeTlsData<'_, D>,
    records: &mut impl RecordBuffer,
) -> Result<(), rustls::Error> {
    let mut bytes = 0;
    loop {
        match records.append(bytes, |room| data.encode(room)) {
            Err(EncodeError::InsufficientSize(needed)) => bytes = needed.required_size,
            encoded => return encoded.map_err(general),
        }
    }
}

/// Appends the sealed plaintext. `status` is that of the input which rustls has seen, without a new record.
pub(crate) fn encrypt<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &[u8],
    into: &mut impl RecordBuffer,
) -> Result<(), rustls::Error> {
    let ConnectionState::WriteTraffic(mut traffic) = status.state? else {
        return Err(rustls::Error::HandshakeNotComplete);
    };
    // More are needed for several records, or for a key update before them.
    let bytes = plain.len() + RECORD_OVERHEAD;
    append(into, bytes, |room| traffic.encrypt(plain, room))
}

/// Appends `close_notify`.
pub(super) fn close_notify<D>(
    mut traffic: WriteTraffic<'_, D>,
    records: &mut impl RecordBuffer,
) -> Result<(), rustls::Error> {
    append(records, RECORD_OVERHEAD, |room| {
        traffic.queue_close_notify(room)
    })
}

/// Appends what `seal` writes. It gets `bytes` of room, and then as many as it asks for.
fn append(
    records: &mut impl RecordBuffer,
    mut bytes: usize,
    mut seal: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), rustls::Error> {
    loop {
        match records.append(bytes, &mut seal) {
            Err(EncryptError::InsufficientSize(needed)) => bytes = needed.required_size,
            sealed => return sealed.map_err(general),
        }
    }
}

/// An error in the words of this crate.
pub(crate) fn general(cause: impl ToString) -> rustls::Error {
    rustls::Error::General(cause.to_string())
}
