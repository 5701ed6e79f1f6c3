//! A TCP connection at an end of a tunnel. Dropped before both directions have ended, it is reset, so that the program at
//! its other end never takes a broken tunnel for a clean end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A TCP connection at an end of a tunnel, reset unless both directions have ended.
pub struct ResetSocket {
    tcp: TcpStream,
    has_read_all: bool,
    has_written_all: bool,
}

impl ResetSocket {
    /// Wraps a connection.
    #[must_use]
    pub fn new(tcp: TcpStream) -> Self {
        ResetSocket {
            tcp,
            has_read_all: false,
            has_written_all: false,
        }
    }

    /// Sends small pieces at once, without waiting for more.
    ///
    /// # Errors
    /// The system refuses the option.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.tcp.set_nodelay(true)
    }
}

impl Drop for ResetSocket {
    fn drop(&mut self) {
        if !(self.has_read_all && self.has_written_all) {
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for ResetSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        if buf.filled().len() == before && buf.remaining() > 0 {
            self.has_read_all = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ResetSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.tcp).poll_shutdown(cx))?;
        self.has_written_all = true;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn pair() -> (ResetSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        (ResetSocket::new(ours.unwrap()), theirs.unwrap().0)
    }

    #[tokio::test]
    async fn connection_that_did_not_end_both_ways_is_reset() {
        let (mut ours, mut theirs) = pair().await;
        ours.write_all(b"x").await.unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), b'x');
        drop(ours);
        let error = theirs.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn connection_that_ended_both_ways_is_closed() {
        let (mut ours, mut theirs) = pair().await;
        theirs.shutdown().await.unwrap();
        assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
        ours.shutdown().await.unwrap();
        drop(ours);
        assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
    }
}
