//! Reads a connection in large blocks for a TLS layer that asks for 4 KiB at a time, which would be
//! five system calls per record. A connection without unread data holds no block; blocks are shared
//! per thread.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client;
use tokio_util::io::poll_read_buf;

use crate::input_gate::PollInput;

/// Bytes per read: eight records, as much as one round of a session.
const BLOCK_BYTES: usize = 128 * 1024;

thread_local! {
    /// One block for all connections of a thread without unread data.
    static SPARE: RefCell<BytesMut> = RefCell::default();
}

/// Connection with a read-ahead buffer.
#[derive(Debug)]
pub struct ReadAhead<IO> {
    io: IO,
    block: BytesMut,
    /// The last read was pending.
    drained: bool,
}

impl<IO> ReadAhead<IO> {
    /// Wraps a connection.
    pub fn new(io: IO) -> Self {
        ReadAhead {
            io,
            block: BytesMut::new(),
            drained: false,
        }
    }

    /// The wrapped connection.
    #[must_use]
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// The wrapped connection.
    pub fn get_mut(&mut self) -> &mut IO {
        &mut self.io
    }

    /// Returns an empty block to the thread.
    fn rest(&mut self) {
        if self.block.is_empty() {
            let mut block = std::mem::take(&mut self.block);
            SPARE.with_borrow_mut(|spare| {
                if spare.capacity() < BLOCK_BYTES && block.try_reclaim(BLOCK_BYTES) {
                    *spare = block;
                }
            });
        }
    }
}

impl<IO: AsyncRead + Unpin> ReadAhead<IO> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.block.capacity() == 0 {
            self.block = SPARE.take();
        }
        self.block.reserve(BLOCK_BYTES);
        let polled = poll_read_buf(Pin::new(&mut self.io), cx, &mut self.block);
        if self.block.is_empty() {
            self.rest();
        }
        polled.map_ok(drop)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ReadAhead<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ahead = self.get_mut();
        if ahead.block.is_empty() {
            let filled = ahead.poll_fill(cx);
            ahead.drained = filled.is_pending();
            ready!(filled)?;
        }
        // An empty read is the end.
        let part = ahead.block.len().min(buf.remaining());
        buf.put_slice(ahead.block.get(..part).unwrap_or_default());
        ahead.block.advance(part);
        ahead.rest();
        Poll::Ready(Ok(()))
    }
}

impl<IO: PollInput> PollInput for ReadAhead<IO> {
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.drained {
            self.io.poll_input(cx)
        } else {
            Poll::Ready(())
        }
    }
}

// TLS reads its connection only while it has no plaintext. So it has none after a pending read, until the next one.
impl<IO: PollInput> PollInput for client::TlsStream<ReadAhead<IO>> {
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.get_ref().0.poll_input(cx)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ReadAhead<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn data_is_read_once_and_returned_in_any_pieces() {
        let (mut peer, io) = duplex(1024 * 1024);
        let sent: Vec<u8> = (0..300_000_u32).map(|at| (at / 7) as u8).collect();
        peer.write_all(&sent).await.unwrap();
        drop(peer);
        let mut ahead = ReadAhead::new(io);
        let mut got = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let read = ahead.read(&mut piece).await.unwrap();
            if read == 0 {
                break;
            }
            got.extend_from_slice(&piece[..read]);
        }
        assert!(got == sent);
    }

    #[tokio::test]
    async fn a_connection_with_nothing_unread_holds_no_block() {
        let (mut peer, io) = duplex(1024);
        let mut ahead = ReadAhead::new(io);
        let mut piece = [0; 4];
        peer.write_all(b"12345").await.unwrap();
        ahead.read_exact(&mut piece).await.unwrap();
        assert_eq!((&piece, ahead.block.len()), (b"1234", 1));
        ahead.read_exact(&mut piece[..1]).await.unwrap();
        assert_eq!(ahead.block.capacity(), 0);
        let waits = std::future::poll_fn(|cx| {
            let mut buf = ReadBuf::new(&mut piece);
            Poll::Ready(Pin::new(&mut ahead).poll_read(cx, &mut buf).is_pending())
        });
        assert!(waits.await);
        assert_eq!(ahead.block.capacity(), 0);
    }

    /// A connection that never reports input.
    struct Silent(tokio::io::DuplexStream);

    impl AsyncRead for Silent {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    impl PollInput for Silent {
        fn poll_input(&self, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn only_after_a_pending_read_the_connection_determines_whether_there_is_input() {
        let (mut peer, io) = duplex(1024);
        let mut ahead = ReadAhead::new(Silent(io));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(ahead.poll_input(&mut cx).is_ready(), "not read yet");

        peer.write_all(b"12").await.unwrap();
        let mut piece = [0; 1];
        for byte in b"12" {
            ahead.read_exact(&mut piece).await.unwrap();
            assert_eq!(piece, [*byte]);
            assert!(ahead.poll_input(&mut cx).is_ready(), "a reader may hold it");
        }
        let mut buf = ReadBuf::new(&mut piece);
        assert!(
            Pin::new(&mut ahead)
                .poll_read(&mut cx, &mut buf)
                .is_pending()
        );
        assert!(ahead.poll_input(&mut cx).is_pending());

        peer.write_all(b"3").await.unwrap();
        let mut gate = crate::input_gate::InputGate::new(ahead);
        let mut buf = ReadBuf::new(&mut piece);
        assert!(
            Pin::new(&mut gate)
                .poll_read(&mut cx, &mut buf)
                .is_pending()
        );
        gate.get_mut().read_exact(&mut piece).await.unwrap();
        assert!(gate.get_ref().poll_input(&mut cx).is_ready());
    }
}
