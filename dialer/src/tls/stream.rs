//! TLS of a connection on borrowed buffers: an idle connection holds none. rustls is driven without buffers of its own, of which it
//! would keep 4 KiB for each connection.
//!
//! A connection is read in large blocks, which are shared per thread. It ends cleanly only with the peer's `close_notify`.

mod async_io;

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use rustls::{
    CommonState,
    unbuffered::{ConnectionState, UnbufferedStatus},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::{
    blocks::{GATHERED, PLAIN, SEALED, borrow, give_back},
    output::{LARGE_OUTPUT, OUTPUT, Output, SpareOutput},
    records::{MAX_PARTIAL_BYTES, TlsStep, close_notify, encode, encrypt, general, take_step},
};

/// Bytes per read: eight records, as much as one round of a session.
const BLOCK_BYTES: usize = 128 * 1024;
/// Usual limit for records that wait for the connection, in bytes. Nothing is sealed while there are more.
const OUTPUT_LIMIT_BYTES: usize = 64 * 1024;
/// Capacity for the overhead of the records of full output, in bytes.
const OUTPUT_OVERHEAD_BYTES: usize = 1024;
/// Less input than this, in bytes, is copied, so that a connection keeps no block for it. A stranger's read is no larger.
const MIN_KEPT_INPUT_BYTES: usize = 4096;
/// The same for plaintext. A stranger's connection has at most one record of it.
const MIN_KEPT_PLAIN_BYTES: usize = 32 * 1024;
/// Largest plaintext of a record, in bytes (RFC 8446, section 5.1).
const MAX_RECORD_BYTES: usize = 16 * 1024;
/// Pieces of at least this size, in bytes, get records of their own, instead of a copy.
const MIN_OWN_RECORD_BYTES: usize = 8 * 1024;

/// Side of a connection in rustls. Each processes records by a method of its own.
pub trait TlsSide {
    /// State of the side in rustls.
    type Data;

    /// Processes the records of `sealed` up to the next state.
    fn process<'c, 'i>(&'c mut self, sealed: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// State that both sides have.
    fn state(&self) -> &CommonState;
}

/// Connection after the TLS handshake.
pub struct TlsStream<IO, S> {
    io: IO,
    pub(super) side: S,
    /// Between two reads at most the beginning of a record, or of a handshake message.
    sealed: BytesMut,
    /// Plaintext that the last readers had no capacity for.
    plain: BytesMut,
    /// Records not yet written.
    output: Output,
    /// Limit for `output`, in bytes.
    output_limit: usize,
    /// The last read was pending, and there is no plaintext.
    drained: bool,
    end: Option<ReadEnd>,
    closing: bool,
}

/// End of the peer's data.
#[derive(Clone)]
enum ReadEnd {
    Clean,
    /// The connection ended without `close_notify`.
    Cut,
    Failed(rustls::Error),
}

impl ReadEnd {
    fn result(&self) -> io::Result<()> {
        match self {
            ReadEnd::Clean => Ok(()),
            ReadEnd::Cut => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended without close_notify of TLS",
            )),
            ReadEnd::Failed(error) => Err(invalid(error.clone())),
        }
    }
}

pub(super) fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Passes plaintext to the reader, and keeps the rest.
fn deliver(record: &[u8], reader: &mut ReadBuf<'_>, plain: &mut BytesMut) {
    let room = if plain.is_empty() {
        reader.remaining()
    } else {
        0
    };
    let (now, later) = record.split_at(room.min(record.len()));
    reader.put_slice(now);
    if !later.is_empty() {
        if plain.is_empty() {
            borrow(&PLAIN, plain, BLOCK_BYTES);
        }
        plain.extend_from_slice(later);
    }
}

impl<IO, S: TlsSide> TlsStream<IO, S> {
    /// The wrapped connection.
    #[must_use]
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// The wrapped connection.
    pub fn get_mut(&mut self) -> &mut IO {
        &mut self.io
    }

    /// Lets more records wait for the connection, as a link needs it. In bytes, usually 64 KiB.
    pub fn set_output_limit(&mut self, bytes: usize) {
        self.output_limit = bytes;
    }

    /// Protocol that both sides agreed on.
    #[must_use]
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.side.state().alpn_protocol()
    }

    /// Processes all input. Plaintext goes to the reader first.
    fn process(&mut self, reader: &mut ReadBuf<'_>) -> Result<(), rustls::Error> {
        loop {
            let status = self.side.process(&mut self.sealed);
            let take = |record: &[u8]| deliver(record, reader, &mut self.plain);
            let (discard, step) = take_step(status, &mut self.output, take);
            self.sealed.advance(discard.min(self.sealed.len()));
            match step? {
                TlsStep::More => {}
                TlsStep::PeerClosed => {
                    self.end.get_or_insert(ReadEnd::Clean);
                }
                TlsStep::Done => return Ok(()),
            }
        }
    }

    /// Processes all input; after an error there is an alert to send.
    fn run(&mut self, reader: &mut ReadBuf<'_>) -> Result<(), rustls::Error> {
        let mut outcome = self.process(reader);
        if outcome.is_ok() && self.sealed.len() > MAX_PARTIAL_BYTES {
            outcome = Err(general("an endless handshake message"));
        }
        if let Err(error) = &outcome {
            self.end = Some(ReadEnd::Failed(error.clone()));
            self.queue_alert();
        }
        if self.end.is_some() {
            // Nothing after the end counts (RFC 8446, section 6.1).
            self.sealed.clear();
        }
        if self.sealed.len() < MIN_KEPT_INPUT_BYTES {
            give_back(&SEALED, &mut self.sealed, BLOCK_BYTES);
        }
        if self.plain.len() < MIN_KEPT_PLAIN_BYTES {
            give_back(&PLAIN, &mut self.plain, BLOCK_BYTES);
        }
        outcome
    }

    /// Appends the alert about an error. rustls gets no input, so it processes nothing more.
    fn queue_alert(&mut self) {
        while self.side.state().wants_write() {
            let status = self.side.process(&mut []);
            if take_step(status, &mut self.output, |_| {}).1.is_err() {
                return;
            }
        }
    }

    fn queue_close_notify(&mut self) -> Result<(), rustls::Error> {
        loop {
            match self.side.process(&mut self.sealed).state? {
                ConnectionState::EncodeTlsData(data) => encode(data, &mut self.output)?,
                ConnectionState::TransmitTlsData(sent) => sent.done(),
                ConnectionState::WriteTraffic(traffic) => {
                    return close_notify(traffic, &mut self.output);
                }
                // Both sides have sent theirs.
                _ => return Ok(()),
            }
        }
    }

    /// Block for the output, and its capacity in bytes.
    fn output_block(&self) -> (&'static SpareOutput, usize) {
        if self.output_limit > OUTPUT_LIMIT_BYTES {
            (&LARGE_OUTPUT, self.output_limit + OUTPUT_OVERHEAD_BYTES)
        } else {
            (&OUTPUT, OUTPUT_LIMIT_BYTES + OUTPUT_OVERHEAD_BYTES)
        }
    }

    fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        if plain.is_empty() {
            return Ok(());
        }
        let (spare, capacity) = self.output_block();
        self.output.borrow(spare, capacity);
        // Always the same input: rustls remembers how much of it it has seen.
        let status = self.side.process(&mut self.sealed);
        encrypt(status, plain, &mut self.output).map_err(invalid)
    }

    /// Seals as much as may wait. Returns the number of plaintext bytes.
    fn seal_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut gathered = GATHERED.take();
        gathered.clear();
        let mut taken = 0;
        let mut outcome = Ok(());
        for piece in pieces {
            let waiting = self.output.len() + gathered.len();
            let part = piece.len().min(self.output_limit.saturating_sub(waiting));
            let part = piece.get(..part).unwrap_or_default();
            let own = part.len() >= MIN_OWN_RECORD_BYTES;
            if own || gathered.len() + part.len() > MAX_RECORD_BYTES {
                outcome = outcome.and_then(|()| self.seal(&gathered));
                gathered.clear();
            }
            if own {
                outcome = outcome.and_then(|()| self.seal(part));
            } else {
                gathered.extend_from_slice(part);
            }
            taken += part.len();
            if part.len() < piece.len() {
                break;
            }
        }
        outcome = outcome.and_then(|()| self.seal(&gathered));
        GATHERED.set(gathered);
        outcome.map(|()| taken)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin, S: TlsSide> TlsStream<IO, S> {
    /// Performs the handshake. On failure the peer receives an alert. The deadline is up to the caller.
    pub(super) async fn handshake(io: IO, side: S) -> io::Result<Self> {
        let mut tls = TlsStream {
            io,
            side,
            sealed: BytesMut::new(),
            plain: BytesMut::new(),
            output: Output::default(),
            output_limit: OUTPUT_LIMIT_BYTES,
            drained: false,
            end: None,
            closing: false,
        };
        let outcome = poll_fn(|cx| tls.poll_handshake(cx)).await;
        if let Err(error) = outcome {
            let _ = poll_fn(|cx| tls.poll_output(cx)).await;
            return Err(error);
        }
        Ok(tls)
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.run(&mut ReadBuf::new(&mut [])).map_err(invalid)?;
            ready!(self.poll_output(cx))?;
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            if !self.side.state().is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if self.end.is_some() || ready!(self.poll_fill(cx))? == 0 {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof");
                return Poll::Ready(Err(error));
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        borrow(&SEALED, &mut self.sealed, BLOCK_BYTES);
        let polled = poll_read_buf(Pin::new(&mut self.io), cx, &mut self.sealed);
        if !matches!(polled, Poll::Ready(Ok(1..))) {
            give_back(&SEALED, &mut self.sealed, BLOCK_BYTES);
        }
        polled
    }

    /// Writes all records; pending while the connection is full.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let outcome = loop {
            match Pin::new(&mut self.io).poll_write(cx, self.output.records()) {
                Poll::Ready(Ok(0)) => {
                    break Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                Poll::Ready(Ok(written)) => self.output.advance(written),
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
            if self.output.is_empty() {
                break Poll::Ready(Ok(()));
            }
        };
        if self.output.len() < self.output_limit / 4 {
            let (spare, capacity) = self.output_block();
            self.output.give_back(spare, capacity);
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
