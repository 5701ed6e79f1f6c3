//! Programs in the place of services of the cluster.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::{Mutex, mpsc},
    task::JoinHandle,
    time::timeout,
};

const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// Sends each byte back, and its end.
#[derive(Debug)]
pub struct EchoTarget {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl EchoTarget {
    /// Starts on a free port.
    ///
    /// # Errors
    /// There is none.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let open = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&open);
        Ok(EchoTarget {
            address: listener.local_addr()?,
            open,
            accepting: tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let counted = Arc::clone(&counted);
                    counted.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(async move {
                        let (mut from, mut to) = stream.split();
                        if copy(&mut from, &mut to).await.is_ok() {
                            let _ = to.shutdown().await;
                        }
                        counted.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            }),
        })
    }

    /// Rule of `--allow-connect`: loopback needs its exact address.
    #[must_use]
    pub fn rule(&self) -> String {
        self.address.to_string()
    }

    /// Address of the listener.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for EchoTarget {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Sends a last word, ends its direction, and then reads to the end.
#[derive(Debug)]
pub struct LateTarget {
    address: SocketAddr,
    received: Mutex<mpsc::Receiver<std::io::Result<Vec<u8>>>>,
    accepting: JoinHandle<()>,
}

impl LateTarget {
    /// Starts on a free port.
    ///
    /// # Errors
    /// There is none.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (send, received) = mpsc::channel(8);
        Ok(LateTarget {
            address: listener.local_addr()?,
            received: Mutex::new(received),
            accepting: tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = send.send(serve_late(stream).await).await;
                }
            }),
        })
    }

    /// Rule of `--allow-connect`: loopback needs its exact address.
    #[must_use]
    pub fn rule(&self) -> String {
        self.address.to_string()
    }

    /// Address of the listener.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Bytes of the next connection that has ended.
    ///
    /// # Errors
    /// It was reset, or none ends in time.
    pub async fn received(&self) -> anyhow::Result<Vec<u8>> {
        let mut received = self.received.lock().await;
        let next = timeout(STEP_DEADLINE, received.recv()).await;
        Ok(next
            .context("no connection has ended")?
            .context("the target has ended")??)
    }
}

impl Drop for LateTarget {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve_late(mut stream: TcpStream) -> std::io::Result<Vec<u8>> {
    stream.write_all(b"bye").await?;
    stream.shutdown().await?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await?;
    Ok(received)
}
