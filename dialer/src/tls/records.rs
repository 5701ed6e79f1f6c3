//! Records of rustls without buffers of its own: opened in place, and appended to any buffer.

use bytes::BytesMut;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};

/// Overhead of a TLS 1.3 record, in bytes.
pub(crate) const RECORD_OVERHEAD: usize = 22;
/// Limit for an incomplete record, or for the records of one handshake message, in bytes.
pub(crate) const MAX_PARTIAL_BYTES: usize = 64 * 1024;

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
    records: &mut BytesMut,
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
    records: &mut BytesMut,
) -> Result<(), rustls::Error> {
    let before = records.len();
    loop {
        match data.encode(records.get_mut(before..).unwrap_or_default()) {
            Ok(written) => {
                records.truncate(before + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                records.resize(before + required_size, 0);
            }
            Err(error) => return Err(general(error)),
        }
    }
}

/// Appends the sealed plaintext. `status` is that of the input which rustls has seen, without a new record.
pub(crate) fn encrypt<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &[u8],
    into: &mut BytesMut,
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
    records: &mut BytesMut,
) -> Result<(), rustls::Error> {
    append(records, RECORD_OVERHEAD, |room| {
        traffic.queue_close_notify(room)
    })
}

/// Appends what `seal` writes. It gets `bytes` of room, and then as many as it asks for.
fn append(
    records: &mut BytesMut,
    bytes: usize,
    mut seal: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), rustls::Error> {
    let before = records.len();
    records.resize(before + bytes, 0);
    loop {
        match seal(records.get_mut(before..).unwrap_or_default()) {
            Ok(written) => {
                records.truncate(before + written);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                records.resize(before + required_size, 0);
            }
            Err(error) => return Err(general(error)),
        }
    }
}

/// An error in the words of this crate.
pub(crate) fn general(cause: impl ToString) -> rustls::Error {
    rustls::Error::General(cause.to_string())
}
