//! A relay with a delay.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

/// A port that leads to `server`, with a delay in milliseconds in each direction.
pub(super) async fn slow_relay(
    server: SocketAddr,
    delay: Arc<AtomicU64>,
) -> anyhow::Result<(SocketAddr, AbortOnDropHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let accepting = async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(server).await else {
                continue;
            };
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            drop(slowly(client_read, server_write, Arc::clone(&delay)));
            drop(slowly(server_read, client_write, Arc::clone(&delay)));
        }
    };
    Ok((address, AbortOnDropHandle::new(tokio::spawn(accepting))))
}

fn slowly(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    delay: Arc<AtomicU64>,
) -> JoinHandle<()> {
    let (send, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    drop(tokio::spawn(async move {
        while let Some((at, piece)) = pieces.recv().await {
            sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    }));
    tokio::spawn(async move {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            let at = Instant::now() + Duration::from_millis(delay.load(Ordering::Relaxed));
            if send.send((at, chunk[..count].to_vec())).await.is_err() {
                return;
            }
        }
    })
}
