//! A TCP or TLS connection as a transport: read in blocks that are passed on without a copy, written
//! several pieces at once. An idle connection holds no block.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::{
    outgoing::Outgoing,
    transport::{Transport, at_once},
    upgrade::Upgraded,
};

/// Smallest block, in bytes. Blocks grow while they are filled.
const MIN_BLOCK_BYTES: usize = 8 * 1024;
const MAX_BLOCK_BYTES: usize = 64 * 1024;
/// Pieces per write.
const PIECES_PER_WRITE: usize = 16;

/// A TCP or TLS connection as a transport.
pub struct SocketTransport<IO> {
    io: IO,
    block: BytesMut,
    size: usize,
    unflushed: bool,
}

impl<IO> SocketTransport<IO> {
    /// Wraps a connection.
    pub fn new(io: IO) -> Self {
        SocketTransport {
            io,
            block: BytesMut::new(),
            size: MIN_BLOCK_BYTES,
            unflushed: false,
        }
    }

    /// Adjusts the size of the next block to the bytes read.
    fn learn(&mut self, read: usize, room: usize) {
        if read == room {
            self.size = (self.size * 2).min(MAX_BLOCK_BYTES);
        } else if read < self.size / 8 {
            self.size = (self.size / 2).max(MIN_BLOCK_BYTES);
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for SocketTransport<IO> {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        // Avoids a short piece at the end of each block.
        if self.block.capacity() < self.size / 2 {
            self.block.reserve(self.size);
        }
        let room = self.block.capacity();
        let mut block = (&mut self.block).limit(room);
        let read = ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut block))?;
        self.learn(read, room);
        Poll::Ready(Ok((read > 0).then(|| self.block.split().freeze())))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES_PER_WRITE];
            let pieces = out.slices(&mut slices);
            let slices = slices.get(..pieces).unwrap_or_default();
            let io = Pin::new(&mut self.io);
            let written = match slices {
                [one] => ready!(io.poll_write(cx, one))?,
                _ => ready!(io.poll_write_vectored(cx, slices))?,
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            out.advance(written);
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_idle(&mut self) -> bool {
        self.block = BytesMut::new();
        let mut byte = [0];
        let io = &mut self.io;
        let silent = std::future::poll_fn(|cx| {
            let mut buf = ReadBuf::new(&mut byte);
            Poll::Ready(Pin::new(&mut *io).poll_read(cx, &mut buf).is_pending())
        });
        at_once(silent)
    }

    fn into_upgraded(self, read: Bytes) -> Upgraded {
        Upgraded::new(self.io, read)
    }
}
