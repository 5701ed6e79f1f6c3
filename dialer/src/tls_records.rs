//! Records of rustls without buffers of its own: handshake messages and sealed plaintext, appended to any buffer.

use bytes::BytesMut;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};

/// Overhead of a TLS 1.3 record, in bytes.
pub(crate) const RECORD_OVERHEAD: usize = 22;

/// Appends a handshake message or an alert.
pub(crate) fn encode<D>(
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
pub(crate) fn close_notify<D>(
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
