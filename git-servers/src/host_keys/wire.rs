//! Unencrypted packets of SSH and their parts (RFC 4253, section 6; RFC 4251, section 5).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::ScanError;

/// Limit of a packet (RFC 4253, section 6.1).
const MAX_PACKET_BYTES: usize = 35_000;
/// Limit of all text before the end of the version line.
const MAX_VERSION_BYTES: usize = 8 * 1024;
/// Multiple of which a packet's size is without encryption.
const BLOCK_BYTES: usize = 8;

/// Reads lines up to that with the version of the server.
pub(super) async fn read_version<S: AsyncRead + Unpin>(stream: &mut S) -> Result<(), ScanError> {
    let mut line = Vec::new();
    for _ in 0..MAX_VERSION_BYTES {
        match stream.read_u8().await? {
            b'\n' if line.starts_with(b"SSH-2.0-") || line.starts_with(b"SSH-1.99-") => {
                return Ok(());
            }
            b'\n' => line.clear(),
            byte => line.push(byte),
        }
    }
    Err(ScanError::Invalid)
}

/// Payload of the next packet.
pub(super) async fn read_packet<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> Result<Vec<u8>, ScanError> {
    let size = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
    if size > MAX_PACKET_BYTES {
        return Err(ScanError::Invalid);
    }
    let mut packet = vec![0; size];
    stream.read_exact(&mut packet).await?;
    let padding = usize::from(*packet.first().ok_or(ScanError::Invalid)?);
    let end = size.checked_sub(padding).ok_or(ScanError::Invalid)?;
    let payload = packet.get(1..end).ok_or(ScanError::Invalid)?;
    Ok(payload.to_vec())
}

pub(super) async fn write_packet<S: AsyncWrite + Unpin>(
    stream: &mut S,
    payload: &[u8],
) -> io::Result<()> {
    let used = 4 + 1 + payload.len();
    // At least four bytes.
    let padding = BLOCK_BYTES * 2 - used % BLOCK_BYTES;
    let mut packet = Vec::with_capacity(used + padding);
    put_size(&mut packet, 1 + payload.len() + padding);
    packet.push(u8::try_from(padding).unwrap_or_default());
    packet.extend_from_slice(payload);
    packet.resize(used + padding, 0);
    stream.write_all(&packet).await
}

fn put_size(to: &mut Vec<u8>, size: usize) {
    to.extend(u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
}

pub(super) fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    put_size(to, bytes.len());
    to.extend_from_slice(bytes);
}

pub(super) fn put_list(to: &mut Vec<u8>, names: &[&str]) {
    put_string(to, names.join(",").as_bytes());
}

/// Bytes of a peer that are read part by part.
pub(super) struct Parts<'a>(pub(super) &'a [u8]);

impl<'a> Parts<'a> {
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let (size, rest) = self.0.split_first_chunk::<4>()?;
        let size = usize::try_from(u32::from_be_bytes(*size)).ok()?;
        let (string, rest) = rest.split_at_checked(size)?;
        self.0 = rest;
        Some(string)
    }

    pub(super) fn list(&mut self) -> Option<Vec<&'a str>> {
        let names = std::str::from_utf8(self.string()?).ok()?;
        Some(names.split(',').collect())
    }
}
