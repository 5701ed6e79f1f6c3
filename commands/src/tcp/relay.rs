//! Copies both directions of a connection between a local program and a cluster.

use std::{io, time::Duration};

use fairlead_api::Failure;
use fairlead_client::{ResetSocket, TcpTunnel, tunnel_failure};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    time::timeout,
};

const BUFFER_BYTES: usize = 32 * 1024;
/// Time for the hub to confirm the end, and to send the reason of a failure.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The side that failed.
enum CopyError {
    /// The local program; it knows itself.
    Local,
    Tunnel(io::Error),
}

/// Copies until both directions have ended.
///
/// # Errors
/// The failure of the tunnel. Then the caller drops `local`, which resets it.
pub(super) async fn relay(local: &mut ResetSocket, tunnel: &mut TcpTunnel) -> Result<(), Failure> {
    let copied = {
        let (mut from_local, mut to_local) = split(local);
        let (mut from_tunnel, mut to_tunnel) = split(&mut *tunnel);
        let upload = copy(
            (&mut from_local, |_| CopyError::Local),
            (&mut to_tunnel, CopyError::Tunnel),
        );
        let download = copy(
            (&mut from_tunnel, CopyError::Tunnel),
            (&mut to_local, |_| CopyError::Local),
        );
        tokio::try_join!(upload, download)
    };
    match copied {
        Ok(_) => {
            confirm(tunnel).await;
            Ok(())
        }
        Err(CopyError::Local) => Ok(()),
        Err(CopyError::Tunnel(error)) => Err(failure_of(tunnel, &error).await),
    }
}

/// Waits until the hub has confirmed the end of both directions.
pub(super) async fn confirm(tunnel: &mut TcpTunnel) {
    // All bytes have arrived already.
    let _ = timeout(CLOSE_TIMEOUT, tunnel.closed()).await;
}

/// The reason in the hub's close frame, which may arrive after a failure to write.
pub(super) async fn failure_of(tunnel: &mut TcpTunnel, error: &io::Error) -> Failure {
    match timeout(CLOSE_TIMEOUT, tunnel.closed()).await {
        Ok(Err(reason)) => tunnel_failure(&reason),
        Ok(Ok(())) | Err(_) => tunnel_failure(error),
    }
}

async fn copy<R, W, E>(
    (from, read_failed): (&mut R, impl Fn(io::Error) -> E),
    (to, write_failed): (&mut W, impl Fn(io::Error) -> E),
) -> Result<(), E>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.map_err(&read_failed)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return to.shutdown().await.map_err(&write_failed);
        }
        to.write_all(bytes).await.map_err(&write_failed)?;
        to.flush().await.map_err(&write_failed)?;
    }
}
