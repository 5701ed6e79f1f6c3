//! A box that ends the outer TLS of its clients, as a load balancer or an intercepting proxy does, and puts bytes of its
//! own into the connections.

use std::{net::SocketAddr, sync::Arc};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// Bytes forwarded at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Injections that wait for a connection.
const MAX_INJECTIONS: usize = 16;

/// Direction of injected bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// To the server behind the box.
    Server,
    /// To the client.
    Client,
}

/// A port of loopback with TLS, in front of a server without. It closes when this is dropped.
pub struct OpeningBox {
    address: SocketAddr,
    injections: broadcast::Sender<(Towards, Vec<u8>)>,
    task: JoinHandle<()>,
}

impl OpeningBox {
    /// Opens a port that ends TLS and leads to `server`.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn to(server: SocketAddr, tls: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (injections, _) = broadcast::channel(MAX_INJECTIONS);
        OpeningBox {
            address: listener.local_addr().unwrap(),
            task: tokio::spawn(accept(listener, server, tls.into(), injections.clone())),
            injections,
        }
    }

    /// Port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Puts bytes into all connections, after the bytes forwarded last. Without bytes it ends that direction.
    ///
    /// # Panics
    /// There is no connection.
    pub fn inject(&self, towards: Towards, bytes: &[u8]) {
        let injected = self.injections.send((towards, bytes.to_vec()));
        assert!(injected.unwrap() > 0);
    }
}

impl Drop for OpeningBox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Injections = broadcast::Sender<(Towards, Vec<u8>)>;

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    tls: TlsAcceptor,
    injections: Injections,
) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (tls, injections) = (tls.clone(), injections.clone());
        tokio::spawn(async move {
            client.set_nodelay(true).unwrap();
            let Ok(client) = tls.accept(client).await else {
                return;
            };
            let server = TcpStream::connect(server).await.unwrap();
            server.set_nodelay(true).unwrap();
            let (input, back) = tokio::io::split(client);
            let (output, on) = server.into_split();
            tokio::join!(
                copy(input, on, Towards::Server, injections.subscribe()),
                copy(output, back, Towards::Client, injections.subscribe()),
            );
        });
    }
}

/// Copies one direction to its end, with the injected bytes between two chunks.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Towards,
    mut injections: broadcast::Receiver<(Towards, Vec<u8>)>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        tokio::select! {
            read = from.read(&mut chunk) => match read {
                Ok(size @ 1..) if to.write_all(&chunk[..size]).await.is_ok() => {}
                _ => break,
            },
            Ok((towards, bytes)) = injections.recv() => {
                if towards != direction {
                    continue;
                }
                if bytes.is_empty() || to.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        }
        let _ = to.flush().await;
    }
    let _ = to.shutdown().await;
}
