use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;

#[tokio::test]
async fn end_passes_and_the_other_direction_continues() {
    let (mut left, a) = duplex(1024);
    let (b, mut right) = duplex(1024);
    let spliced = tokio::spawn(splice(a, b));
    left.write_all(b"request").await.unwrap();
    left.shutdown().await.unwrap();
    let mut got = Vec::new();
    right.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"request");
    for _ in 0..100 {
        right.write_all(&[1; 500]).await.unwrap();
        let mut part = [0; 500];
        left.read_exact(&mut part).await.unwrap();
    }
    right.shutdown().await.unwrap();
    assert_eq!(left.read(&mut [0]).await.unwrap(), 0);
    let counts = spliced.await.unwrap();
    assert!(matches!(counts.end, SpliceEnd::Clean), "{counts:?}");
    assert_eq!((counts.to_b, counts.to_a), (7, 50_000));
}

#[tokio::test]
async fn data_beyond_all_buffers_passes_both_ways() {
    let (left, a) = duplex(512);
    let (b, right) = duplex(700);
    let spliced = tokio::spawn(splice(a, b));
    let side = |io: tokio::io::DuplexStream, byte: u8, expected: u8| async move {
        let (mut read, mut write) = tokio::io::split(io);
        let sent = vec![byte; 1 << 20];
        let mut got = Vec::new();
        let (_, _) = tokio::try_join!(
            async {
                write.write_all(&sent).await?;
                write.shutdown().await
            },
            read.read_to_end(&mut got)
        )
        .unwrap();
        assert!(got.len() == 1 << 20 && got.iter().all(|&b| b == expected));
    };
    tokio::join!(side(left, 1, 2), side(right, 2, 1));
    let counts = spliced.await.unwrap();
    assert!(matches!(counts.end, SpliceEnd::Clean), "{counts:?}");
    assert_eq!((counts.to_b, counts.to_a), (1 << 20, 1 << 20));
}

/// Fails on every read.
struct Reset;

impl AsyncRead for Reset {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }
}

impl AsyncWrite for Reset {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        panic!("a clean end after an error")
    }
}

#[tokio::test]
async fn error_ends_both_directions_and_names_side_and_bytes() {
    let (_left, a) = duplex(64);
    let spliced = splice(a, Reset).await;
    let SpliceEnd::B(error) = spliced.end else {
        panic!("{spliced:?}");
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    let (mut left, a) = duplex(64);
    let (b, mut right) = duplex(64);
    let spliced = tokio::spawn(splice(a, b));
    right.write_all(b"answer").await.unwrap();
    left.read_exact(&mut [0; 6]).await.unwrap();
    drop(left);
    right.write_all(b"more").await.unwrap();
    drop(right);
    let spliced = spliced.await.unwrap();
    assert!(matches!(spliced.end, SpliceEnd::A(_)), "{spliced:?}");
    assert_eq!(spliced.to_a, 6);
}

/// Has an answer to send and refuses writes, like a server that has closed its connection.
struct Closed(&'static [u8]);

impl AsyncRead for Closed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(self.0.len().min(buf.remaining()));
        buf.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Closed {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn data_of_a_closed_server_reaches_a_client_that_still_sends() {
    static ANSWER: [u8; 200_000] = [7; 200_000];
    // The client's pipe holds far less than the answer, and the client's data meets a closed
    // connection first.
    let (mut left, a) = duplex(1024);
    left.write_all(b"ping").await.unwrap();
    let spliced = tokio::spawn(splice(a, Closed(&ANSWER)));
    let mut got = Vec::new();
    left.read_to_end(&mut got).await.unwrap();
    assert_eq!(got.len(), ANSWER.len());
    drop(left);
    let spliced = spliced.await.unwrap();
    assert!(matches!(spliced.end, SpliceEnd::Clean), "{spliced:?}");
}

#[tokio::test(start_paused = true)]
async fn client_of_a_closed_server_is_drained_for_ten_minutes_at_most() {
    for silent in [false, true] {
        let (mut left, a) = duplex(1024);
        left.write_all(b"ping").await.unwrap();
        let begun = tokio::time::Instant::now();
        let spliced = tokio::spawn(splice(a, Closed(b"answer")));
        let mut got = Vec::new();
        left.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"answer");
        // More than the pipe holds, so it must be read.
        left.write_all(&[0; 5000]).await.unwrap();
        assert!(!spliced.is_finished());
        if !silent {
            drop(left);
        }
        let spliced = spliced.await.unwrap();
        assert!(matches!(spliced.end, SpliceEnd::Clean), "{spliced:?}");
        assert_eq!(begun.elapsed() >= LINGER_TIMEOUT, silent);
    }
}
