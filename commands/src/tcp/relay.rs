//! Copies both directions of a connection between a local program and a cluster.

use std::{io, pin::pin, time::Duration};

use fairlead_api::Failure;
use fairlead_client::{ByteSocket, ByteSocketError, tunnel_failure};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    time::timeout,
};

const BUFFER_BYTES: usize = 32 * 1024;
/// Time for the hub to confirm the end, and to send the reason of a failure.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The side of a connection that failed.
pub(super) enum CopyError {
    /// The local program, or a file in its place.
    Local(io::Error),
    Tunnel(io::Error),
}

/// Copies until both directions have ended. A tunnel whose target has ended its direction still answers pings, and its end is
/// noticed.
///
/// # Errors
/// The failure of the tunnel. Then the caller drops `local`, which resets it.
pub(super) async fn relay<L, T>(local: &mut L, tunnel: &mut ByteSocket<T>) -> Result<(), Failure>
where
    L: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let copied = {
        let (from_local, mut to_local) = split(local);
        let (from_tunnel, mut to_tunnel) = split(&mut *tunnel);
        let upload = pin!(copy(
            (from_local, CopyError::Local),
            (&mut to_tunnel, CopyError::Tunnel),
        ));
        let download = pin!(copy(
            (from_tunnel, CopyError::Tunnel),
            (&mut to_local, CopyError::Local),
        ));
        both(upload, download).await
    };
    match copied {
        Ok(()) => {
            confirm(tunnel).await;
            Ok(())
        }
        // The program itself knows.
        Err(CopyError::Local(_)) => Ok(()),
        Err(CopyError::Tunnel(error)) => Err(failure_of(tunnel, &error).await),
    }
}

/// Waits for both directions. `download` returns the tunnel's reader, which is read on until `upload` has ended, too.
pub(super) async fn both<R>(
    mut upload: impl Future<Output = Result<impl Sized, CopyError>> + Unpin,
    mut download: impl Future<Output = Result<R, CopyError>> + Unpin,
) -> Result<(), CopyError>
where
    R: AsyncRead + Unpin,
{
    let mut tunnel = tokio::select! {
        sent = &mut upload => {
            sent?;
            return download.await.map(drop);
        }
        received = &mut download => received?,
    };
    tokio::select! {
        sent = upload => sent.map(drop),
        // There are no bytes any more, only the end.
        ended = tunnel.read_u8() => match ended {
            Err(error) if !ByteSocketError::is_clean_end(&error) => Err(CopyError::Tunnel(error)),
            // The target has closed altogether.
            _ => Ok(()),
        },
    }
}

/// Waits until the hub has confirmed the end of both directions.
pub(super) async fn confirm<T>(tunnel: &mut ByteSocket<T>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    // All bytes have arrived already.
    let _ = timeout(CLOSE_TIMEOUT, tunnel.closed()).await;
}

/// The reason in the hub's close frame, which may arrive after a failure to write.
pub(super) async fn failure_of<T>(tunnel: &mut ByteSocket<T>, error: &io::Error) -> Failure
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    match timeout(CLOSE_TIMEOUT, tunnel.closed()).await {
        Ok(Err(reason)) => tunnel_failure(&reason),
        Ok(Ok(())) | Err(_) => tunnel_failure(error),
    }
}

/// Copies to the end of the reader, and returns it.
async fn copy<R, W, E>(
    (mut from, read_failed): (R, impl Fn(io::Error) -> E),
    (to, write_failed): (&mut W, impl Fn(io::Error) -> E),
) -> Result<R, E>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.map_err(&read_failed)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            to.shutdown().await.map_err(&write_failed)?;
            return Ok(from);
        }
        to.write_all(bytes).await.map_err(&write_failed)?;
        to.flush().await.map_err(&write_failed)?;
    }
}

#[cfg(test)]
mod tests {
    use fairlead_dialer::websocket::SocketRole;
    use tokio::io::duplex;

    use super::*;

    /// A relay whose target has ended its direction, and the hub's end of its WebSocket.
    async fn half_closed() -> (
        impl Future<Output = Result<(), Failure>>,
        tokio::io::DuplexStream,
        tokio::io::DuplexStream,
    ) {
        let (mut program, mut local) = duplex(1024);
        let (mut hub, io) = duplex(1024);
        hub.write_all(b"\x82\x02hi\x82\x00").await.unwrap();
        let relayed = tokio::spawn(async move {
            let mut tunnel = ByteSocket::new(io, SocketRole::Agent, &[]);
            relay(&mut local, &mut tunnel).await
        });
        let mut received = Vec::new();
        program.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"hi");
        (async { relayed.await.unwrap() }, program, hub)
    }

    #[tokio::test]
    async fn pings_after_the_end_of_the_target_are_answered_and_bytes_go_on() {
        let (relayed, mut program, mut hub) = half_closed().await;
        hub.write_all(b"\x89\x00").await.unwrap();
        let mut pong = [0; 6];
        hub.read_exact(&mut pong).await.unwrap();
        assert_eq!(&pong[..2], b"\x8a\x80");

        program.write_all(b"x").await.unwrap();
        program.shutdown().await.unwrap();
        let mut frames = [0; 7 + 6];
        hub.read_exact(&mut frames).await.unwrap();
        assert_eq!(
            (&frames[..2], &frames[7..9]),
            (&b"\x82\x81"[..], &b"\x82\x80"[..])
        );
        hub.write_all(b"\x88\x02\x03\xe8").await.unwrap();
        relayed.await.unwrap();
    }

    #[tokio::test]
    async fn close_after_the_end_of_the_target_is_noticed_while_the_program_is_silent() {
        let (relayed, _program, mut hub) = half_closed().await;
        hub.write_all(b"\x88\x02\x03\xf3").await.unwrap();
        assert!(relayed.await.is_err());
        let (relayed, _program, mut hub) = half_closed().await;
        hub.write_all(b"\x88\x02\x03\xe8").await.unwrap();
        relayed.await.unwrap();
    }
}
