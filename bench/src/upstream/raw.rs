//! Raw TCP services of the upstream, with TLS and without. The first byte of a connection selects its service.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use fairlead_testkit::server::listen;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time,
};
use tokio_rustls::TlsAcceptor;

use super::ACCEPT_PAUSE;
use crate::{
    serve::{ready_file, write},
    tls::BenchServerTls,
};

const NAME: &str = "raw";
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
const BUFFER_BYTES: usize = 64 * 1024;

/// Work of the upstream for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawService {
    /// Every byte comes back.
    Echo,
    /// Bytes until the client stops reading.
    Down,
    /// Bytes are counted and dropped.
    Up,
}

impl RawService {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Echo => b'e',
            Self::Down => b'd',
            Self::Up => b'u',
        }
    }

    fn of(byte: u8) -> Option<Self> {
        let all = [Self::Echo, Self::Down, Self::Up];
        all.into_iter().find(|service| service.byte() == byte)
    }
}

/// Ready file of the raw services.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RawReady {
    pub(crate) plain: SocketAddr,
    pub(crate) secure: SocketAddr,
    /// CA of the service with TLS.
    pub(crate) ca_file: PathBuf,
}

impl RawReady {
    /// Reads the file of an upstream that is ready.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(ready_file(
            NAME, dir,
        ))?)?)
    }
}

pub(crate) struct RawServer {
    plain: TcpListener,
    secure: TcpListener,
    acceptor: TlsAcceptor,
}

impl RawServer {
    /// Listens on two free ports of 127.0.0.1 and writes the ready file into `dir`.
    pub(crate) fn start(dir: &Path) -> anyhow::Result<Self> {
        let tls = BenchServerTls::new(NAME)?;
        let (plain, secure) = (listen(0)?, listen(0)?);
        let ca_file = dir.join(format!("{NAME}.ca.pem"));
        write(&ca_file, tls.ca_pem.as_bytes())?;
        let ready = RawReady {
            plain: plain.local_addr()?,
            secure: secure.local_addr()?,
            ca_file,
        };
        write(&ready_file(NAME, dir), &serde_json::to_vec(&ready)?)?;
        Ok(Self {
            plain,
            secure,
            acceptor: TlsAcceptor::from(Arc::new(tls.config)),
        })
    }

    /// Serves until the future is dropped. `received` counts the bytes of [`RawService::Up`].
    pub(crate) async fn serve(self, received: Arc<AtomicU64>) {
        tokio::join!(
            accept(self.plain, None, received.clone()),
            accept(self.secure, Some(self.acceptor), received),
        );
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, received: Arc<AtomicU64>) {
    loop {
        match listener.accept().await {
            // Tasks end with their connections. Clients end these in the middle, so an error means nothing.
            Ok((socket, _)) => drop(tokio::spawn(serve_one(
                socket,
                acceptor.clone(),
                received.clone(),
            ))),
            Err(_) => time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_one(
    socket: TcpStream,
    acceptor: Option<TlsAcceptor>,
    received: Arc<AtomicU64>,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    match acceptor {
        None => answer(socket, &received).await,
        Some(acceptor) => {
            let stream = time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(socket)).await??;
            answer(stream, &received).await
        }
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    mut io: S,
    received: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let read = io.read(&mut buffer).await?;
    let Some((&first, rest)) = buffer.get(..read).and_then(<[u8]>::split_first) else {
        return Ok(());
    };
    match RawService::of(first) {
        Some(RawService::Echo) => {
            io.write_all(rest).await?;
            io.flush().await?;
            echo(&mut io, &mut buffer).await?;
        }
        Some(RawService::Down) => loop {
            io.write_all(&buffer).await?;
        },
        Some(RawService::Up) => {
            let mut bytes = read - 1;
            loop {
                received.fetch_add(bytes as u64, Relaxed);
                bytes = io.read(&mut buffer).await?;
                if bytes == 0 {
                    break;
                }
            }
        }
        None => return Err(io::Error::other("no such service")),
    }
    io.shutdown().await
}

async fn echo<S: AsyncRead + AsyncWrite + Unpin>(io: &mut S, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        let read = io.read(buffer).await?;
        match buffer.get(..read) {
            None | Some([]) => return Ok(()),
            Some(bytes) => io.write_all(bytes).await?,
        }
        io.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(sent: &[u8]) -> (Vec<u8>, u64) {
        let received = AtomicU64::new(0);
        let (mut near, far) = tokio::io::duplex(1024);
        let client = async {
            near.write_all(sent).await.unwrap();
            near.shutdown().await.unwrap();
            let mut back = Vec::new();
            near.read_to_end(&mut back).await.unwrap();
            back
        };
        let (_, back) = tokio::join!(answer(far, &received), client);
        (back, received.load(Relaxed))
    }

    #[tokio::test]
    async fn echo_returns_all_but_the_byte_that_selects_it() {
        assert_eq!(answered(b"eabc").await, (b"abc".to_vec(), 0));
        assert_eq!(answered(b"e").await, (Vec::new(), 0));
    }

    #[tokio::test]
    async fn sink_counts_all_but_the_byte_that_selects_it() {
        let sent = [b"u".as_slice(), &[0; 3000]].concat();
        assert_eq!(answered(&sent).await, (Vec::new(), 3000));
    }

    #[tokio::test]
    async fn endless_bytes_end_with_their_reader() {
        let received = AtomicU64::new(0);
        let (mut near, far) = tokio::io::duplex(1024);
        let client = async move {
            near.write_all(b"d").await.unwrap();
            let mut piece = [0; 5000];
            near.read_exact(&mut piece).await.unwrap();
        };
        let (served, ()) = tokio::join!(answer(far, &received), client);
        assert!(served.is_err());
    }

    #[tokio::test]
    async fn unknown_service_is_refused() {
        assert_eq!(answered(b"x123").await, (Vec::new(), 0));
    }
}
