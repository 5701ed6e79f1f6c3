//! TLS of a server on borrowed buffers: an idle connection holds none. rustls is driven without buffers of its own, of which it
//! would keep 4 KiB for each connection.
//!
//! A connection is read in large blocks, which are shared per thread. It ends cleanly only with the peer's `close_notify`.

mod blocks;
mod noted_name;

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use rustls::{
    ServerConfig,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, UnbufferedStatus},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use self::{
    blocks::{GATHERED, LARGE_OUTPUT, OUTPUT, PLAIN, SEALED, SpareBlock, borrow, give_back},
    noted_name::NotedName,
};
use crate::{
    input_gate::PollInput,
    tls_records::{close_notify, encode, encrypt, general},
};

/// Bytes per read: eight records, as much as one round of a session.
const BLOCK_BYTES: usize = 128 * 1024;
/// Limit for an incomplete record, or for the records of one handshake message, in bytes.
const MAX_PARTIAL_BYTES: usize = 64 * 1024;
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

/// Connection of a client after the TLS handshake.
pub struct ServerTls<IO> {
    io: IO,
    tls: UnbufferedServerConnection,
    server_name: Option<Arc<str>>,
    /// Between two reads at most the beginning of a record, or of a handshake message.
    sealed: BytesMut,
    /// Plaintext that the last readers had no capacity for.
    plain: BytesMut,
    /// Records not yet written.
    output: BytesMut,
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
            ReadEnd::Cut => Err(io::ErrorKind::UnexpectedEof.into()),
            ReadEnd::Failed(error) => Err(invalid(error.clone())),
        }
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Result of one step of rustls.
enum TlsStep {
    More,
    PeerClosed,
    /// rustls needs more input, or has nothing to do until something is sealed.
    Done,
}

/// Performs the next step of rustls. Returns the number of consumed bytes.
fn take_step<D>(
    status: UnbufferedStatus<'_, '_, D>,
    reader: &mut ReadBuf<'_>,
    plain: &mut BytesMut,
    output: &mut BytesMut,
) -> (usize, Result<TlsStep, rustls::Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    let room = if plain.is_empty() {
                        reader.remaining()
                    } else {
                        0
                    };
                    let (now, later) = record.payload.split_at(room.min(record.payload.len()));
                    reader.put_slice(now);
                    if !later.is_empty() {
                        if plain.is_empty() {
                            borrow(&PLAIN, plain, BLOCK_BYTES);
                        }
                        plain.extend_from_slice(later);
                    }
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(TlsStep::More),
            }
        },
        Ok(ConnectionState::EncodeTlsData(data)) => encode(data, output).map(|()| TlsStep::More),
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

impl<IO> ServerTls<IO> {
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
        self.tls.alpn_protocol()
    }

    /// Name of the server in the client's handshake.
    #[must_use]
    pub fn server_name(&self) -> Option<&Arc<str>> {
        self.server_name.as_ref()
    }

    /// Processes all input. Plaintext goes to the reader first.
    fn process(&mut self, reader: &mut ReadBuf<'_>) -> Result<(), rustls::Error> {
        loop {
            let status = self.tls.process_tls_records(&mut self.sealed);
            let (plain, output) = (&mut self.plain, &mut self.output);
            let (discard, step) = take_step(status, reader, plain, output);
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
        while self.tls.wants_write() {
            match self.tls.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    if encode(data, &mut self.output).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                _ => return,
            }
        }
    }

    fn queue_close_notify(&mut self) -> Result<(), rustls::Error> {
        loop {
            match self.tls.process_tls_records(&mut self.sealed).state? {
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
    fn output_block(&self) -> (&'static SpareBlock, usize) {
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
        if self.output.is_empty() {
            let (spare, capacity) = self.output_block();
            borrow(spare, &mut self.output, capacity);
        }
        // Always the same input: rustls remembers how much of it it has seen.
        let status = self.tls.process_tls_records(&mut self.sealed);
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

impl<IO: AsyncRead + AsyncWrite + Unpin> ServerTls<IO> {
    /// Performs the handshake. On failure the client receives an alert. The deadline is up to the caller.
    ///
    /// # Errors
    /// The connection broke, or the client broke the protocol (`InvalidData`).
    pub async fn accept(io: IO, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut config = Arc::unwrap_or_clone(config);
        let noted = Arc::new(NotedName {
            resolver: Arc::clone(&config.cert_resolver),
            name: OnceLock::new(),
        });
        config.cert_resolver = noted.clone();
        let mut tls = ServerTls {
            io,
            tls: UnbufferedServerConnection::new(Arc::new(config)).map_err(invalid)?,
            server_name: None,
            sealed: BytesMut::new(),
            plain: BytesMut::new(),
            output: BytesMut::new(),
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
        tls.server_name = noted.name.get().cloned();
        Ok(tls)
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.run(&mut ReadBuf::new(&mut [])).map_err(invalid)?;
            ready!(self.poll_output(cx))?;
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if self.end.is_some() || ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
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
            match Pin::new(&mut self.io).poll_write(cx, &self.output) {
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
            give_back(spare, &mut self.output, capacity);
        }
        outcome
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for ServerTls<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tls = self.get_mut();
        let before = buf.filled().len();
        loop {
            if !tls.plain.is_empty() {
                let part = tls.plain.len().min(buf.remaining());
                buf.put_slice(tls.plain.get(..part).unwrap_or_default());
                tls.plain.advance(part);
                if tls.plain.is_empty() {
                    give_back(&PLAIN, &mut tls.plain, BLOCK_BYTES);
                }
                return Poll::Ready(Ok(()));
            }
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
            if let Some(end) = &tls.end {
                return Poll::Ready(end.result());
            }
            let filled = tls.poll_fill(cx);
            tls.drained = filled.is_pending();
            if ready!(filled)? == 0 {
                tls.end = Some(ReadEnd::Cut);
                continue;
            }
            // The end of the peer's data is reported after the data before it.
            let writer_waits = !tls.output.is_empty();
            let _ = tls.run(buf);
            // An alert or a response. A writer that waits sends it, because this task would replace its waker. An error is
            // left to the next write.
            if !writer_waits {
                let _ = tls.poll_output(cx);
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ServerTls<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tls = self.get_mut();
        if let Some(ReadEnd::Failed(error)) = &tls.end {
            return Poll::Ready(Err(invalid(error.clone())));
        }
        if tls.closing {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if tls.output.len() >= tls.output_limit {
            let written = tls.poll_output(cx)?;
            if written.is_pending() && tls.output.len() >= tls.output_limit {
                return Poll::Pending;
            }
        }
        let taken = tls.seal_pieces(bufs)?;
        // A full connection is reported by the next call.
        let _ = tls.poll_output(cx)?;
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tls = self.get_mut();
        ready!(tls.poll_output(cx))?;
        Pin::new(&mut tls.io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tls = self.get_mut();
        if !tls.closing {
            tls.closing = true;
            // After an error its alert is the last record.
            if !matches!(tls.end, Some(ReadEnd::Failed(_))) {
                tls.queue_close_notify().map_err(invalid)?;
            }
        }
        ready!(tls.poll_output(cx))?;
        Pin::new(&mut tls.io).poll_shutdown(cx)
    }
}

// The connection is read only while there is no plaintext. So there is none after a pending read, until the next one.
impl<IO: PollInput> PollInput for ServerTls<IO> {
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.drained {
            self.io.poll_input(cx)
        } else {
            Poll::Ready(())
        }
    }
}

#[cfg(test)]
mod tests;
