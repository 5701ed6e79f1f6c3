//! A connection that counts its bytes, ends when it is idle, and leaves one line in the log at its end.

use std::{
    any::Any,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::ClusterId;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};
use tracing::info;

use super::policy::GitAddress;

/// Facts of a connection, logged when it is dropped.
pub(super) struct ConnectionRecord {
    cluster: ClusterId,
    target: GitAddress,
    started: Instant,
    received: u64,
    sent: u64,
    /// Place of the connection.
    _slot: Box<dyn Any + Send>,
}

impl ConnectionRecord {
    pub(super) fn begin(cluster: ClusterId, target: GitAddress, slot: Box<dyn Any + Send>) -> Self {
        ConnectionRecord {
            cluster,
            target,
            started: Instant::now(),
            received: 0,
            sent: 0,
            _slot: slot,
        }
    }
}

impl Drop for ConnectionRecord {
    fn drop(&mut self) {
        let seconds = self.started.elapsed().as_secs_f64();
        info!(cluster = %self.cluster, target = %self.target, bytes.from_server = self.received, bytes.to_server = self.sent, seconds, "connection through the Git proxy ended");
    }
}

/// A connection with its record. Reads fail once no byte has passed in either direction for the idle time.
pub(super) struct Metered<IO> {
    io: IO,
    /// Bytes from the server that were read together with the answer of a proxy.
    received: Bytes,
    idle_timeout: Duration,
    idle: Pin<Box<Sleep>>,
    record: ConnectionRecord,
}

impl<IO> Metered<IO> {
    pub(super) fn new(
        io: IO,
        received: Bytes,
        idle_timeout: Duration,
        record: ConnectionRecord,
    ) -> Self {
        Metered {
            io,
            received,
            idle_timeout,
            idle: Box::pin(sleep(idle_timeout)),
            record,
        }
    }

    fn note_progress(&mut self) {
        self.idle.as_mut().reset(Instant::now() + self.idle_timeout);
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Metered<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.received.is_empty() {
            let taken = this
                .received
                .split_to(buf.remaining().min(this.received.len()));
            buf.put_slice(&taken);
            this.record.received += u64::try_from(taken.len()).unwrap_or_default();
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        match Pin::new(&mut this.io).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => {
                let read = buf.filled().len().saturating_sub(before);
                this.record.received += u64::try_from(read).unwrap_or_default();
                this.note_progress();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match this.idle.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Metered<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &written {
            this.record.sent += u64::try_from(*written).unwrap_or_default();
            this.note_progress();
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn metered<IO>(io: IO, received: &'static [u8]) -> Metered<IO> {
        let cluster = "c-a".parse().unwrap();
        let target = "git.example:22".parse().unwrap();
        let record = ConnectionRecord::begin(cluster, target, Box::new(()));
        let received = Bytes::from_static(received);
        Metered::new(io, received, Duration::from_secs(60), record)
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_ends() {
        let (near, _far) = duplex(64);
        let started = Instant::now();
        let error = metered(near, b"").read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_behind_the_answer_of_a_proxy_come_first() {
        let (near, mut far) = duplex(64);
        let mut near = metered(near, b"SSH-");
        far.write_all(b"2.0").await.unwrap();
        let mut read = [0; 7];
        near.read_exact(&mut read[..3]).await.unwrap();
        near.read_exact(&mut read[3..]).await.unwrap();
        assert_eq!((&read[..], near.record.received), (&b"SSH-2.0"[..], 7));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_in_either_direction_keep_it_open() {
        let (near, mut far) = duplex(64);
        let mut near = metered(near, b"");
        for _ in 0..3 {
            sleep(Duration::from_secs(50)).await;
            near.write_all(b"ab").await.unwrap();
        }
        sleep(Duration::from_secs(50)).await;
        far.write_all(b"c").await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'c');
        assert_eq!((near.record.received, near.record.sent), (1, 6));
    }
}
