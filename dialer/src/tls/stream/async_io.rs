//! Reads and writes of a connection with TLS.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{BLOCK_BYTES, PLAIN, ReadEnd, TlsSide, TlsStream, give_back, invalid};
use crate::input_gate::PollInput;

impl<IO: AsyncRead + AsyncWrite + Unpin, S: TlsSide + Unpin> AsyncRead for TlsStream<IO, S> {
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

impl<IO: AsyncRead + AsyncWrite + Unpin, S: TlsSide + Unpin> AsyncWrite for TlsStream<IO, S> {
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
impl<IO: PollInput, S> PollInput for TlsStream<IO, S> {
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.drained {
            self.io.poll_input(cx)
        } else {
            Poll::Ready(())
        }
    }
}
